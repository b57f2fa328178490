//! What a plot of lines is made of.

/// A named curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// The name for the legend.
    pub name: String,
    /// Points in drawing order. A point that is not finite breaks the curve.
    pub points: Vec<(f64, f64)>,
    /// The low and high end of each point's interval in y, as long as `points`, or empty.
    pub intervals: Vec<(f64, f64)>,
    /// Whether points are marked.
    pub markers: bool,
}

impl Curve {
    /// A plain curve.
    #[must_use]
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, ..Self::default() }
    }

    /// With a marker on every point.
    #[must_use]
    pub fn with_markers(self) -> Self {
        Self { markers: true, ..self }
    }

    /// With error bars, or a band when there are many points.
    #[must_use]
    pub fn with_intervals(self, intervals: Vec<(f64, f64)>) -> Self {
        Self { intervals, ..self }
    }
}

/// A line for comparison, in grey.
#[derive(Clone, Debug, PartialEq)]
pub enum Reference {
    /// At a value of x.
    Vertical {
        /// Where.
        at: f64,
        /// What it means.
        label: String,
    },
    /// At a value of y.
    Horizontal {
        /// Where.
        at: f64,
        /// What it means.
        label: String,
    },
    /// From the lower left to the upper right corner of the axes, such as chance in a ROC plot.
    Diagonal {
        /// What it means.
        label: String,
    },
}

/// A point worth a ring and a label, such as a chosen parameter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointMark {
    /// Where.
    pub x: f64,
    /// Where.
    pub y: f64,
    /// What it is.
    pub label: String,
}
