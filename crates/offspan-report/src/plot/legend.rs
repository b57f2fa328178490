//! The legend: a strip of entries above the data, in as many rows as they need.

use super::canvas::{Canvas, Rect, Text, font};
use super::marker::{Marker, dash};
use super::text;
use super::theme::Ink;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    /// A piece of the curve, with its marker if it has them.
    Line { markers: bool },
    /// A filled box with an outline.
    Fill,
    /// A marker alone.
    Marker,
}

/// An entry: the series and its name.
pub(super) struct Entry {
    pub(super) series: usize,
    pub(super) name: String,
    pub(super) sample: Sample,
}

pub(super) const ROW: f64 = 20.0;
const GAP: f64 = 20.0;
const TO_NAME: f64 = 7.0;

fn sample_width(sample: Sample) -> f64 {
    match sample {
        Sample::Line { .. } => 30.0,
        Sample::Fill => 22.0,
        Sample::Marker => 10.0,
    }
}

/// The left end and the row of every entry, and its name as it fits.
///
/// One after the other if a row holds them all; otherwise in columns, unless these would waste rows.
pub(super) fn lay_out(entries: &[Entry], room: f64) -> Vec<(f64, usize, String)> {
    let mut sized = Vec::new();
    for entry in entries {
        let head = sample_width(entry.sample) + TO_NAME;
        let name = text::shorten(&entry.name, font::LABEL, room - head).into_owned();
        sized.push((head + text::width(&name, font::LABEL), name));
    }
    let widest = sized.iter().map(|s| s.0).fold(0.0, f64::max);
    let columns = (((room + GAP) / (widest + GAP)) as usize).max(1);

    let (mut x, mut row) = (0.0, 0);
    let mut flow = Vec::new();
    for (wide, name) in &sized {
        if x > 0.0 && x + wide > room {
            (x, row) = (0.0, row + 1);
        }
        flow.push((x, row, name.clone()));
        x += wide + GAP;
    }
    if row == 0 || sized.len().div_ceil(columns) > row + 2 {
        return flow;
    }
    let place = |(k, (_, name)): (usize, (f64, String))| {
        ((k % columns) as f64 * (widest + GAP), k / columns, name)
    };
    sized.into_iter().enumerate().map(place).collect()
}

pub(super) fn rows(places: &[(f64, usize, String)]) -> usize {
    places.last().map_or(0, |(_, row, _)| row + 1)
}

/// Draws the strip with its upper left corner at a point.
pub(super) fn draw(
    canvas: &mut Canvas,
    entries: &[Entry],
    places: &[(f64, usize, String)],
    (left, top): (f64, f64),
) {
    for (entry, (x, row, name)) in entries.iter().zip(places) {
        let (x, middle) = (left + x, top + ROW * (*row as f64 + 0.5));
        let (ink, wide) = (Ink::Series(entry.series), sample_width(entry.sample));
        let mut d = String::new();
        match entry.sample {
            Sample::Line { markers } => {
                let style = format!("stroke-width=\"2\" {}", dash(entry.series));
                canvas.line((x, middle), (x + wide, middle), ink, style.trim_end());
                if markers {
                    Marker::of(entry.series).draw(&mut d, (x + wide / 2.0, middle), 3.2);
                    canvas.path(&d, Some(ink), None, "");
                }
            }
            Sample::Fill => {
                let square = Rect { x: x + 0.5, y: middle - 5.5, w: wide - 1.0, h: 11.0 };
                let more =
                    format!("fill-opacity=\".3\" stroke-width=\"1.5\" {}", dash(entry.series));
                let d = format!("M{} {}h{}v11h-{}z", square.x, square.y, square.w, square.w);
                canvas.path(&d, Some(ink), Some(ink), more.trim_end());
            }
            Sample::Marker => {
                Marker::of(entry.series).draw(&mut d, (x + wide / 2.0, middle), 4.0);
                canvas.path(&d, Some(ink), None, "");
            }
        }
        let label = Text::new(name, x + wide + TO_NAME, middle + 4.2).size(font::LABEL);
        canvas.text(&label.ink(Ink::Text));
    }
}
