//! What a server counts, and the text that Prometheus reads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::clock;
use crate::metrics::{Counter, Counters, Exposition, Histogram, batch_bounds, time_bounds};
use crate::models::Repository;
use crate::watch::WatchView;

/// Counts of one version of a model, over all its loads.
pub(crate) struct ModelStats {
    pub(crate) rows_in: Counter,
    pub(crate) rows_out: Counter,
    /// Rows of a detector without a threshold.
    pub(crate) rows_undecided: Counter,
    /// By protocol and code.
    pub(crate) requests: Counters<(&'static str, u16)>,
    pub(crate) seconds: Histogram,
    pub(crate) loads: Counter,
    pub(crate) load_failures: Counter,
    /// Whether what is on disk could not be loaded, and the one before is served.
    pub(crate) stale: AtomicBool,
    /// What the monitor found last.
    pub(crate) watch: Mutex<WatchView>,
}

impl ModelStats {
    fn new() -> Self {
        ModelStats {
            rows_in: Counter::default(),
            rows_out: Counter::default(),
            rows_undecided: Counter::default(),
            requests: Counters::default(),
            seconds: Histogram::new(time_bounds()),
            loads: Counter::default(),
            load_failures: Counter::default(),
            stale: AtomicBool::new(false),
            watch: Mutex::default(),
        }
    }

    /// Requests so far, and those of them that were refused.
    pub(crate) fn request_counts(&self) -> (u64, u64) {
        let all = self.requests.all();
        let sum = |wanted: &dyn Fn(u16) -> bool| {
            all.iter().filter(|((_, code), _)| wanted(*code)).map(|(_, count)| count).sum()
        };
        (sum(&|_| true), sum(&|code| code >= 400))
    }

    pub(crate) fn watched(&self) -> WatchView {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Counts of a server.
pub(crate) struct Stats {
    models: RwLock<BTreeMap<(String, String), Arc<ModelStats>>>,
    pub(crate) batch_rows: Histogram,
    /// Requests that were turned away, by what was full.
    pub(crate) rejected: Counters<&'static str>,
    /// Requests for no model that there is, by code.
    pub(crate) strays: Counters<u16>,
    pub(crate) panics: Counter,
    /// Times that watching failed where nothing should.
    pub(crate) watch_failures: Counter,
    pub(crate) connections: AtomicUsize,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) alarms_told: Counters<&'static str>,
    started: f64,
}

impl Stats {
    pub(crate) fn new(max_batch: usize) -> Self {
        Stats {
            models: RwLock::default(),
            batch_rows: Histogram::new(batch_bounds(max_batch)),
            rejected: Counters::default(),
            strays: Counters::default(),
            panics: Counter::default(),
            watch_failures: Counter::default(),
            connections: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            alarms_told: Counters::default(),
            started: clock::unix_seconds(),
        }
    }

    /// The counts of a version, from the first time on that it is asked for.
    pub(crate) fn model(&self, name: &str, version: &str) -> Arc<ModelStats> {
        let key = (name.to_owned(), version.to_owned());
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(models.entry(key).or_insert_with(|| Arc::new(ModelStats::new())))
    }

    pub(crate) fn forget(&self, name: &str, version: &str) {
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        models.remove(&(name.to_owned(), version.to_owned()));
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn exposition(
        &self,
        repository: &Repository,
        waiting: usize,
        held: usize,
    ) -> String {
        let mut text = Exposition::default();
        self.of_server(&mut text, waiting, held);
        let models: Vec<((String, String), Arc<ModelStats>)> = {
            let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
            models.iter().map(|(key, stats)| (key.clone(), Arc::clone(stats))).collect()
        };
        of_requests(&mut text, &models);
        of_monitors(&mut text, &models);
        of_versions(&mut text, repository);
        text.finish()
    }

    fn of_server(&self, text: &mut Exposition, waiting: usize, held: usize) {
        text.family("offspan_build_info", "gauge", "The program that answers.");
        text.sample("offspan_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        let gauges = [
            ("offspan_queue_rows", "Rows that wait to be scored.", waiting as f64),
            ("offspan_body_bytes", "Memory that bodies of requests hold.", held as f64),
            (
                "offspan_connections",
                "Open connections of all listeners.",
                self.connections.load(Ordering::Relaxed) as f64,
            ),
            (
                "offspan_requests_in_flight",
                "Requests that were begun and not answered.",
                self.in_flight.load(Ordering::Relaxed) as f64,
            ),
            (
                "process_start_time_seconds",
                "When the process began, in seconds since 1970.",
                self.started,
            ),
        ];
        for (name, help, value) in gauges {
            text.family(name, "gauge", help);
            text.sample(name, &[], value);
        }
        if let Some(bytes) = resident_bytes() {
            text.family("process_resident_memory_bytes", "gauge", "Memory of the process.");
            text.sample("process_resident_memory_bytes", &[], bytes as f64);
        }
        text.family(
            "offspan_panics_total",
            "counter",
            "Requests that failed where nothing should fail.",
        );
        text.sample("offspan_panics_total", &[], self.panics.get() as f64);
        text.family(
            "offspan_monitor_failures_total",
            "counter",
            "Times that watching for drift failed where nothing should fail.",
        );
        text.sample("offspan_monitor_failures_total", &[], self.watch_failures.get() as f64);
        text.family("offspan_rejected_total", "counter", "Requests turned away, by what was full.");
        for (reason, count) in self.rejected.all() {
            text.sample("offspan_rejected_total", &[("reason", reason)], count as f64);
        }
        text.family(
            "offspan_other_requests_total",
            "counter",
            "Requests that were for no model that there is, or for none at all.",
        );
        for (code, count) in self.strays.all() {
            text.sample(
                "offspan_other_requests_total",
                &[("code", &code.to_string())],
                count as f64,
            );
        }
        text.family(
            "offspan_alarm_calls_total",
            "counter",
            "Commands and web hooks called on alarms, by outcome.",
        );
        for (outcome, count) in self.alarms_told.all() {
            text.sample("offspan_alarm_calls_total", &[("outcome", outcome)], count as f64);
        }
        text.family("offspan_batch_rows", "histogram", "Rows scored together.");
        text.histogram("offspan_batch_rows", &[], &self.batch_rows);
    }
}

/// A metric's name, what it tells, and how it is had.
type Family<F> = (&'static str, &'static str, F);
type OfModel = fn(&ModelStats) -> f64;
type OfMonitor = fn(&WatchView) -> f64;
/// The second word is the kind of alarm.
type OfKind = fn(&WatchView, usize) -> f64;

type Keyed<'a> = &'a [((String, String), Arc<ModelStats>)];

fn of_requests(text: &mut Exposition, models: Keyed<'_>) {
    text.family("offspan_requests_total", "counter", "Requests for scores, by protocol and code.");
    for ((model, version), stats) in models {
        for ((protocol, code), count) in stats.requests.all() {
            let code = code.to_string();
            let labels = [
                ("model", model.as_str()),
                ("version", version),
                ("protocol", protocol),
                ("code", &code),
            ];
            text.sample("offspan_requests_total", &labels, count as f64);
        }
    }
    text.family(
        "offspan_rows_total",
        "counter",
        "Rows scored, by decision; none without a threshold.",
    );
    for ((model, version), stats) in models {
        for (decision, count) in [("in", &stats.rows_in), ("out", &stats.rows_out)] {
            let labels = [("model", model.as_str()), ("version", version), ("decision", decision)];
            text.sample("offspan_rows_total", &labels, count.get() as f64);
        }
        if stats.rows_undecided.get() > 0 {
            let labels = [("model", model.as_str()), ("version", version), ("decision", "none")];
            text.sample("offspan_rows_total", &labels, stats.rows_undecided.get() as f64);
        }
    }
    text.family(
        "offspan_request_duration_seconds",
        "histogram",
        "From the first byte of a request to its answer.",
    );
    for ((model, version), stats) in models {
        let labels = [("model", model.as_str()), ("version", version)];
        text.histogram("offspan_request_duration_seconds", &labels, &stats.seconds);
    }
    let counters: [Family<OfModel>; 2] = [
        ("offspan_model_loads_total", "Times that the model was loaded.", |s| s.loads.get() as f64),
        ("offspan_model_load_failures_total", "Times that it could not be loaded.", |s| {
            s.load_failures.get() as f64
        }),
    ];
    for (name, help, value) in counters {
        text.family(name, "counter", help);
        for ((model, version), stats) in models {
            text.sample(name, &[("model", model), ("version", version)], value(stats));
        }
    }
    text.family(
        "offspan_model_stale",
        "gauge",
        "Whether the file on disk could not be loaded, and the one before it is served.",
    );
    for ((model, version), stats) in models {
        let stale = f64::from(u8::from(stats.stale.load(Ordering::Relaxed)));
        text.sample("offspan_model_stale", &[("model", model), ("version", version)], stale);
    }
}

fn of_monitors(text: &mut Exposition, models: Keyed<'_>) {
    let views: Vec<(&(String, String), WatchView)> = models
        .iter()
        .map(|(key, stats)| (key, stats.watched()))
        .filter(|(_, view)| view.active)
        .collect();
    let by_kind: [Family<OfKind>; 3] = [
        (
            "offspan_monitor_evidence_log10",
            "Evidence of drift, as a decimal logarithm: without drift it ever reaches x with a chance of at most 10^-x.",
            |view, kind| view.evidence[kind],
        ),
        (
            "offspan_monitor_alarm",
            "Whether an alarm was raised since the monitor was reset.",
            |view, kind| f64::from(u8::from(view.alarm_times[kind].is_some())),
        ),
        (
            "offspan_monitor_alarm_timestamp_seconds",
            "When the first such alarm was raised, in seconds since 1970; 0 without one.",
            |view, kind| view.alarm_times[kind].unwrap_or(0.0),
        ),
    ];
    for (name, help, value) in by_kind {
        text.family(name, "gauge", help);
        for ((model, version), view) in &views {
            for (number, kind) in ["share", "distribution"].into_iter().enumerate() {
                let labels = [("model", model.as_str()), ("version", version), ("kind", kind)];
                text.sample(name, &labels, value(view, number));
            }
        }
    }
    let gauges: [Family<OfMonitor>; 4] = [
        ("offspan_monitor_alarm_log10", "The evidence that raises an alarm.", |view| view.needed),
        ("offspan_monitor_rows", "Rows of the stream that is watched.", |view| view.rows as f64),
        ("offspan_monitor_saved_rows", "Rows of the stream that are safe on disk.", |view| {
            view.saved_rows as f64
        }),
        (
            "offspan_monitor_state_failing",
            "Whether the last attempt to save the state failed.",
            |view| f64::from(u8::from(view.save_failed)),
        ),
    ];
    for (name, help, value) in gauges {
        text.family(name, "gauge", help);
        for ((model, version), view) in &views {
            text.sample(name, &[("model", model), ("version", version)], value(view));
        }
    }
    text.family("offspan_monitor_alarms_total", "counter", "Alarms since the server began.");
    for ((model, version), view) in &views {
        text.sample(
            "offspan_monitor_alarms_total",
            &[("model", model), ("version", version)],
            view.alarms_raised as f64,
        );
    }
}

fn of_versions(text: &mut Exposition, repository: &Repository) {
    let all = repository.all();
    text.family("offspan_score", "histogram", "Scores; higher is more in-distribution.");
    for version in &all {
        let labels = [("model", version.name.as_str()), ("version", &version.version)];
        text.histogram("offspan_score", &labels, &version.scores);
    }
    text.family("offspan_threshold", "gauge", "Scores below it are called out-of-distribution.");
    for version in &all {
        if let Some(threshold) = version.threshold() {
            let labels = [("model", version.name.as_str()), ("version", &version.version)];
            text.sample("offspan_threshold", &labels, threshold.value);
        }
    }
    text.family(
        "offspan_promised_out_ratio",
        "gauge",
        "The share of in-distribution rows that the threshold calls out-of-distribution at most, as it promises.",
    );
    for version in &all {
        if let Some(threshold) = version.threshold() {
            let labels = [("model", version.name.as_str()), ("version", &version.version)];
            text.sample("offspan_promised_out_ratio", &labels, 1.0 - threshold.promise.keep);
        }
    }
    text.family("offspan_model_info", "gauge", "What is served.");
    for version in &all {
        let labels = [
            ("model", version.name.as_str()),
            ("version", &version.version),
            ("method", &version.detector.info().method),
        ];
        text.sample("offspan_model_info", &labels, 1.0);
    }
    text.family(
        "offspan_model_loaded_timestamp_seconds",
        "gauge",
        "When it was loaded, in seconds since 1970.",
    );
    for version in &all {
        let labels = [("model", version.name.as_str()), ("version", &version.version)];
        text.sample(
            "offspan_model_loaded_timestamp_seconds",
            &labels,
            clock::seconds_of(version.loaded),
        );
    }
}

/// Memory that is really there, where the system tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}
