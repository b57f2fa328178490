//! Detectors behind a port.
//!
//! A [`Server`] speaks the Open Inference Protocol (version 2) over REST and gRPC, scores rows in batches, loads models
//! anew when their files change, watches the scores for drift, and shows what it sees to Prometheus and on a page.
//! [`run`] is a server that lives until a signal ends it; [`Config`] has everything that it can be told.
//!
//! | module | what |
//! |---|---|
//! | `protocol` | tensors, requests and answers, whichever way they came |
//! | `rest`, `grpc` | the two ways |
//! | `models` | files, loaded versions, and how one becomes the other |
//! | `batch` | rows that wait, and the threads that score them |
//! | `watch` | monitors of drift, their state on disk, alarms |
//! | `stats`, `metrics`, `live`, `page` | what is counted, and who sees it |
//! | `net`, `observe`, `shutdown` | connections, bounds, tokens, ids, the end |

mod admin;
mod app;
mod batch;
mod clock;
mod config;
mod error;
mod grpc;
mod live;
mod log;
mod metrics;
mod models;
mod net;
mod observe;
mod page;
mod probe;
mod protocol;
mod refusal;
mod rest;
mod server;
mod shutdown;
mod stats;
mod trace;
#[doc(hidden)]
pub mod untrusted;
mod watch;

pub use config::{Config, LogFormat, Span};
pub use error::ServeError;
pub use probe::is_ready;
pub use server::{Addresses, Server, run};
