//! The page, and the events that keep it up to date.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use crate::app::App;
use crate::models::Flagged;
use crate::refusal::{Kind, Refusal};
use crate::rest::answer::{document, or_refused, with_body};
use crate::rest::json::number;
use crate::rest::named::Named;
use crate::shutdown::closing;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Everything that the page uses comes from this server, and what is in it is in its one file.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(page))
        .route("/live", get(live))
        .route("/v2/models/{model}/flagged", get(flagged))
        .route("/v2/models/{model}/versions/{version}/flagged", get(flagged))
}

async fn page() -> Response {
    let text = PAGE.replace("/* style */", STYLE).replace("/* script */", SCRIPT);
    let mut response =
        with_body(StatusCode::OK, HeaderValue::from_static("text/html; charset=utf-8"), text);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Server-sent events: first everything, then every second what is new.
async fn live(State(app): State<Arc<App>>) -> Response {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(feed(app, sender));
    let kind = HeaderValue::from_static("text/event-stream");
    let mut response = with_body(StatusCode::OK, kind, Body::new(Events(receiver)));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn feed(app: Arc<App>, sender: mpsc::Sender<Bytes>) {
    let mut ticks = app.live.subscribe();
    let mut phase = app.phases.watch();
    let mut text = format!("event: all\ndata: {}\n\n", app.live.all(&app));
    loop {
        if sender.send(Bytes::from(text)).await.is_err() {
            return;
        }
        text = tokio::select! {
            tick = ticks.recv() => match tick {
                Ok(tick) => format!("event: tick\ndata: {tick}\n\n"),
                // Too slow for some ticks: everything again, so that nothing is missing.
                Err(RecvError::Lagged(_)) => format!("event: all\ndata: {}\n\n", app.live.all(&app)),
                Err(RecvError::Closed) => return,
            },
            () = closing(&mut phase) => return,
            () = sender.closed() => return,
        };
    }
}

/// A body that is sent while it is made.
struct Events(mpsc::Receiver<Bytes>);

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// The last rows that were called OoD, with their numbers where those are kept.
async fn flagged(State(app): State<Arc<App>>, path: Named) -> Response {
    let row = |row: &Flagged| -> Value {
        json!({ "id": &*row.id, "row": row.row, "score": number(row.score), "p_value": row.p_value, "time": row.time,
                "sample": row.sample })
    };
    or_refused(app.repository.find(path.model(), path.version()).and_then(|version| {
        if version.threshold().is_none() {
            return Err(Refusal::new(
                Kind::Bad,
                "the model has no threshold, so it calls no row OoD",
            ));
        }
        let rows: Vec<Value> = version.last_flagged().iter().map(row).collect();
        Ok(document(&json!({ "model": version.name, "version": version.version, "rows": rows })))
    }))
}
