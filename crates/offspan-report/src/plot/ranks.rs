//! Mean ranks on a line, with bars under those that chance alone may have set apart: the
//! critical-difference diagram of Demšar (2006).

use std::fmt::Write as _;

use super::Size;
use super::canvas::{Anchor, Canvas, Text, font};
use super::frame::{EDGE, Surround, axis_label, nothing};
use super::number;
use super::scale::{Axis, Scale};
use super::text;
use super::theme::{Ink, Theme};

/// A critical-difference diagram. The height follows from the number of entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranks {
    /// What is to be seen, in a sentence.
    pub title: String,
    /// What is ranked, with its mean rank; 1 is the best there can be.
    pub entries: Vec<(String, f64)>,
    /// Mean ranks that differ by no more may differ by chance.
    pub difference: f64,
    /// What is to be said below.
    pub notes: Vec<String>,
    /// The width in pixels.
    pub width: f64,
}

impl Default for Ranks {
    fn default() -> Self {
        Ranks {
            title: String::new(),
            entries: Vec::new(),
            difference: 0.0,
            notes: Vec::new(),
            width: 760.0,
        }
    }
}

/// From label to label.
const PITCH: f64 = 19.0;
/// From bar to bar.
const BAR: f64 = 8.0;

impl Ranks {
    /// The plot as an SVG document.
    #[must_use]
    pub fn svg(&self, theme: Theme) -> String {
        let width = Size { width: self.width, height: 220.0 }.sane().width;
        let mut sorted: Vec<&(String, f64)> =
            self.entries.iter().filter(|(_, rank)| rank.is_finite()).collect();
        sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
            let size = Size { width, height: 220.0 };
            return nothing(&self.title, "Nothing to draw: nothing is ranked.", size, theme);
        };
        let axis =
            Axis::new(Scale::Linear, first.1.floor(), last.1.ceil().max(first.1.floor() + 1.0));
        let bars = self.bars(&sorted);
        // Labels of the better half stand at the left, the others at the right.
        let half = sorted.len().div_ceil(2);
        let names: Vec<String> = sorted
            .iter()
            .map(|(name, rank)| format!("{name}  {}", number::fixed(*rank, 2)))
            .collect();
        let widest = |names: &[String]| {
            let widest =
                names.iter().map(|name| text::width(name, font::LABEL)).fold(0.0, f64::max);
            widest.min(width * 0.32)
        };
        let (left, right) = (widest(&names[..half]), widest(&names[half..]));
        let (from, to) = (EDGE + left + 24.0, width - EDGE - right - 24.0);
        let place = |rank: f64| from + axis.share(rank) * (to - from);

        let shows_difference = self.difference <= axis.hi - axis.lo;
        let mut notes = self.notes.clone();
        if !shows_difference {
            notes.push(format!(
                "The critical difference, {}, is wider than the axis: no two of these differ by more than chance.",
                number::fixed(self.difference, 2)
            ));
        }
        let surround = Surround::new(&self.title, Vec::new(), &notes, width);
        let line = surround.top() + if shows_difference { 62.0 } else { 38.0 };
        let labels = line + 14.0 + bars.len() as f64 * BAR + 14.0;
        let height = labels + half as f64 * PITCH + surround.bottom();

        let mut canvas = Canvas::new(theme);
        surround.draw(&mut canvas, height);
        if shows_difference {
            let (y, end) =
                (surround.top() + 18.0, from + self.difference / (axis.hi - axis.lo) * (to - from));
            canvas.line((from, y), (end, y), Ink::Text, "stroke-width=\"1.5\"");
            for x in [from, end] {
                canvas.line((x, y - 4.0), (x, y + 4.0), Ink::Text, "stroke-width=\"1.5\"");
            }
            let words = format!("critical difference {}", number::fixed(self.difference, 2));
            canvas.text(&Text::new(&words, end + 8.0, y + 4.0).ink(Ink::Text));
        }
        canvas.line((from, line), (to, line), Ink::Text, "stroke-width=\"1.5\"");
        for tick in axis.ticks(((to - from) / 60.0).max(2.0)) {
            let x = place(tick.value);
            canvas.line((x, line - 6.0), (x, line), Ink::Text, "");
            canvas.text(&Text::new(&tick.label, x, line - 10.0).anchor(Anchor::Middle));
        }
        axis_label(
            &mut canvas,
            "mean rank (further left is better)",
            (f64::midpoint(from, to), line - 25.0),
            width,
        );
        for (level, &(low, high)) in bars.iter().enumerate() {
            let y = line + 14.0 + level as f64 * BAR;
            let ends = (place(sorted[low].1) - 3.0, place(sorted[high].1) + 3.0);
            let style = "stroke-width=\"4\" stroke-linecap=\"round\"";
            canvas.line((ends.0, y), (ends.1, y), Ink::Series(0), style);
        }
        for (index, (name, (_, rank))) in names.iter().zip(&sorted).enumerate() {
            let x = place(*rank);
            // The outermost is highest, so that no line crosses another.
            let at_left = index < half;
            let level = if at_left { index } else { sorted.len() - 1 - index };
            let y = labels + level as f64 * PITCH;
            let (end, anchor) =
                if at_left { (from - 16.0, Anchor::End) } else { (to + 16.0, Anchor::Start) };
            canvas.line((x, line), (x, y), Ink::Axis, "");
            canvas.line((x, y), (end, y), Ink::Axis, "");
            let words = text::shorten(name, font::LABEL, width * 0.32 + 0.5);
            let gap = if at_left { -5.0 } else { 5.0 };
            let label = Text::new(&words, end + gap, y + 4.2).size(font::LABEL).ink(Ink::Text);
            canvas.text(&if index == 0 {
                label.anchor(anchor).bold()
            } else {
                label.anchor(anchor)
            });
        }
        canvas.finish((width, height), &self.title, &self.description(&sorted))
    }

    /// The widest runs of entries that do not differ by more than chance, by first and last; runs of one
    /// need no bar.
    fn bars(&self, sorted: &[&(String, f64)]) -> Vec<(usize, usize)> {
        let mut bars: Vec<(usize, usize)> = Vec::new();
        for (low, (_, rank)) in sorted.iter().enumerate() {
            let high = sorted.partition_point(|(_, other)| other - rank <= self.difference) - 1;
            let is_new = bars.last().is_none_or(|&(_, last)| high > last);
            if high > low && is_new {
                bars.push((low, high));
            }
        }
        bars
    }

    fn description(&self, sorted: &[&(String, f64)]) -> String {
        let mut out =
            format!("Mean ranks; critical difference {}.", number::fixed(self.difference, 2));
        for (name, rank) in sorted {
            let _ = write!(out, " {name}: {}.", number::fixed(*rank, 2));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(ranks: &[f64], difference: f64) -> Ranks {
        let entries =
            ranks.iter().enumerate().map(|(at, &rank)| (format!("m{at}"), rank)).collect();
        Ranks { entries, difference, ..Ranks::default() }
    }

    #[test]
    fn bars_join_what_may_differ_by_chance_and_none_lies_within_another() {
        let plot = plot(&[1.0, 1.5, 2.4, 4.0, 4.2], 1.0);
        let sorted: Vec<&(String, f64)> = plot.entries.iter().collect();
        assert_eq!(plot.bars(&sorted), [(0, 1), (1, 2), (3, 4)]);
        let svg = plot.svg(Theme::Light);
        assert!(svg.contains("critical difference 1.00") && svg.contains("m4  4.20"));
    }

    #[test]
    fn a_difference_wider_than_the_axis_is_told_in_words() {
        let svg = plot(&[1.0, 2.0], 5.0).svg(Theme::Light);
        assert!(svg.contains("is wider than the axis"));
        assert!(plot(&[], 1.0).svg(Theme::Page).contains("nothing is ranked"));
        assert!(plot(&[f64::NAN], 1.0).svg(Theme::Page).contains("nothing is ranked"));
        assert!(plot(&[1.0], 0.0).svg(Theme::Dark).contains("m0  1.00"));
    }
}
