//! Requests for scores over REST.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt;

use super::answer::{JSON, or_refused, with_body};
use super::named::Named;
use super::{encoding, json};
use crate::app::{App, Arrived};
use crate::models::Version;
use crate::net::body::{Held, refusal_of};
use crate::protocol::answer::Answer;
use crate::protocol::pieces::Pieces;
use crate::protocol::request::InferRequest;
use crate::protocol::signature::shown;
use crate::refusal::{Kind, Refusal};
use crate::trace::Trace;

const HEADER_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");
/// Longer texts are read on a thread of their own, so that connections do not wait for it.
const LONG: usize = 128 << 10;

pub(super) async fn infer(
    State(app): State<Arc<App>>,
    path: Named,
    Extension(arrived): Extension<Arrived>,
    Extension(trace): Extension<Trace>,
    Extension(held): Extension<Held>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let version = app.repository.find(path.model(), path.version());
    let (version, result) = match version {
        Ok(version) => {
            let body = Received { headers: &headers, body, held };
            let result = answer(&app, &version, body, &trace, arrived).await;
            (Some(version), result)
        }
        Err(refusal) => (None, Err(refusal)),
    };
    let response = or_refused(result);
    app.count(version.as_deref(), "rest", response.status().as_u16(), arrived);
    response
}

/// A body, what is said of it, and the memory that it holds.
struct Received<'h> {
    headers: &'h HeaderMap,
    body: Body,
    held: Held,
}

async fn answer(
    app: &App,
    version: &Arc<Version>,
    received: Received<'_>,
    trace: &Trace,
    arrived: Arrived,
) -> Result<Response, Refusal> {
    let Received { headers, body, held } = received;
    let body = collect(body).await?;
    let body = unpack(app, headers, body, &held, arrived).await?;
    let request = match header_length(headers)? {
        Some(0) => InferRequest::raw(&version.signature, body)?,
        length => {
            let length = length.unwrap_or(body.len());
            held.take(json::room_for_text(&body, length))?;
            if length > LONG {
                let kept = held.clone();
                let work = move || {
                    let read = json::read(&body, length);
                    drop(kept);
                    read
                };
                on_a_thread(app, arrived, work).await?
            } else {
                json::read(&body, length)?
            }
        }
    };
    let answer = app.infer(version, request, &trace.request_id, arrived, &held).await?;
    Ok(respond(headers, &answer))
}

/// All of a body.
pub(crate) async fn collect(mut body: Body) -> Result<Pieces, Refusal> {
    let mut pieces = Pieces::default();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|error| refusal_of(&error))?.into_data() {
            pieces.push(data);
        }
    }
    Ok(pieces)
}

async fn unpack(
    app: &App,
    headers: &HeaderMap,
    body: Pieces,
    held: &Held,
    arrived: Arrived,
) -> Result<Pieces, Refusal> {
    let Some(name) = headers.get(header::CONTENT_ENCODING) else { return Ok(body) };
    let name = name.to_str().unwrap_or("?").to_owned();
    if name.eq_ignore_ascii_case("identity") {
        return Ok(body);
    }
    let (most, held) = (app.config.max_body, held.clone());
    let work =
        move || encoding::decode_paid(&name, &body.joined(), most, &mut |bytes| held.take(bytes));
    on_a_thread(app, arrived, work).await.map(Pieces::from)
}

/// Work that takes long. No more of it at a time than there are cores: more would only hold more memory for longer.
async fn on_a_thread<T: Send + 'static>(
    app: &App,
    arrived: Arrived,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let failed = || Refusal::new(Kind::Internal, "reading the request failed");
    let reading = async {
        let turn = Arc::clone(&app.readers).acquire_owned().await.map_err(|_| failed())?;
        // The turn lasts as long as the work, also where nobody waits for it any more.
        let work = move || {
            let result = work();
            drop(turn);
            result
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| failed())?
    };
    tokio::time::timeout_at(app.deadline(arrived), reading).await.unwrap_or_else(|_| {
        let reason = format!("the request was not read within {}", app.config.timeout);
        Err(Refusal::new(Kind::Late, reason))
    })
}

/// How long the JSON is, where tensors follow it.
fn header_length(headers: &HeaderMap) -> Result<Option<usize>, Refusal> {
    let Some(value) = headers.get(HEADER_LENGTH) else { return Ok(None) };
    let text = value.to_str().unwrap_or("?");
    text.trim().parse().map(Some).map_err(|_| {
        let got = shown(text);
        Refusal::bad(format!(
            "Inference-Header-Content-Length: expected a number of bytes, got `{got}`"
        ))
    })
}

fn respond(headers: &HeaderMap, answer: &Answer) -> Response {
    let (bytes, length) = json::write(answer);
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let packs = bytes.len() >= encoding::SHORTEST && accepted.is_some_and(encoding::accepts_gzip);
    let bytes = if packs { encoding::gzip(&bytes) } else { bytes };
    let kind = if length.is_some() { BYTES } else { JSON };
    let mut response = with_body(StatusCode::OK, kind, bytes);
    let headers = response.headers_mut();
    if let Some(length) = length {
        headers.insert(HEADER_LENGTH, HeaderValue::from(length));
    }
    if packs {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}
