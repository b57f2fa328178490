//! How well detectors do on a pack, as tables, reports with pictures and whole studies.
//!
//! | step | module |
//! |---|---|
//! | fit methods on a pack and judge their scores | [`evaluation`] |
//! | everything that is to be seen of one method, as data | [`portrait`] |
//! | the paper's own figures, as theirs, to put beside | [`published`] |
//! | a page that can be sent to a colleague, with its plots as files | [`report`] |
//! | the studies of the kernel PCA paper, cached and resumable | [`study`] |
//! | methods over many packs: ranks, wins, regret | [`rank`] |
//! | which setting of a method is best, judged without OoD rows | [`tune`] |
//!
//! Numbers are fractions everywhere but in the tables, which are in percent.

mod error;
pub mod evaluation;
mod fingerprint;
mod folder;
mod hook;
mod numbers;
pub mod portrait;
pub mod published;
pub mod rank;
pub mod report;
pub mod study;
pub mod tune;
mod words;

pub use error::{Result, StudyError};
