//! Bodies of requests, bounded in size, in time, and in what all of them take of the memory.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::refusal::{Kind, Refusal};
use crate::stats::Stats;

/// Memory is counted in these.
const UNIT: usize = 4096;

/// Memory for bodies, which all requests share.
#[derive(Clone)]
pub(crate) struct Budget {
    units: Arc<Semaphore>,
    all: usize,
    stats: Arc<Stats>,
}

impl Budget {
    pub(crate) fn new(bytes: usize, stats: Arc<Stats>) -> Self {
        let all = bytes.div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        Budget { units: Arc::new(Semaphore::new(all)), all, stats }
    }

    /// Bytes that requests hold now.
    pub(crate) fn used(&self) -> usize {
        UNIT * self.all.saturating_sub(self.units.available_permits())
    }
}

/// What a request holds until its answer is sent and its rows are out of the queue: its body, what is made of it, and the answer.
#[derive(Clone)]
pub(crate) struct Held {
    budget: Budget,
    paid: Arc<Mutex<Paid>>,
}

#[derive(Default)]
struct Paid {
    bytes: usize,
    units: usize,
    permit: Option<OwnedSemaphorePermit>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl Held {
    pub(super) fn new(budget: Budget) -> Self {
        Held { budget, paid: Arc::default() }
    }

    /// Takes memory for more bytes.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Refusal> {
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        paid.bytes = paid.bytes.saturating_add(bytes);
        let all = paid.bytes.div_ceil(UNIT);
        if all > self.budget.all {
            let reason = format!(
                "expected a request that takes at most {} bytes of memory when it is read, got more",
                UNIT * self.budget.all
            );
            return Err(Refusal::new(Kind::Large, reason));
        }
        let busy = || {
            self.budget.stats.rejected.add("memory");
            Refusal::new(Kind::Busy, "the memory for requests is used up; try again soon")
        };
        if all > paid.units {
            let units = u32::try_from(all - paid.units).map_err(|_| busy())?;
            let permit = Arc::clone(&self.budget.units).try_acquire_many_owned(units);
            let permit = permit.map_err(|_| busy())?;
            match &mut paid.permit {
                Some(known) => known.merge(permit),
                none => *none = Some(permit),
            }
            paid.units = all;
        }
        Ok(())
    }
}

/// Bounds of one body.
#[derive(Clone)]
pub(crate) struct Bounds {
    pub(crate) most: usize,
    pub(crate) budget: Budget,
    pub(crate) deadline: Instant,
    /// Whether refusals are told as gRPC does.
    pub(crate) grpc: bool,
}

/// A body within bounds.
pub(crate) struct Bounded {
    body: Body,
    bounds: Bounds,
    held: Held,
    seen: usize,
    timer: Pin<Box<Sleep>>,
}

impl Bounded {
    pub(crate) fn new(body: Body, bounds: Bounds) -> (Self, Held) {
        let held = Held::new(bounds.budget.clone());
        let timer = Box::pin(sleep_until(bounds.deadline));
        let bounded = Bounded { body, bounds, held: held.clone(), seen: 0, timer };
        (bounded, held)
    }

    /// Counts more bytes, and takes memory for them.
    fn take(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.seen += bytes;
        let most = self.bounds.most;
        if self.seen > most {
            let reason = format!("expected a body of at most {most} bytes, got more");
            return Err(Refusal::new(Kind::Large, reason));
        }
        self.held.take(bytes)
    }

    fn failed(&self, refusal: Refusal) -> axum::Error {
        if self.bounds.grpc {
            axum::Error::new(tonic::Status::from(refusal))
        } else {
            axum::Error::new(refusal)
        }
    }
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                match self.take(bytes) {
                    Ok(()) => Poll::Ready(Some(Ok(frame))),
                    Err(refusal) => Poll::Ready(Some(Err(self.failed(refusal)))),
                }
            }
            Poll::Pending if self.timer.as_mut().poll(cx).is_ready() => {
                let refusal = Refusal::new(Kind::Slow, "the body took too long to arrive");
                Poll::Ready(Some(Err(self.failed(refusal))))
            }
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What an error of a body says: one of our own refusals, or that the client went away.
pub(crate) fn refusal_of(error: &(dyn std::error::Error + 'static)) -> Refusal {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(refusal) = error.downcast_ref::<Refusal>() {
            return refusal.clone();
        }
        next = error.source();
    }
    Refusal::bad("the body ended before it was complete")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;

    use super::*;

    fn bounds(most: usize, memory: usize) -> Bounds {
        let deadline = Instant::now() + Duration::from_secs(3600);
        let budget = Budget::new(memory, Arc::new(Stats::new(1)));
        Bounds { most, budget, deadline, grpc: false }
    }

    async fn kind(body: Body, bounds: Bounds) -> Option<Kind> {
        let (body, _held) = Bounded::new(body, bounds);
        body.collect().await.err().map(|error| refusal_of(&error).kind)
    }

    #[tokio::test]
    async fn bodies_are_bounded_in_size_and_in_memory() {
        let body = || Body::from(vec![0u8; 10_000]);
        assert_eq!(kind(body(), bounds(10_000, 1 << 20)).await, None);
        assert_eq!(kind(body(), bounds(9_999, 1 << 20)).await, Some(Kind::Large));
        // What does not fit when all is free never will.
        assert_eq!(kind(body(), bounds(10_000, 8_192)).await, Some(Kind::Large));
        // Memory comes back when a request is answered.
        let shared = bounds(10_000, 12_288);
        for _ in 0..5 {
            assert_eq!(kind(body(), shared.clone()).await, None);
        }
        let (first, held) = Bounded::new(body(), shared.clone());
        first.collect().await.unwrap();
        assert_eq!(kind(body(), shared.clone()).await, Some(Kind::Busy));
        assert_eq!(shared.budget.stats.rejected.all(), [("memory", 1)]);
        drop(held);
        assert_eq!(kind(body(), shared).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_given_up() {
        struct Never;
        impl http_body::Body for Never {
            type Data = Bytes;
            type Error = axum::Error;

            fn poll_frame(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
                Poll::Pending
            }
        }
        assert_eq!(kind(Body::new(Never), bounds(10, 1 << 20)).await, Some(Kind::Slow));
    }
}
