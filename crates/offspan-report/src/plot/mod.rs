//! Plots as SVG, and as PNG with the feature `png`.
//!
//! Each kind of plot is a struct with public fields; `svg` draws it. The same input gives the same
//! bytes. Data that cannot be drawn (nothing, NaN, infinite values) are told in words, in the
//! plot's place or in a note under it.
//!
//! ```
//! use offspan_report::plot::{Curve, Lines, Theme};
//!
//! let plot = Lines {
//!     title: "The error falls with the number of features".into(),
//!     curves: vec![Curve::new("ours", vec![(64.0, 0.4), (128.0, 0.3), (256.0, 0.25)])],
//!     ..Lines::default()
//! };
//! assert!(plot.svg(Theme::Light).starts_with("<svg"));
//! ```

mod bars;
mod canvas;
mod frame;
mod heat_map;
mod histograms;
mod legend;
mod lines;
mod marker;
mod number;
mod place;
#[cfg(feature = "png")]
mod png;
mod ranks;
mod scale;
mod scatter;
mod series;
mod text;
mod theme;
mod thin;
mod viridis;

pub(crate) use text::escape;

pub use bars::{Bar, Bars};
pub use heat_map::{Best, HeatMap};
pub use histograms::{Histograms, Set, Side, Threshold};
pub use lines::Lines;
#[cfg(feature = "png")]
pub use png::PngError;
#[cfg(feature = "png")]
pub(crate) use png::encode_pixels;
pub use ranks::Ranks;
pub use scale::Scale;
pub use scatter::{Group, Scatter};
pub use series::{Curve, PointMark, Reference};
pub use theme::{Theme, page_css};

/// Width and height in pixels. Heights grow when titles or legends need room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Pixels from left to right.
    pub width: f64,
    /// Pixels from top to bottom.
    pub height: f64,
}

impl Default for Size {
    fn default() -> Self {
        Self { width: 640.0, height: 400.0 }
    }
}

impl Size {
    /// Within bounds in which a plot can be laid out, whatever was asked for.
    fn sane(self) -> Self {
        let within = |v: f64, least: f64, usual: f64| {
            if v.is_finite() { v.clamp(least, 4000.0) } else { usual }
        };
        let usual = Self::default();
        Self {
            width: within(self.width, 280.0, usual.width),
            height: within(self.height, 200.0, usual.height),
        }
    }
}

/// A plot of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// Densities of sets of values.
    Histograms(Histograms),
    /// Curves.
    Lines(Lines),
    /// Groups of points.
    Scatter(Scatter),
    /// A matrix of values.
    HeatMap(HeatMap),
    /// Horizontal bars.
    Bars(Bars),
    /// Mean ranks with their critical difference.
    Ranks(Ranks),
}

impl Plot {
    /// The plot as an SVG document.
    #[must_use]
    pub fn svg(&self, theme: Theme) -> String {
        match self {
            Self::Histograms(plot) => plot.svg(theme),
            Self::Lines(plot) => plot.svg(theme),
            Self::Scatter(plot) => plot.svg(theme),
            Self::HeatMap(plot) => plot.svg(theme),
            Self::Bars(plot) => plot.svg(theme),
            Self::Ranks(plot) => plot.svg(theme),
        }
    }

    /// What is to be seen, in a sentence.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Self::Histograms(plot) => &plot.title,
            Self::Lines(plot) => &plot.title,
            Self::Scatter(plot) => &plot.title,
            Self::HeatMap(plot) => &plot.title,
            Self::Bars(plot) => &plot.title,
            Self::Ranks(plot) => &plot.title,
        }
    }
}

macro_rules! into_plot {
    ($($kind:ident),*) => {$(
        impl From<$kind> for Plot {
            fn from(plot: $kind) -> Self {
                Self::$kind(plot)
            }
        }
    )*};
}
into_plot!(Histograms, Lines, Scatter, HeatMap, Bars, Ranks);
