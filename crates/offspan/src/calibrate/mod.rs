//! Calibration: thresholds with a promise, p-values, and a check that both still hold.
//!
//! All of it needs scores of in-distribution rows that the fit has not seen, and nothing else: no
//! distribution is assumed, only that later rows are drawn like those.
//!
//! | question | answer |
//! |---|---|
//! | is this row in or out? | [`Threshold`], which keeps at least a share of in-distribution rows with a stated confidence |
//! | how unusual is this row? | [`Calibration::p_value`] |
//! | which rows of a batch are OoD? | [`benjamini_hochberg`], which bounds the share of false ones among them |
//! | do later in-distribution rows still fit? | [`Calibration::check`] |

mod beta;
mod calibration;
mod conformal;
mod fit_check;
mod kolmogorov;
mod order;
#[cfg(test)]
mod simulation;
mod threshold;

pub use calibration::Calibration;
pub use conformal::{adjusted, benjamini_hochberg, p_value};
pub use fit_check::FitCheck;
pub use order::{expected_kept_share, kept_share, largest_rank, rows_needed};
pub use threshold::{CalibrationSource, Promise, Threshold};
