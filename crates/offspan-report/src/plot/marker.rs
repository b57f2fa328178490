//! Second cues beside colour: marker shapes and dash patterns.

use std::fmt::Write as _;

use super::number::Px;
use super::theme::SERIES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Circle,
    Triangle,
    Square,
    Diamond,
    Cross,
}

impl Marker {
    /// The shape of a series.
    pub(super) fn of(series: usize) -> Self {
        use Marker::{Circle, Cross, Diamond, Square, Triangle};
        [Circle, Triangle, Square, Diamond, Cross][series % 5]
    }

    /// Appends the shape to a path; `r` is the radius of a circle, and the others cover about the
    /// same area.
    pub(super) fn draw(self, d: &mut String, (x, y): (f64, f64), r: f64) {
        let _ = match self {
            Self::Circle => {
                let (r, two) = (Px(r), Px(2.0 * r));
                write!(d, "M{} {}a{r} {r} 0 1 1 {two} 0a{r} {r} 0 1 1-{two} 0", Px(x - r.0), Px(y))
            }
            Self::Triangle => {
                let (a, b) = (1.35 * r, 2.3 * r);
                write!(d, "M{} {}l{} {}h-{}z", Px(x), Px(y - a), Px(a), Px(b), Px(2.0 * a))
            }
            Self::Square => {
                let a = 1.8 * r;
                let (left, top) = (Px(x - a / 2.0), Px(y - a / 2.0));
                write!(d, "M{left} {top}h{}v{}h-{}z", Px(a), Px(a), Px(a))
            }
            Self::Diamond => {
                let a = Px(1.35 * r);
                write!(d, "M{} {}l{a} {a}l-{a} {a}l-{a}-{a}z", Px(x), Px(y - a.0))
            }
            Self::Cross => {
                // A thick ×: the outline of two bars, so that it is filled like the others.
                let (a, b) = (Px(1.3 * r), Px(0.5 * r));
                let c = Px(1.3 * r - 0.5 * r);
                write!(
                    d,
                    "M{} {}l{c} {c}l{c}-{c}l{b} {b}l-{c} {c}l{c} {c}l-{b} {b}l-{c}-{c}l-{c} {c}\
                     l-{b}-{b}l{c}-{c}l-{c}-{c}z",
                    Px(x - c.0),
                    Px(y - a.0)
                )
            }
        };
    }
}

/// The dash pattern of a series as an attribute; the first is solid.
pub(super) fn dash(series: usize) -> &'static str {
    // One further at every turn of the colours, so that colour and dash together differ for long.
    match (series + series / SERIES) % 6 {
        0 => "",
        1 => "stroke-dasharray=\"7 3\"",
        2 => "stroke-dasharray=\"2.5 2.5\"",
        3 => "stroke-dasharray=\"9 3 2.5 3\"",
        4 => "stroke-dasharray=\"13 3\"",
        _ => "stroke-dasharray=\"7 2.5 2 2.5 2 2.5\"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_and_dash_together_differ_for_the_first_twenty_series() {
        let cues: std::collections::HashSet<_> = (0..20).map(|k| (k % SERIES, dash(k))).collect();
        assert_eq!(cues.len(), 20);
    }

    #[test]
    fn colour_and_shape_together_differ_for_the_first_thirty_series() {
        let cues: std::collections::HashSet<_> =
            (0..30).map(|k| (k % SERIES, Marker::of(k) as u8)).collect();
        assert_eq!(cues.len(), 30);
    }
}
