//! A matrix of values as coloured cells.

use std::fmt::Write as _;

use super::Size;
use super::canvas::{Anchor, Canvas, Rect, Text, font};
use super::frame::{EDGE, Surround, axis_label, nothing};
use super::number;
use super::scale::{Axis, Scale, drawable};
use super::text;
use super::theme::{Ink, Theme};
use super::viridis;

/// Which cell is marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Best {
    /// None.
    #[default]
    Unmarked,
    /// The first with the highest value.
    Highest,
    /// The first with the lowest value.
    Lowest,
}

/// A matrix of values as coloured cells, each with its value as text where it has room.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// What is to be seen, in a sentence.
    pub title: String,
    /// What the columns are.
    pub x_label: String,
    /// What the rows are.
    pub y_label: String,
    /// What the values are, for the colour bar.
    pub value_label: String,
    /// The names of the rows, from the top down.
    pub rows: Vec<String>,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The values, row by row. NaN stands for a value that is not known.
    pub values: Vec<Vec<f64>>,
    /// Which cell is marked.
    pub best: Best,
    /// Decimals of the values; from their range if not given.
    pub decimals: Option<usize>,
    /// Width and height.
    pub size: Size,
}

const BAR: f64 = 14.0;
const LABEL_LINE: f64 = 16.0;

/// Where things stand.
struct Grid {
    area: Rect,
    height: f64,
    cell: (f64, f64),
    y_lines: Vec<String>,
    x_lines: Vec<String>,
    value_lines: Vec<String>,
    /// Room for the row labels, and for turned column labels under the cells.
    label_room: f64,
    turned: bool,
    column_room: f64,
}

impl HeatMap {
    /// The plot as an SVG document.
    #[must_use]
    pub fn svg(&self, theme: Theme) -> String {
        let (m, n) = self.shape();
        let known = || self.cells().filter(|c| drawable(c.2)).map(|c| c.2);
        let Some(range) = Axis::around(Scale::Linear, known(), 0.0) else {
            let why = if m == 0 || n == 0 {
                "Nothing to draw: the matrix has no cells."
            } else {
                "Nothing to draw: no cell has a finite value."
            };
            return nothing(&self.title, why, self.size, theme);
        };
        let decimals = self.decimals.map_or_else(|| default_decimals(known()), |d| d.min(10));
        let texts: Vec<(usize, usize, f64, String)> =
            self.cells().map(|(i, j, v)| (i, j, v, cell_text(v, decimals))).collect();

        let ticks = range.ticks(5.0);
        let mut notes = Vec::new();
        if known().count() > 1 && known().all(|v| Some(v) == known().next()) {
            notes.push(format!("All values equal {}.", number::short(range.lo.midpoint(range.hi))));
        }
        match self.best {
            Best::Highest => notes.push("Outlined: the highest value.".into()),
            Best::Lowest => notes.push("Outlined: the lowest value.".into()),
            Best::Unmarked => {}
        }
        let missing = m * n - known().count();
        if missing > 0 {
            notes.push(format!(
                "{} without a finite value.",
                number::count(missing, "cell", "cells")
            ));
        }
        let width = self.size.sane().width;
        let widest_tick =
            ticks.iter().map(|t| text::width(&t.label, font::SMALL)).fold(0.0, f64::max);
        // The cells' room decides whether texts are drawn, and that is a note, which takes room.
        let mut surround = Surround::new(&self.title, Vec::new(), &notes, width);
        let mut grid = self.grid(&surround, widest_tick, (m, n));
        let widest = texts.iter().map(|t| text::width(&t.3, font::SMALL)).fold(0.0, f64::max);
        let with_text = |grid: &Grid| grid.cell.0 >= widest + 5.0 && grid.cell.1 >= 15.0;
        let write_values = with_text(&grid);
        if !write_values {
            notes.push("Cells are too small for their values; see the colour bar.".into());
            surround = Surround::new(&self.title, Vec::new(), &notes, width);
            grid = self.grid(&surround, widest_tick, (m, n));
        }

        let mut canvas = Canvas::new(theme);
        surround.draw(&mut canvas, grid.height);
        let gap = if grid.cell.0.min(grid.cell.1) > 14.0 { 1.5 } else { 0.0 };
        for (i, j, value, words) in &texts {
            let r = grid.rect(*i, *j, gap);
            let step = drawable(*value).then(|| viridis::step_of(range.share(*value)));
            // Without gaps, smooth edges would show as seams.
            let edges = if gap == 0.0 { "shape-rendering=\"crispEdges\"" } else { "" };
            canvas.rect(r, step.map_or(Ink::Shade, Ink::Step), edges);
            if write_values {
                let size = if grid.cell.0 > widest * 1.6 && grid.cell.1 > 22.0 {
                    font::LABEL
                } else {
                    font::SMALL
                };
                let (x, y) = (r.x + r.w / 2.0, r.y + r.h / 2.0 + size * 0.36);
                let ink = step.map_or(Ink::Muted, Ink::OnStep);
                let text = Text::new(words, x, y).size(size).ink(ink).anchor(Anchor::Middle);
                canvas.text(&if self.best_cell() == Some((*i, *j)) { text.bold() } else { text });
            }
        }
        self.draw_best(&mut canvas, &grid);
        self.draw_labels(&mut canvas, &grid, width);
        self.draw_bar(&mut canvas, &grid, range, &ticks, width);
        canvas.finish((width, grid.height), &self.title, &self.description(decimals))
    }

    /// Rows and columns; the longest of names and values counts.
    fn shape(&self) -> (usize, usize) {
        let longest = self.values.iter().map(Vec::len).max().unwrap_or(0);
        (self.rows.len().max(self.values.len()), self.columns.len().max(longest))
    }

    fn cells(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let (m, n) = self.shape();
        let value = |i: usize, j: usize| self.values.get(i).and_then(|row| row.get(j)).copied();
        (0..m).flat_map(move |i| (0..n).map(move |j| (i, j, value(i, j).unwrap_or(f64::NAN))))
    }

    fn best_cell(&self) -> Option<(usize, usize)> {
        let sign = match self.best {
            Best::Unmarked => return None,
            Best::Highest => 1.0,
            Best::Lowest => -1.0,
        };
        let mut best: Option<(usize, usize, f64)> = None;
        for (i, j, v) in self.cells().filter(|c| drawable(c.2)) {
            if best.is_none_or(|(_, _, b)| sign * v > sign * b) {
                best = Some((i, j, v));
            }
        }
        best.map(|(i, j, _)| (i, j))
    }

    fn grid(&self, surround: &Surround, widest_tick: f64, (m, n): (usize, usize)) -> Grid {
        let Size { width, height } = self.size.sane();
        let widest = |names: &[String]| {
            names.iter().map(|name| text::width(name, font::SMALL)).fold(0.0, f64::max)
        };
        let label_room = widest(&self.rows).min(width * 0.3);
        let value_lines = text::wrap(&self.value_label, font::LABEL, false, height * 0.6, 1);
        let right = EDGE + widest_tick + 6.0 + BAR + 20.0 + value_lines.len() as f64 * LABEL_LINE;
        let top = surround.top();
        let y_lines = text::wrap(&self.y_label, font::LABEL, false, height * 0.6, 1);
        let left = EDGE
            + y_lines.len() as f64 * (LABEL_LINE + 4.0)
            + if label_room > 0.0 { label_room + 8.0 } else { 0.0 };
        let mut area = Rect { x: left, y: top, w: width - left - right, h: 0.0 };
        let x_lines = text::wrap(&self.x_label, font::LABEL, false, area.w.max(60.0), 2);
        let cell_w = area.w / n as f64;
        let turned = widest(&self.columns) + 6.0 > cell_w && widest(&self.columns) > 20.0;
        let column_room = if turned { widest(&self.columns).min(110.0) } else { 0.0 };
        let under = match (self.columns.is_empty(), turned) {
            (true, _) => 2.0,
            (false, false) => 20.0,
            // Turned by 45 degrees.
            (false, true) => column_room * 0.72 + 14.0,
        };
        let below = under + x_lines.len() as f64 * LABEL_LINE + 5.0 + surround.bottom();
        area.h = (height - top - below).max(100.0).min(m as f64 * 56.0);
        // A few rows need little height, but a colour bar needs some.
        area.h = area.h.max(100.0);
        let cell = (cell_w, area.h / m as f64);
        let height = top + area.h + below;
        Grid { area, height, cell, y_lines, x_lines, value_lines, label_room, turned, column_room }
    }

    fn draw_best(&self, canvas: &mut Canvas, grid: &Grid) {
        if let Some((i, j)) = self.best_cell() {
            // Two outlines: one of them stands out, whatever the colour of the cell.
            for (ink, width) in [(Ink::Paper, "5"), (Ink::Text, "2.5")] {
                let r = grid.rect(i, j, 0.5);
                let d = format!(
                    "M{} {}h{}v{}h-{}z",
                    number::Px(r.x),
                    number::Px(r.y),
                    number::Px(r.w),
                    number::Px(r.h),
                    number::Px(r.w)
                );
                let more = format!("stroke-width=\"{width}\" stroke-linejoin=\"round\"");
                canvas.path(&d, None, Some(ink), &more);
            }
        }
    }

    fn draw_labels(&self, canvas: &mut Canvas, grid: &Grid, width: f64) {
        let area = grid.area;
        let every = (13.0 / grid.cell.1).ceil().max(1.0) as usize;
        for (i, name) in self.rows.iter().enumerate().step_by(every) {
            let y = area.y + (i as f64 + 0.5) * grid.cell.1 + 3.9;
            let name = text::shorten(name, font::SMALL, grid.label_room + 0.5);
            canvas.text(&Text::new(&name, area.x - 7.0, y).ink(Ink::Text).anchor(Anchor::End));
        }
        let every = if grid.turned { (15.0 / grid.cell.0).ceil().max(1.0) as usize } else { 1 };
        for (j, name) in self.columns.iter().enumerate().step_by(every) {
            let x = area.x + (j as f64 + 0.5) * grid.cell.0;
            if grid.turned {
                // A turned label may reach left of its column as far as the edge of the plot.
                let reach = ((x - 4.0) / 0.72).min(grid.column_room + 0.5);
                let name = text::shorten(name, font::SMALL, reach);
                let label = Text::new(&name, x + 4.0, area.bottom() + 13.0).ink(Ink::Text);
                canvas.text(&label.anchor(Anchor::End).turn(-45.0));
            } else {
                let label = Text::new(name, x, area.bottom() + 16.0).ink(Ink::Text);
                canvas.text(&label.anchor(Anchor::Middle));
            }
        }
        let under = match (self.columns.is_empty(), grid.turned) {
            (true, _) => 2.0,
            (false, false) => 20.0,
            (false, true) => grid.column_room * 0.72 + 14.0,
        };
        for (k, line) in grid.x_lines.iter().enumerate() {
            let y = area.bottom() + under + 16.0 + k as f64 * LABEL_LINE;
            axis_label(canvas, line, (area.x + area.w / 2.0, y), width);
        }
        for line in &grid.y_lines {
            let line = &text::shorten(line, font::LABEL, area.h);
            let (x, y) = (EDGE + 10.0, area.y + area.h / 2.0);
            let label = Text::new(line, x, y).size(font::LABEL).ink(Ink::Text);
            canvas.text(&label.anchor(Anchor::Middle).turn(-90.0));
        }
    }

    fn draw_bar(
        &self,
        canvas: &mut Canvas,
        grid: &Grid,
        range: Axis,
        ticks: &[super::scale::Tick],
        width: f64,
    ) {
        let area = grid.area;
        let left = area.right() + 20.0;
        let high = area.h / viridis::STEPS as f64;
        for step in 0..viridis::STEPS {
            // Half a pixel of overlap hides the seams between steps.
            let y = area.bottom() - (step as f64 + 1.0) * high;
            let more = if step == 0 { 0.0 } else { 0.5 };
            canvas.rect(Rect { x: left, y, w: BAR, h: high + more }, Ink::Step(step), "");
        }
        for tick in ticks {
            let y = area.bottom() - range.share(tick.value) * area.h;
            canvas.line((left + BAR, y), (left + BAR + 3.0, y), Ink::Axis, "");
            canvas.text(&Text::new(&tick.label, left + BAR + 6.0, y + 3.9));
        }
        for line in &grid.value_lines {
            let line = &text::shorten(line, font::LABEL, area.h);
            let (x, y) = (width - EDGE + 2.0, area.y + area.h / 2.0);
            let label = Text::new(line, x, y).size(font::LABEL).ink(Ink::Text);
            canvas.text(&label.anchor(Anchor::Middle).turn(-90.0));
        }
    }

    fn description(&self, decimals: usize) -> String {
        let (m, n) = self.shape();
        let mut out = format!(
            "Matrix of {} with {} and {}.",
            if self.value_label.is_empty() { "values" } else { &self.value_label },
            number::count(m, "row", "rows"),
            number::count(n, "column", "columns")
        );
        if let Some((i, j)) = self.best_cell() {
            let name = |names: &[String], k: usize| {
                names.get(k).cloned().unwrap_or_else(|| (k + 1).to_string())
            };
            let value = self.values[i][j];
            let _ = write!(
                out,
                " Best: {} in row {}, column {}.",
                number::fixed(value, decimals),
                name(&self.rows, i),
                name(&self.columns, j)
            );
        }
        out
    }
}

impl Grid {
    fn rect(&self, i: usize, j: usize, gap: f64) -> Rect {
        let (w, h) = self.cell;
        Rect {
            x: self.area.x + j as f64 * w + gap / 2.0,
            y: self.area.y + i as f64 * h + gap / 2.0,
            w: w - gap,
            h: h - gap,
        }
    }
}

/// Two significant digits of the range of the values.
fn default_decimals(values: impl Iterator<Item = f64>) -> usize {
    let (lo, hi) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
    let span = if hi > lo { hi - lo } else { hi.abs().max(1e-3) };
    (1 - span.log10().floor() as i32).clamp(0, 6) as usize
}

fn cell_text(value: f64, decimals: usize) -> String {
    if value.is_nan() {
        "–".into()
    } else if !drawable(value) || value.abs() >= 1e7 {
        number::short(value)
    } else {
        number::fixed(value, decimals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_cell_is_the_first_with_the_extreme_value() {
        let mut map = HeatMap {
            values: vec![vec![f64::NAN, 2.0, 5.0], vec![5.0, -1.0, f64::INFINITY]],
            ..HeatMap::default()
        };
        assert_eq!(map.best_cell(), None);
        map.best = Best::Highest;
        assert_eq!(map.best_cell(), Some((0, 2)));
        map.best = Best::Lowest;
        assert_eq!(map.best_cell(), Some((1, 1)));
    }

    #[test]
    fn values_get_the_decimals_that_tell_them_apart() {
        assert_eq!(default_decimals([0.91, 0.97].into_iter()), 3);
        assert_eq!(default_decimals([91.2, 97.4].into_iter()), 1);
        assert_eq!(default_decimals([100.0, 900.0].into_iter()), 0);
        assert_eq!(default_decimals([0.5].into_iter()), 2);
    }
}
