//! Health and metadata.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::answer::{JSON, document, or_refused, with_body};
use super::named::Named;
use crate::app::App;
use crate::models::Version;
use crate::protocol::signature::{Input, Output};

/// What the server is called, and what it does beyond the protocol.
pub(crate) const NAME: &str = "offspan";
pub(crate) const EXTENSIONS: [&str; 2] = ["binary_tensor_data", "model_repository"];

pub(super) async fn live() -> Response {
    document(&json!({ "live": true }))
}

/// The protocol has no is a code from 400 to 499.
fn health(ready: bool, body: &Value) -> Response {
    let status = if ready { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    with_body(status, JSON, body.to_string())
}

pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    let ready = app.ready();
    health(ready, &json!({ "live": true, "ready": ready }))
}

pub(super) async fn model_ready(State(app): State<Arc<App>>, path: Named) -> Response {
    let name = path.model();
    match app.repository.find(name, path.version()) {
        Ok(_) => health(true, &json!({ "name": name, "ready": true })),
        Err(refusal) => {
            health(false, &json!({ "name": name, "ready": false, "error": refusal.reason }))
        }
    }
}

pub(super) async fn server() -> Response {
    let version = env!("CARGO_PKG_VERSION");
    document(&json!({ "name": NAME, "version": version, "extensions": EXTENSIONS }))
}

pub(super) async fn model(State(app): State<Arc<App>>, path: Named) -> Response {
    or_refused(app.repository.find(path.model(), path.version()).map(|version| {
        let versions = app.repository.versions(&version.name);
        document(&about(&version, &versions))
    }))
}

/// What the framework of a model is called.
pub(crate) fn platform(version: &Version) -> String {
    format!("offspan_{}", version.detector.info().method)
}

fn about(version: &Version, versions: &[String]) -> Value {
    let input =
        |input: &Input| json!({ "name": input.name, "datatype": "FP32", "shape": input.shape() });
    let output = |output: &Output| json!({ "name": output.name(), "datatype": output.datatype(), "shape": [-1] });
    json!({
        "name": version.name,
        "versions": versions,
        "platform": platform(version),
        "inputs": version.signature.inputs.iter().map(input).collect::<Vec<_>>(),
        "outputs": version.signature.outputs.iter().map(output).collect::<Vec<_>>(),
        "parameters": {
            "direction": version.detector.info().direction,
            "threshold": version.threshold(),
        },
    })
}
