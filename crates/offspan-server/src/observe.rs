//! Around every request: its id, its trace, its bounds, a line in the log, and a net under panics.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tracing::{Instrument, Level, Span};

use crate::app::{App, Arrived};
use crate::batch::panic_words;
use crate::net::answering::{Requests, on_its_way};
use crate::net::auth::Door;
use crate::net::body::{Bounded, Bounds};
use crate::refusal::{Kind, Refusal};
use crate::rest::answer::refused;
use crate::trace::Trace;

/// What the layer around a listener's routes knows.
#[derive(Clone)]
pub(crate) struct Observer {
    pub(crate) app: Arc<App>,
    pub(crate) door: Door,
}

/// Paths that tell nothing and that probes ask without a token. The page asks for one itself.
const OPEN: [&str; 3] = ["/", "/v2/health/live", "/v2/health/ready"];
/// The same of gRPC.
const OPEN_CALLS: [&str; 2] =
    ["/inference.GRPCInferenceService/ServerLive", "/inference.GRPCInferenceService/ServerReady"];

impl Observer {
    fn check(&self, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        let open = match self.door {
            Door::Rest | Door::Admin => OPEN.contains(&path),
            Door::Grpc => OPEN_CALLS.contains(&path),
        };
        match self.app.tokens_of(self.door) {
            Some(tokens) if !open => tokens.check(headers),
            _ => Ok(()),
        }
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        match self.door {
            Door::Grpc => tonic::Status::from(refusal.clone()).into_http(),
            Door::Rest | Door::Admin => refused(refusal),
        }
    }
}

/// Counts what is under way, also where it is given up half-way.
struct InFlight<'a>(&'a AtomicUsize);

impl<'a> InFlight<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        InFlight(count)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The layer itself.
pub(crate) async fn observe(
    State(observer): State<Observer>,
    request: Request,
    next: Next,
) -> Response {
    let app = Arc::clone(&observer.app);
    let _under_way = InFlight::new(&app.stats.in_flight);
    // Of a connection whose peer decides what of an answer it takes.
    let open = request.extensions().get::<Arc<Requests>>().map(Requests::begin);
    let arrived = Arrived(Instant::now());
    let trace = Trace::of(request.headers());
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let (request_id, parent) = (trace.request_id.clone(), trace.parent.clone());
    let describe = move || {
        tracing::info_span!(
            "request",
            id = %request_id,
            trace_id = parent.as_ref().map(|parent| parent.trace_id.as_str()),
            method = %method,
            path = uri.path(),
        )
    };
    // Its fields become text when it is made, which most requests can do without.
    let always = tracing::enabled!(Level::DEBUG) || app.config.otlp.is_some();
    let span = if always { describe() } else { Span::none() };
    #[cfg(feature = "otel")]
    crate::log::otel::set_parent(&span, request.headers());
    let checked = observer.check(request.uri().path(), request.headers());
    let answer = async {
        if let Err(refusal) = checked {
            app.stats.strays.add(refusal.kind.status().as_u16());
            return observer.refuse(&refusal);
        }
        let bounds = Bounds {
            most: app.config.max_body,
            budget: app.budget.clone(),
            deadline: app.deadline(arrived),
            grpc: observer.door == Door::Grpc,
        };
        let (mut parts, body) = request.into_parts();
        let (body, held) = Bounded::new(body, bounds);
        parts.extensions.insert(held.clone());
        parts.extensions.insert(arrived);
        parts.extensions.insert(trace.clone());
        let request = Request::from_parts(parts, Body::new(body));
        let answer = Net(Box::pin(next.run(request))).await.unwrap_or_else(|panic| {
            tracing::error!(
                id = trace.request_id,
                "a request failed where nothing should: {}",
                panic_words(&*panic)
            );
            app.stats.panics.add(1);
            let reason = format!(
                "this failed on our side; the log has the reason under {}",
                trace.request_id
            );
            observer.refuse(&Refusal::new(Kind::Internal, reason))
        });
        answer.map(|body| on_its_way(body, held, open))
    };
    let mut answer = answer.instrument(span.clone()).await;
    trace.tell(answer.headers_mut());
    let status = answer.status();
    if always {
        span.in_scope(|| tell(status, arrived));
    } else if status.is_client_error() || status.is_server_error() {
        describe().in_scope(|| tell(status, arrived));
    }
    answer
}

/// A line for what went wrong; of what went well only those who ask for details hear.
fn tell(status: StatusCode, arrived: Arrived) {
    let (status, seconds) = (status.as_u16(), arrived.0.elapsed().as_secs_f64());
    match status {
        500.. => tracing::warn!(status, seconds, "answered"),
        400..500 => tracing::info!(status, seconds, "answered"),
        _ => tracing::debug!(status, seconds, "answered"),
    }
}

/// A future whose panics are results.
struct Net<F>(Pin<Box<F>>);

impl<F: Future> Future for Net<F> {
    type Output = std::thread::Result<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.0.as_mut();
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_result() {
        let fine = Net(Box::pin(async { 7 })).await;
        assert_eq!(fine.unwrap(), 7);
        let failed = Net(Box::pin(async {
            tokio::task::yield_now().await;
            panic!("no {}", 3)
        }))
        .await;
        let panic: Box<dyn std::any::Any + Send> = failed.map(|(): ()| ()).unwrap_err();
        assert_eq!(panic_words(&*panic), "no 3");
    }
}
