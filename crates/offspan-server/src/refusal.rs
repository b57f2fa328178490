//! Why a request gets no answer: a sentence for whoever asked, and a code for either protocol.

use std::fmt::{Display, Formatter};

use axum::http::StatusCode;
use tonic::Code;

/// A refused request. The sentence names no path of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: Kind,
    pub(crate) reason: String,
}

/// What is the matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The request is wrong.
    Bad,
    /// It says nothing that allows it in.
    Unknown,
    /// It may not do this here.
    Forbidden,
    /// There is no such model or place.
    NotFound,
    /// The place is there, for another verb.
    Method,
    /// It took too long to arrive.
    Slow,
    /// It is too large.
    Large,
    /// Its encoding is none that is known.
    Encoding,
    /// There is too much to do.
    Busy,
    /// We failed.
    Internal,
    /// The model is not ready, or the server is about to end.
    Unavailable,
    /// It took us too long.
    Late,
}

impl Kind {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Kind::Bad => StatusCode::BAD_REQUEST,
            Kind::Unknown => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Method => StatusCode::METHOD_NOT_ALLOWED,
            Kind::Slow => StatusCode::REQUEST_TIMEOUT,
            Kind::Large => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::Busy => StatusCode::TOO_MANY_REQUESTS,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Late => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    pub(crate) fn code(self) -> Code {
        match self {
            Kind::Bad => Code::InvalidArgument,
            Kind::Unknown => Code::Unauthenticated,
            Kind::Forbidden => Code::PermissionDenied,
            Kind::NotFound => Code::NotFound,
            Kind::Method | Kind::Encoding => Code::Unimplemented,
            Kind::Slow | Kind::Late => Code::DeadlineExceeded,
            Kind::Large | Kind::Busy => Code::ResourceExhausted,
            Kind::Internal => Code::Internal,
            Kind::Unavailable => Code::Unavailable,
        }
    }
}

impl Refusal {
    pub(crate) fn new(kind: Kind, reason: impl Into<String>) -> Self {
        Refusal { kind, reason: reason.into() }
    }

    pub(crate) fn bad(reason: impl Into<String>) -> Self {
        Self::new(Kind::Bad, reason)
    }

    /// What the library says of rows: always something about them.
    pub(crate) fn of_rows(error: &offspan::Error) -> Self {
        Self::bad(error.to_string())
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for tonic::Status {
    fn from(refusal: Refusal) -> Self {
        tonic::Status::new(refusal.kind.code(), refusal.reason)
    }
}
