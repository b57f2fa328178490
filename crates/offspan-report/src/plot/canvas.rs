//! The SVG document under construction.

use std::fmt::Write as _;

use super::number::Px;
use super::text::escape;
use super::theme::{Ink, Theme};

/// The fonts of the reader's system; `"Noto Sans"` is also what PNG files are set in.
const FONTS: &str =
    "system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','Helvetica Neue',Arial,sans-serif";

/// Sizes of text, in pixels.
pub(super) mod font {
    pub(in crate::plot) const TITLE: f64 = 15.0;
    pub(in crate::plot) const LABEL: f64 = 12.0;
    pub(in crate::plot) const SMALL: f64 = 11.0;
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) w: f64,
    pub(super) h: f64,
}

impl Rect {
    pub(super) fn right(&self) -> f64 {
        self.x + self.w
    }

    pub(super) fn bottom(&self) -> f64 {
        self.y + self.h
    }
}

/// Which part of a text stands at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text and how to set it.
pub(super) struct Text<'a> {
    text: &'a str,
    at: (f64, f64),
    size: f64,
    anchor: Anchor,
    ink: Ink,
    bold: bool,
    halo: bool,
    turn: f64,
}

impl<'a> Text<'a> {
    /// Small and muted, starting at a point on the base line.
    pub(super) fn new(text: &'a str, x: f64, y: f64) -> Self {
        Self {
            text,
            at: (x, y),
            size: font::SMALL,
            anchor: Anchor::Start,
            ink: Ink::Muted,
            bold: false,
            halo: false,
            turn: 0.0,
        }
    }

    pub(super) fn size(self, size: f64) -> Self {
        Self { size, ..self }
    }

    pub(super) fn anchor(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    pub(super) fn ink(self, ink: Ink) -> Self {
        Self { ink, ..self }
    }

    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// With a rim in the colour of the paper, to stay legible over lines.
    pub(super) fn halo(self) -> Self {
        Self { halo: true, ..self }
    }

    /// Turned around its position, in degrees clockwise.
    pub(super) fn turn(self, turn: f64) -> Self {
        Self { turn, ..self }
    }
}

pub(super) struct Canvas {
    theme: Theme,
    body: String,
}

impl Canvas {
    pub(super) fn new(theme: Theme) -> Self {
        Self { theme, body: String::with_capacity(8192) }
    }

    /// Anything that needs no colour from here.
    pub(super) fn raw(&mut self, svg: &str) {
        self.body.push_str(svg);
    }

    pub(super) fn text(&mut self, t: &Text<'_>) {
        let (x, y) = (Px(t.at.0), Px(t.at.1));
        let _ = write!(self.body, "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"", Px(t.size));
        match t.anchor {
            Anchor::Start => {}
            Anchor::Middle => self.raw(" text-anchor=\"middle\""),
            Anchor::End => self.raw(" text-anchor=\"end\""),
        }
        if t.bold {
            self.raw(" font-weight=\"600\"");
        }
        if t.turn != 0.0 {
            let _ = write!(self.body, " transform=\"rotate({} {x} {y})\"", Px(t.turn));
        }
        if t.halo {
            let paper = self.theme.paint(Ink::Paper);
            let _ = write!(
                self.body,
                " stroke=\"{paper}\" stroke-width=\"3\" stroke-linejoin=\"round\" \
                 paint-order=\"stroke\""
            );
        }
        let _ =
            write!(self.body, " fill=\"{}\">{}</text>", self.theme.paint(t.ink), escape(t.text));
    }

    /// A straight line; `more` holds further attributes.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink, more: &str) {
        let d = if from.1 == to.1 {
            format!("M{} {}H{}", Px(from.0), Px(from.1), Px(to.0))
        } else if from.0 == to.0 {
            format!("M{} {}V{}", Px(from.0), Px(from.1), Px(to.1))
        } else {
            format!("M{} {}L{} {}", Px(from.0), Px(from.1), Px(to.0), Px(to.1))
        };
        self.path(&d, None, Some(ink), more);
    }

    pub(super) fn rect(&mut self, r: Rect, fill: Ink, more: &str) {
        let _ = write!(
            self.body,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"{}{more}/>",
            Px(r.x),
            Px(r.y),
            Px(r.w.max(0.0)),
            Px(r.h.max(0.0)),
            self.theme.paint(fill),
            if more.is_empty() { "" } else { " " }
        );
    }

    pub(super) fn path(&mut self, d: &str, fill: Option<Ink>, stroke: Option<Ink>, more: &str) {
        if d.is_empty() {
            return;
        }
        let _ = write!(self.body, "<path d=\"{d}\"");
        match fill {
            Some(ink) => {
                let _ = write!(self.body, " fill=\"{}\"", self.theme.paint(ink));
            }
            None => self.raw(" fill=\"none\""),
        }
        if let Some(ink) = stroke {
            let _ = write!(self.body, " stroke=\"{}\"", self.theme.paint(ink));
        }
        let _ = write!(self.body, "{}{more}/>", if more.is_empty() { "" } else { " " });
    }

    /// What follows is cut off at the rectangle's edges, until [`Self::close_clip`]. A nested drawing
    /// does this without an id, which could clash with another plot's on the same page.
    pub(super) fn open_clip(&mut self, r: Rect) {
        let (x, y, w, h) = (Px(r.x), Px(r.y), Px(r.w), Px(r.h));
        let _ = write!(
            self.body,
            "<svg x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" viewBox=\"{x} {y} {w} {h}\">"
        );
    }

    pub(super) fn close_clip(&mut self) {
        self.raw("</svg>");
    }

    /// The whole document.
    pub(super) fn finish(self, (w, h): (f64, f64), title: &str, description: &str) -> String {
        let title = if title.trim().is_empty() { "Plot" } else { title };
        let (title, description) = (escape(title), escape(description));
        let (w, h) = (Px(w.ceil()), Px(h.ceil()));
        let class = if self.theme == Theme::Page { " class=\"plot\"" } else { "" };
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\"{class} width=\"{w}\" height=\"{h}\" \
             viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{title}\" \
             font-family=\"{FONTS}\"><title>{title}</title><desc>{description}</desc>"
        );
        // A page has its own background.
        if self.theme != Theme::Page {
            let paper = self.theme.paint(Ink::Paper);
            let _ = write!(out, "<rect width=\"{w}\" height=\"{h}\" fill=\"{paper}\"/>");
        }
        out.push_str(&self.body);
        out.push_str("</svg>\n");
        out
    }
}
