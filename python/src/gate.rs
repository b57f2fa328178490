//! The one gate through which work leaves Python: other Python threads run meanwhile, Ctrl-C stops
//! it, and errors come back as exceptions.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use offspan::Observer;
use pyo3::exceptions::{PyRuntimeError, PyUserWarning};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors::{exception, input_error};

/// Least time between two looks for signals, and between two reports of progress.
const PAUSE: Duration = Duration::from_millis(50);

/// More threads than this are a mistake.
const MOST_THREADS: usize = 1024;

/// Threads asked for; 0: all that there are.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Threads for callers that have joined a pool of another size, with the process that started them:
/// those of a parent do not exist in a fork.
static POOL: Mutex<Option<(u32, usize, Arc<ThreadPool>)>> = Mutex::new(None);

/// Sets how many threads a call uses; None for all cores. Results do not depend on it.
#[pyfunction]
#[pyo3(signature = (count=None))]
pub(crate) fn set_threads(py: Python<'_>, count: Option<usize>) -> PyResult<()> {
    if let Some(count) = count
        && !(1..=MOST_THREADS).contains(&count)
    {
        let text = format!("threads: expected from 1 to {MOST_THREADS}, got {count}");
        return Err(input_error(py, text));
    }
    THREADS.store(count.unwrap_or(0), Ordering::Relaxed);
    Ok(())
}

/// How many threads a call uses.
#[pyfunction]
pub(crate) fn threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => default_threads(),
        count => count,
    }
}

fn default_threads() -> usize {
    // Asking the system takes as long as half a score.
    static DEFAULT: OnceLock<usize> = OnceLock::new();
    *DEFAULT.get_or_init(|| {
        let asked = std::env::var("OFFSPAN_NUM_THREADS").ok().and_then(|text| text.parse().ok());
        asked.filter(|count| (1..=MOST_THREADS).contains(count)).unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
        })
    })
}

/// Runs a short job: nothing can interrupt it.
pub(crate) fn quick<T: Send>(
    py: Python<'_>,
    job: impl FnOnce() -> offspan::Result<T> + Send,
) -> PyResult<T> {
    let result = py.detach(|| match place(threads())? {
        Place::Here => Ok(job()),
        Place::Elsewhere(pool) => Ok(pool.install(job)),
    });
    result.and_then(|result: offspan::Result<T>| result.map_err(|error| exception(py, &error)))
}

/// Runs a job that may take long. It tells `progress`, a Python callable of stage, steps done and
/// steps in all; notes become warnings.
pub(crate) fn work<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    job: impl FnOnce(&dyn Observer) -> offspan::Result<T> + Send,
) -> PyResult<T> {
    let watch = Watch::new(progress);
    let result = py.detach(|| match place(threads())? {
        Place::Here => Ok(job(&watch)),
        Place::Elsewhere(pool) => on_pool(&pool, &watch, || job(&watch)),
    })?;
    if let Some(error) = watch.take_failure() {
        return Err(error);
    }
    for note in watch.take_notes() {
        let warnings = py.import("warnings")?;
        warnings.call_method1("warn", (note, py.get_type::<PyUserWarning>(), 4))?;
    }
    result.map_err(|error| exception(py, &error))
}

/// Where a job runs.
enum Place {
    /// On the calling thread, which is one of its pool's: waking another one would take longer than
    /// the score of a row, and Python delivers signals to its main thread only.
    Here,
    /// On threads of another number than those that the calling thread has joined.
    Elsewhere(Arc<ThreadPool>),
}

/// A pool that a thread has made and joined. It ends with the thread.
struct Joined {
    count: usize,
    _pool: ThreadPool,
}

thread_local! {
    static JOINED: RefCell<Option<Joined>> = const { RefCell::new(None) };
}

fn place(count: usize) -> PyResult<Place> {
    JOINED.with_borrow_mut(|joined| match joined {
        // In a forked process the others do not exist; then this thread does all the work.
        Some(own) if own.count == count => Ok(Place::Here),
        Some(_) => shared(count).map(Place::Elsewhere),
        None => {
            let pool = build(ThreadPoolBuilder::new().use_current_thread(), count)?;
            *joined = Some(Joined { count, _pool: pool });
            Ok(Place::Here)
        }
    })
}

fn shared(count: usize) -> PyResult<Arc<ThreadPool>> {
    let mut kept = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    match &*kept {
        Some((owner, threads, pool)) if (*owner, *threads) == (process, count) => {
            Ok(Arc::clone(pool))
        }
        _ => {
            let pool = Arc::new(build(ThreadPoolBuilder::new(), count)?);
            if let Some((owner, _, old)) = kept.replace((process, count, Arc::clone(&pool)))
                && owner != process
            {
                // Its threads do not exist here, so nothing must wait for them.
                std::mem::forget(old);
            }
            Ok(pool)
        }
    }
}

fn build(builder: ThreadPoolBuilder, count: usize) -> PyResult<ThreadPool> {
    builder
        .num_threads(count)
        .thread_name(|index| format!("offspan-{index}"))
        .build()
        .map_err(|error| PyRuntimeError::new_err(format!("cannot start {count} threads: {error}")))
}

/// The job on the pool's threads, while the calling thread looks for signals.
fn on_pool<T: Send>(
    pool: &ThreadPool,
    watch: &Watch<'_>,
    job: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let result = pool.in_place_scope(|scope| {
        scope.spawn(move |_| {
            // The receiver is there until the scope ends.
            let _ = sender.send(job());
        });
        loop {
            match receiver.recv_timeout(PAUSE) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Timeout) => watch.look_for_signals(),
                // The job panicked; the scope passes that on.
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    });
    result.ok_or_else(|| PyRuntimeError::new_err("the work ended without a result"))
}

/// Watches a job for Python.
struct Watch<'a> {
    progress: Option<&'a Py<PyAny>>,
    /// The thread that may receive signals.
    caller: std::thread::ThreadId,
    stop: AtomicBool,
    state: Mutex<State>,
    steps: AtomicU64,
}

struct State {
    stage: String,
    total: u64,
    last_look: Instant,
    last_report: Instant,
    notes: Vec<String>,
    failure: Option<PyErr>,
}

impl<'a> Watch<'a> {
    fn new(progress: Option<&'a Py<PyAny>>) -> Self {
        let now = Instant::now();
        Watch {
            progress,
            caller: std::thread::current().id(),
            stop: AtomicBool::new(false),
            state: Mutex::new(State {
                stage: String::new(),
                total: 0,
                last_look: now,
                last_report: now,
                notes: Vec::new(),
                failure: None,
            }),
            steps: AtomicU64::new(0),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_failure(&self) -> Option<PyErr> {
        self.state().failure.take()
    }

    fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notes)
    }

    fn fail(&self, error: PyErr) {
        self.state().failure.get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    fn look_for_signals(&self) {
        if let Err(error) = Python::attach(|py| py.check_signals()) {
            self.fail(error);
        }
    }

    /// Calls the progress function without holding the lock: Python may switch threads in it.
    fn report(&self, force: bool) {
        let Some(progress) = self.progress else { return };
        let (stage, total) = {
            let mut state = self.state();
            if !force && state.last_report.elapsed() < PAUSE {
                return;
            }
            state.last_report = Instant::now();
            (state.stage.clone(), state.total)
        };
        let done = self.steps.load(Ordering::Relaxed);
        if let Err(error) = Python::attach(|py| progress.call1(py, (stage, done, total))) {
            self.fail(error);
        }
    }
}

impl Observer for Watch<'_> {
    fn begin(&self, stage: &str, steps: u64) {
        {
            let mut state = self.state();
            stage.clone_into(&mut state.stage);
            state.total = steps;
        }
        self.steps.store(0, Ordering::Relaxed);
        self.report(true);
    }

    fn advance(&self, steps: u64) {
        let done = self.steps.fetch_add(steps, Ordering::Relaxed) + steps;
        let finished = done >= self.state().total;
        self.report(finished);
    }

    fn note(&self, text: &str) {
        self.state().notes.push(text.to_owned());
    }

    fn interrupted(&self) -> bool {
        // On the thread where signals arrive the job looks for them itself.
        if std::thread::current().id() == self.caller {
            let due = {
                let mut state = self.state();
                let due = state.last_look.elapsed() >= PAUSE;
                if due {
                    state.last_look = Instant::now();
                }
                due
            };
            if due {
                self.look_for_signals();
            }
        }
        self.stop.load(Ordering::Relaxed)
    }
}
