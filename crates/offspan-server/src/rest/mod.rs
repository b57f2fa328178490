//! REST: routes, and what is said where there is none.

pub(crate) mod answer;
pub(crate) mod describe;
pub(crate) mod encoding;
mod infer;
pub(crate) mod json;
pub(crate) mod named;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};

pub(crate) use self::infer::collect;
use crate::app::App;
use crate::refusal::{Kind, Refusal};

/// The routes of the protocol.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v2", get(describe::server))
        .route("/v2/health/live", get(describe::live))
        .route("/v2/health/ready", get(describe::ready))
        .route("/v2/models/{model}", get(describe::model))
        .route("/v2/models/{model}/ready", get(describe::model_ready))
        .route("/v2/models/{model}/infer", post(infer::infer))
        .route("/v2/models/{model}/versions/{version}", get(describe::model))
        .route("/v2/models/{model}/versions/{version}/ready", get(describe::model_ready))
        .route("/v2/models/{model}/versions/{version}/infer", post(infer::infer))
}

/// Adds what is said where nothing is.
pub(crate) fn with_fallbacks(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router.fallback(nowhere).method_not_allowed_fallback(no_method)
}

async fn nowhere(State(app): State<Arc<App>>) -> Response {
    app.stats.strays.add(404);
    answer::refused(&Refusal::new(Kind::NotFound, "there is nothing at this path"))
}

async fn no_method(State(app): State<Arc<App>>) -> Response {
    app.stats.strays.add(405);
    answer::refused(&Refusal::new(Kind::Method, "this path is for another method"))
}
