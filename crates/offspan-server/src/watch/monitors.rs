//! The thread that feeds monitors. Scores come in the order in which batches ended.

use std::any::Any;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use offspan::Monitor;

use super::alarm::AlarmEvent;
use super::state::{About, KINDS, StateFolder};
use crate::batch::panic_words;
use crate::clock;
use crate::models::Version;
use crate::refusal::{Kind, Refusal};
use crate::stats::Stats;

/// Scores are taken together for so long, or until there are enough of them.
const GATHERED: Duration = Duration::from_millis(20);
const ENOUGH: usize = 4096;
/// Scores that wait for their monitor. Beyond that scoring waits, so that none is left out.
const MOST_WAITING: usize = 1 << 20;

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
    /// Takes up the streams of these versions, before their first scores come, and drops those of versions that are not
    /// known any more.
    Watch(Vec<Arc<Version>>, HashSet<Key>),
    /// Everybody was told of this alarm.
    Told(AlarmEvent),
    /// Tells of no alarm any more: what is raised from now on is told when the server begins anew.
    Hush,
    /// Begins a new stream.
    Reset(Arc<Version>, SyncSender<Result<(), Refusal>>),
    /// Saves everything and ends.
    End,
}

/// Scores of each version, in the order in which its batches ended.
type Scores = Vec<(Arc<Version>, Vec<f64>)>;

/// What waits for the thread.
#[derive(Default)]
struct Desk {
    scores: Scores,
    /// How many of them there are.
    rows: usize,
    /// Done after the scores that were there before them.
    messages: Vec<Message>,
    ended: bool,
}

#[derive(Default)]
struct Shared {
    desk: Mutex<Desk>,
    /// There is something to do.
    news: Condvar,
    /// There is room for more scores.
    room: Condvar,
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that waits, when there is something worth waking for, or nothing until then.
    fn take(&self, until: Instant) -> (Scores, Vec<Message>) {
        let mut desk = self.desk();
        let mut gathered_until: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if desk.rows > 0 && gathered_until.is_none() {
                gathered_until = Some(now + GATHERED);
            }
            let end = gathered_until.unwrap_or(until);
            let enough = !desk.messages.is_empty() || desk.rows >= ENOUGH;
            if enough || end <= now {
                break;
            }
            let waited = self.news.wait_timeout(desk, end - now);
            desk = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        desk.rows = 0;
        let taken = (std::mem::take(&mut desk.scores), std::mem::take(&mut desk.messages));
        drop(desk);
        self.room.notify_all();
        taken
    }
}

/// The way to the thread.
pub(crate) struct Monitors {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Monitors {
    /// Starts the thread; `tell` gets every alarm.
    pub(crate) fn start(
        options: WatchOptions,
        stats: Arc<Stats>,
        tell: Box<dyn Fn(AlarmEvent) + Send>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let worker = Worker { options, stats, tell: Some(tell), streams: HashMap::new() };
        let builder = std::thread::Builder::new().name("monitors".to_owned());
        let theirs = Arc::clone(&shared);
        let thread = builder.spawn(move || worker.run(&theirs))?;
        Ok(Monitors { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Puts scores beside those that wait. The thread is woken for the first of them and when there are enough, not for
    /// every batch: a small request should not pay for it.
    pub(crate) fn scores(&self, version: &Arc<Version>, scores: Vec<f64>) {
        let mut desk = self.shared.desk();
        while desk.rows >= MOST_WAITING && !desk.ended {
            desk = self.shared.room.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
        if desk.ended {
            return;
        }
        let before = desk.rows;
        desk.rows += scores.len();
        let wakes = before == 0 || (before < ENOUGH && desk.rows >= ENOUGH);
        match desk.scores.iter_mut().find(|(known, _)| Arc::ptr_eq(known, version)) {
            Some((_, waiting)) => waiting.extend(scores),
            None => desk.scores.push((Arc::clone(version), scores)),
        }
        drop(desk);
        if wakes {
            self.shared.news.notify_one();
        }
    }

    /// Takes up the streams of these versions: what was known of them is seen at once. Those of versions that are neither
    /// among them nor among `known` are dropped.
    pub(crate) fn watch(&self, versions: Vec<Arc<Version>>, known: HashSet<Key>) {
        self.send(Message::Watch(versions, known));
    }

    /// Begins a new stream, after somebody acted on an alarm. Waits until it is done.
    pub(crate) fn reset(&self, version: &Arc<Version>) -> Result<(), Refusal> {
        let (reply, answer) = sync_channel(1);
        self.send(Message::Reset(Arc::clone(version), reply));
        let gone = |_| Refusal::new(Kind::Unavailable, "the server is about to end");
        answer.recv().map_err(gone)?
    }

    /// Takes note that everybody was told of an alarm.
    pub(crate) fn told(&self, event: AlarmEvent) {
        self.send(Message::Told(event));
    }

    /// Tells of no more alarms once the scores that wait are watched, so that whoever tells of them comes to an end.
    pub(crate) fn hush(&self) {
        self.send(Message::Hush);
    }

    /// Saves everything and ends the thread.
    pub(crate) fn stop(&self) {
        self.send(Message::End);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn send(&self, message: Message) {
        let mut desk = self.shared.desk();
        // What comes after the end is dropped, so that nobody waits for an answer.
        if !desk.ended {
            desk.ended = matches!(message, Message::End);
            desk.messages.push(message);
        }
        drop(desk);
        self.shared.news.notify_one();
    }
}

/// A server that could not start keeps no thread, and no folder of states, behind.
impl Drop for Monitors {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Why a new stream begins.
#[derive(Clone, Copy)]
enum After {
    /// The one before was as long as it may be, or was lost. Alarms stay.
    Full,
    /// Somebody acted on an alarm.
    Reset,
}

/// The stream of one version.
struct Stream {
    monitor: Monitor,
    about: About,
    changed: bool,
}

/// What is watched of one version.
struct Watched {
    /// The load that it belongs to.
    version: Weak<Version>,
    load: u64,
    /// None without a threshold: nothing can be watched.
    stream: Option<Stream>,
}

/// A model's name and version.
type Key = (String, String);

struct Worker {
    options: WatchOptions,
    stats: Arc<Stats>,
    tell: Option<Box<dyn Fn(AlarmEvent) + Send>>,
    streams: HashMap<Key, Watched>,
}

impl Worker {
    fn run(mut self, shared: &Shared) {
        let every = self.options.save_every;
        let mut next_save = Instant::now() + every;
        let mut ended = false;
        while !ended {
            let (scores, messages) = shared.take(next_save);
            for (version, scores) in scores {
                if self.guarded(|worker| worker.take(&version, &scores)).is_none() {
                    // What a panic left may be half done. The times of alarms are whole.
                    let _ = self.guarded(|worker| worker.renew(&version, After::Full));
                }
            }
            for message in messages {
                match message {
                    Message::Watch(versions, known) => {
                        let _ = self.guarded(|worker| worker.watch(&versions, &known));
                    }
                    Message::Told(event) => {
                        let _ = self.guarded(|worker| worker.told(&event));
                    }
                    Message::Hush => {
                        self.tell = None;
                        // Whoever still tells of an alarm may take longer than the process has.
                        let _ = self.guarded(Worker::save);
                    }
                    Message::Reset(version, reply) => {
                        let failed = || Err(Refusal::new(Kind::Internal, "the reset failed"));
                        let result = self.guarded(|worker| worker.reset(&version));
                        let _ = reply.send(result.unwrap_or_else(failed));
                    }
                    Message::End => ended = true,
                }
            }
            if ended || Instant::now() >= next_save {
                let _ = self.guarded(Worker::save);
                next_save = Instant::now() + every;
            }
        }
    }

    /// Watching goes on where a part of it panics.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Worker) -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut *self)));
        let told = |panic: Box<dyn Any + Send>| {
            tracing::error!("watching failed: {}", panic_words(&*panic));
            self.stats.watch_failures.add(1);
        };
        result.map_err(told).ok()
    }

    fn watch(&mut self, versions: &[Arc<Version>], known: &HashSet<Key>) {
        for version in versions {
            self.stream(version);
        }
        if self.streams.keys().any(|key| !known.contains(key)) {
            // A version whose folder comes back goes on where it was.
            self.save();
            self.streams.retain(|key, _| known.contains(key));
        }
    }

    /// The stream of a version, begun or taken up when its first scores come, and anew when another detector was loaded.
    fn stream(&mut self, version: &Arc<Version>) -> Option<&mut Stream> {
        let key = (version.name.clone(), version.version.clone());
        match self.streams.get(&key).map(|known| known.load.cmp(&version.load)) {
            Some(Ordering::Equal) => {}
            Some(Ordering::Greater) => {
                // The last batches of a load that was replaced. The stream is not theirs, unless the detector is the same.
                let calibration = version.detector.calibration()?;
                let theirs = Monitor::of(calibration, self.options.false_alarm, 0).ok()?;
                let stream = self.streams.get_mut(&key)?.stream.as_mut()?;
                return stream.monitor.began_like(&theirs).then_some(stream);
            }
            Some(Ordering::Less) | None => {
                let before = self.streams.remove(&key).and_then(|known| known.stream);
                let stream = self.begin(version, before);
                let weak = Arc::downgrade(version);
                self.streams
                    .insert(key.clone(), Watched { version: weak, load: version.load, stream });
            }
        }
        self.streams.get_mut(&key)?.stream.as_mut()
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
        match before {
            // The same detector was loaded again: the stream goes on.
            Some(stream) if stream.monitor.began_like(&fresh) => return Some(stream),
            // What is put aside is all of it.
            Some(mut stream) => {
                self.save_stream(&version.name, &version.version, &mut stream);
            }
            None => {}
        }
        let folder = self.options.folder.as_ref();
        let saved = match folder.map(|it| it.load(&version.name, &version.version, &fresh)) {
            Some(Err(error)) => {
                tracing::error!(
                    model = version.name,
                    version = version.version,
                    "drift is not watched until the model is loaded again, and the saved monitor stays as it is: {error}"
                );
                return None;
            }
            Some(Ok(saved)) => saved,
            None => None,
        };
        let (monitor, mut about) = saved
            .unwrap_or_else(|| (fresh, About { began: clock::unix_seconds(), ..About::default() }));
        for alarm in monitor.alarms() {
            // Raised, but nobody knows when: the beginning is the best that can be said.
            about.raise(alarm.kind, about.began);
        }
        for event in &about.untold {
            tracing::warn!(
                model = version.name,
                version = version.version,
                "an alarm was raised before the server began, and as far as is known nobody was told: {}",
                event.words
            );
            self.tell(event);
        }
        let stream = Stream { monitor, about, changed: false };
        let mut view = lock_view(version);
        view.saved_rows = if self.options.folder.is_some() { stream.monitor.rows() } else { 0 };
        drop(view);
        show(&stream, version);
        Some(stream)
    }

    fn tell(&self, event: &AlarmEvent) {
        if let Some(tell) = &self.tell {
            tell(event.clone());
        }
    }

    /// Takes note that everybody was told of an alarm, on disk too, so that nobody is told twice.
    fn told(&mut self, event: &AlarmEvent) {
        let key = (event.model.clone(), event.version.clone());
        let Some(stream) = self.streams.get_mut(&key).and_then(|known| known.stream.as_mut())
        else {
            return;
        };
        let before = stream.about.untold.len();
        stream.about.untold.retain(|untold| untold != event);
        if stream.about.untold.len() < before {
            stream.changed = true;
            self.save_key(&key);
        }
    }

    fn take(&mut self, version: &Arc<Version>, mut scores: &[f64]) {
        let most = self.options.rows;
        while !scores.is_empty() {
            let Some(stream) = self.stream(version) else { return };
            let rows = stream.monitor.rows();
            if rows >= most {
                tracing::info!(
                    model = version.name,
                    rows,
                    "the monitor's stream is full: a new one begins"
                );
                self.renew(version, After::Full);
                continue;
            }
            let (now, later) = scores.split_at(scores.len().min(most - rows));
            self.update(version, now);
            scores = later;
        }
    }

    /// Gives scores to the stream, and tells of alarms that nobody was told of yet.
    fn update(&mut self, version: &Arc<Version>, scores: &[f64]) {
        let Some(stream) = self.stream(version) else { return };
        let alarms = match stream.monitor.update(scores) {
            Ok(report) => report.alarms,
            Err(error) => {
                tracing::error!(model = version.name, "scores could not be watched: {error}");
                self.stats.watch_failures.add(1);
                return;
            }
        };
        stream.changed = true;
        let now = clock::unix_seconds();
        let mut events = Vec::new();
        for alarm in alarms {
            // A stream that began anew finds again what is known already.
            if !stream.about.raise(alarm.kind, now) {
                continue;
            }
            let evidence = stream.monitor.evidence(alarm.kind);
            let options = stream.monitor.options();
            events.push(AlarmEvent::new(version, alarm, evidence.log10, options, now));
        }
        stream.about.untold.extend(events.iter().cloned());
        lock_view(version).alarms_raised += events.len() as u64;
        show(stream, version);
        if !events.is_empty() {
            // First it is on disk, then it is told: a server that is killed between the two tells it when it begins anew.
            self.save_key(&(version.name.clone(), version.version.clone()));
        }
        for event in events {
            tracing::warn!(
                model = version.name,
                version = version.version,
                row = event.row,
                "ALARM: {}",
                event.words
            );
            self.tell(&event);
        }
    }

    /// A fresh stream in place of the one that is there.
    fn renew(&mut self, version: &Arc<Version>, after: After) {
        let Some(calibration) = version.detector.calibration() else { return };
        let Ok(monitor) = Monitor::of(calibration, self.options.false_alarm, 0) else { return };
        if let Some(stream) = self.stream(version) {
            let mut about = match after {
                // The world has not changed back because we have seen much of it.
                After::Full => std::mem::take(&mut stream.about),
                After::Reset => About::default(),
            };
            about.began = clock::unix_seconds();
            *stream = Stream { monitor, about, changed: true };
            show(stream, version);
        }
    }

    fn reset(&mut self, version: &Arc<Version>) -> Result<(), Refusal> {
        // The load that is served now, if another came while the request was on its way.
        let key = (version.name.clone(), version.version.clone());
        let known = self.streams.get(&key).filter(|known| known.load > version.load);
        let later = known.and_then(|known| known.version.upgrade());
        let version = later.as_ref().unwrap_or(version);
        if self.stream(version).is_none() {
            let reason = "the model has no threshold, so nothing is watched";
            return Err(Refusal::bad(reason));
        }
        self.renew(version, After::Reset);
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
        let keys: Vec<Key> = self.streams.keys().cloned().collect();
        keys.iter().for_each(|key| self.save_key(key));
    }

    fn save_key(&mut self, key: &Key) {
        let Some(mut known) = self.streams.remove(key) else { return };
        if let Some(stream) = &mut known.stream
            && stream.changed
            && let Some(saved) = self.save_stream(&key.0, &key.1, stream)
            && let Some(version) = known.version.upgrade()
        {
            let mut view = lock_view(&version);
            view.save_failed = !saved;
            if saved {
                view.saved_rows = stream.monitor.rows();
            }
        }
        self.streams.insert(key.clone(), known);
    }

    /// Tells whether it could be saved, where there is a folder for it.
    fn save_stream(&self, name: &str, number: &str, stream: &mut Stream) -> Option<bool> {
        let folder = self.options.folder.as_ref()?;
        let result = folder.save(name, number, &stream.monitor, &stream.about);
        if let Err(error) = &result {
            tracing::error!(model = name, "the monitor cannot be saved: {error}");
        }
        stream.changed = result.is_err();
        Some(result.is_ok())
    }
}

fn lock_view(version: &Version) -> MutexGuard<'_, WatchView> {
    version.stats.watch.lock().unwrap_or_else(PoisonError::into_inner)
}

fn show(stream: &Stream, version: &Version) {
    let mut view = lock_view(version);
    view.active = true;
    view.rows = stream.monitor.rows();
    view.evidence = KINDS.map(|kind| stream.monitor.evidence(kind).log10);
    view.needed = (2.0 / stream.monitor.options().false_alarm).log10();
    view.began = stream.about.began;
    view.alarm_times = stream.about.alarm_times;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(stats: &Stats) -> Arc<Version> {
        Arc::new(Version::small(stats))
    }

    fn options(rows: usize) -> WatchOptions {
        let save_every = Duration::from_secs(3600);
        WatchOptions { false_alarm: 0.01, rows, folder: None, save_every }
    }

    fn worker(
        options: WatchOptions,
        stats: Arc<Stats>,
        tell: Box<dyn Fn(AlarmEvent) + Send>,
    ) -> Worker {
        Worker { options, stats, tell: Some(tell), streams: HashMap::new() }
    }

    /// A worker with its state on disk, and what it tells.
    fn worker_on_disk(path: &std::path::Path) -> (Worker, std::sync::mpsc::Receiver<AlarmEvent>) {
        let (sender, told) = std::sync::mpsc::channel();
        let tell = Box::new(move |event| sender.send(event).unwrap());
        let folder = Some(StateFolder::open(path).unwrap());
        let options = WatchOptions { folder, ..options(1_000_000) };
        (worker(options, Arc::new(Stats::new(1)), tell), told)
    }

    #[test]
    fn an_alarm_is_told_again_after_a_kill_unless_everybody_was_told() {
        let folder = tempfile::tempdir().unwrap();
        let version = version(&Stats::new(1));
        let (mut first, told) = worker_on_disk(folder.path());
        first.take(&version, &vec![-1e9; 600]);
        let raised: Vec<AlarmEvent> = told.try_iter().collect();
        assert!(!raised.is_empty());
        // Killed before anybody was told; nothing was saved at the end.
        drop(first);
        let (mut second, told) = worker_on_disk(folder.path());
        assert!(second.stream(&version).unwrap().monitor.rows() >= 600);
        let again: Vec<AlarmEvent> = told.try_iter().collect();
        let words = |events: &[AlarmEvent]| -> Vec<String> {
            events.iter().map(|event| event.words.clone()).collect()
        };
        assert_eq!(words(&again), words(&raised));
        // Killed once everybody was.
        again.iter().for_each(|event| second.told(event));
        drop(second);
        let (mut third, told) = worker_on_disk(folder.path());
        third.take(&version, &[-1e9; 10]);
        assert_eq!(told.try_iter().count(), 0);
        assert!(version.stats.watched().alarm_times[0].is_some());
    }

    #[test]
    fn late_scores_of_a_load_that_was_replaced_do_not_take_the_stream_back() {
        let folder = tempfile::tempdir().unwrap();
        let stats = Stats::new(1);
        let old = version(&stats);
        let new = Arc::new(Version::small_with(&stats, 5));
        let (mut worker, _told) = worker_on_disk(folder.path());
        worker.take(&old, &[-1.0; 30]);
        worker.take(&new, &[-1.0; 20]);
        // A batch that was begun before, and a request to reset that found the old one.
        worker.take(&old, &[-1.0; 10]);
        assert_eq!(worker.stream(&new).unwrap().monitor.rows(), 20);
        worker.take(&new, &[-1.0; 5]);
        assert_eq!(new.stats.watched().rows, 25);
        // All of the old stream is aside.
        let aside = Monitor::load(folder.path().join("net@1.monitor.before")).unwrap();
        assert_eq!(aside.rows(), 30);
        worker.reset(&old).unwrap();
        assert_eq!(worker.stream(&new).unwrap().monitor.rows(), 0);
        // The same detector once more: its late scores count.
        let again = Arc::new(Version::small_with(&stats, 5));
        worker.take(&again, &[-1.0; 4]);
        worker.take(&new, &[-1.0; 3]);
        assert_eq!(again.stats.watched().rows, 7);
    }

    #[test]
    fn an_alarm_stays_and_is_told_once_until_somebody_resets_it() {
        let stats = Arc::new(Stats::new(1));
        let version = version(&stats);
        let (sender, told) = std::sync::mpsc::channel();
        let tell = Box::new(move |event| sender.send(event).unwrap());
        let mut worker = worker(options(1000), stats, tell);
        let out = vec![-1e9; 600];
        worker.take(&version, &out);
        let first = version.stats.watched();
        assert!(first.alarm_times[0].is_some());
        let count = told.try_iter().count();
        assert!(count > 0);
        assert_eq!(first.alarms_raised, count as u64);
        // The second stream sees the same, and a third begins.
        worker.take(&version, &vec![-1e9; 1700]);
        let later = version.stats.watched();
        assert_eq!((later.rows, later.alarm_times[0]), (300, first.alarm_times[0]));
        let count = count + told.try_iter().count();
        let kinds = later.alarm_times.iter().flatten().count();
        assert_eq!((count, later.alarms_raised), (kinds, kinds as u64));
        worker.reset(&version).unwrap();
        assert_eq!(version.stats.watched().alarm_times, [None, None]);
        worker.take(&version, &out);
        assert!(told.try_iter().count() > 0);
    }

    #[test]
    fn streams_of_versions_that_are_gone_are_dropped() {
        let stats = Arc::new(Stats::new(1));
        let version = version(&stats);
        let mut worker = worker(options(1000), stats, Box::new(|_| {}));
        let key = (version.name.clone(), version.version.clone());
        worker.watch(&[Arc::clone(&version)], &HashSet::from([key]));
        assert_eq!(worker.streams.len(), 1);
        worker.watch(&[], &HashSet::new());
        assert!(worker.streams.is_empty());
    }

    #[test]
    fn scores_that_wait_at_the_end_are_still_watched() {
        let stats = Arc::new(Stats::new(1));
        let version = version(&stats);
        let monitors = Monitors::start(options(10_000), stats, Box::new(|_| {})).unwrap();
        for _ in 0..500 {
            monitors.scores(&version, vec![-1.0, -2.0]);
        }
        monitors.stop();
        assert_eq!(version.stats.watched().rows, 1000);
        let refused = monitors.reset(&version).unwrap_err();
        assert_eq!(refused.kind, Kind::Unavailable);
    }

    #[test]
    fn a_panic_does_not_end_watching() {
        let stats = Arc::new(Stats::new(1));
        let version = version(&stats);
        let tell = Box::new(|_| panic!("no ears"));
        let monitors = Monitors::start(options(10_000), Arc::clone(&stats), tell).unwrap();
        monitors.scores(&version, vec![-1e9; 2000]);
        monitors.reset(&version).unwrap();
        assert!(stats.watch_failures.get() > 0);
        monitors.scores(&version, vec![-1.0]);
        monitors.stop();
        assert_eq!(version.stats.watched().rows, 1);
    }
}
