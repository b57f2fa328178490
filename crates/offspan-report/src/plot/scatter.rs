//! Groups of points: pictures of feature space.

use std::fmt::Write as _;

use super::Size;
use super::canvas::Canvas;
use super::frame::{Frame, Layout, nothing};
use super::legend::{Entry, Sample};
use super::marker::Marker;
use super::number::{self, Px};
use super::scale::{Axis, Scale, drawable};
use super::theme::{Ink, Theme};

/// A named group of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The name for the legend.
    pub name: String,
    /// Its points. Those that are not finite are counted in a note.
    pub points: Vec<(f64, f64)>,
}

impl Group {
    /// A group with a name.
    #[must_use]
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points }
    }
}

/// Groups of points, each with a colour and a shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scatter {
    /// What is to be seen, in a sentence.
    pub title: String,
    /// What runs from left to right.
    pub x_label: String,
    /// What runs from bottom to top.
    pub y_label: String,
    /// The groups, in the order of their colours.
    pub groups: Vec<Group>,
    /// Whether the points are an embedding, of which only distances mean something: no ticks, and
    /// the same scale on both axes.
    pub embedding: bool,
    /// Width and height.
    pub size: Size,
}

/// Groups are drawn in this many turns, so that none lies on top of the others.
const TURNS: usize = 24;

impl Scatter {
    /// The plot as an SVG document.
    #[must_use]
    pub fn svg(&self, theme: Theme) -> String {
        let points = || self.groups.iter().flat_map(|g| &g.points).filter(can_draw);
        let margin = 0.04;
        let x = Axis::around(Scale::Linear, points().map(|p| p.0), margin);
        let y = Axis::around(Scale::Linear, points().map(|p| p.1), margin);
        let (Some(x), Some(y)) = (x, y) else {
            return nothing(&self.title, &self.why_nothing(), self.size, theme);
        };
        let entry = |(k, group): (usize, &Group)| Entry {
            series: k,
            name: group.name.clone(),
            sample: Sample::Marker,
        };
        let named = self.groups.iter().enumerate().filter(|(_, g)| !g.name.is_empty());
        let layout = Layout::new(Frame {
            title: &self.title,
            x_label: &self.x_label,
            y_label: &self.y_label,
            x,
            y,
            x_values: Vec::new(),
            bare: self.embedding,
            legend: named.map(entry).collect(),
            notes: self.notes(),
            size: self.size,
        });
        let mut canvas = Canvas::new(theme);
        layout.draw_back(&mut canvas, None);
        layout.draw_axis(&mut canvas);

        let (radius, opacity) = match points().count() {
            0..=300 => (3.6, ".8"),
            301..=1500 => (3.0, ".7"),
            _ => (2.4, ".6"),
        };
        canvas.raw(&format!("<g fill-opacity=\"{opacity}\" stroke-opacity=\"{opacity}\">"));
        let disc = format!("stroke-width=\"{}\" stroke-linecap=\"round\"", Px(2.0 * radius));
        for turn in 0..TURNS {
            for (k, group) in self.groups.iter().enumerate() {
                let (mut d, ink, marker) = (String::new(), Ink::Series(k), Marker::of(k));
                for p in group.points.iter().skip(turn).step_by(TURNS).filter(can_draw) {
                    let (x, y) = (layout.x(p.0), layout.y(p.1));
                    match marker {
                        // The end of a thick line is the shortest way to write a disc.
                        Marker::Circle => {
                            let _ = write!(d, "M{} {}h.01", Px(x), Px(y));
                        }
                        _ => marker.draw(&mut d, (x, y), radius),
                    }
                }
                match marker {
                    Marker::Circle => canvas.path(&d, None, Some(ink), &disc),
                    _ => canvas.path(&d, Some(ink), None, ""),
                }
            }
        }
        canvas.raw("</g>");
        canvas.finish(layout.size, &self.title, &self.description())
    }

    fn why_nothing(&self) -> String {
        match self.groups.iter().map(|g| g.points.len()).sum() {
            0 => "Nothing to draw: there are no points.".into(),
            given => {
                let points = number::count(given, "point", "points");
                format!("Nothing to draw: {points} given, none of them finite.")
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let all = || self.groups.iter().flat_map(|g| &g.points);
        let missing = all().filter(|p| !can_draw(p)).count();
        if missing > 0 {
            let points = number::count(missing, "point", "points");
            notes.push(format!("Not drawn: {points} that are not finite."));
        }
        let mut drawn = all().filter(can_draw);
        if let Some(first) = drawn.next() {
            let others: Vec<_> = drawn.collect();
            if !others.is_empty() && others.iter().all(|p| *p == first) {
                notes.push("All points lie in the same place.".into());
            }
        }
        notes
    }

    fn description(&self) -> String {
        let mut out = String::from("Scatter plot.");
        for group in &self.groups {
            let points = number::count(group.points.len(), "point", "points");
            let _ = write!(out, " {}: {points}.", group.name);
        }
        out
    }
}

fn can_draw(p: &&(f64, f64)) -> bool {
    drawable(p.0) && drawable(p.1)
}
