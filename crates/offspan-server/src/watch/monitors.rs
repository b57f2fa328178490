//! The thread that feeds monitors. Scores come in the order in which batches ended.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use offspan::{AlarmKind, Monitor};

use super::alarm::AlarmEvent;
use super::state::{About, StateFolder};
use crate::clock;
use crate::models::Version;
use crate::refusal::{Kind, Refusal};

/// Batches that wait for their monitor. Beyond that scoring waits, so that no score is left out.
const WAITING: usize = 4096;

/// How drift is watched.
pub(crate) struct WatchOptions {
    pub(crate) false_alarm: f64,
    /// Rows of a stream, at most.
    pub(crate) rows: usize,
    pub(crate) folder: Option<StateFolder>,
    pub(crate) save_every: Duration,
}

/// What a monitor found last, for metrics and the page. Entries of pairs: more rows out, scores that moved.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchView {
    pub(crate) active: bool,
    pub(crate) rows: usize,
    /// As decimal logarithms.
    pub(crate) evidence: [f64; 2],
    pub(crate) needed: f64,
    pub(crate) began: f64,
    pub(crate) alarm_times: [Option<f64>; 2],
    pub(crate) alarms_raised: u64,
    pub(crate) saved_rows: usize,
    pub(crate) save_failed: bool,
}

enum Message {
    Scores(Arc<Version>, Vec<f64>),
    /// Takes up the stream of a version, before its first scores come.
    Watch(Arc<Version>),
    /// Begins a new stream.
    Reset(Arc<Version>, SyncSender<Result<(), Refusal>>),
    /// Saves everything and ends.
    End,
}

/// The way to the thread.
pub(crate) struct Monitors {
    sender: SyncSender<Message>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Monitors {
    /// Starts the thread; `tell` gets every alarm.
    pub(crate) fn start(
        options: WatchOptions,
        tell: Box<dyn Fn(AlarmEvent) + Send>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING);
        let worker = Worker { options, tell, streams: HashMap::new() };
        let builder = std::thread::Builder::new().name("monitors".to_owned());
        let thread = builder.spawn(move || worker.run(&receiver))?;
        Ok(Monitors { sender, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn scores(&self, version: &Arc<Version>, scores: Vec<f64>) {
        // The thread ends last, so somebody listens.
        let _ = self.sender.send(Message::Scores(Arc::clone(version), scores));
    }

    /// Takes up the stream of a version: what was known of it is seen at once.
    pub(crate) fn watch(&self, version: &Arc<Version>) {
        let _ = self.sender.send(Message::Watch(Arc::clone(version)));
    }

    /// Begins a new stream, after somebody acted on an alarm. Waits until it is done.
    pub(crate) fn reset(&self, version: &Arc<Version>) -> Result<(), Refusal> {
        let (reply, answer) = sync_channel(1);
        let gone = || Refusal::new(Kind::Unavailable, "the server is about to end");
        self.sender.send(Message::Reset(Arc::clone(version), reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }

    /// Saves everything and ends the thread.
    pub(crate) fn stop(&self) {
        let _ = self.sender.send(Message::End);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// The stream of one version.
struct Stream {
    monitor: Monitor,
    about: About,
    /// The load of the version that it belongs to.
    version: Weak<Version>,
    changed: bool,
}

type Key = (String, String);

struct Worker {
    options: WatchOptions,
    tell: Box<dyn Fn(AlarmEvent) + Send>,
    /// None for versions without a threshold, which cannot be watched.
    streams: HashMap<Key, Option<Stream>>,
}

impl Worker {
    fn run(mut self, receiver: &Receiver<Message>) {
        let every = self.options.save_every;
        let mut next_save = Instant::now() + every;
        loop {
            let wait = next_save.saturating_duration_since(Instant::now());
            match receiver.recv_timeout(wait) {
                Ok(Message::Scores(version, scores)) => self.take(&version, &scores),
                Ok(Message::Watch(version)) => {
                    self.stream(&version);
                }
                Ok(Message::Reset(version, reply)) => {
                    let _ = reply.send(self.reset(&version));
                }
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() >= next_save {
                self.save();
                next_save = Instant::now() + every;
            }
        }
        self.save();
    }

    /// The stream of a version, begun or taken up when its first scores come, and anew when another detector was loaded.
    fn stream(&mut self, version: &Arc<Version>) -> Option<&mut Stream> {
        let key = (version.name.clone(), version.version.clone());
        let same = self.streams.get(&key).is_some_and(|stream| match stream {
            Some(stream) => stream.version.as_ptr() == Arc::as_ptr(version),
            None => version.threshold().is_none(),
        });
        if !same {
            let before = self.streams.remove(&key).flatten();
            let stream = self.begin(version, before);
            self.streams.insert(key.clone(), stream);
        }
        self.streams.get_mut(&key).and_then(Option::as_mut)
    }

    fn begin(&self, version: &Arc<Version>, before: Option<Stream>) -> Option<Stream> {
        let calibration = version.detector.calibration()?;
        let fresh = match Monitor::of(calibration, self.options.false_alarm, 0) {
            Ok(monitor) => monitor,
            Err(error) => {
                tracing::warn!(model = version.name, "drift is not watched: {error}");
                return None;
            }
        };
        let weak = Arc::downgrade(version);
        // The same detector was loaded again: the stream goes on.
        if let Some(stream) = before.filter(|stream| stream.monitor.began_like(&fresh)) {
            return Some(Stream { version: weak, ..stream });
        }
        let saved = self.options.folder.as_ref();
        let saved = saved.and_then(|folder| folder.load(&version.name, &version.version, &fresh));
        let (monitor, about) = saved
            .unwrap_or_else(|| (fresh, About { began: clock::unix_seconds(), ..About::default() }));
        let stream = Stream { monitor, about, version: weak, changed: false };
        let mut view = version.stats.watch.lock().unwrap_or_else(PoisonError::into_inner);
        view.saved_rows = if self.options.folder.is_some() { stream.monitor.rows() } else { 0 };
        drop(view);
        show(&stream, version);
        Some(stream)
    }

    fn take(&mut self, version: &Arc<Version>, scores: &[f64]) {
        let most = self.options.rows;
        let Some(stream) = self.stream(version) else { return };
        if stream.monitor.rows() + scores.len() > most {
            let rows = stream.monitor.rows();
            tracing::info!(
                model = version.name,
                rows,
                "the monitor's stream is full: a new one begins"
            );
            self.renew(version);
        }
        let Some(stream) = self.stream(version) else { return };
        let alarms = match stream.monitor.update(scores) {
            Ok(report) => report.alarms,
            Err(error) => {
                tracing::error!(model = version.name, "scores could not be watched: {error}");
                return;
            }
        };
        stream.changed = true;
        let now = clock::unix_seconds();
        for alarm in &alarms {
            stream.about.alarm_times[index(alarm.kind)] = Some(now);
            let mut view = version.stats.watch.lock().unwrap_or_else(PoisonError::into_inner);
            view.alarms_raised += 1;
        }
        show(stream, version);
        let events: Vec<AlarmEvent> = alarms
            .iter()
            .map(|alarm| {
                let evidence = stream.monitor.evidence(alarm.kind);
                AlarmEvent::new(version, *alarm, evidence.log10, stream.monitor.options(), now)
            })
            .collect();
        for event in events {
            tracing::warn!(
                model = version.name,
                version = version.version,
                row = event.row,
                "ALARM: {}",
                event.words
            );
            (self.tell)(event);
        }
    }

    /// A fresh stream in place of the one that is there.
    fn renew(&mut self, version: &Arc<Version>) {
        let Some(calibration) = version.detector.calibration() else { return };
        let Ok(monitor) = Monitor::of(calibration, self.options.false_alarm, 0) else { return };
        if let Some(stream) = self.stream(version) {
            let about = About { began: clock::unix_seconds(), ..About::default() };
            *stream = Stream { monitor, about, version: Arc::downgrade(version), changed: true };
            show(stream, version);
        }
    }

    fn reset(&mut self, version: &Arc<Version>) -> Result<(), Refusal> {
        if self.stream(version).is_none() {
            let reason = "the model has no threshold, so nothing is watched";
            return Err(Refusal::bad(reason));
        }
        self.renew(version);
        if let Some(folder) = &self.options.folder {
            folder.remove(&version.name, &version.version).map_err(|error| {
                tracing::error!(
                    model = version.name,
                    "the saved monitor cannot be removed: {error}"
                );
                Refusal::new(
                    Kind::Internal,
                    "the saved monitor cannot be removed; the log has the reason",
                )
            })?;
        }
        tracing::info!(
            model = version.name,
            version = version.version,
            "the monitor begins anew, as asked"
        );
        Ok(())
    }

    fn save(&mut self) {
        let Some(folder) = &self.options.folder else { return };
        for ((name, number), stream) in &mut self.streams {
            let Some(stream) = stream.as_mut().filter(|stream| stream.changed) else { continue };
            let result = folder.save(name, number, &stream.monitor, &stream.about);
            if let Err(error) = &result {
                tracing::error!(model = name, "the monitor cannot be saved: {error}");
            }
            stream.changed = result.is_err();
            if let Some(version) = stream.version.upgrade() {
                let mut view = version.stats.watch.lock().unwrap_or_else(PoisonError::into_inner);
                view.save_failed = result.is_err();
                if result.is_ok() {
                    view.saved_rows = stream.monitor.rows();
                }
            }
        }
    }
}

fn index(kind: AlarmKind) -> usize {
    match kind {
        AlarmKind::Share => 0,
        AlarmKind::Distribution => 1,
    }
}

fn show(stream: &Stream, version: &Version) {
    let mut view = version.stats.watch.lock().unwrap_or_else(PoisonError::into_inner);
    view.active = true;
    view.rows = stream.monitor.rows();
    view.evidence =
        [AlarmKind::Share, AlarmKind::Distribution].map(|kind| stream.monitor.evidence(kind).log10);
    view.needed = (2.0 / stream.monitor.options().false_alarm).log10();
    view.began = stream.about.began;
    view.alarm_times = [AlarmKind::Share, AlarmKind::Distribution].map(|kind| {
        let raised = stream.monitor.alarms().iter().any(|alarm| alarm.kind == kind);
        // Raised, but nobody knows when: the beginning is the best that can be said.
        raised.then(|| stream.about.alarm_times[index(kind)].unwrap_or(stream.about.began))
    });
}
