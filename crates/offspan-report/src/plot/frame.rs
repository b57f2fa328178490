//! What plots with two axes share: title, legend, grid, ticks, labels, notes, and the margins that
//! they need.

use super::Size;
use super::canvas::{Anchor, Canvas, Rect, Text, font};
use super::legend::{self, Entry};
use super::scale::{Axis, Scale, Tick};
use super::text;
use super::theme::{Ink, Theme};

/// The empty border around everything.
pub(super) const EDGE: f64 = 16.0;
const TITLE_LINE: f64 = 20.0;
const NOTE_LINE: f64 = 15.0;
const LABEL_LINE: f64 = 16.0;

/// Title, legend and notes: what every plot has above and below its data.
pub(super) struct Surround {
    title: Vec<String>,
    entries: Vec<Entry>,
    places: Vec<(f64, usize, String)>,
    notes: Vec<String>,
}

impl Surround {
    pub(super) fn new(title: &str, entries: Vec<Entry>, notes: &[String], width: f64) -> Self {
        let room = width - 2.0 * EDGE;
        let places = legend::lay_out(&entries, room);
        let notes = notes.join(" ");
        Self {
            title: text::wrap(title, font::TITLE, true, room, 3),
            entries,
            places,
            notes: text::wrap(&notes, font::SMALL, false, room, 4),
        }
    }

    /// Pixels above the data.
    pub(super) fn top(&self) -> f64 {
        let rows = legend::rows(&self.places) as f64;
        let legend = if rows > 0.0 { 6.0 + rows * legend::ROW } else { 0.0 };
        12.0 + self.title.len() as f64 * TITLE_LINE + legend + 10.0
    }

    /// Pixels below axis labels.
    pub(super) fn bottom(&self) -> f64 {
        let notes = self.notes.len() as f64;
        12.0 + if notes > 0.0 { 5.0 + notes * NOTE_LINE } else { 0.0 }
    }

    pub(super) fn draw(&self, canvas: &mut Canvas, height: f64) {
        let mut y = 12.0;
        for line in &self.title {
            let at = Text::new(line, EDGE, y + 15.0).size(font::TITLE).ink(Ink::Text).bold();
            canvas.text(&at);
            y += TITLE_LINE;
        }
        legend::draw(canvas, &self.entries, &self.places, (EDGE, y + 6.0));
        let first = height - 12.0 - (self.notes.len() as f64 - 1.0) * NOTE_LINE;
        for (k, line) in self.notes.iter().enumerate() {
            canvas.text(&Text::new(line, EDGE, first + k as f64 * NOTE_LINE));
        }
    }
}

/// What a framed plot asks for.
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    pub(super) x_label: &'a str,
    pub(super) y_label: &'a str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Values that deserve the ticks of the x axis, when they are few.
    pub(super) x_values: Vec<f64>,
    /// No ticks, and the same scale on both axes.
    pub(super) bare: bool,
    pub(super) legend: Vec<Entry>,
    pub(super) notes: Vec<String>,
    pub(super) size: Size,
}

/// A frame whose margins are known.
pub(super) struct Layout {
    pub(super) area: Rect,
    pub(super) size: (f64, f64),
    x: Axis,
    y: Axis,
    bare: bool,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    x_lines: Vec<String>,
    y_lines: Vec<String>,
    surround: Surround,
}

impl Layout {
    pub(super) fn new(frame: Frame<'_>) -> Self {
        let Size { width, height } = frame.size.sane();
        let surround = Surround::new(frame.title, frame.legend, &frame.notes, width);
        let x_lines = text::wrap(frame.x_label, font::LABEL, false, width - 5.0 * EDGE, 2);

        let tick_row = if frame.bare { 0.0 } else { 20.0 };
        let label_rows = x_lines.len() as f64 * LABEL_LINE;
        let gap = if x_lines.is_empty() { 0.0 } else { 5.0 };
        let below = tick_row + gap + label_rows + surround.bottom();
        let top = surround.top();
        let high = (height - top - below).max(140.0);

        let y_ticks = if frame.bare { Vec::new() } else { frame.y.ticks((high / 46.0).max(2.0)) };
        let y_lines = text::wrap(frame.y_label, font::LABEL, false, high, 2);
        let widest = y_ticks.iter().map(|t| text::width(&t.label, font::SMALL)).fold(0.0, f64::max);
        let tick_column = if frame.bare { 0.0 } else { widest + 8.0 };
        let left = (EDGE + y_lines.len() as f64 * LABEL_LINE + tick_column).min(width * 0.45);
        let left = if frame.bare || y_lines.is_empty() { left.max(EDGE) } else { left + 4.0 };
        let mut right = EDGE;
        let mut x_ticks = Vec::new();
        if !frame.bare {
            let room = width - left - right;
            x_ticks = fitting_ticks(&frame.x, &frame.x_values, room);
            // Half of the last label may stand beyond the end of the axis.
            if let Some(last) = x_ticks.last() {
                let half = text::width(&last.label, font::SMALL) / 2.0;
                right += (half - 8.0 - (1.0 - frame.x.share(last.value)) * room).max(0.0);
            }
        }
        let area = Rect { x: left, y: top, w: width - left - right, h: high };
        let (x, y) =
            if frame.bare { same_scale(frame.x, frame.y, area) } else { (frame.x, frame.y) };
        let size = (width, top + high + below);
        Self { area, size, x, y, bare: frame.bare, x_ticks, y_ticks, x_lines, y_lines, surround }
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        self.area.x + self.x.share(value) * self.area.w
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.area.bottom() - self.y.share(value) * self.area.h
    }

    pub(super) fn shows_x(&self, value: f64) -> bool {
        self.x.contains(value)
    }

    pub(super) fn shows_y(&self, value: f64) -> bool {
        self.y.contains(value)
    }

    pub(super) fn shows(&self, x: f64, y: f64) -> bool {
        self.shows_x(x) && self.shows_y(y)
    }

    /// Everything under the data. `shade` goes under the grid.
    pub(super) fn draw_back(&self, canvas: &mut Canvas, shade: Option<Rect>) {
        self.surround.draw(canvas, self.size.1);
        if let Some(rect) = shade {
            canvas.rect(rect, Ink::Shade, "");
        }
        let Rect { x: left, y: top, .. } = self.area;
        let (right, bottom) = (self.area.right(), self.area.bottom());
        if self.bare {
            let outline = format!("M{left} {top}H{right}V{bottom}H{left}z");
            canvas.path(&outline, None, Some(Ink::Grid), "");
        }
        for tick in &self.y_ticks {
            let y = self.y(tick.value);
            canvas.line((left, y), (right, y), Ink::Grid, "");
            let label = Text::new(&tick.label, left - 7.0, y + 3.9);
            canvas.text(&label.anchor(Anchor::End));
        }
        for tick in &self.x_ticks {
            let x = self.x(tick.value);
            canvas.line((x, top), (x, bottom), Ink::Grid, "");
            let label = Text::new(&tick.label, x, bottom + 17.0);
            canvas.text(&label.anchor(Anchor::Middle));
        }
        let tick_row = if self.bare { 0.0 } else { 20.0 };
        for (k, line) in self.x_lines.iter().enumerate() {
            let y = bottom + tick_row + 5.0 + 12.0 + k as f64 * LABEL_LINE;
            axis_label(canvas, line, (left + self.area.w / 2.0, y), self.size.0);
        }
        for (k, line) in self.y_lines.iter().enumerate() {
            let x = EDGE + 10.0 + k as f64 * LABEL_LINE;
            let label = Text::new(line, x, top + self.area.h / 2.0).size(font::LABEL).turn(-90.0);
            canvas.text(&label.ink(Ink::Text).anchor(Anchor::Middle));
        }
    }

    /// The base line, over the data.
    pub(super) fn draw_axis(&self, canvas: &mut Canvas) {
        if !self.bare {
            let bottom = self.area.bottom();
            canvas.line((self.area.x, bottom), (self.area.right(), bottom), Ink::Axis, "");
        }
    }
}

/// The label of an x axis: under its middle, unless the line is too long for that.
pub(super) fn axis_label(canvas: &mut Canvas, line: &str, (middle, y): (f64, f64), width: f64) {
    let reach = EDGE + text::width(line, font::LABEL) / 2.0;
    let x = middle.min(width - reach).max(reach);
    let label = Text::new(line, x, y).size(font::LABEL);
    canvas.text(&label.ink(Ink::Text).anchor(Anchor::Middle));
}

/// As many ticks as have room for their labels.
pub(super) fn fitting_ticks(axis: &Axis, values: &[f64], room: f64) -> Vec<Tick> {
    if let Some(ticks) = ticks_at(axis, values, room) {
        return ticks;
    }
    let mut target = (room / 80.0).max(2.0);
    loop {
        let ticks = axis.ticks(target);
        if target <= 1.5 || fit(axis, &ticks, room) {
            return ticks;
        }
        target -= 1.0;
    }
}

fn fit(axis: &Axis, ticks: &[Tick], room: f64) -> bool {
    let ends = |t: &Tick| {
        let half = text::width(&t.label, font::SMALL) / 2.0;
        let at = axis.share(t.value) * room;
        (at - half, at + half)
    };
    ticks.windows(2).all(|pair| ends(&pair[0]).1 + 10.0 <= ends(&pair[1]).0)
}

/// Ticks at the very values that were measured: for a few of them, with short labels, on a
/// logarithmic axis, where they are seldom round numbers (64, 128, 256).
fn ticks_at(axis: &Axis, values: &[f64], room: f64) -> Option<Vec<Tick>> {
    if axis.scale != Scale::Log || !(3..=12).contains(&values.len()) {
        return None;
    }
    let tick = |&value: &f64| Tick { value, label: super::number::short(value) };
    let ticks: Vec<Tick> = values.iter().filter(|v| axis.contains(**v)).map(tick).collect();
    let exact = |t: &Tick| t.label.chars().count() <= 7;
    (ticks.iter().all(exact) && fit(axis, &ticks, room)).then_some(ticks)
}

/// The axes widened such that a pixel means the same in both directions.
fn same_scale(x: Axis, y: Axis, area: Rect) -> (Axis, Axis) {
    let (per_x, per_y) = ((x.hi - x.lo) / area.w, (y.hi - y.lo) / area.h);
    if per_x < per_y {
        let more = (per_y / per_x - 1.0) / 2.0;
        (x.widened(more, more), y)
    } else {
        let more = (per_x / per_y - 1.0) / 2.0;
        (x, y.widened(more, more))
    }
}

/// A plot that says why there is nothing to see.
pub(super) fn nothing(title: &str, reason: &str, size: Size, theme: Theme) -> String {
    let Size { width, height } = size.sane();
    let surround = Surround::new(title, Vec::new(), &[], width);
    let mut canvas = Canvas::new(theme);
    surround.draw(&mut canvas, height);
    let (left, top) = (EDGE, surround.top());
    let (right, bottom) = (width - EDGE, height - EDGE);
    canvas.path(
        &format!("M{left} {top}H{right}V{bottom}H{left}z"),
        None,
        Some(Ink::Axis),
        "stroke-dasharray=\"4 4\"",
    );
    let lines = text::wrap(reason, font::LABEL, false, width - 6.0 * EDGE, 4);
    let middle = f64::midpoint(top, bottom) - (lines.len() as f64 - 1.0) * 9.0 + 4.0;
    for (k, line) in lines.iter().enumerate() {
        let label = Text::new(line, width / 2.0, middle + k as f64 * 18.0).size(font::LABEL);
        canvas.text(&label.anchor(Anchor::Middle));
    }
    canvas.finish((width, height), title, reason)
}
