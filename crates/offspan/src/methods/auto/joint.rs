//! Residual and energy of a row joined to one score.

use ndarray::ArrayView1;

use super::scale::{Scale, Side};
use crate::Result;
use crate::methods::model::{Found, Stored};
use crate::numeric::normal::log_cdf;

/// Where most rows lie on the span itself, as repeated rows do, no weight would be large enough.
const LARGEST_WEIGHT: f64 = 10.0;

/// How both spread on in-distribution rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Joint {
    residual: Scale,
    energy: Option<Scale>,
}

impl Joint {
    /// From residuals and energies of in-distribution rows that the fit has not seen.
    pub(super) fn of(
        residuals: ArrayView1<'_, f64>,
        energies: Option<ArrayView1<'_, f64>>,
    ) -> Self {
        Joint {
            residual: Scale::of(residuals, Side::High),
            energy: energies.map(|energies| Scale::of(energies, Side::Low)),
        }
    }

    /// The weight of the residual beside the energy. Where distances concentrate, so that the residual
    /// hardly varies, it is mostly noise.
    fn weight(&self) -> f64 {
        let variation = self.residual.spread / self.residual.centre.max(f64::MIN_POSITIVE);
        (3.0 * variation).powf(1.5).min(LARGEST_WEIGHT)
    }

    /// The score; a row without residual has the worst.
    pub(super) fn score(&self, residual: f64, energy: Option<f64>) -> f64 {
        match (self.energy, energy) {
            (Some(scale), Some(energy)) if residual.is_finite() => {
                log_cdf(scale.standard(energy))
                    + self.weight() * log_cdf(-self.residual.standard(residual))
            }
            _ => -residual,
        }
    }

    pub(super) fn tell(&self, found: &mut Found) {
        self.residual.tell("residual", found);
        if let Some(energy) = &self.energy {
            energy.tell("energy", found);
            found.insert("weight of the residual".to_owned(), self.weight());
        }
    }

    pub(super) fn read(stored: Stored<'_>, with_energy: bool) -> Result<Self> {
        let energy = with_energy.then(|| Scale::read("energy", stored)).transpose()?;
        Ok(Joint { residual: Scale::read("residual", stored)?, energy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array1;

    fn joint() -> Joint {
        let spread = Array1::linspace(-1.0, 1.0, 101);
        Joint::of((&spread * 0.2 + 1.0).view(), Some((&spread * 3.0 + 10.0).view()))
    }

    #[test]
    fn a_high_energy_cannot_buy_off_a_large_residual() {
        let joint = joint();
        let ordinary = joint.score(1.0, Some(10.0));
        assert!(joint.score(2.0, Some(1e6)) < ordinary);
        assert!(joint.score(0.0, Some(0.0)) < ordinary);
        assert!(joint.score(0.9, Some(11.0)) > ordinary);
    }

    #[test]
    fn an_offset_of_all_energies_changes_nothing() {
        let spread = Array1::linspace(-1.0, 1.0, 101);
        let moved = Joint::of((&spread * 0.2 + 1.0).view(), Some((&spread * 3.0 - 90.0).view()));
        let (here, there) = (joint().score(1.2, Some(9.0)), moved.score(1.2, Some(-91.0)));
        assert!((here / there - 1.0).abs() < 1e-12, "{here} {there}");
    }

    #[test]
    fn rows_that_lie_on_the_span_leave_numbers_finite() {
        let mut residuals = Array1::zeros(101);
        residuals[100] = 0.5;
        let joint = Joint::of(residuals.view(), Some(Array1::linspace(0.0, 1.0, 101).view()));
        assert_eq!(joint.weight(), LARGEST_WEIGHT);
        let (on, off) = (joint.score(0.0, Some(0.5)), joint.score(0.5, Some(0.5)));
        assert!(on.is_finite() && off.is_finite() && off < on, "{on} {off}");
    }

    #[test]
    fn without_energy_the_residual_stands_alone() {
        let alone = Joint::of(Array1::linspace(0.0, 1.0, 11).view(), None);
        assert_eq!(alone.score(0.25, None), -0.25);
        assert_eq!(joint().score(f64::INFINITY, Some(10.0)), f64::NEG_INFINITY);
    }
}
