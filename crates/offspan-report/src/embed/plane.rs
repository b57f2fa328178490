//! Points of the plane while a picture is made.

/// All first coordinates, then all second ones: two slices that a loop can stream through.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plane {
    pub(super) coordinates: Vec<f64>,
}

impl Plane {
    /// This many points at the origin.
    pub(super) fn zeros(points: usize) -> Self {
        Plane { coordinates: vec![0.0; 2 * points] }
    }

    pub(super) fn len(&self) -> usize {
        self.coordinates.len() / 2
    }

    /// The sum of the squared coordinates.
    pub(super) fn spread(&self) -> f64 {
        self.coordinates.iter().map(|value| value * value).sum()
    }

    /// The first and the second coordinates.
    pub(super) fn axes(&self) -> (&[f64], &[f64]) {
        self.coordinates.split_at(self.len())
    }

    /// The first and the second coordinates, to change.
    pub(super) fn axes_mut(&mut self) -> (&mut [f64], &mut [f64]) {
        let points = self.len();
        self.coordinates.split_at_mut(points)
    }
}

/// Moves the mean to 0.
pub(super) fn centre(values: &mut [f64]) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter_mut().for_each(|value| *value -= mean);
}
