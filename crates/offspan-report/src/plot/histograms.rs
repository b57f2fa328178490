//! Densities of several sets of values over common bins, with thresholds.

use std::fmt::Write as _;

use super::Size;
use super::canvas::{Anchor, Canvas, Rect, Text, font};
use super::frame::{Frame, Layout, nothing};
use super::legend::{Entry, Sample};
use super::marker::dash;
use super::number::{self, Px};
use super::place::Places;
use super::scale::{Axis, Scale, drawable};
use super::text;
use super::theme::{Ink, Theme};

/// Which side of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Values smaller than the threshold.
    Below,
    /// Values greater than the threshold.
    Above,
}

/// A named set of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Set {
    /// The name for the legend.
    pub name: String,
    /// The values. NaN and infinite ones are counted in a note.
    pub values: Vec<f64>,
}

impl Set {
    /// A set with a name.
    #[must_use]
    pub fn new(name: impl Into<String>, values: Vec<f64>) -> Self {
        Self { name: name.into(), values }
    }

    fn name_or_else(&self) -> &str {
        if self.name.is_empty() { "the set without a name" } else { &self.name }
    }
}

/// A vertical mark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Threshold {
    /// Where it stands.
    pub at: f64,
    /// What it means, for example "threshold −0.52: keeps 95 %".
    pub label: String,
}

/// Densities of several sets of values over common bins. Each set's area is its share of values
/// within the drawn range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histograms {
    /// What is to be seen, in a sentence.
    pub title: String,
    /// What the values are.
    pub x_label: String,
    /// The sets, in the order of their colours.
    pub sets: Vec<Set>,
    /// Vertical marks.
    pub thresholds: Vec<Threshold>,
    /// The side of the first threshold that is called out-of-distribution, to be shaded.
    pub ood_side: Option<Side>,
    /// Width and height.
    pub size: Size,
}

/// What the shaded side is called.
const SHADED: &str = "called out-of-distribution";

/// The rows of text above the densities.
const ROW: f64 = 17.0;

impl Histograms {
    /// The plot as an SVG document.
    #[must_use]
    pub fn svg(&self, theme: Theme) -> String {
        let sorted: Vec<Vec<f64>> =
            self.sets.iter().map(|set| drawable_sorted(&set.values)).collect();
        let Some(range) = common_range(&sorted, &self.thresholds) else {
            return nothing(&self.title, &self.why_nothing(), self.size, theme);
        };
        let bins = Bins::new(range, &sorted);
        let densities: Vec<Vec<f64>> =
            self.sets.iter().zip(&sorted).map(|(set, s)| bins.densities(s, &set.values)).collect();
        let highest = densities.iter().flatten().copied().fold(0.0, f64::max);
        let marks: Vec<&Threshold> =
            self.thresholds.iter().filter(|t| range.contains(t.at)).collect();
        let entry = |(k, set): (usize, &Set)| Entry {
            series: k,
            name: set.name.clone(),
            sample: Sample::Fill,
        };
        let named = self.sets.iter().enumerate().filter(|(_, set)| !set.name.is_empty());
        let frame = |highest: f64| Frame {
            title: &self.title,
            x_label: &self.x_label,
            y_label: "density",
            x: range,
            y: Axis::new(Scale::Linear, 0.0, highest),
            x_values: Vec::new(),
            bare: false,
            legend: named.clone().map(entry).collect(),
            notes: self.notes(&sorted, range),
            size: self.size,
        };
        // The texts need room above the densities: how much of the axis depends on its length.
        let rows = self.label_rows(&marks) as f64;
        let high = Layout::new(frame(highest)).area.h;
        let head = (rows * ROW + 10.0).min(high / 2.0);
        let layout = Layout::new(frame(highest * high / (high - head)));
        let mut canvas = Canvas::new(theme);
        layout.draw_back(&mut canvas, self.shade(&layout, &marks));
        for (k, density) in densities.iter().enumerate() {
            let style = format!(
                "fill-opacity=\"{}\" stroke-width=\"1.6\" stroke-linejoin=\"round\" {}",
                if k == 0 { ".34" } else { ".26" },
                dash(k)
            );
            let ink = Ink::Series(k);
            canvas.path(&bins.steps(density, &layout), Some(ink), Some(ink), style.trim_end());
        }
        layout.draw_axis(&mut canvas);
        self.draw_marks(&mut canvas, &layout, &marks);
        canvas.finish(layout.size, &self.title, &self.description(&sorted))
    }

    fn shade(&self, layout: &Layout, marks: &[&Threshold]) -> Option<Rect> {
        let at = layout.x(self.shaded_from(marks)?);
        let area = layout.area;
        Some(match self.ood_side? {
            Side::Below => Rect { w: at - area.x, ..area },
            Side::Above => Rect { x: at, w: area.right() - at, ..area },
        })
    }

    /// The first threshold, if it is drawn.
    fn shaded_from(&self, marks: &[&Threshold]) -> Option<f64> {
        let first = self.thresholds.first()?.at;
        marks.iter().any(|t| t.at == first).then_some(first)
    }

    /// How many texts stand above the densities.
    fn label_rows(&self, marks: &[&Threshold]) -> usize {
        let labels = marks.iter().filter(|t| !t.label.is_empty()).count();
        labels + usize::from(self.ood_side.is_some() && self.shaded_from(marks).is_some())
    }

    fn draw_marks(&self, canvas: &mut Canvas, layout: &Layout, marks: &[&Threshold]) {
        let area = layout.area;
        let mut places = Places::new(area);
        for (k, mark) in marks.iter().enumerate() {
            let x = layout.x(mark.at);
            let dashes = if k == 0 { "" } else { " stroke-dasharray=\"4 3\"" };
            let style = format!("stroke-width=\"1.5\"{dashes}");
            canvas.line((x, area.y), (x, area.bottom()), Ink::Text, &style);
            places.avoid_line((x, area.y), (x, area.bottom()));
        }
        let mut labels = Labels { area, rows: self.label_rows(marks), places };
        for mark in marks.iter().filter(|t| !t.label.is_empty()) {
            let sides = match self.ood_side {
                Some(Side::Above) => [Side::Below, Side::Above],
                _ => [Side::Above, Side::Below],
            };
            let x = layout.x(mark.at);
            labels.put(canvas, &mark.label, &sides.map(|side| (x, side)), Ink::Text);
        }
        if let (Some(at), Some(side)) = (self.shaded_from(marks), self.ood_side) {
            // Beside the first mark, or beside another one inside the shaded side.
            let (first, from) = (layout.x(at), marks.iter().map(|t| layout.x(t.at)));
            let (text, mut starts): (_, Vec<f64>) = match side {
                Side::Below => (format!("← {SHADED}"), from.filter(|x| *x <= first).collect()),
                Side::Above => (format!("{SHADED} →"), from.filter(|x| *x >= first).collect()),
            };
            starts.retain(|x| labels.fits(&text, (*x, side)));
            if starts.is_empty() {
                let sides = [(first, Side::Above), (first, Side::Below)];
                labels.put(canvas, &format!("shaded: {SHADED}"), &sides, Ink::Muted);
            } else {
                let starts: Vec<_> = starts.into_iter().map(|x| (x, side)).collect();
                labels.put(canvas, &text, &starts, Ink::Muted);
            }
        }
    }

    fn why_nothing(&self) -> String {
        let given: usize = self.sets.iter().map(|set| set.values.len()).sum();
        if given == 0 {
            "Nothing to draw: there are no values.".into()
        } else {
            let values = number::count(given, "value", "values");
            format!("Nothing to draw: {values} given, none of them finite.")
        }
    }

    fn notes(&self, sorted: &[Vec<f64>], range: Axis) -> Vec<String> {
        let mut missing = Vec::new();
        for (set, sorted) in self.sets.iter().zip(sorted) {
            let name = set.name_or_else();
            let mut parts = Vec::new();
            let mut tell = |n: usize, what: &str| {
                if n > 0 {
                    parts.push(format!("{} {what}", number::count(n, "", "").trim_end()));
                }
            };
            let rest = |holds: fn(f64) -> bool| {
                set.values.iter().filter(|&&v| !drawable(v) && holds(v)).count()
            };
            tell(rest(|v| v < 0.0), "at −∞");
            tell(rest(|v| v > 0.0), "at +∞");
            tell(rest(f64::is_nan), "not a number");
            tell(sorted.iter().filter(|&&v| v < range.lo).count(), "left of the axis");
            tell(sorted.iter().filter(|&&v| v > range.hi).count(), "right of the axis");
            if !parts.is_empty() {
                missing.push(format!("{name}: {}", parts.join(", ")));
            }
        }
        let mut notes = Vec::new();
        if !missing.is_empty() {
            notes.push(format!("Not drawn – {}.", missing.join("; ")));
        }
        for (set, sorted) in self.sets.iter().zip(sorted) {
            match (sorted.first(), sorted.last()) {
                (Some(a), Some(b)) if a == b && sorted.len() > 1 => {
                    let (name, value) = (set.name_or_else(), number::short(*a));
                    notes.push(format!("All values of {name} equal {value}."));
                }
                (None, _) => notes.push(format!("No finite values in {}.", set.name_or_else())),
                _ => {}
            }
        }
        for t in self.thresholds.iter().filter(|t| !range.contains(t.at)) {
            notes.push(format!("{} ({}) lies off the axis.", t.label, number::short(t.at)));
        }
        notes
    }

    fn description(&self, sorted: &[Vec<f64>]) -> String {
        let mut text = format!("Histograms of {}.", number::count(self.sets.len(), "set", "sets"));
        for (set, s) in self.sets.iter().zip(sorted) {
            if let (Some(lo), Some(hi)) = (s.first(), s.last()) {
                let values = number::count(set.values.len(), "value", "values");
                let _ = write!(
                    text,
                    " {}: {values} from {} to {}, median {}.",
                    set.name,
                    number::short(*lo),
                    number::short(*hi),
                    number::short(quantile(s, 0.5))
                );
            }
        }
        for t in &self.thresholds {
            let _ = write!(text, " Mark at {}: {}.", number::short(t.at), t.label);
        }
        text
    }
}

/// From a mark to its label.
const BESIDE: f64 = 7.0;

/// The rows of text above the densities.
struct Labels {
    area: Rect,
    rows: usize,
    places: Places,
}

impl Labels {
    fn fits(&self, label: &str, (x, side): (f64, Side)) -> bool {
        let wide = text::width(label, font::SMALL) + BESIDE;
        match side {
            Side::Above => x + wide <= self.area.right(),
            Side::Below => x - wide >= self.area.x,
        }
    }

    /// Writes a label on one of the given sides of marks, in the row where it crosses least; across
    /// the whole area if it is too long for all of them.
    fn put(&mut self, canvas: &mut Canvas, label: &str, sides: &[(f64, Side)], ink: Ink) {
        let label = &text::shorten(label, font::SMALL, self.area.w - 2.0 * BESIDE);
        let w = text::width(label, font::SMALL);
        let fitting = sides.iter().filter(|&&side| self.fits(label, side));
        let mut spots: Vec<(f64, Anchor)> = fitting
            .map(|&(x, side)| match side {
                Side::Above => (x + BESIDE, Anchor::Start),
                Side::Below => (x - BESIDE, Anchor::End),
            })
            .collect();
        let crosses = spots.is_empty();
        if crosses {
            spots.push((self.area.x + BESIDE, Anchor::Start));
        }
        let top = self.area.y + 3.0;
        let spots: Vec<(f64, f64, Anchor)> = (0..self.rows)
            .map(|row| top + row as f64 * ROW)
            .flat_map(|y| spots.iter().map(move |&(x, anchor)| (x, y, anchor)))
            .collect();
        let boxed = |&(x, y, anchor): &(f64, f64, Anchor)| {
            let x = if anchor == Anchor::End { x - w } else { x };
            Rect { x, y, w, h: ROW - 3.0 }
        };
        let candidates: Vec<Rect> = spots.iter().map(boxed).collect();
        if let Some(&(x, y, anchor)) = spots.get(self.places.take(&candidates)) {
            let text = Text::new(label, x, y + 11.0).ink(ink).anchor(anchor);
            canvas.text(&if crosses { text.halo() } else { text });
        }
    }
}

fn drawable_sorted(values: &[f64]) -> Vec<f64> {
    let mut kept: Vec<f64> = values.iter().copied().filter(|&v| drawable(v)).collect();
    kept.sort_unstable_by(f64::total_cmp);
    kept
}

/// Linear interpolation in sorted values, of which there is at least one.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let under = position as usize;
    let over = (under + 1).min(sorted.len() - 1);
    sorted[under] + (position - under as f64) * (sorted[over] - sorted[under])
}

/// All values except far outliers: a single one would squeeze the rest into one bin.
fn common_range(sorted: &[Vec<f64>], thresholds: &[Threshold]) -> Option<Axis> {
    let mut ends: Option<(f64, f64)> = None;
    for s in sorted.iter().filter(|s| !s.is_empty()) {
        let (q1, q3) = (quantile(s, 0.25), quantile(s, 0.75));
        let mut spread = 3.5 * (q3 - q1);
        if spread == 0.0 {
            spread = quantile(s, 0.98) - quantile(s, 0.02);
        }
        let fenced = |v: f64| v >= q1 - spread && v <= q3 + spread;
        let mut inside = s.iter().copied().filter(|&v| fenced(v));
        let lo = inside.next().unwrap_or(q1);
        let hi = inside.next_back().unwrap_or(lo);
        ends = Some(ends.map_or((lo, hi), |(a, b)| (a.min(lo), b.max(hi))));
    }
    let (mut lo, mut hi) = ends?;
    let room = 0.5 * (hi - lo);
    let (near, far) = (lo - room, hi + room);
    for at in thresholds.iter().map(|t| t.at).filter(|at| (near..=far).contains(at)) {
        lo = lo.min(at);
        hi = hi.max(at);
    }
    Some(Axis::new(Scale::Linear, lo, hi).widened(0.02, 0.02))
}

struct Bins {
    range: Axis,
    count: usize,
}

impl Bins {
    /// As many as the narrowest of the sets' Freedman–Diaconis widths asks for, within 30 to 80.
    fn new(range: Axis, sorted: &[Vec<f64>]) -> Self {
        let widths = sorted
            .iter()
            .filter(|s| s.len() > 1)
            .map(|s| 2.0 * (quantile(s, 0.75) - quantile(s, 0.25)) / (s.len() as f64).cbrt());
        let narrowest = widths.filter(|w| *w > 0.0).fold(f64::INFINITY, f64::min);
        let count = ((range.hi - range.lo) / narrowest).ceil().clamp(30.0, 80.0) as usize;
        Self { range, count }
    }

    /// Shares of all values that are numbers, per bin and unit of the axis.
    fn densities(&self, sorted: &[f64], all: &[f64]) -> Vec<f64> {
        let mut counts = vec![0usize; self.count];
        for &v in sorted.iter().filter(|v| self.range.contains(**v)) {
            let bin = (self.range.share(v) * self.count as f64) as usize;
            counts[bin.min(self.count - 1)] += 1;
        }
        let total = all.iter().filter(|v| !v.is_nan()).count().max(1) as f64;
        let width = (self.range.hi - self.range.lo) / self.count as f64;
        counts.into_iter().map(|n| n as f64 / total / width).collect()
    }

    /// The outline of the bins that are not empty.
    fn steps(&self, densities: &[f64], layout: &Layout) -> String {
        let base = Px(layout.area.bottom());
        let edge = |k: usize| layout.area.x + layout.area.w * k as f64 / self.count as f64;
        let mut d = String::new();
        let mut inside = false;
        for (k, &density) in densities.iter().enumerate() {
            if density > 0.0 {
                if !inside {
                    let _ = write!(d, "M{} {base}", Px(edge(k)));
                }
                let _ = write!(d, "V{}H{}", Px(layout.y(density)), Px(edge(k + 1)));
            } else if inside {
                let _ = write!(d, "V{base}");
            }
            inside = density > 0.0;
        }
        if inside {
            let _ = write!(d, "V{base}");
        }
        d
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range_of(values: &[f64]) -> Axis {
        common_range(&[drawable_sorted(values)], &[]).unwrap()
    }

    #[test]
    fn one_far_outlier_does_not_stretch_the_range() {
        let mut values: Vec<f64> = (0..1000).map(|k| (k as f64 * 0.37).sin()).collect();
        let before = range_of(&values);
        values.extend([1e9, f64::INFINITY, f64::NAN]);
        let after = range_of(&values);
        assert!((after.hi - before.hi).abs() < 0.1, "{after:?}");
    }

    #[test]
    fn densities_add_up_to_the_share_of_values_within_the_range() {
        let values: Vec<f64> = (0..500).map(f64::from).chain([f64::INFINITY; 500]).collect();
        let sorted = drawable_sorted(&values);
        let bins = Bins::new(range_of(&values), std::slice::from_ref(&sorted));
        let width = (bins.range.hi - bins.range.lo) / bins.count as f64;
        let area: f64 = bins.densities(&sorted, &values).iter().sum::<f64>() * width;
        assert!((area - 0.5).abs() < 1e-9, "{area}");
    }

    #[test]
    fn there_are_between_thirty_and_eighty_bins() {
        for n in [2, 50, 100_000] {
            let sorted: Vec<f64> = (0..n).map(f64::from).collect();
            let bins = Bins::new(range_of(&sorted), &[sorted]);
            assert!((30..=80).contains(&bins.count));
        }
    }
}
