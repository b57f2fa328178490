//! What is done to models, and metrics: with the protocol, or at an address of their own.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;

use crate::app::App;
use crate::refusal::{Kind, Refusal};
use crate::rest::answer::{document, or_refused, with_body};
use crate::rest::describe::{Named, names};

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

/// What changes something. `checked` asks whether that may be done at this address.
pub(crate) fn changes(checked: bool) -> Router<Arc<App>> {
    let open = move |app: &App| if checked { app.check_open_admin() } else { Ok(()) };
    Router::new()
        .route(
            "/v2/repository/models/{model}/load",
            post(move |State(app): State<Arc<App>>, path: Named| async move {
                or_refused(match open(&app) {
                    Ok(()) => load(&app, names(&path).0.to_owned()).await.map(|()| done()),
                    Err(refusal) => Err(refusal),
                })
            }),
        )
        .route(
            "/v2/repository/models/{model}/unload",
            post(move |State(app): State<Arc<App>>, path: Named| async move {
                let unloaded = open(&app).and_then(|()| app.repository.unload(names(&path).0));
                or_refused(unloaded.map(|()| done()))
            }),
        )
        .route(
            "/v2/models/{model}/monitor/reset",
            post(move |State(app): State<Arc<App>>, path: Named| async move {
                or_refused(match open(&app) {
                    Ok(()) => reset(&app, &path).await.map(|()| done()),
                    Err(refusal) => Err(refusal),
                })
            }),
        )
        .route(
            "/v2/models/{model}/versions/{version}/monitor/reset",
            post(move |State(app): State<Arc<App>>, path: Named| async move {
                or_refused(match open(&app) {
                    Ok(()) => reset(&app, &path).await.map(|()| done()),
                    Err(refusal) => Err(refusal),
                })
            }),
        )
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

async fn list(State(app): State<Arc<App>>, body: Bytes) -> Response {
    let request = if body.trim_ascii().is_empty() {
        Ok(IndexRequest::default())
    } else {
        serde_json::from_slice(&body)
            .map_err(|error| Refusal::bad(format!("expected an index request in JSON: {error}")))
    };
    or_refused(request.map(|request: IndexRequest| {
        let mut index = app.repository.index();
        index.retain(|entry| !request.ready || entry.state == "READY");
        document(&json!(index))
    }))
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
    let (name, version) = names(path);
    let version = app.repository.find(name, version)?;
    let monitors = app
        .monitors
        .clone()
        .ok_or_else(|| Refusal::bad("drift is not watched by this server: it has no monitors"))?;
    let work = tokio::task::spawn_blocking(move || monitors.reset(&version));
    work.await
        .unwrap_or_else(|_| Err(Refusal::new(Kind::Internal, "the monitor could not be reset")))
}
