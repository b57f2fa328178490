//! Answers on their way: in pieces, so that what waits for a slow peer is known, and with the memory of their request until
//! the last piece is taken.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, sleep};

use super::body::Held;
use super::stall::LEAST_RATE;

/// Bytes that are handed on at a time. A stream of HTTP/2 whose peer takes nothing holds no more of them outside of our sight.
const PIECE: usize = 8 << 10;

/// The requests of one HTTP/2 connection. Its peer decides how much of each answer it takes, and answers pings all the
/// same, so the socket tells nothing of an answer that waits.
pub(crate) struct Requests {
    patience: Duration,
    state: Mutex<State>,
}

struct State {
    /// Those that are not done, and until when the peer must take more, where there is an answer.
    open: BTreeMap<u64, Option<Instant>>,
    next: u64,
    /// Since when there is none.
    quiet_since: Instant,
}

impl Requests {
    pub(crate) fn new(patience: Duration) -> Self {
        let state = State { open: BTreeMap::new(), next: 0, quiet_since: Instant::now() };
        Requests { patience, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more.
    pub(crate) fn begin(self: &Arc<Self>) -> Open {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.open.insert(number, None);
        drop(state);
        Open { requests: Arc::clone(self), number }
    }

    /// Waits until the connection is of no use: nothing was asked for a time, or an answer was not taken.
    pub(crate) async fn given_up(&self) {
        loop {
            self.pause().await;
            let state = self.state();
            let now = Instant::now();
            let quiet = state.open.is_empty() && now >= state.quiet_since + self.patience;
            if quiet || state.open.values().flatten().any(|&until| until <= now) {
                return;
            }
        }
    }

    /// Waits until nothing is left but answers that are not taken; other requests are done first.
    pub(crate) async fn nothing_but_given_up(&self) {
        sleep(self.patience).await;
        loop {
            let now = Instant::now();
            if self.state().open.values().all(|until| until.is_some_and(|until| until <= now)) {
                return;
            }
            self.pause().await;
        }
    }

    async fn pause(&self) {
        sleep((self.patience / 4).max(Duration::from_millis(1))).await;
    }
}

/// A request that is not done.
pub(crate) struct Open {
    requests: Arc<Requests>,
    number: u64,
}

impl Open {
    /// The peer took so many bytes of the answer. Those who take too little run out of patience, as on a socket.
    fn took(&self, bytes: usize) {
        let mut state = self.requests.state();
        let now = Instant::now();
        let longest = now + self.requests.patience;
        let more = Duration::from_secs_f64(bytes as f64 / LEAST_RATE);
        if let Some(until) = state.open.get_mut(&self.number) {
            *until = Some(until.map_or(longest, |until| (until + more).min(longest)));
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.requests.state();
        state.open.remove(&self.number);
        if state.open.is_empty() {
            state.quiet_since = Instant::now();
        }
    }
}

/// The body of an answer, as it is sent. One that is a single piece for a socket of its own needs no care: the socket knows
/// whether its peer takes it.
pub(crate) fn on_its_way(body: Body, held: Held, open: Option<Open>) -> Body {
    let is_short = http_body::Body::size_hint(&body).exact().is_some_and(|n| n <= PIECE as u64);
    if is_short && open.is_none() { body } else { Body::new(Answering::new(body, held, open)) }
}

struct Answering {
    body: Body,
    /// What is left of a part of it that is too large for one piece.
    rest: Bytes,
    open: Option<Open>,
    _held: Held,
}

impl Answering {
    fn new(body: Body, held: Held, open: Option<Open>) -> Self {
        if let Some(open) = &open {
            open.took(0);
        }
        Answering { body, rest: Bytes::new(), open, _held: held }
    }

    fn piece(&mut self) -> Frame<Bytes> {
        let piece = self.rest.split_to(PIECE.min(self.rest.len()));
        if let Some(open) = &self.open {
            open.took(piece.len());
        }
        Frame::data(piece)
    }
}

impl http_body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            other => return Poll::Ready(other),
        };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(data) => {
                self.rest = data;
                self.piece()
            }
            Err(trailers) => trailers,
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt;

    use super::super::body::Budget;
    use super::*;
    use crate::stats::Stats;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn budget() -> Budget {
        Budget::new(1 << 20, Arc::new(Stats::new(1)))
    }

    #[tokio::test]
    async fn an_answer_goes_in_pieces_and_holds_its_memory_until_the_last_one() {
        let budget = budget();
        let bytes: Vec<u8> = (0..50_000).map(|k| k as u8).collect();
        let held = Held::new(budget.clone());
        held.take(50_000).unwrap();
        let mut body = Answering::new(Body::from(bytes.clone()), held, None);
        assert_eq!(body.size_hint().exact(), Some(50_000));
        let mut seen = Vec::new();
        while let Some(frame) = body.frame().await {
            assert!(budget.used() >= 50_000);
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE);
            seen.extend(piece);
            assert_eq!(body.size_hint().exact(), Some((50_000 - seen.len()) as u64));
        }
        assert_eq!(seen, bytes);
        drop(body);
        assert_eq!(budget.used(), 0);
    }

    /// Asks once, takes so many pieces of the answer, each after a pause, and tells after how long the connection is given up.
    async fn given_up_after(pieces: usize, pause: Duration) -> Duration {
        let requests = Arc::new(Requests::new(PATIENCE));
        let begun = Instant::now();
        let body = Body::from(vec![0; 4 << 20]);
        let mut body = Answering::new(body, Held::new(budget()), Some(requests.begin()));
        let reader = tokio::spawn(async move {
            for _ in 0..pieces {
                sleep(pause).await;
                body.frame().await.unwrap().unwrap();
            }
            // Still there, although it takes nothing.
            sleep(Duration::from_secs(36_000)).await;
        });
        requests.given_up().await;
        reader.abort();
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_is_given_up_and_one_that_is_taken_is_not() {
        let seconds = |seconds| Duration::from_secs(seconds);
        assert!(given_up_after(0, seconds(1)).await < seconds(40));
        // Of a peer that takes a piece now and then.
        assert!(given_up_after(500, seconds(20)).await < seconds(60));
        // 100 seconds at twice the least rate, and then nothing.
        let modest = given_up_after(500, Duration::from_millis(200)).await;
        assert!(modest > seconds(100), "{modest:?}");
        assert!(modest < seconds(140), "{modest:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_else_was_begun_is_done_before_a_connection_is_cut() {
        let begun = Instant::now();
        let requests = Arc::new(Requests::new(PATIENCE));
        let body = || Body::from(vec![0; 4 << 20]);
        let _untaken = Answering::new(body(), Held::new(budget()), Some(requests.begin()));
        let computes = requests.begin();
        tokio::spawn(async move {
            sleep(Duration::from_secs(300)).await;
            drop(computes);
        });
        requests.given_up().await;
        assert!(begun.elapsed() < Duration::from_secs(40));
        requests.nothing_but_given_up().await;
        let elapsed = begun.elapsed();
        assert!((300..=310).contains(&elapsed.as_secs()), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_nothing_is_asked_is_given_up_and_one_that_computes_is_not() {
        let begun = Instant::now();
        let requests = Arc::new(Requests::new(PATIENCE));
        let open = requests.begin();
        let computes = tokio::time::timeout(Duration::from_secs(600), requests.given_up()).await;
        assert!(computes.is_err());
        drop(open);
        requests.given_up().await;
        let elapsed = begun.elapsed();
        assert!((630..=640).contains(&elapsed.as_secs()), "{elapsed:?}");
    }
}
