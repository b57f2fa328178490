//! What is done to models, and metrics: with the protocol, or at an address of their own.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;

use crate::app::App;
use crate::net::auth::{Door, check_own_site};
use crate::refusal::{Kind, Refusal};
use crate::rest::answer::{document, or_refused, refused, with_body};
use crate::rest::collect;
use crate::rest::named::Named;

const PROMETHEUS: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// What Prometheus reads.
pub(crate) fn metrics() -> Router<Arc<App>> {
    Router::new().route("/metrics", get(exposition))
}

/// Models and monitors. The index is for everyone.
pub(crate) fn index() -> Router<Arc<App>> {
    Router::new().route("/v2/repository/index", post(list))
}

/// Who may change something at a listener.
#[derive(Clone)]
pub(crate) struct Gate {
    app: Arc<App>,
    door: Door,
    /// Whether nobody but this machine reaches it.
    only_here: bool,
}

impl Gate {
    pub(crate) fn new(app: &Arc<App>, door: Door, address: SocketAddr) -> Self {
        Gate { app: Arc::clone(app), door, only_here: address.ip().is_loopback() }
    }

    fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.door != Door::Admin {
            self.app.check_open_admin()?;
        }
        // A page of another site knows no token; with tokens, any name may lead here, as behind a proxy.
        let by_name = self.only_here && self.app.tokens_of(self.door).is_none();
        check_own_site(headers, by_name)
    }
}

/// What changes something, for those whom the gate lets through.
pub(crate) fn changes(gate: Gate) -> Router<Arc<App>> {
    Router::new()
        .route("/v2/repository/models/{model}/load", post(load_model))
        .route("/v2/repository/models/{model}/unload", post(unload_model))
        .route("/v2/models/{model}/monitor/reset", post(reset_monitor))
        .route("/v2/models/{model}/versions/{version}/monitor/reset", post(reset_monitor))
        .route_layer(from_fn_with_state(gate, pass))
}

async fn pass(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    match gate.check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refused(&refusal),
    }
}

async fn load_model(State(app): State<Arc<App>>, path: Named) -> Response {
    or_refused(load(&app, path.model().to_owned()).await.map(|()| done()))
}

async fn unload_model(State(app): State<Arc<App>>, path: Named) -> Response {
    or_refused(app.repository.unload(path.model()).map(|()| done()))
}

async fn reset_monitor(State(app): State<Arc<App>>, path: Named) -> Response {
    or_refused(reset(&app, &path).await.map(|()| done()))
}

fn done() -> Response {
    with_body(StatusCode::OK, crate::rest::answer::JSON, "{}")
}

async fn exposition(State(app): State<Arc<App>>) -> Response {
    with_body(StatusCode::OK, PROMETHEUS, app.all_metrics())
}

#[derive(Deserialize, Default)]
struct IndexRequest {
    #[serde(default)]
    ready: bool,
}

async fn list(State(app): State<Arc<App>>, body: Body) -> Response {
    or_refused(read_index_request(body).await.map(|request| {
        let mut index = app.repository.index();
        index.retain(|entry| !request.ready || entry.state == "READY");
        document(&json!(index))
    }))
}

async fn read_index_request(body: Body) -> Result<IndexRequest, Refusal> {
    let body = collect(body).await?.joined();
    if body.trim_ascii().is_empty() {
        return Ok(IndexRequest::default());
    }
    serde_json::from_slice(&body)
        .map_err(|error| Refusal::bad(format!("expected an index request in JSON: {error}")))
}

/// Loads a model again, on a thread of its own.
pub(crate) async fn load(app: &Arc<App>, name: String) -> Result<(), Refusal> {
    let app = Arc::clone(app);
    let work = tokio::task::spawn_blocking(move || {
        let loaded = app.repository.load(&name);
        app.watch_all();
        loaded
    });
    work.await.unwrap_or_else(|_| Err(Refusal::new(Kind::Internal, "loading the model failed")))
}

async fn reset(app: &Arc<App>, path: &Named) -> Result<(), Refusal> {
    let version = app.repository.find(path.model(), path.version())?;
    let monitors = app
        .monitors
        .clone()
        .ok_or_else(|| Refusal::bad("drift is not watched by this server: it has no monitors"))?;
    let work = tokio::task::spawn_blocking(move || monitors.reset(&version));
    work.await
        .unwrap_or_else(|_| Err(Refusal::new(Kind::Internal, "the monitor could not be reset")))
}
