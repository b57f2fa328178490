//! Methods on a pack: fit, score, judge, compare.
//!
//! An [`Evaluator`] fits and judges methods, of the library and others, and gives [`Evaluations`]: by
//! method, by set and group, by seed, with what follows from comparing them. They become a table
//! ([`Evaluations::table`], which knows Markdown, CSV, LaTeX, HTML and text) and a [`document`] for
//! machines, which can be read again ([`Document`]) and repeated ([`Provenance`] says with what).

mod advice;
mod document;
mod evaluator;
mod fitting;
mod metric;
mod outside;
mod own;
mod provenance;
mod render;
mod repeat;
mod result;
mod scores;
mod seeds;
mod sets;
mod statistics;
mod table;

pub use advice::in_a_pack;
pub(crate) use document::name_the_rate;
pub use document::{Document, NoResult, document, rate_name};
pub use evaluator::Evaluator;
pub(crate) use fitting::{evaluate_detector, fit_and_evaluate_each, reasons_against};
pub use metric::Metric;
pub use outside::OutsideScores;
pub use own::{OwnDetector, OwnMethod};
pub use provenance::{Provenance, ReadAs, RowsFingerprint};
pub use repeat::{MethodAgreement, Repetition, repeat};
pub use result::{
    Evaluations, FitFacts, LeftOut, MethodResult, Over, ScoreFacts, SeedRun, Seeds, Source, Spread,
};
pub use scores::Scored;
pub use sets::{Sets, pseudo_labelled};
pub use statistics::{CHANCE, Compared, DifferenceOver, Lead, NotCompared};
pub use table::TableView;
pub(crate) use table::{cells_of, columns_of, headings, left_out};
