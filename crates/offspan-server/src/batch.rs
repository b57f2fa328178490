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
    id: String,
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
    pub(crate) fn id(&self) -> &str {
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
pub(crate) struct Queue(Mutex<VecDeque<Task>>);

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
        id: String,
        inputs: Inputs,
    ) -> Result<oneshot::Receiver<Result<Verdicts, Refusal>>, Refusal> {
        let (reply, receiver) = oneshot::channel();
        let rows = inputs.rows;
        let BatchOptions { max_batch, delay, max_queue, .. } = self.shared.options;
        let has_threshold = version.threshold().is_some();
        let decided = if has_threshold { rows } else { 0 };
        let verdicts = Verdicts {
            scores: vec![0.0; rows],
            p_values: vec![0.0; decided],
            is_out: vec![false; decided],
        };
        if rows == 0 {
            let _ = reply.send(Ok(verdicts));
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
        let gathered = Mutex::new(Gathered { verdicts, open: parts, reply: Some(reply) });
        let pending = Arc::new(Pending { id, inputs, gathered });
        let full = {
            let mut queue = lock(&version.queue.0);
            for start in (0..rows).step_by(max_batch) {
                let rows = max_batch.min(rows - start);
                queue.push_back(Task { pending: Arc::clone(&pending), start, rows });
            }
            let mut total = 0;
            queue.iter().any(|task| {
                total += task.rows;
                total >= max_batch
            })
        };
        let now = Instant::now();
        let due = if full { now } else { now + delay };
        lock(&self.shared.turns).list.push_back(Turn { due, version: Arc::clone(version) });
        self.shared.news.notify_one();
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

    /// Tasks from the front of a model's queue, as many as make a batch. Every submission has a turn of its own, so what
    /// is left has one, too.
    fn take_batch(&self, version: &Arc<Version>) -> Vec<Task> {
        let mut batch: Vec<Task> = Vec::new();
        let mut rows = 0;
        let mut left;
        {
            let mut queue = lock(&version.queue.0);
            while let Some(task) = queue.front() {
                let goes = batch
                    .first()
                    .is_none_or(|first| version.goes_with(first.inputs(), task.inputs()));
                if !goes || (rows > 0 && rows + task.rows > self.options.max_batch) {
                    break;
                }
                let Some(task) = queue.pop_front() else { break };
                self.waiting.fetch_sub(task.rows, Ordering::AcqRel);
                if task.is_abandoned() {
                    continue;
                }
                rows += task.rows;
                batch.push(task);
            }
            left = !queue.is_empty();
        }
        // Parts of one request share a turn.
        if left {
            let mut turns = lock(&self.turns);
            left = !turns.list.iter().any(|turn| Arc::ptr_eq(&turn.version, version));
            if left {
                turns.list.push_back(Turn { due: Instant::now(), version: Arc::clone(version) });
            }
            drop(turns);
            self.news.notify_one();
        }
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
                    let decided = if verdicts.p_values.is_empty() { 0..0 } else { rows.clone() };
                    let part = Verdicts {
                        scores: verdicts.scores[rows].to_vec(),
                        p_values: verdicts.p_values[decided.clone()].to_vec(),
                        is_out: verdicts.is_out[decided].to_vec(),
                    };
                    version.record(task, &part);
                    task.finish(Ok(part));
                }
                (self.listener)(version, verdicts.scores);
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

    /// Scores, and turns a panic into a refusal.
    fn score(&self, version: &Version, batch: &[Task]) -> Result<Verdicts, Refusal> {
        let parts: Vec<_> = batch.iter().map(Task::part).collect();
        let result = catch_unwind(AssertUnwindSafe(|| version.score(&parts)));
        result.unwrap_or_else(|panic| {
            let ids: Vec<&str> = batch.iter().map(Task::id).collect();
            tracing::error!(ids = ?ids, model = version.name, "scoring failed: {}", panic_words(&*panic));
            self.stats.panics.add(1);
            Err(Refusal::new(Kind::Internal, "scoring failed; the log has the reason under the request's id"))
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
