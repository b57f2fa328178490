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
        if self.below == 0 {
            return true;
        }
        #[cfg(test)]
        LOOKED_AT.set(LOOKED_AT.get() + 1);
        mix(self.seed ^ mix(row as u64)) >= self.below
    }

    /// The held-out rows among the first `rows`. It takes a look at the number of each of them.
    pub fn held_out(self, rows: usize) -> impl Iterator<Item = usize> {
        let rows = if self.below == 0 { 0 } else { rows };
        (0..rows).filter(move |&row| !self.keeps(row))
    }
}

#[cfg(test)]
thread_local! {
    /// How many row numbers were hashed on this thread.
    pub(crate) static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The rows that have these ranks (ascending) among those that are not held out.
pub(crate) fn at_ranks(
    held_out: &[usize],
    ranks: impl IntoIterator<Item = usize>,
) -> impl Iterator<Item = usize> {
    let mut before = 0;
    ranks.into_iter().map(move |rank| {
        while held_out.get(before).is_some_and(|&held| held <= rank + before) {
            before += 1;
        }
        rank + before
    })
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
    fn rows_are_found_by_their_rank_among_the_others() {
        for share in [0.0, 0.02, 0.5, 0.98, 1.0] {
            let hold_out = HoldOut::new(share, 3);
            let held_out: Vec<usize> = hold_out.held_out(500).collect();
            let kept: Vec<usize> = (0..500).filter(|&row| hold_out.keeps(row)).collect();
            for step in [1, 7] {
                let found = at_ranks(&held_out, (0..kept.len()).step_by(step));
                assert!(found.eq(kept.iter().copied().step_by(step)), "{share}, every {step}");
            }
        }
    }

    #[test]
    fn seeds_choose_different_rows() {
        let rows = |seed| HoldOut::new(0.5, seed).held_out(64).collect::<Vec<_>>();
        assert_eq!(rows(1), rows(1));
        assert_ne!(rows(1), rows(2));
    }
}
