//! The C interface of offspan: load a detector, ask what it needs, score rows, decide.
//!
//! `include/offspan.h` is made of these sources, and `docs/deploy.md` shows a whole program. Nothing unwinds into the
//! caller: every function that does more than read a field goes through `failure::guarded`, which turns errors and
//! panics into a status and a message that [`offspan_last_error`] gives to the same thread.

// A C interface takes pointers; every block says why it may read them.
#![allow(unsafe_code)]

mod detector;
mod failure;
mod rows;
mod score;

pub use detector::{
    Detector, offspan_free, offspan_load, offspan_load_bytes, offspan_method, offspan_needs_logits,
    offspan_threshold, offspan_version, offspan_width,
};
pub use failure::{Status, offspan_last_error};
pub use score::{offspan_decide_f32, offspan_decide_f64, offspan_score_f32, offspan_score_f64};
