//! A monitor between two batches, to be stored and taken up again.

use serde::{Deserialize, Serialize};

use super::martingale::{Martingale, Wealth};
use super::ranks::Ranks;
use super::{Alarm, Monitor, MonitorOptions, SeenBatch, sorted};
use crate::{Error, Result};

/// All of a monitor but its scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MonitorState {
    options: MonitorOptions,
    reference_rows: usize,
    reference_hash: String,
    rows: usize,
    share: Wealth,
    distribution: Wealth,
    alarms: Vec<Alarm>,
    /// Files of version 1 have none.
    #[serde(default)]
    seen: Vec<SeenBatch>,
}

impl MonitorState {
    /// How many scores belong to it: those of the reference and of all rows so far.
    #[must_use]
    pub fn scores(&self) -> usize {
        self.reference_rows.saturating_add(self.rows)
    }
}

impl Monitor {
    /// The monitor in two parts: a small header, and the scores in ascending order.
    #[must_use]
    pub fn state(&self) -> (MonitorState, Vec<f64>) {
        let header = MonitorState {
            options: self.options.clone(),
            reference_rows: self.reference_rows,
            reference_hash: self.reference_hash.clone(),
            rows: self.rows,
            share: self.share.wealth().clone(),
            distribution: self.distribution.wealth().clone(),
            alarms: self.alarms.clone(),
            seen: self.seen.clone(),
        };
        (header, self.ranks.iter().collect())
    }

    /// Takes a monitor up again. It goes on exactly as if it had not been interrupted, if the
    /// header's numbers come back bit for bit (`serde_json` needs its feature `float_roundtrip`).
    ///
    /// # Errors
    /// If the scores are not as many as the header says or one is NaN, or if the header was not
    /// written by a monitor with these bets.
    pub fn from_state(header: MonitorState, scores: &[f64]) -> Result<Self> {
        if scores.len() != header.scores() {
            let expected = format!("{} scores, as its header says", header.scores());
            return Err(Error::parameter("stored monitor", expected, scores.len()));
        }
        header.options.check()?;
        let wealth_of = |bets: Martingale, wealth| {
            bets.with_wealth(wealth).ok_or_else(|| {
                Error::parameter(
                    "stored monitor",
                    "wealth on the bets of this version",
                    "another wealth",
                )
            })
        };
        if let Some(alarm) = header.alarms.iter().find(|alarm| alarm.row >= header.rows) {
            let expected = format!("alarms in its {} rows", header.rows);
            return Err(Error::parameter("stored monitor", expected, alarm.row));
        }
        Ok(Monitor {
            share: wealth_of(Martingale::share(header.options.lowest_share()), header.share)?,
            distribution: wealth_of(Martingale::distribution(), header.distribution)?,
            options: header.options,
            reference_rows: header.reference_rows,
            reference_hash: header.reference_hash,
            rows: header.rows,
            alarms: header.alarms,
            seen: header.seen,
            ranks: Ranks::from_sorted(&sorted("stored monitor", scores)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor() -> Monitor {
        let reference: Vec<f64> = (0..100).map(f64::from).collect();
        let mut monitor = Monitor::new(&reference, MonitorOptions::new(0.95, 5.0)).unwrap();
        let ood_rows = [f64::NEG_INFINITY, -1.0, 3.0].repeat(10);
        assert!(monitor.update(&ood_rows).unwrap().alarmed());
        monitor
    }

    #[test]
    fn header_and_scores_make_the_same_monitor_through_json() {
        let mut before = monitor();
        let (header, mut scores) = before.state();
        assert_eq!(header.scores(), 130);
        let text = serde_json::to_string(&header).unwrap();
        scores.reverse();
        let header: MonitorState = serde_json::from_str(&text).unwrap();
        let mut after = Monitor::from_state(header, &scores).unwrap();
        assert_eq!(after.state(), before.state());
        let batch = [50.0, -7.0, 0.0, -0.0];
        assert_eq!(after.update(&batch).unwrap(), before.update(&batch).unwrap());
    }

    #[test]
    fn refuses_parts_that_do_not_belong_together() {
        let (header, scores) = monitor().state();
        let refuses = |header: MonitorState, scores: &[f64]| {
            let error = Monitor::from_state(header, scores).unwrap_err();
            assert!(error.to_string().contains("expected"), "{error}");
        };
        refuses(header.clone(), &scores[1..]);
        refuses(header.clone(), &[&scores[1..], &[f64::NAN]].concat());
        refuses(MonitorState { rows: usize::MAX, ..header.clone() }, &scores);
        refuses(MonitorState { share: header.distribution.clone(), ..header.clone() }, &scores);
        let bad = MonitorOptions { keep: 1.0, ..header.options.clone() };
        refuses(MonitorState { options: bad, ..header.clone() }, &scores);
        let late = header.alarms.iter().map(|alarm| Alarm { row: 30, ..*alarm }).collect();
        refuses(MonitorState { alarms: late, ..header }, &scores);
    }
}
