//! Curves: ROC, precision and recall, sweeps over a parameter.

use std::fmt::Write as _;

use super::Size;
use super::canvas::{Anchor, Canvas, Rect, Text, font};
use super::frame::{Frame, Layout, nothing};
use super::legend::{Entry, Sample};
use super::marker::{Marker, dash};
use super::number::{self, Px};
use super::place::Places;
use super::scale::{Axis, Scale, drawable};
use super::series::{Curve, PointMark, Reference};
use super::text;
use super::theme::{Ink, Theme};
use super::thin::thin;

/// Intervals of more points than this are drawn as a band.
const BARS_UP_TO: usize = 40;

/// Named curves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// What is to be seen, in a sentence.
    pub title: String,
    /// What runs from left to right.
    pub x_label: String,
    /// What runs from bottom to top.
    pub y_label: String,
    /// The scale of the x axis.
    pub x_scale: Scale,
    /// The ends of the x axis; from the data if not given.
    pub x_range: Option<(f64, f64)>,
    /// The ends of the y axis; from the data if not given.
    pub y_range: Option<(f64, f64)>,
    /// The curves, in the order of their colours.
    pub curves: Vec<Curve>,
    /// Lines for comparison.
    pub references: Vec<Reference>,
    /// Points worth a ring and a label.
    pub marks: Vec<PointMark>,
    /// Width and height.
    pub size: Size,
}

impl Lines {
    /// The plot as an SVG document.
    #[must_use]
    pub fn svg(&self, theme: Theme) -> String {
        let Some((x, y)) = self.axes() else {
            return nothing(&self.title, &self.why_nothing(), self.size, theme);
        };
        let entry = |(k, curve): (usize, &Curve)| Entry {
            series: k,
            name: curve.name.clone(),
            sample: Sample::Line { markers: curve.markers },
        };
        let named = self.curves.iter().enumerate().filter(|(_, c)| !c.name.is_empty());
        let layout = Layout::new(Frame {
            title: &self.title,
            x_label: &self.x_label,
            y_label: &self.y_label,
            x,
            y,
            x_values: self.distinct_x(),
            bare: false,
            legend: named.map(entry).collect(),
            notes: self.notes(x, y),
            size: self.size,
        });
        let mut canvas = Canvas::new(theme);
        layout.draw_back(&mut canvas, None);
        layout.draw_axis(&mut canvas);
        let mut places = Places::new(layout.area);
        let margin = 4.0;
        let area = layout.area;
        canvas.open_clip(Rect {
            x: area.x - margin,
            y: area.y - margin,
            w: area.w + 2.0 * margin,
            h: area.h + 2.0 * margin,
        });
        self.draw_reference_lines(&mut canvas, &layout, &mut places);
        for (k, curve) in self.curves.iter().enumerate() {
            self.draw_intervals(&mut canvas, &layout, &mut places, k, curve);
        }
        // The first curve is drawn last, on top: it is the one the plot is about.
        for (k, curve) in self.curves.iter().enumerate().rev() {
            self.draw_curve(&mut canvas, &layout, &mut places, k, curve);
        }
        canvas.close_clip();
        self.draw_marks(&mut canvas, &layout, &mut places);
        self.draw_reference_labels(&mut canvas, &layout, &mut places);
        canvas.finish(layout.size, &self.title, &self.description())
    }

    fn can_draw(&self, (x, y): (f64, f64)) -> bool {
        self.x_scale.can_draw(x) && drawable(y)
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let all = self.curves.iter().flat_map(|curve| curve.points.iter().copied());
        all.filter(|&p| self.can_draw(p))
    }

    fn axes(&self) -> Option<(Axis, Axis)> {
        self.points().next()?;
        let marks = || self.marks.iter().map(|m| (m.x, m.y)).filter(|&p| self.can_draw(p));
        let x = match self.x_range {
            Some((lo, hi)) => Axis::new(self.x_scale, lo, hi),
            None => {
                let margin = if self.curves.iter().any(|c| c.markers) { 0.03 } else { 0.0 };
                let values = self.points().chain(marks()).map(|p| p.0);
                Axis::around_or_from_zero(self.x_scale, values, (margin, margin))?
            }
        };
        let y = match self.y_range {
            Some((lo, hi)) => Axis::new(Scale::Linear, lo, hi),
            None => {
                let ends = self.curves.iter().flat_map(|c| c.intervals.iter());
                let ends = ends.flat_map(|&(lo, hi)| [lo, hi]);
                let level = self.references.iter().filter_map(|r| match r {
                    Reference::Horizontal { at, .. } => Some(*at),
                    _ => None,
                });
                let values = self.points().chain(marks()).map(|p| p.1).chain(ends).chain(level);
                // Labels of marks often stand above the highest point.
                let above = if self.marks.is_empty() { 0.06 } else { 0.15 };
                Axis::around_or_from_zero(Scale::Linear, values, (0.06, above))?
            }
        };
        Some((x, y))
    }

    fn distinct_x(&self) -> Vec<f64> {
        let mut values: Vec<f64> = Vec::new();
        for (x, _) in self.points() {
            if !values.contains(&x) {
                values.push(x);
            }
            if values.len() > 12 {
                return Vec::new();
            }
        }
        values.sort_unstable_by(f64::total_cmp);
        values
    }

    fn draw_curve(
        &self,
        canvas: &mut Canvas,
        layout: &Layout,
        places: &mut Places,
        k: usize,
        curve: &Curve,
    ) {
        let (mut d, mut shapes) = (String::new(), String::new());
        let runs = curve.points.split(|&p| !self.can_draw(p)).filter(|run| !run.is_empty());
        for run in runs {
            let pixels: Vec<_> = run.iter().map(|&(x, y)| (layout.x(x), layout.y(y))).collect();
            let thinned = thin(&pixels);
            for pair in thinned.windows(2) {
                places.avoid_line(pair[0], pair[1]);
            }
            polyline(&mut d, &thinned);
            if curve.markers {
                // On a dense curve every marker would hide its neighbours.
                let every = pixels.len().div_ceil(60);
                for &at in pixels.iter().step_by(every) {
                    Marker::of(k).draw(&mut shapes, at, 3.2);
                }
            } else if let [only] = pixels[..] {
                Marker::of(k).draw(&mut shapes, only, 3.2);
            }
        }
        let style = format!(
            "stroke-width=\"{}\" stroke-linejoin=\"round\" {}",
            if k == 0 { "2.2" } else { "1.8" },
            dash(k)
        );
        canvas.path(&d, None, Some(Ink::Series(k)), style.trim_end());
        canvas.path(&shapes, Some(Ink::Series(k)), Some(Ink::Paper), "stroke-width=\".8\"");
    }

    fn draw_intervals(
        &self,
        canvas: &mut Canvas,
        layout: &Layout,
        places: &mut Places,
        k: usize,
        curve: &Curve,
    ) {
        let whole = curve.points.iter().zip(&curve.intervals);
        let drawn: Vec<(f64, f64, f64)> = whole
            .filter(|(p, (lo, hi))| self.can_draw(**p) && drawable(*lo) && drawable(*hi))
            .map(|(p, (lo, hi))| (layout.x(p.0), layout.y(*lo), layout.y(*hi)))
            .collect();
        let ink = Ink::Series(k);
        let mut d = String::new();
        if drawn.len() > BARS_UP_TO {
            let mut band = thin(&drawn.iter().map(|t| (t.0, t.2)).collect::<Vec<_>>());
            band.extend(thin(&drawn.iter().rev().map(|t| (t.0, t.1)).collect::<Vec<_>>()));
            polyline(&mut d, &band);
            canvas.path(&d, Some(ink), None, "fill-opacity=\".16\"");
            return;
        }
        for (x, lo, hi) in drawn {
            places.avoid_line((x, lo), (x, hi));
            let (left, lo, hi) = (Px(x - 3.0), Px(lo), Px(hi));
            let _ = write!(d, "M{left} {hi}h6M{} {hi}V{lo}M{left} {lo}h6", Px(x));
        }
        canvas.path(&d, None, Some(ink), "stroke-width=\"1.2\" stroke-opacity=\".75\"");
    }

    fn draw_reference_lines(&self, canvas: &mut Canvas, layout: &Layout, places: &mut Places) {
        for reference in &self.references {
            if let Some((from, to)) = reference_ends(reference, layout) {
                canvas.line(from, to, Ink::Muted, "stroke-dasharray=\"3 3\"");
                places.avoid_line(from, to);
            }
        }
    }

    fn draw_reference_labels(&self, canvas: &mut Canvas, layout: &Layout, places: &mut Places) {
        let area = layout.area;
        for reference in &self.references {
            let Some((from, to)) = reference_ends(reference, layout) else { continue };
            let (Reference::Vertical { label, .. }
            | Reference::Horizontal { label, .. }
            | Reference::Diagonal { label }) = reference;
            if label.is_empty() {
                continue;
            }
            let label = text::shorten(label, font::SMALL, area.w - 12.0);
            let (w, h) = (text::width(&label, font::SMALL), 14.0);
            let at = |x: f64, y: f64| Rect { x, y, w, h };
            let candidates: Vec<Rect> = match reference {
                Reference::Vertical { .. } => [0.0, 1.0, 0.5, 0.25, 0.75]
                    .into_iter()
                    .flat_map(|s| {
                        let y = area.y + 4.0 + s * (area.h - h - 8.0);
                        [at(from.0 + 6.0, y), at(from.0 - 6.0 - w, y)]
                    })
                    .collect(),
                Reference::Horizontal { .. } => [1.0, 0.0]
                    .into_iter()
                    .chain((1..20).map(|k| f64::from(k) / 20.0))
                    .flat_map(|s| {
                        let x = area.x + 6.0 + s * (area.w - w - 12.0);
                        [at(x, from.1 - h - 3.0), at(x, from.1 + 4.0)]
                    })
                    .collect(),
                Reference::Diagonal { .. } => [0.6, 0.4, 0.75, 0.25]
                    .into_iter()
                    .flat_map(|s| {
                        let (x, y) = (from.0 + s * (to.0 - from.0), from.1 + s * (to.1 - from.1));
                        [at(x + 8.0, y + 6.0), at(x - 8.0 - w, y - h - 6.0)]
                    })
                    .collect(),
            };
            let place = candidates[places.take(&candidates)];
            let left = place.x.clamp(area.x + 2.0, (area.right() - w - 2.0).max(area.x + 2.0));
            canvas.text(&Text::new(&label, left, place.y + 11.0).halo());
        }
    }

    fn draw_marks(&self, canvas: &mut Canvas, layout: &Layout, places: &mut Places) {
        let area = layout.area;
        let drawn = |m: &&PointMark| self.can_draw((m.x, m.y)) && layout.shows(m.x, m.y);
        for mark in self.marks.iter().filter(drawn) {
            let (x, y) = (layout.x(mark.x), layout.y(mark.y));
            places.avoid(Rect { x: x - 6.0, y: y - 6.0, w: 12.0, h: 12.0 });
        }
        for mark in self.marks.iter().filter(drawn) {
            let (x, y) = (layout.x(mark.x), layout.y(mark.y));
            let mut ring = String::new();
            Marker::Circle.draw(&mut ring, (x, y), 5.5);
            canvas.path(&ring, None, Some(Ink::Text), "stroke-width=\"1.8\"");
            if mark.label.is_empty() {
                continue;
            }
            let label = text::shorten(&mark.label, font::LABEL, area.w / 1.1 - 12.0);
            let (w, h) = (text::bold_width(&label, font::LABEL), 15.0);
            let mut candidates = Vec::new();
            for far in [0.0, 14.0, 30.0] {
                let (dx, dy) = (9.0 + far / 2.0, 7.0 + far);
                candidates.extend([
                    (x + dx, y - dy - h),
                    (x - dx - w, y - dy - h),
                    (x + dx, y + dy),
                    (x - dx - w, y + dy),
                    (x - w / 2.0, y - dy - h - 2.0),
                    (x - w / 2.0, y + dy + 2.0),
                    (x + dx + 2.0, y - h / 2.0),
                    (x - dx - 2.0 - w, y - h / 2.0),
                ]);
            }
            let rects: Vec<Rect> = candidates.iter().map(|&(x, y)| Rect { x, y, w, h }).collect();
            let place = rects[places.take(&rects)];
            let left = place.x.clamp(area.x + 2.0, (area.right() - w - 2.0).max(area.x + 2.0));
            let text = Text::new(&label, left, place.y + 12.0).size(font::LABEL).bold();
            canvas.text(&text.ink(Ink::Text).halo().anchor(Anchor::Start));
        }
    }

    fn why_nothing(&self) -> String {
        let given: usize = self.curves.iter().map(|c| c.points.len()).sum();
        if given == 0 {
            return "Nothing to draw: there are no points.".into();
        }
        let positive = if self.x_scale == Scale::Log { " with x above zero" } else { "" };
        let points = number::count(given, "point", "points");
        format!("Nothing to draw: {points} given, none of them finite{positive}.")
    }

    fn notes(&self, x: Axis, y: Axis) -> Vec<String> {
        let mut notes = Vec::new();
        let count = |holds: &dyn Fn(&(f64, f64)) -> bool| {
            self.curves.iter().flat_map(|c| &c.points).filter(|p| holds(p)).count()
        };
        let undrawable = count(&|&p| !self.can_draw(p));
        if undrawable > 0 {
            let why = if self.x_scale == Scale::Log {
                "not finite, or x not positive"
            } else {
                "not finite"
            };
            notes.push(format!(
                "Not drawn: {} ({why}).",
                number::count(undrawable, "point", "points")
            ));
        }
        let outside = count(&|&p| self.can_draw(p) && !(x.contains(p.0) && y.contains(p.1)));
        if outside > 0 {
            let points = number::count(outside, "point lies", "points lie");
            notes.push(format!("{points} outside the axes."));
        }
        for curve in self.curves.iter().filter(|c| !c.points.iter().any(|&p| self.can_draw(p))) {
            notes.push(format!("{} has no points.", curve.name));
        }
        for reference in &self.references {
            let (at, label, axis) = match reference {
                Reference::Vertical { at, label } => (*at, label, x),
                Reference::Horizontal { at, label } => (*at, label, y),
                Reference::Diagonal { .. } => continue,
            };
            if !axis.contains(at) {
                notes.push(format!("{label} ({}) lies off the axis.", number::short(at)));
            }
        }
        let mut heights = self.points().map(|p| p.1);
        if let Some(first) = heights.next() {
            let rest: Vec<f64> = heights.collect();
            if rest.len() > 1 && rest.iter().all(|&v| v == first) {
                notes.push(format!("All values equal {}.", number::short(first)));
            }
        }
        notes
    }

    fn description(&self) -> String {
        let curves = number::count(self.curves.len(), "curve", "curves");
        let mut out = format!("{curves}: {} against {}.", self.y_label, self.x_label);
        for curve in &self.curves {
            let mut ends = curve.points.iter().filter(|&&p| self.can_draw(p));
            if let Some(first) = ends.next() {
                let last = ends.next_back().unwrap_or(first);
                let show =
                    |p: &(f64, f64)| format!("({}, {})", number::short(p.0), number::short(p.1));
                let _ = write!(out, " {} from {} to {}.", curve.name, show(first), show(last));
            }
        }
        for mark in &self.marks {
            let _ = write!(
                out,
                " Marked: {} at ({}, {}).",
                mark.label,
                number::short(mark.x),
                number::short(mark.y)
            );
        }
        out
    }
}

/// Both ends of a reference line, if it crosses the area.
fn reference_ends(reference: &Reference, layout: &Layout) -> Option<((f64, f64), (f64, f64))> {
    let area = layout.area;
    match *reference {
        Reference::Vertical { at, .. } => layout.shows_x(at).then(|| {
            let x = layout.x(at);
            ((x, area.y), (x, area.bottom()))
        }),
        Reference::Horizontal { at, .. } => layout.shows_y(at).then(|| {
            let y = layout.y(at);
            ((area.x, y), (area.right(), y))
        }),
        Reference::Diagonal { .. } => Some(((area.x, area.bottom()), (area.right(), area.y))),
    }
}

/// Appends a line through points.
fn polyline(d: &mut String, points: &[(f64, f64)]) {
    for (k, &(x, y)) in points.iter().enumerate() {
        let _ = write!(d, "{}{} {}", if k == 0 { 'M' } else { 'L' }, Px(x), Px(y));
    }
}
