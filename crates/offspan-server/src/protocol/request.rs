//! A request for scores, checked against what the model takes.

use std::sync::Arc;

use super::element::{Element, KNOWN};
use super::pieces::Pieces;
use super::signature::{Input, Output, Role, Signature, shown};
use super::tensor::Tensor;
use crate::net::body::Held;
use crate::refusal::Refusal;

/// More dimensions than this are a mistake.
const MOST_DIMENSIONS: usize = 16;

/// A request as either protocol has it.
#[derive(Debug, Default)]
pub(crate) struct InferRequest {
    pub(crate) id: Option<String>,
    pub(crate) inputs: Vec<(String, Tensor)>,
    /// The wanted outputs, with whether each is wanted in bytes; all of them where nothing is said.
    pub(crate) outputs: Vec<(String, Option<bool>)>,
    /// Whether outputs are wanted in bytes where nothing else is said.
    pub(crate) binary: bool,
}

/// What a batch is made of: tensors of as many rows each.
#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    pub(crate) tensors: Vec<(Role, Arc<Tensor>)>,
    pub(crate) rows: usize,
    /// The memory that they take.
    pub(crate) held: Option<Held>,
}

/// An output that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) output: Output,
    pub(crate) binary: bool,
}

impl Tensor {
    /// A tensor as somebody sent it.
    pub(crate) fn received(
        name: &str,
        datatype: &str,
        shape: &[i64],
        data: impl FnOnce(Element, usize) -> Result<Pieces, Refusal>,
    ) -> Result<Self, Refusal> {
        let wrong = |reason: String| Refusal::bad(format!("input `{}`: {reason}", shown(name)));
        let element = Element::of_name(datatype).ok_or_else(|| {
            wrong(format!("expected datatype {KNOWN}, got `{}`", shown(datatype)))
        })?;
        if !(1..=MOST_DIMENSIONS).contains(&shape.len()) {
            let got = shape.len();
            return Err(wrong(format!("expected 1 to {MOST_DIMENSIONS} dimensions, got {got}")));
        }
        let sizes: Option<Vec<usize>> = shape.iter().map(|&size| size.try_into().ok()).collect();
        let shape =
            sizes.ok_or_else(|| wrong(format!("expected sizes of at least 0, got {shape:?}")))?;
        let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        let bytes = count.and_then(|count| Some((count, count.checked_mul(element.size())?)));
        let Some((count, bytes)) = bytes else {
            return Err(wrong(format!("shape {shape:?} has more numbers than there can be")));
        };
        let data = data(element, count)?;
        if data.len() != bytes {
            return Err(wrong(format!(
                "expected {bytes} bytes for {datatype} numbers of shape {shape:?}, got {}",
                data.len()
            )));
        }
        Ok(Tensor { element, shape, data })
    }
}

impl InferRequest {
    /// The rows of one input and nothing else, as they lie in a body. Single precision, as the metadata say.
    pub(crate) fn raw(signature: &Signature, body: Pieces) -> Result<Self, Refusal> {
        let [input] = signature.inputs.as_slice() else {
            return Err(Refusal::bad(format!(
                "expected a request that names its {} inputs, got a raw body, which is for models with one",
                signature.inputs.len()
            )));
        };
        let row: Option<Vec<usize>> =
            input.row.as_ref().and_then(|row| row.iter().copied().collect());
        let width = row
            .as_ref()
            .and_then(|row| row.iter().try_fold(4usize, |n, &size| n.checked_mul(size)));
        let (Some(row), Some(width)) = (row, width.filter(|&width| width > 0)) else {
            return Err(Refusal::bad("a raw body needs a model whose rows have one shape"));
        };
        if !body.len().is_multiple_of(width) {
            return Err(Refusal::bad(format!(
                "expected a raw body of whole rows of {width} bytes, got {} bytes",
                body.len()
            )));
        }
        let shape = std::iter::once(body.len() / width).chain(row).collect();
        let tensor = Tensor { element: Element::F32, shape, data: body };
        Ok(InferRequest {
            inputs: vec![(input.name.clone(), tensor)],
            binary: true,
            ..InferRequest::default()
        })
    }

    /// Checks it against a model.
    pub(crate) fn check(self, signature: &Signature) -> Result<(Inputs, Vec<Wanted>), Refusal> {
        let mut tensors: Vec<(Role, Arc<Tensor>)> = Vec::new();
        for (name, tensor) in self.inputs {
            let input = signature.input(&name)?;
            input.check(&tensor)?;
            if tensors.iter().any(|(role, _)| *role == input.role) {
                return Err(Refusal::bad(format!("input `{name}` was given twice")));
            }
            tensors.push((input.role.clone(), Arc::new(tensor)));
        }
        let given = |input: &&Input| !tensors.iter().any(|(role, _)| *role == input.role);
        if let Some(missing) = signature.inputs.iter().find(given) {
            return Err(Refusal::bad(format!("input `{}` is missing", missing.name)));
        }
        // The order of the model, whatever the order of the request.
        let place = |role: &Role| signature.inputs.iter().position(|input| input.role == *role);
        tensors.sort_by_key(|(role, _)| place(role));
        let rows = tensors[0].1.rows();
        if let Some((_, other)) = tensors.iter().find(|(_, tensor)| tensor.rows() != rows) {
            return Err(Refusal::bad(format!(
                "expected as many rows in every input, got {rows} and {}",
                other.rows()
            )));
        }
        let mut wanted: Vec<Wanted> = Vec::new();
        for (name, binary) in &self.outputs {
            let output = signature.output(name)?;
            if wanted.iter().any(|known| known.output == output) {
                return Err(Refusal::bad(format!("output `{name}` was asked for twice")));
            }
            wanted.push(Wanted { output, binary: binary.unwrap_or(self.binary) });
        }
        if wanted.is_empty() {
            let all = signature.outputs.iter();
            wanted = all.map(|&output| Wanted { output, binary: self.binary }).collect();
        }
        Ok((Inputs { tensors, rows, held: None }, wanted))
    }
}
