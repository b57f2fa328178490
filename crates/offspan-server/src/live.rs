//! What the page shows: the last quarter of an hour, second by second, and what there is to know now.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::app::App;
use crate::clock;
use crate::metrics::quantile;
use crate::models::Version;
use crate::rest::json::number;

/// Seconds that are kept.
const KEPT: usize = 900;
/// Seconds whose scores are drawn against the calibration.
const NOW: usize = 300;
/// Ticks that wait for a reader who is slow.
const WAITING: usize = 16;
/// Rows called OoD that the page lists.
const LISTED: usize = 20;

/// A second of a version.
#[derive(Debug, Clone, Default)]
struct Second {
    time: f64,
    requests: u64,
    refused: u64,
    rows: u64,
    out: u64,
    p50: Option<f64>,
    p99: Option<f64>,
    evidence: [f64; 2],
    scores: Vec<u64>,
}

/// Counters as they were a second ago, and the seconds before.
#[derive(Default)]
struct History {
    requests: u64,
    refused: u64,
    rows_in: u64,
    rows_out: u64,
    rows_undecided: u64,
    times: Vec<u64>,
    scores: Vec<u64>,
    /// Which load the scores are of.
    load: Option<u64>,
    seconds: VecDeque<Second>,
}

/// The page's data.
pub(crate) struct Live {
    histories: Mutex<BTreeMap<(String, String), History>>,
    ticks: broadcast::Sender<String>,
}

impl Default for Live {
    fn default() -> Self {
        Live { histories: Mutex::default(), ticks: broadcast::Sender::new(WAITING) }
    }
}

impl Live {
    /// Ticks from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<String> {
        self.ticks.subscribe()
    }

    /// Takes note of the last second and tells everyone who looks.
    pub(crate) fn tick(&self, app: &App) {
        let now = clock::unix_seconds();
        let versions = app.repository.all();
        let mut histories = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
        histories.retain(|(name, number), _| {
            versions.iter().any(|version| version.name == *name && version.version == *number)
        });
        for version in &versions {
            let key = (version.name.clone(), version.version.clone());
            histories.entry(key).or_default().take(version, now);
        }
        if self.ticks.receiver_count() > 0 {
            let _ = self.ticks.send(document(app, &histories, 1).to_string());
        }
    }

    /// Everything that is kept.
    pub(crate) fn all(&self, app: &App) -> String {
        let histories = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
        document(app, &histories, KEPT).to_string()
    }
}

/// How much more than before; a counter that begins anew has its own count.
fn grown(now: &[u64], before: &[u64]) -> Vec<u64> {
    if now.len() != before.len() || now.iter().zip(before).any(|(now, before)| now < before) {
        return now.to_vec();
    }
    now.iter().zip(before).map(|(now, before)| now - before).collect()
}

impl History {
    fn take(&mut self, version: &Version, now: f64) {
        let stats = &version.stats;
        if self.load != Some(version.load) {
            self.load = Some(version.load);
            self.scores = Vec::new();
            // Those of another load lie between other bounds.
            self.seconds.iter_mut().for_each(|second| second.scores.clear());
        }
        let (requests, refused) = stats.request_counts();
        let (rows_in, rows_out) = (stats.rows_in.get(), stats.rows_out.get());
        let rows_undecided = stats.rows_undecided.get();
        let times = stats.seconds.counts();
        let scores = version.scores.counts();
        let new_times = grown(&times, &self.times);
        let at = |share| quantile(stats.seconds.bounds(), &new_times, share);
        // Before the first second there is nothing to compare with.
        let first = self.seconds.is_empty() && self.times.is_empty();
        let since = |now: u64, before: u64| if first { 0 } else { now.saturating_sub(before) };
        let out = since(rows_out, self.rows_out);
        let second = Second {
            time: now,
            requests: since(requests, self.requests),
            refused: since(refused, self.refused),
            rows: since(rows_in, self.rows_in) + since(rows_undecided, self.rows_undecided) + out,
            out,
            p50: at(0.5),
            p99: at(0.99),
            evidence: stats.watched().evidence,
            scores: if self.scores.is_empty() { Vec::new() } else { grown(&scores, &self.scores) },
        };
        (self.requests, self.refused) = (requests, refused);
        (self.rows_in, self.rows_out) = (rows_in, rows_out);
        self.rows_undecided = rows_undecided;
        (self.times, self.scores) = (times, scores);
        self.seconds.push_back(second);
        let too_many = self.seconds.len().saturating_sub(KEPT);
        self.seconds.drain(..too_many);
    }

    /// Scores of the last minutes, part by part.
    fn scores_now(&self, parts: usize) -> Vec<u64> {
        let mut sum = vec![0; parts];
        for second in self.seconds.iter().rev().take(NOW) {
            sum.iter_mut().zip(&second.scores).for_each(|(sum, count)| *sum += count);
        }
        sum
    }
}

fn document(app: &App, histories: &BTreeMap<(String, String), History>, seconds: usize) -> Value {
    let index = app.repository.index();
    let models: Vec<Value> = app
        .repository
        .all()
        .iter()
        .filter_map(|version| {
            let key = (version.name.clone(), version.version.clone());
            let history = histories.get(&key)?;
            let entry = index.iter().find(|e| e.name == key.0 && e.version == key.1);
            let problem =
                entry.map(|entry| entry.reason.clone()).filter(|reason| !reason.is_empty());
            Some(about(version, history, seconds, problem))
        })
        .collect();
    let broken: Vec<Value> = index
        .iter()
        .filter(|entry| entry.state != "READY")
        .map(
            |entry| json!({ "name": entry.name, "version": entry.version, "reason": entry.reason }),
        )
        .collect();
    json!({
        "time": clock::unix_seconds(),
        "server": { "version": env!("CARGO_PKG_VERSION"), "ready": app.ready() },
        "queue": app.scorers.waiting(),
        "max_queue": app.config.max_queue,
        "connections": app.stats.connections.load(Ordering::Relaxed),
        "rejected": app.stats.rejected.all().iter().map(|(_, count)| count).sum::<u64>(),
        "panics": app.stats.panics.get(),
        "monitor": app.monitors.is_some(),
        "samples": app.config.keep_samples > 0,
        "broken": broken,
        "models": models,
    })
}

fn about(version: &Version, history: &History, seconds: usize, problem: Option<String>) -> Value {
    let watch = version.stats.watched();
    let last = history.seconds.iter().skip(history.seconds.len().saturating_sub(seconds));
    let bounds = version.scores.bounds();
    let flagged: Vec<Value> = version
        .last_flagged()
        .into_iter()
        .take(LISTED)
        .map(|row| {
            json!({ "id": &*row.id, "row": row.row, "score": number(row.score), "p": row.p_value, "time": row.time })
        })
        .collect();
    json!({
        "name": version.name,
        "version": version.version,
        "method": version.detector.info().method,
        "loaded": clock::seconds_of(version.loaded),
        "problem": problem,
        "threshold": version.threshold().filter(|t| t.value.is_finite()).map(|t| t.value),
        "keep": version.threshold().map(|t| t.promise.keep),
        "confidence": version.threshold().map(|t| t.promise.confidence),
        "rows": history.rows_in + history.rows_out + history.rows_undecided,
        "monitor": watch.active.then(|| json!({
            "rows": watch.rows,
            "needed": watch.needed,
            "began": watch.began,
            "evidence": watch.evidence,
            "alarms": watch.alarm_times,
            "save_failed": watch.save_failed,
        })),
        "bounds": bounds,
        "calibration": version.calibration_counts,
        "scores": history.scores_now(bounds.len() + 1),
        "flagged": flagged,
        "seconds": last.map(|s| json!([
            s.time, s.requests, s.refused, s.rows, s.out, s.p50, s.p99, s.evidence[0], s.evidence[1]
        ])).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Stats;

    #[test]
    fn scores_of_an_earlier_load_are_not_drawn_between_the_bounds_of_this_one() {
        let stats = Stats::new(1);
        let mut history = History::default();
        let now = |history: &History| history.scores_now(42).iter().sum::<u64>();
        let first = Version::small(&stats);
        history.take(&first, 1.0);
        first.scores.add_all([-1.0, -2.0, -3.0].into_iter());
        history.take(&first, 2.0);
        assert_eq!(now(&history), 3);
        let second = Version::small(&stats);
        history.take(&second, 3.0);
        assert_eq!(now(&history), 0);
        second.scores.add(-1.0);
        history.take(&second, 4.0);
        assert_eq!((now(&history), history.seconds.len()), (1, 4));
    }
}
