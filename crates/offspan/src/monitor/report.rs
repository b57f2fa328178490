//! What a monitor says about a batch.

use serde::{Deserialize, Serialize};

use super::martingale::Wealth;
use crate::numeric::infinite_as_text;

/// What an alarm is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlarmKind {
    /// More rows than before are among the lowest scores: OoD rows came into the stream.
    Share,
    /// The scores moved, up or down, or changed their spread.
    Distribution,
}

/// The first row at which the evidence of one kind sufficed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Alarm {
    /// What it is about.
    pub kind: AlarmKind,
    /// Row of the stream, from 0.
    pub row: usize,
}

/// Evidence against "nothing has changed".
///
/// It is the wealth of a fair bet that began with 1: the chance that it ever reaches c without a
/// change is at most 1/c.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Evidence {
    /// The wealth after the batch, at most the largest finite number.
    pub wealth: f64,
    /// Its decimal logarithm, which has no such limit.
    pub log10: f64,
    /// The largest decimal logarithm so far in the stream.
    pub largest_log10: f64,
    /// The row, from 0, at which it sufficed for an alarm first.
    pub alarm_row: Option<usize>,
}

impl Evidence {
    pub(super) fn new(wealth: &Wealth, alarm_row: Option<usize>) -> Self {
        let log10 = |ln: f64| ln / std::f64::consts::LN_10;
        Evidence {
            wealth: wealth.ln.exp().min(f64::MAX),
            log10: log10(wealth.ln),
            largest_log10: log10(wealth.largest_ln),
            alarm_row,
        }
    }
}

/// The row of a batch that is farthest from the reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Lowest {
    /// Row of the stream, from 0; the first of several.
    pub row: usize,
    /// Its score.
    #[serde(with = "infinite_as_text")]
    pub score: f64,
}

/// A batch of a stream, and where the stream stands after it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BatchReport {
    /// Rows in the batch.
    pub rows: usize,
    /// Rows in the stream, with this batch.
    pub rows_so_far: usize,
    /// Rows of the batch with a score below the threshold.
    pub flagged: usize,
    /// Their share of the batch; 0 in an empty batch.
    pub share_flagged: f64,
    /// The lowest score of the batch; none in an empty one.
    pub lowest: Option<Lowest>,
    /// Evidence that OoD rows came into the stream.
    pub share: Evidence,
    /// Evidence that the scores moved or changed their spread.
    pub distribution: Evidence,
    /// Alarms that this batch raised. Each kind is raised once in a stream.
    pub alarms: Vec<Alarm>,
}

impl BatchReport {
    /// Whether an alarm was raised in this batch or before.
    #[must_use]
    pub fn alarmed(&self) -> bool {
        self.share.alarm_row.is_some() || self.distribution.alarm_row.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_json_even_at_the_ends_of_the_numbers() {
        let wealth = Wealth { ln: 5000.0, largest_ln: 6000.0, shares: vec![1.0] };
        let evidence = Evidence::new(&wealth, Some(3));
        let report = BatchReport {
            rows: 1,
            rows_so_far: 4,
            flagged: 1,
            share_flagged: 1.0,
            lowest: Some(Lowest { row: 3, score: f64::NEG_INFINITY }),
            share: evidence,
            distribution: evidence,
            alarms: vec![Alarm { kind: AlarmKind::Share, row: 3 }],
        };
        assert!(report.alarmed());
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["lowest"]["score"], "-inf");
        assert_eq!(json["share"]["wealth"], f64::MAX);
        assert_eq!(json["alarms"][0]["kind"], "share");
        assert!((evidence.log10 - 2_171.472_409_516).abs() < 1e-6);
    }
}
