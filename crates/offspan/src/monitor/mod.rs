//! Drift: whether the scores of a stream still come from where the reference came from.
//!
//! Each row gets a p-value, its rank among the reference and all rows before it, with ties broken
//! by a seeded random number. As long as the reference and the stream are exchangeable (in
//! particular, independent rows from one distribution) these p-values are exactly independent and
//! uniform, whatever the distribution of the scores. Two martingales bet against that:
//!
//! - `share`: more rows than before are among the lowest scores, so OoD rows came in;
//! - `distribution`: the scores moved, up or down, or changed their spread.
//!
//! Each raises an alarm when its wealth reaches 2 / `false_alarm`. Without a change, the chance that
//! any alarm is *ever* raised, however long the stream, is at most `false_alarm` (Ville's inequality
//! for each of the two, and the union bound).
//!
//! Rows that depend on each other, such as frames of one video, are not exchangeable: a monitor
//! takes their common moves for drift, and rightly so if the reference had no such moves.
//!
//! After a change the new rows join the ranking, so the new state slowly becomes the usual one and
//! evidence stops growing. The first alarm is the news; start a new monitor after acting on it.

mod batches;
mod file;
mod martingale;
mod ranks;
mod report;
mod state;
#[cfg(test)]
mod tests;
mod uniform;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

pub use self::batches::{BATCHES_REMEMBERED, SeenBatch, id_of_name, id_of_rows, id_of_scores};
use self::martingale::Martingale;
use self::ranks::Ranks;
pub use self::report::{Alarm, AlarmKind, BatchReport, Evidence, Lowest};
pub use self::state::MonitorState;
use self::uniform::uniform;
use crate::numeric::infinite_as_text;
use crate::{Calibration, Error, Result};

/// Fewer scores than this are no reference.
const FEWEST_ROWS: usize = 20;

/// What a monitor looks for, and how sure it must be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MonitorOptions {
    /// The chance that an unchanged stream ever raises an alarm, between 0 and 1.
    pub false_alarm: f64,
    /// The share of in-distribution rows that the threshold keeps, between 0 and 1. The remaining
    /// lowest scores are those whose share is watched.
    pub keep: f64,
    /// A score below this is flagged.
    #[serde(with = "infinite_as_text")]
    pub threshold: f64,
    /// Seed of the random numbers that break ties.
    pub seed: u64,
}

impl MonitorOptions {
    /// Options for a threshold and the share it keeps, with a false-alarm chance of 0.01 and seed 0.
    #[must_use]
    pub fn new(keep: f64, threshold: f64) -> Self {
        MonitorOptions { false_alarm: 0.01, keep, threshold, seed: 0 }
    }

    fn check(&self) -> Result<()> {
        let between = |value: f64| 0.0 < value && value < 1.0;
        if !between(self.false_alarm) {
            let expected = "a chance between 0 and 1";
            return Err(Error::parameter("false alarm", expected, self.false_alarm));
        }
        // Checked as the share below: 1 − keep rounds to 1 for a tiny `keep`.
        if !between(self.lowest_share()) {
            return Err(Error::parameter("keep", "a share between 0 and 1", self.keep));
        }
        if self.threshold.is_nan() {
            return Err(Error::parameter("threshold", "a number", self.threshold));
        }
        Ok(())
    }

    /// The share of lowest scores that is watched.
    fn lowest_share(&self) -> f64 {
        1.0 - self.keep
    }

    /// Logarithm of the wealth that raises an alarm: half of the chance for each martingale.
    fn alarm_ln(&self) -> f64 {
        libm::log(2.0 / self.false_alarm)
    }
}

/// Watches the scores of a stream for drift. Higher scores are more in-distribution.
///
/// The ranking needs every score, since forgetting some would make the p-values dependent and the
/// promise about false alarms void. So a monitor grows with its stream: 8 bytes a row when stored,
/// up to 16 in memory, that is 16 MB for a million rows. Start a new one, with a new reference if
/// need be, when that is too much.
#[derive(Debug, Clone)]
pub struct Monitor {
    options: MonitorOptions,
    reference_rows: usize,
    /// Tells one reference from another.
    reference_hash: String,
    rows: usize,
    ranks: Ranks,
    share: Martingale,
    distribution: Martingale,
    alarms: Vec<Alarm>,
    seen: Vec<SeenBatch>,
}

impl Monitor {
    /// A monitor at the start of a stream. The reference holds scores of in-distribution rows that
    /// the fit did not see, in any order; the more, the smaller the changes that can be found.
    ///
    /// # Errors
    /// If an option is out of its range, the reference has too few scores, or one is NaN.
    pub fn new(reference: &[f64], options: MonitorOptions) -> Result<Self> {
        options.check()?;
        if reference.len() < FEWEST_ROWS {
            return Err(Error::TooFewRows {
                what: "the reference of a monitor".to_owned(),
                expected: FEWEST_ROWS,
                got: reference.len(),
            });
        }
        let reference = sorted("reference", reference)?;
        Ok(Monitor {
            reference_rows: reference.len(),
            reference_hash: format!("xxh3:{:016x}", xxh3_64(bytemuck::cast_slice(&reference))),
            rows: 0,
            ranks: Ranks::from_sorted(&reference),
            share: Martingale::share(options.lowest_share()),
            distribution: Martingale::distribution(),
            alarms: Vec::new(),
            seen: Vec::new(),
            options,
        })
    }

    /// A monitor of the scores of a detector with this calibration.
    ///
    /// # Errors
    /// As [`Monitor::new`].
    pub fn of(calibration: &Calibration, false_alarm: f64, seed: u64) -> Result<Self> {
        let threshold = calibration.threshold();
        // What the threshold is expected to keep, so that the rows it flags are those watched.
        let options = MonitorOptions {
            false_alarm,
            keep: threshold.expected_share,
            threshold: threshold.value,
            seed,
        };
        Self::new(calibration.scores(), options)
    }

    /// Takes the next rows of the stream. How a stream is cut into batches does not matter.
    ///
    /// # Errors
    /// If a score is NaN; the monitor is then as it was before.
    pub fn update(&mut self, scores: &[f64]) -> Result<BatchReport> {
        check_scores("scores", scores)?;
        let (first_row, alarms_before) = (self.rows, self.alarms.len());
        for &score in scores {
            self.take(score);
        }
        let flagged = scores.iter().filter(|&&score| score < self.options.threshold).count();
        let lowest = scores.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        Ok(BatchReport {
            rows: scores.len(),
            rows_so_far: self.rows,
            flagged,
            share_flagged: flagged as f64 / scores.len().max(1) as f64,
            lowest: lowest.map(|(row, &score)| Lowest { row: first_row + row, score }),
            share: self.evidence(AlarmKind::Share),
            distribution: self.evidence(AlarmKind::Distribution),
            alarms: self.alarms[alarms_before..].to_vec(),
        })
    }

    /// Evidence of one kind after the rows so far.
    #[must_use]
    pub fn evidence(&self, kind: AlarmKind) -> Evidence {
        let alarm = self.alarms.iter().find(|alarm| alarm.kind == kind);
        Evidence::new(self.martingale(kind).wealth(), alarm.map(|alarm| alarm.row))
    }

    /// The alarms so far, in the order they were raised: at most one of each kind.
    #[must_use]
    pub fn alarms(&self) -> &[Alarm] {
        &self.alarms
    }

    /// Rows of the stream so far.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Scores it started with.
    #[must_use]
    pub fn reference_rows(&self) -> usize {
        self.reference_rows
    }

    /// Whether another monitor began with the same options and the same reference.
    #[must_use]
    pub fn began_like(&self, other: &Monitor) -> bool {
        (&self.options, &self.reference_hash) == (&other.options, &other.reference_hash)
    }

    /// The options it was made with.
    #[must_use]
    pub fn options(&self) -> &MonitorOptions {
        &self.options
    }

    fn martingale(&self, kind: AlarmKind) -> &Martingale {
        match kind {
            AlarmKind::Share => &self.share,
            AlarmKind::Distribution => &self.distribution,
        }
    }

    fn take(&mut self, score: f64) {
        let score = without_negative_zero(score);
        let (below, equal) = self.ranks.count(score);
        let tie = uniform(self.options.seed, self.rows as u64);
        let p = (below as f64 + tie * (equal as f64 + 1.0)) / (self.ranks.len() as f64 + 1.0);
        self.ranks.insert(score);
        self.share.play(p, self.rows);
        self.distribution.play(p, self.rows);
        for kind in [AlarmKind::Share, AlarmKind::Distribution] {
            let raised = self.alarms.iter().any(|alarm| alarm.kind == kind);
            if !raised && self.martingale(kind).wealth().ln >= self.options.alarm_ln() {
                self.alarms.push(Alarm { kind, row: self.rows });
            }
        }
        self.rows += 1;
    }
}

/// The scores in ascending order.
fn sorted(name: &'static str, scores: &[f64]) -> Result<Vec<f64>> {
    check_scores(name, scores)?;
    let mut sorted: Vec<f64> = scores.iter().copied().map(without_negative_zero).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    Ok(sorted)
}

fn check_scores(name: &'static str, scores: &[f64]) -> Result<()> {
    match scores.iter().position(|score| score.is_nan()) {
        Some(row) => Err(Error::parameter(name, "numbers", format!("NaN in row {row}"))),
        None => Ok(()),
    }
}

/// The ranking tells −0 from 0, but as scores they are equal.
fn without_negative_zero(score: f64) -> f64 {
    score + 0.0
}
