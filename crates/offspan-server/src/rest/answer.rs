//! Answers of REST.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use crate::refusal::{Kind, Refusal};

/// Seconds after which to try again. What is full empties in less.
pub(crate) const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer with a body of this type.
pub(crate) fn with_body(status: StatusCode, kind: HeaderValue, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A JSON document.
pub(crate) fn document(document: &Value) -> Response {
    with_body(StatusCode::OK, JSON, document.to_string())
}

/// `{"error": …}` with the right code.
pub(crate) fn refused(refusal: &Refusal) -> Response {
    let body = json!({ "error": refusal.reason }).to_string();
    let mut response = with_body(refusal.kind.status(), JSON, body);
    let headers = response.headers_mut();
    match refusal.kind {
        Kind::Busy | Kind::Unavailable => {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        Kind::Unknown => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // Somebody who is still sending would not hear it otherwise.
        Kind::Large | Kind::Slow => {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    response
}

/// An answer, or why there is none.
pub(crate) fn or_refused(result: Result<Response, Refusal>) -> Response {
    result.unwrap_or_else(|refusal| refused(&refusal))
}
