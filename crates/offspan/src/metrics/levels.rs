//! The one sort behind every metric.
//!
//! Every metric depends on the scores through counts only: how many `InD` and how many `OoD` rows
//! lie under, at and above each distinct score. [`Levels`] holds those counts. Rows with equal
//! scores share a level, so ties can never be broken by the order in which rows arrived.

use super::error::{IND, MetricError, OOD, check_scores};

/// One distinct score and the rows that have it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Level {
    pub(super) score: f64,
    pub(super) ind: usize,
    pub(super) ood: usize,
}

/// Both sets, merged and sorted by score.
///
/// Invariants: `score` strictly increases; the `ind` (`ood`) counts sum to `n_ind` (`n_ood`), both
/// at least 1. A level's own counts may be 0: a resample keeps the levels it did not draw.
#[derive(Debug, Clone)]
pub(super) struct Levels {
    pub(super) distinct: Vec<Level>,
    pub(super) n_ind: usize,
    pub(super) n_ood: usize,
}

/// A level together with the rows strictly under it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) ind: usize,
    pub(super) ood: usize,
    pub(super) ind_below: usize,
    pub(super) ood_below: usize,
}

impl Step {
    /// `InD` rows at or under this level.
    pub(super) fn ind_through(self) -> usize {
        self.ind_below + self.ind
    }

    /// `OoD` rows at or under this level.
    pub(super) fn ood_through(self) -> usize {
        self.ood_below + self.ood
    }
}

impl Levels {
    /// Checks, merges and sorts two sets of scores: O((n + m) log(n + m)).
    pub(super) fn merge(ind: &[f64], ood: &[f64]) -> Result<Self, MetricError> {
        check_scores(IND, ind)?;
        check_scores(OOD, ood)?;
        let mut rows: Vec<(f64, bool)> = Vec::with_capacity(ind.len() + ood.len());
        rows.extend(ind.iter().map(|&score| (score, true)));
        rows.extend(ood.iter().map(|&score| (score, false)));
        // The total order puts -0.0 under 0.0. They stay neighbours, and the comparison with `==`
        // below joins them again.
        rows.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));

        let mut distinct: Vec<Level> = Vec::new();
        for (score, is_ind) in rows {
            let (ind, ood) = (usize::from(is_ind), usize::from(!is_ind));
            match distinct.last_mut() {
                #[allow(clippy::float_cmp, reason = "a tie is exact equality, nothing less")]
                Some(last) if last.score == score => {
                    last.ind += ind;
                    last.ood += ood;
                }
                _ => distinct.push(Level { score, ind, ood }),
            }
        }
        Ok(Self { distinct, n_ind: ind.len(), n_ood: ood.len() })
    }

    /// The levels from the lowest score to the highest, with running counts.
    pub(super) fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.distinct.iter().scan((0, 0), |(ind_below, ood_below), level| {
            let step = Step {
                ind: level.ind,
                ood: level.ood,
                ind_below: *ind_below,
                ood_below: *ood_below,
            };
            *ind_below += level.ind;
            *ood_below += level.ood;
            Some(step)
        })
    }

    /// The position of the level that holds `score`, a score of one of the merged rows.
    pub(super) fn position(&self, score: f64) -> usize {
        self.distinct.partition_point(|level| level.score < score)
    }
}

/// A number of rows as a float.
#[allow(clippy::cast_precision_loss, reason = "exact below 2^53 rows, more than memory holds")]
pub(super) fn count(rows: usize) -> f64 {
    rows as f64
}

/// `part / whole`, correctly rounded: the double nearest to the exact fraction.
pub(super) fn share(part: usize, whole: usize) -> f64 {
    count(part) / count(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scores_share_a_level_whatever_their_set() {
        let levels = Levels::merge(&[2.0, 1.0, 2.0], &[2.0, 0.5]).unwrap();
        let expected = [(0.5, 0, 1), (1.0, 1, 0), (2.0, 2, 1)].map(|(score, ind, ood)| Level {
            score,
            ind,
            ood,
        });
        assert_eq!(levels.distinct, expected);
        assert_eq!((levels.n_ind, levels.n_ood), (3, 2));
    }

    #[test]
    fn both_zeros_are_one_level() {
        let levels = Levels::merge(&[0.0, -0.0], &[-0.0, 0.0]).unwrap();
        assert_eq!(levels.distinct, [Level { score: 0.0, ind: 2, ood: 2 }]);
        assert_eq!((levels.position(0.0), levels.position(-0.0)), (0, 0));
    }

    #[test]
    fn minus_infinity_is_the_lowest_level() {
        let levels = Levels::merge(&[-1e308, f64::NEG_INFINITY], &[f64::NEG_INFINITY]).unwrap();
        assert_eq!(levels.distinct[0], Level { score: f64::NEG_INFINITY, ind: 1, ood: 1 });
        assert_eq!(levels.position(f64::NEG_INFINITY), 0);
        assert_eq!(levels.position(-1e308), 1);
    }

    #[test]
    fn steps_count_the_rows_under_and_through_each_level() {
        let levels = Levels::merge(&[2.0, 1.0, 2.0], &[2.0, 0.5]).unwrap();
        let steps: Vec<_> = levels
            .steps()
            .map(|s| (s.ind_below, s.ood_below, s.ind_through(), s.ood_through()))
            .collect();
        assert_eq!(steps, [(0, 0, 0, 1), (0, 1, 1, 1), (1, 1, 3, 2)]);
    }

    #[test]
    fn merging_checks_both_sets() {
        let nan = [0.0, f64::NAN];
        assert_eq!(Levels::merge(&[], &[1.0]).unwrap_err(), MetricError::Empty { which: IND });
        assert_eq!(Levels::merge(&[1.0], &[]).unwrap_err(), MetricError::Empty { which: OOD });
        let error = Levels::merge(&nan, &[1.0]).unwrap_err();
        assert_eq!(error, MetricError::NotANumber { which: IND, row: 1 });
        let error = Levels::merge(&[1.0], &nan).unwrap_err();
        assert_eq!(error, MetricError::NotANumber { which: OOD, row: 1 });
    }
}
