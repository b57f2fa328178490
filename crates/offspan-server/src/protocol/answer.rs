//! Scores, p-values and decisions of one request.

use std::ops::Range;

use super::request::Wanted;
use super::signature::Output;

/// What a detector says of the rows of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Verdicts {
    pub(crate) scores: Vec<f64>,
    /// Empty without a threshold, as are the decisions.
    pub(crate) p_values: Vec<f64>,
    pub(crate) is_out: Vec<bool>,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) model: String,
    pub(crate) version: String,
    pub(crate) id: Option<String>,
    pub(crate) verdicts: Verdicts,
    pub(crate) wanted: Vec<Wanted>,
}

/// About what the answer to so many rows takes until it is sent: verdicts, and each output as it is written, for a while twice.
pub(crate) fn room_for(rows: usize, wanted: &[Wanted]) -> usize {
    const VERDICT: usize = 17;
    const NUMBER_IN_TEXT: usize = 26;
    let written =
        |wanted: &Wanted| 2 * if wanted.binary { wanted.output.size() } else { NUMBER_IN_TEXT };
    rows.saturating_mul(VERDICT + wanted.iter().map(written).sum::<usize>())
}

impl Verdicts {
    /// Numbers of rows.
    pub(crate) fn rows(&self) -> usize {
        self.scores.len()
    }

    /// Those of some rows.
    pub(crate) fn part(&self, rows: Range<usize>) -> Verdicts {
        let decided = if self.p_values.is_empty() { 0..0 } else { rows.clone() };
        Verdicts {
            scores: self.scores[rows].to_vec(),
            p_values: self.p_values[decided.clone()].to_vec(),
            is_out: self.is_out[decided].to_vec(),
        }
    }

    /// An output's bytes, little end first.
    pub(crate) fn bytes(&self, output: Output) -> Vec<u8> {
        let doubles = |numbers: &[f64]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        match output {
            Output::Score => doubles(&self.scores),
            Output::PValue => doubles(&self.p_values),
            Output::IsOod => self.is_out.iter().map(|&out| u8::from(out)).collect(),
        }
    }
}
