//! When to stop: a measured value no longer goes down.

/// Watches a value that shall become small.
pub(super) struct Plateau {
    /// The share of the last good value that counts as improvement.
    tolerance: f64,
    /// Measurements without improvement that end the work.
    patience: usize,
    reference: f64,
    since: usize,
}

impl Plateau {
    pub(super) fn new(tolerance: f64, patience: usize) -> Self {
        Plateau { tolerance, patience, reference: f64::INFINITY, since: 0 }
    }

    /// Takes a measurement of at least 0; whether it is time to stop. What is no number is no
    /// improvement.
    pub(super) fn reached(&mut self, value: f64) -> bool {
        if value < self.reference * (1.0 - self.tolerance) {
            (self.reference, self.since) = (value, 0);
        } else {
            self.since += 1;
        }
        self.since >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_improvements_do_not_count_but_add_up() {
        let mut plateau = Plateau::new(0.01, 3);
        let got: Vec<bool> = [1.0, 0.995, 0.992, 0.98, 0.98, 0.979, f64::NAN]
            .into_iter()
            .map(|value| plateau.reached(value))
            .collect();
        assert_eq!(got, [false, false, false, false, false, false, true]);
    }
}
