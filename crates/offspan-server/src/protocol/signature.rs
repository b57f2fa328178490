//! What a model takes and gives.

use std::sync::Arc;

use super::tensor::Tensor;
use crate::refusal::Refusal;

/// The outputs that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Higher is more in-distribution.
    Score,
    /// How probable a score as low as this is for an in-distribution row.
    PValue,
    /// Whether the row is taken for OoD.
    IsOod,
}

impl Output {
    const ALL: [Output; 3] = [Output::Score, Output::PValue, Output::IsOod];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Output::Score => "score",
            Output::PValue => "p_value",
            Output::IsOod => "is_ood",
        }
    }

    /// As the protocol calls its type.
    pub(crate) fn datatype(self) -> &'static str {
        match self {
            Output::Score | Output::PValue => "FP64",
            Output::IsOod => "BOOL",
        }
    }

    /// Bytes of one number.
    pub(crate) fn size(self) -> usize {
        match self {
            Output::Score | Output::PValue => 8,
            Output::IsOod => 1,
        }
    }
}

/// What an input is to the detector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// Features of the network.
    Features,
    /// Its logits.
    Logits,
    /// Another tensor that the method asks for.
    Extra(&'static str),
    /// What the classifier in front of the detector takes.
    Network,
}

/// An input of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Sizes of one row, none where any will do; no sizes at all where even their number is open.
    pub(crate) row: Option<Vec<Option<usize>>>,
}

impl Input {
    /// Sizes as the protocol writes them, with −1 for open ones.
    pub(crate) fn shape(&self) -> Vec<i64> {
        let size = |size: &Option<usize>| size.map_or(-1, |size| size as i64);
        let row = self.row.as_deref().unwrap_or(&[None]);
        std::iter::once(-1).chain(row.iter().map(size)).collect()
    }

    /// Fails unless the tensor has rows of the right shape.
    pub(crate) fn check(&self, tensor: &Tensor) -> Result<(), Refusal> {
        let fits = match &self.row {
            Some(row) => {
                let fits =
                    |(size, got): (&Option<usize>, &usize)| size.is_none_or(|size| size == *got);
                tensor.shape.len() == row.len() + 1 && row.iter().zip(&tensor.shape[1..]).all(fits)
            }
            None => tensor.shape.len() >= 2,
        };
        // Rows of nothing could be as many as there are numbers.
        let has_numbers = tensor.shape.iter().skip(1).all(|&size| size > 0);
        if fits && !has_numbers {
            return Err(Refusal::bad(format!(
                "input `{}`: expected sizes of at least 1 in a row, got {:?}",
                self.name, tensor.shape
            )));
        }
        if fits {
            return Ok(());
        }
        Err(Refusal::bad(format!(
            "input `{}`: expected shape {}, got {:?}",
            self.name,
            in_words(&self.shape()),
            tensor.shape
        )))
    }
}

fn in_words(shape: &[i64]) -> String {
    let sizes: Vec<String> = shape.iter().map(i64::to_string).collect();
    format!("[{}]", sizes.join(", "))
}

/// Inputs and outputs of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
}

impl Signature {
    /// A detector without a threshold gives scores alone.
    pub(crate) fn new(inputs: Vec<Input>, has_threshold: bool) -> Self {
        let outputs = if has_threshold { &Output::ALL[..] } else { &Output::ALL[..1] };
        Signature { inputs, outputs: outputs.to_vec() }
    }

    pub(crate) fn input(&self, name: &str) -> Result<&Input, Refusal> {
        self.inputs.iter().find(|input| input.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
            Refusal::bad(format!(
                "expected inputs called {}, got `{}`",
                names.join(", "),
                shown(name)
            ))
        })
    }

    pub(crate) fn output(&self, name: &str) -> Result<Output, Refusal> {
        self.outputs.iter().copied().find(|output| output.name() == name).ok_or_else(|| {
            let names: Vec<&str> = self.outputs.iter().map(|output| output.name()).collect();
            Refusal::bad(format!(
                "expected outputs among {}, got `{}`",
                names.join(", "),
                shown(name)
            ))
        })
    }
}

/// What somebody sent, short enough for a message.
pub(crate) fn shown(text: &str) -> String {
    shortened(text, 64)
}

/// A request's id, short enough to be kept beside each of its rows.
pub(crate) fn shown_id(id: &str) -> Arc<str> {
    shortened(id, 128).into()
}

/// At most this many characters.
fn shortened(text: &str, longest: usize) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { '?' } else { c });
    let mut short: String = chars.by_ref().take(longest).collect();
    if chars.next().is_some() {
        short.pop();
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_nothing_are_refused_however_many_there_are() {
        let tensor = |shape: &[usize]| Tensor {
            element: crate::protocol::element::Element::F32,
            shape: shape.to_vec(),
            data: Vec::new().into(),
        };
        let open = Input {
            name: "image".to_owned(),
            role: Role::Network,
            row: Some(vec![Some(3), None, None]),
        };
        let any = Input { row: None, ..open.clone() };
        for input in [open, any] {
            let refused = input.check(&tensor(&[1 << 40, 3, 0, 224])).unwrap_err();
            assert!(refused.reason.contains("at least 1 in a row"), "{refused}");
            input.check(&tensor(&[0, 3, 1, 224])).unwrap();
        }
    }

    #[test]
    fn what_is_shown_is_short_whatever_was_sent() {
        assert_eq!(shown("net\n7"), "net?7");
        assert_eq!(&*shown_id(&"é".repeat(128)), "é".repeat(128));
        let long = shown_id(&"x".repeat(5_000_000));
        assert_eq!((long.chars().count(), long.ends_with("x…")), (128, true));
    }
}
