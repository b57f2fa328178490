//! Rows that wait, and the threads that score them: small requests together, large ones in parts, models in turn.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::models::Version;
use crate::protocol::answer::Verdicts;
use crate::protocol::request::Inputs;
use crate::refusal::{Kind, Refusal};
use crate::stats::Stats;

/// What comes of a request.
type Reply = oneshot::Sender<Result<Verdicts, Refusal>>;

/// A request whose rows wait or are being scored.
struct Pending {
    /// Short enough to be kept with every row: the whole one goes back with the answer alone.
    id: Arc<str>,
    inputs: Inputs,
    gathered: Mutex<Gathered>,
}

struct Gathered {
    verdicts: Verdicts,
    /// Parts that are not done.
    open: usize,
    reply: Option<Reply>,
}

/// Rows of a request that are scored at once.
#[derive(Clone)]
pub(crate) struct Task {
    pending: Arc<Pending>,
    pub(crate) start: usize,
    rows: usize,
}

impl Task {
    pub(crate) fn id(&self) -> &Arc<str> {
        &self.pending.id
    }

    pub(crate) fn inputs(&self) -> &Inputs {
        &self.pending.inputs
    }

    fn part(&self) -> (&Inputs, usize, usize) {
        (&self.pending.inputs, self.start, self.rows)
    }

    /// Whether nobody waits for it any more.
    fn is_abandoned(&self) -> bool {
        lock(&self.pending.gathered).reply.as_ref().is_none_or(Reply::is_closed)
    }

    fn finish(&self, result: Result<Verdicts, Refusal>) {
        let mut gathered = lock(&self.pending.gathered);
        match result {
            Ok(part) => {
                let rows = self.start..self.start + self.rows;
                let all = &mut gathered.verdicts;
                all.scores[rows.clone()].copy_from_slice(&part.scores);
                if !part.p_values.is_empty() {
                    all.p_values[rows.clone()].copy_from_slice(&part.p_values);
                    all.is_out[rows].copy_from_slice(&part.is_out);
                }
                gathered.open -= 1;
                if gathered.open == 0
                    && let Some(reply) = gathered.reply.take()
                {
                    let _ = reply.send(Ok(std::mem::take(&mut gathered.verdicts)));
                }
            }
            // The first refusal is the answer.
            Err(refusal) => {
                if let Some(reply) = gathered.reply.take() {
                    let _ = reply.send(Err(refusal));
                }
            }
        }
    }
}

/// The tasks of one model that wait.
#[derive(Default)]
pub(crate) struct Queue(Mutex<Line>);

#[derive(Default)]
struct Line {
    tasks: VecDeque<Task>,
    /// Rows of all of them.
    rows: usize,
    /// Whether the model has a turn, or is about to be looked at because of one.
    has_turn: bool,
}

/// A model with tasks, and when its batch is due.
struct Turn {
    due: Instant,
    version: Arc<Version>,
}

#[derive(Default)]
struct Turns {
    list: VecDeque<Turn>,
    /// Nothing waits for company any more.
    hurried: bool,
    /// No more will come; what waits is still done.
    ended: bool,
}

impl Turns {
    fn of(&mut self, version: &Arc<Version>) -> Option<&mut Turn> {
        self.list.iter_mut().find(|turn| Arc::ptr_eq(&turn.version, version))
    }
}

/// How rows are put together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchOptions {
    pub(crate) max_batch: usize,
    pub(crate) delay: Duration,
    pub(crate) max_queue: usize,
    pub(crate) threads: usize,
}

/// Who is told of every batch, in the order in which batches end.
pub(crate) type Listener = dyn Fn(&Arc<Version>, Vec<f64>) + Send + Sync;

struct Shared {
    options: BatchOptions,
    turns: Mutex<Turns>,
    news: Condvar,
    /// Rows in all queues.
    waiting: AtomicUsize,
    stats: Arc<Stats>,
    listener: Box<Listener>,
}

/// Takes requests and scores their rows.
pub(crate) struct Scorers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Scorers {
    /// Starts the threads.
    pub(crate) fn start(
        options: BatchOptions,
        stats: Arc<Stats>,
        listener: Box<Listener>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            options,
            turns: Mutex::default(),
            news: Condvar::new(),
            waiting: AtomicUsize::new(0),
            stats,
            listener,
        });
        let start = |number: usize| {
            let shared = Arc::clone(&shared);
            let name = format!("score-{number}");
            std::thread::Builder::new().name(name).spawn(move || shared.work())
        };
        let threads = (0..options.threads).map(start).collect::<std::io::Result<Vec<_>>>()?;
        Ok(Scorers { shared, threads: Mutex::new(threads) })
    }

    /// Puts the rows of a request in line.
    ///
    /// # Errors
    /// If too many wait already.
    pub(crate) fn submit(
        &self,
        version: &Arc<Version>,
        id: Arc<str>,
        inputs: Inputs,
    ) -> Result<oneshot::Receiver<Result<Verdicts, Refusal>>, Refusal> {
        let (reply, receiver) = oneshot::channel();
        let rows = inputs.rows;
        let BatchOptions { max_batch, delay, max_queue, .. } = self.shared.options;
        if rows == 0 {
            let _ = reply.send(Ok(Verdicts::default()));
            return Ok(receiver);
        }
        // A request that is larger than the whole queue may have it for itself.
        let fits = |waiting: usize| {
            (waiting == 0 || waiting + rows <= max_queue).then_some(waiting + rows)
        };
        let admitted = self.shared.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits);
        if let Err(waiting) = admitted {
            self.shared.stats.rejected.add("queue");
            let reason = format!(
                "{waiting} rows are waiting already, and at most {max_queue} may; try again soon"
            );
            return Err(Refusal::new(Kind::Busy, reason));
        }
        let parts = rows.div_ceil(max_batch);
        let decided = if version.threshold().is_some() { rows } else { 0 };
        let verdicts = Verdicts {
            scores: vec![0.0; rows],
            p_values: vec![0.0; decided],
            is_out: vec![false; decided],
        };
        let gathered = Mutex::new(Gathered { verdicts, open: parts, reply: Some(reply) });
        let pending = Arc::new(Pending { id, inputs, gathered });
        let mut line = lock(&version.queue.0);
        for start in (0..rows).step_by(max_batch) {
            let rows = max_batch.min(rows - start);
            line.tasks.push_back(Task { pending: Arc::clone(&pending), start, rows });
        }
        let was_full = line.rows >= max_batch;
        line.rows += rows;
        let full = line.rows >= max_batch;
        let is_new = !std::mem::replace(&mut line.has_turn, true);
        // One turn for all that wait: whoever comes later has nobody to wake unless a batch is full before its time.
        if is_new || (full && !was_full && !delay.is_zero()) {
            let now = Instant::now();
            let due = if full { now } else { now + delay };
            // The line is still locked, so its turn is in the list as soon as anybody can rely on it.
            let mut turns = lock(&self.shared.turns);
            if is_new {
                turns.list.push_back(Turn { due, version: Arc::clone(version) });
            } else if let Some(turn) = turns.of(version) {
                turn.due = due;
            }
            drop(turns);
            self.shared.news.notify_one();
        }
        drop(line);
        Ok(receiver)
    }

    /// Rows that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Acquire)
    }

    /// From now on no batch waits for more rows.
    pub(crate) fn hurry(&self) {
        lock(&self.shared.turns).hurried = true;
        self.shared.news.notify_all();
    }

    /// Ends the threads when everything that waits is done.
    pub(crate) fn stop(&self) {
        self.hurry();
        lock(&self.shared.turns).ended = true;
        self.shared.news.notify_all();
        for thread in lock(&self.threads).drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(version) = self.next_turn() {
            let batch = self.take_batch(&version);
            if !batch.is_empty() {
                self.carry_out(&version, &batch);
            }
        }
    }

    /// Waits for a model whose batch is due; none when there will be no more.
    fn next_turn(&self) -> Option<Arc<Version>> {
        let mut turns = lock(&self.turns);
        loop {
            let now = Instant::now();
            let (hurried, ended) = (turns.hurried, turns.ended);
            if let Some(index) = turns.list.iter().position(|turn| turn.due <= now || hurried) {
                return turns.list.remove(index).map(|turn| turn.version);
            }
            if ended {
                return None;
            }
            turns = match turns.list.iter().map(|turn| turn.due).min() {
                Some(due) => {
                    let wait = self.news.wait_timeout(turns, due - now);
                    wait.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.news.wait(turns).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Tasks from the front of a model's queue, as many as make a batch. What is left gets another turn, behind those of
    /// other models.
    fn take_batch(&self, version: &Arc<Version>) -> Vec<Task> {
        let mut batch: Vec<Task> = Vec::new();
        let mut rows = 0;
        let mut line = lock(&version.queue.0);
        while let Some(task) = line.tasks.front() {
            let goes =
                batch.first().is_none_or(|first| version.goes_with(first.inputs(), task.inputs()));
            if !goes || (rows > 0 && rows + task.rows > self.options.max_batch) {
                break;
            }
            let Some(task) = line.tasks.pop_front() else { break };
            line.rows -= task.rows;
            self.waiting.fetch_sub(task.rows, Ordering::AcqRel);
            if task.is_abandoned() {
                continue;
            }
            rows += task.rows;
            batch.push(task);
        }
        line.has_turn = !line.tasks.is_empty();
        if line.has_turn {
            let turn = Turn { due: Instant::now(), version: Arc::clone(version) };
            lock(&self.turns).list.push_back(turn);
            self.news.notify_one();
        }
        drop(line);
        batch
    }

    fn carry_out(&self, version: &Arc<Version>, batch: &[Task]) {
        match self.score(version, batch) {
            Ok(verdicts) => {
                self.stats.batch_rows.add(verdicts.rows() as f64);
                let mut start = 0;
                for task in batch {
                    let rows = start..start + task.rows;
                    start = rows.end;
                    let told = self.guarded(version, std::slice::from_ref(task), || {
                        let part = verdicts.part(rows);
                        version.record(task, &part);
                        task.finish(Ok(part));
                    });
                    if let Err(refusal) = told {
                        task.finish(Err(refusal));
                    }
                }
                let _ = self.guarded(version, batch, || (self.listener)(version, verdicts.scores));
            }
            Err(refusal) if batch.len() == 1 => batch[0].finish(Err(refusal)),
            // One of them is bad: each on its own tells which.
            Err(_) => {
                for task in batch {
                    self.carry_out(version, std::slice::from_ref(task));
                }
            }
        }
    }

    fn score(&self, version: &Version, batch: &[Task]) -> Result<Verdicts, Refusal> {
        let parts: Vec<_> = batch.iter().map(Task::part).collect();
        self.guarded(version, batch, || version.score(&parts))?
    }

    /// Turns a panic into a refusal: whatever goes wrong with these tasks, the thread goes on with the next ones.
    fn guarded<T>(
        &self,
        version: &Version,
        batch: &[Task],
        work: impl FnOnce() -> T,
    ) -> Result<T, Refusal> {
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
            let ids: Vec<&str> = batch.iter().map(|task| &**task.id()).collect();
            tracing::error!(ids = ?ids, model = version.name, "scoring failed: {}", panic_words(&*panic));
            self.stats.panics.add(1);
            Refusal::new(
                Kind::Internal,
                "scoring failed; the log has the reason under the request's id",
            )
        })
    }
}

/// What a panic said.
pub(crate) fn panic_words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason was given")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::element::Element;
    use crate::protocol::signature::Role;
    use crate::protocol::tensor::Tensor;

    fn inputs(rows: usize) -> Inputs {
        let numbers: Vec<f64> = (0..rows * Version::SMALL_WIDTH).map(|k| k as f64).collect();
        let shape = vec![rows, Version::SMALL_WIDTH];
        let data = Element::F32.encode(&numbers).into();
        let tensor = Arc::new(Tensor { element: Element::F32, shape, data });
        Inputs { tensors: vec![(Role::Features, tensor)], rows, held: None }
    }

    fn start(stats: &Arc<Stats>, delay: Duration, listener: Box<Listener>) -> Scorers {
        let options = BatchOptions { max_batch: 4, delay, max_queue: 1000, threads: 1 };
        Scorers::start(options, Arc::clone(stats), listener).unwrap()
    }

    #[test]
    fn a_panic_beside_the_scoring_ends_no_thread() {
        let stats = Arc::new(Stats::new(4));
        let version = Arc::new(Version::small(&stats));
        let scorers = start(&stats, Duration::ZERO, Box::new(|_, _| panic!("no ears")));
        for rows in [1, 9, 2] {
            let answer = scorers.submit(&version, "one".into(), inputs(rows)).unwrap();
            assert_eq!(answer.blocking_recv().unwrap().unwrap().rows(), rows);
        }
        scorers.stop();
        // Of 1, of 4 and 4 and 1, and of 2 rows.
        assert_eq!(stats.panics.get(), 5);
    }

    #[test]
    fn a_model_has_one_turn_however_many_wait_and_a_full_batch_waits_no_longer() {
        let stats = Arc::new(Stats::new(4));
        let version = Arc::new(Version::small(&stats));
        let scorers = start(&stats, Duration::from_secs(3600), Box::new(|_, _| {}));
        let submit = |rows| scorers.submit(&version, "one".into(), inputs(rows)).unwrap();
        let answers: Vec<_> = [1, 1, 1].map(submit).into();
        assert_eq!(lock(&scorers.shared.turns).list.len(), 1);
        assert_eq!(scorers.waiting(), 3);
        let last = submit(1);
        for answer in answers.into_iter().chain([last]) {
            assert_eq!(answer.blocking_recv().unwrap().unwrap().rows(), 1);
        }
        // Nothing is left behind, and the next one begins a new turn.
        let (next, behind) = (submit(3), submit(3));
        scorers.hurry();
        assert_eq!(next.blocking_recv().unwrap().unwrap().rows(), 3);
        assert_eq!(behind.blocking_recv().unwrap().unwrap().rows(), 3);
        scorers.stop();
        assert_eq!((scorers.waiting(), lock(&scorers.shared.turns).list.len()), (0, 0));
        assert_eq!(stats.panics.get(), 0);
    }
}
