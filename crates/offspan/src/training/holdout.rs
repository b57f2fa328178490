//! Which rows stay out of a fit, to set the threshold with.

use serde::{Deserialize, Serialize};

use crate::numeric::random::mix;

/// A seeded choice of rows to hold out. Each row is decided on its own, so no list is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldOut {
    seed: u64,
    /// Rows whose hash is below this are held out.
    below: u64,
}

impl HoldOut {
    /// Holds nothing out.
    pub const NONE: HoldOut = HoldOut { seed: 0, below: 0 };

    /// Holds out about this share (0 to 1) of the rows.
    #[must_use]
    pub fn new(share: f64, seed: u64) -> Self {
        HoldOut { seed, below: (share.clamp(0.0, 1.0) * u64::MAX as f64) as u64 }
    }

    /// Holds out about this share of all rows more. Where nothing was held out, `seed` chooses.
    #[must_use]
    pub fn widened(self, share: f64, seed: u64) -> Self {
        let more = HoldOut::new(share, seed);
        match self.below {
            0 => more,
            below => HoldOut { below: below.saturating_add(more.below), ..self },
        }
    }

    /// Whether a row is used in the fit.
    #[must_use]
    pub fn keeps(&self, row: usize) -> bool {
        self.below == 0 || mix(self.seed ^ mix(row as u64)) >= self.below
    }

    /// The held-out rows among the first `rows`.
    pub fn held_out(self, rows: usize) -> impl Iterator<Item = usize> {
        (0..rows).filter(move |&row| !self.keeps(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_out_the_share_it_was_asked_for() {
        let held = HoldOut::new(0.05, 7).held_out(100_000).count();
        assert!((4_700..5_300).contains(&held), "{held}");
        assert_eq!(HoldOut::NONE.held_out(1000).count(), 0);
        assert_eq!(HoldOut::new(0.0, 3).held_out(1000).count(), 0);
    }

    #[test]
    fn a_wider_choice_holds_out_the_same_rows_and_more() {
        let narrow = HoldOut::new(0.1, 7);
        let wide = narrow.widened(0.2, 99);
        assert!(narrow.held_out(10_000).all(|row| !wide.keeps(row)));
        let held = wide.held_out(10_000).count();
        assert!((2_800..3_200).contains(&held), "{held}");
        assert_eq!(HoldOut::NONE.widened(0.2, 5), HoldOut::new(0.2, 5));
    }

    #[test]
    fn seeds_choose_different_rows() {
        let rows = |seed| HoldOut::new(0.5, seed).held_out(64).collect::<Vec<_>>();
        assert_eq!(rows(1), rows(1));
        assert_ne!(rows(1), rows(2));
    }
}
