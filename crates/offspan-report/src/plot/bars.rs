//! Horizontal bars: time, storage.

use std::fmt::Write as _;

use super::Size;
use super::canvas::{Anchor, Canvas, Rect, Text, font};
use super::frame::{EDGE, Surround, axis_label, fitting_ticks, nothing};
use super::number;
use super::scale::{Axis, Scale};
use super::text;
use super::theme::{Ink, Theme};

/// A bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// What it stands for.
    pub label: String,
    /// Its length.
    pub value: f64,
    /// What is written at its end; the value in short if empty.
    pub text: String,
    /// Whether it stands out. When no bar does, all look the same.
    pub highlight: bool,
}

impl Bar {
    /// A bar with its text, such as "1.3 ms".
    #[must_use]
    pub fn new(label: impl Into<String>, value: f64, text: impl Into<String>) -> Self {
        Self { label: label.into(), value, text: text.into(), highlight: false }
    }

    /// The same bar, standing out.
    #[must_use]
    pub fn highlighted(self) -> Self {
        Self { highlight: true, ..self }
    }
}

/// Horizontal bars from the top down. The height follows from their number.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What is to be seen, in a sentence.
    pub title: String,
    /// What the lengths are, with the unit.
    pub x_label: String,
    /// The bars.
    pub bars: Vec<Bar>,
    /// The scale of the lengths.
    pub x_scale: Scale,
    /// The width in pixels.
    pub width: f64,
}

impl Default for Bars {
    fn default() -> Self {
        Self {
            title: String::new(),
            x_label: String::new(),
            bars: Vec::new(),
            x_scale: Scale::Linear,
            width: Size::default().width,
        }
    }
}

const PITCH: f64 = 28.0;
const THICK: f64 = 18.0;

impl Bars {
    /// The plot as an SVG document.
    #[must_use]
    pub fn svg(&self, theme: Theme) -> String {
        let size = Size { width: self.width, height: 220.0 }.sane();
        let drawn = || self.bars.iter().map(|bar| bar.value).filter(|&v| self.x_scale.can_draw(v));
        let Some(axis) = self.axis(drawn()) else {
            let why = if self.bars.is_empty() {
                "Nothing to draw: there are no bars."
            } else if self.x_scale == Scale::Log {
                "Nothing to draw: no value is finite and positive."
            } else {
                "Nothing to draw: no value is finite."
            };
            return nothing(&self.title, why, size, theme);
        };
        let width = size.width;
        let surround = Surround::new(&self.title, Vec::new(), &[], width);
        let wide = |bar: &Bar, words: &str| {
            let width = if bar.highlight { text::bold_width } else { text::width };
            width(words, font::LABEL)
        };
        let labels = self.bars.iter().map(|b| wide(b, &b.label)).fold(0.0, f64::max);
        let labels = labels.min(width * 0.38);
        let texts = self.bars.iter().map(|b| wide(b, &self.text_of(b))).fold(0.0, f64::max);
        let texts = texts.min(width * 0.3);
        let left = EDGE + labels + 10.0;
        // Texts stand right of the longest bar, or left of it when it points there.
        let has_negative = drawn().any(|v| v < 0.0) && self.x_scale == Scale::Linear;
        let from = if has_negative { left + texts + 8.0 } else { left };
        let mut to = width - EDGE;
        for bar in &self.bars {
            let share = if self.x_scale.can_draw(bar.value) { axis.share(bar.value) } else { 0.0 };
            let wide = wide(bar, &self.text_of(bar)).min(texts) + 8.0;
            if share > 0.0 {
                to = to.min(from + (width - EDGE - wide - from) / share);
            }
        }
        let to = to.max(from + 60.0);
        let place = |v: f64| from + axis.share(v) * (to - from);

        let top = surround.top();
        let bottom = top + self.bars.len() as f64 * PITCH + 4.0;
        let x_lines = text::wrap(&self.x_label, font::LABEL, false, width - left - EDGE, 2);
        let height = bottom + 22.0 + x_lines.len() as f64 * 16.0 + surround.bottom();

        let mut canvas = Canvas::new(theme);
        surround.draw(&mut canvas, height);
        for tick in fitting_ticks(&axis, &[], to - from) {
            let x = place(tick.value);
            canvas.line((x, top), (x, bottom), Ink::Grid, "");
            canvas.text(&Text::new(&tick.label, x, bottom + 17.0).anchor(Anchor::Middle));
        }
        for (k, line) in x_lines.iter().enumerate() {
            let y = bottom + 36.0 + k as f64 * 16.0;
            axis_label(&mut canvas, line, (f64::midpoint(from, to), y), width);
        }
        let zero = if self.x_scale == Scale::Log { from } else { place(0.0) };
        let any_highlight = self.bars.iter().any(|bar| bar.highlight);
        for (k, bar) in self.bars.iter().enumerate() {
            let middle = top + 2.0 + (k as f64 + 0.5) * PITCH;
            let label = text::shorten(&bar.label, font::LABEL, labels + 0.5);
            let stands_out = any_highlight && bar.highlight;
            let name = Text::new(&label, left - 10.0, middle + 4.2).size(font::LABEL);
            let name = name.ink(Ink::Text).anchor(Anchor::End);
            canvas.text(&if stands_out { name.bold() } else { name });
            let can_draw = self.x_scale.can_draw(bar.value);
            let end = if can_draw { place(bar.value) } else { zero };
            if can_draw {
                let (x, w) = (zero.min(end), (end - zero).abs().max(1.0));
                let body = Rect { x, y: middle - THICK / 2.0, w, h: THICK };
                let ink = if any_highlight && !bar.highlight { Ink::Axis } else { Ink::Series(0) };
                canvas.rect(body, ink, "");
            }
            let words = self.text_of(bar);
            let words = text::shorten(&words, font::LABEL, texts + 0.5);
            let leftward = can_draw && bar.value < 0.0 && self.x_scale == Scale::Linear;
            let (x, anchor) =
                if leftward { (end - 6.0, Anchor::End) } else { (end + 6.0, Anchor::Start) };
            let ink = if can_draw { Ink::Text } else { Ink::Muted };
            let text = Text::new(&words, x, middle + 4.2).size(font::LABEL).anchor(anchor).ink(ink);
            canvas.text(&if stands_out { text.bold() } else { text });
        }
        canvas.line((zero, top), (zero, bottom), Ink::Axis, "");
        canvas.finish((width, height), &self.title, &self.description())
    }

    /// From zero on, or from the decade under the shortest bar.
    fn axis(&self, values: impl Iterator<Item = f64>) -> Option<Axis> {
        let mut ends: Option<(f64, f64)> = None;
        for v in values {
            ends = Some(ends.map_or((v, v), |(lo, hi)| (lo.min(v), hi.max(v))));
        }
        let (lo, hi) = ends?;
        Some(match self.x_scale {
            Scale::Linear if lo == 0.0 && hi == 0.0 => Axis::new(Scale::Linear, 0.0, 1.0),
            Scale::Linear => Axis::new(Scale::Linear, lo.min(0.0), hi.max(0.0)),
            // The shortest bar should still be seen.
            Scale::Log => Axis::new(Scale::Log, 10f64.powf((lo.log10() - 0.15).floor()), hi),
        })
    }

    fn text_of(&self, bar: &Bar) -> String {
        match (bar.text.is_empty(), self.x_scale.can_draw(bar.value)) {
            (false, _) => bar.text.clone(),
            (true, false) if bar.value.is_nan() => "not measured".into(),
            (true, _) => number::short(bar.value),
        }
    }

    fn description(&self) -> String {
        let mut out = format!("Bars of {}.", self.x_label);
        for bar in &self.bars {
            let _ = write!(out, " {}: {}.", bar.label, self.text_of(bar));
        }
        out
    }
}
