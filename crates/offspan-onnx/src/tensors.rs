//! What tensors are called, how large they are, and the numbers of small ones.

use crate::proto::{DataType, TensorProto};

/// Elements of one tensor, at most: what its bytes are counted in must not overflow.
const MOST_ELEMENTS: u64 = 1 << 40;

/// What to call a tensor in messages.
pub(crate) fn label(tensor: &TensorProto) -> String {
    match tensor.name() {
        "" => "a tensor without a name".to_owned(),
        name => format!("the tensor `{}`", short(name)),
    }
}

/// A name of any length, in a message.
pub(crate) fn short(name: &str) -> String {
    const LONGEST: usize = 80;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// How many elements a tensor has.
pub(crate) fn elements(tensor: &TensorProto) -> Result<u64, String> {
    tensor
        .dims
        .iter()
        .try_fold(1_u64, |total, &size| {
            let size = u64::try_from(size).ok()?;
            total.checked_mul(size).filter(|total| *total <= MOST_ELEMENTS)
        })
        .ok_or_else(|| {
            let shown = &tensor.dims[..tensor.dims.len().min(8)];
            format!("{} has sizes that cannot be, {shown:?}", label(tensor))
        })
}

/// Whole numbers that a tensor holds, if it is a short list of them.
pub(crate) fn whole_numbers(tensor: &TensorProto) -> Option<Vec<i64>> {
    const LONGEST: u64 = 64;
    if elements(tensor).ok()? > LONGEST {
        return None;
    }
    let raw = tensor.raw_data.as_deref();
    match DataType::try_from(tensor.data_type?) {
        Ok(DataType::Int64) => Some(match raw {
            Some(raw) => raw.as_chunks().0.iter().map(|&word| i64::from_le_bytes(word)).collect(),
            None => tensor.int64_data.clone(),
        }),
        Ok(DataType::Int32) => Some(match raw {
            Some(raw) => {
                raw.as_chunks().0.iter().map(|&word| i64::from(i32::from_le_bytes(word))).collect()
            }
            None => tensor.int32_data.iter().copied().map(i64::from).collect(),
        }),
        _ => None,
    }
}
