//! The Open Inference Protocol, whichever way a request came: tensors in, tensors out.

pub(crate) mod answer;
pub(crate) mod element;
pub(crate) mod pieces;
pub(crate) mod request;
pub(crate) mod signature;
pub(crate) mod tensor;
