//! Tensors inside a model: whether their numbers are what their sizes say.

use crate::proto::{DataType, TensorProto};

/// Elements of one tensor, at most: what its bytes are counted in must not overflow.
const MOST_ELEMENTS: u64 = 1 << 40;

/// What to call a tensor in messages.
pub(super) fn label(tensor: &TensorProto) -> String {
    match tensor.name() {
        "" => "a tensor without a name".to_owned(),
        name => format!("the tensor `{}`", short(name)),
    }
}

/// A name of any length, in a message.
pub(super) fn short(name: &str) -> String {
    const LONGEST: usize = 80;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// How many elements a tensor has.
pub(super) fn elements(tensor: &TensorProto) -> Result<u64, String> {
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

/// Bytes of one element, in raw data.
pub(super) fn element_size(tensor: &TensorProto) -> Result<u64, String> {
    let number = tensor.data_type.unwrap_or(0);
    Ok(match DataType::try_from(number) {
        Ok(DataType::Bool | DataType::Int8 | DataType::Uint8) => 1,
        Ok(DataType::Float16 | DataType::Bfloat16 | DataType::Int16 | DataType::Uint16) => 2,
        Ok(DataType::Float | DataType::Int32 | DataType::Uint32) => 4,
        Ok(DataType::Double | DataType::Int64 | DataType::Uint64) => 8,
        Ok(DataType::String | DataType::Undefined) | Err(_) => {
            return Err(format!("{} is of a type (number {number}) that cannot be used", label(tensor)));
        }
    })
}

/// Fails unless a tensor has as many numbers as its sizes say.
pub(super) fn check(tensor: &TensorProto) -> Result<(), String> {
    // Texts are labels of classes and the like; nothing computes with them.
    if tensor.data_type == Some(DataType::String as i32) {
        return Ok(());
    }
    let (elements, size) = (elements(tensor)?, element_size(tensor)?);
    let wrong = |unit: &str, expected: u64, got: usize| {
        Err(format!(
            "{} of sizes {:?}: expected {expected} {unit}, got {got}; the model is truncated or damaged",
            label(tensor),
            tensor.dims
        ))
    };
    if let Some(raw) = &tensor.raw_data {
        let expected = elements * size;
        return if raw.len() as u64 == expected { Ok(()) } else { wrong("bytes", expected, raw.len()) };
    }
    let typed = [
        tensor.float_data.len(),
        tensor.int32_data.len(),
        tensor.int64_data.len(),
        tensor.double_data.len(),
        tensor.uint64_data.len(),
    ];
    let got = typed.into_iter().max().unwrap_or(0);
    if got as u64 == elements { Ok(()) } else { wrong("numbers", elements, got) }
}

/// Whole numbers that a tensor holds, if it is a short list of them.
pub(super) fn whole_numbers(tensor: &TensorProto) -> Option<Vec<i64>> {
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
            Some(raw) => raw
                .as_chunks()
                .0
                .iter()
                .map(|&word| i64::from(i32::from_le_bytes(word)))
                .collect(),
            None => tensor.int32_data.iter().copied().map(i64::from).collect(),
        }),
        _ => None,
    }
}

/// Reals that a tensor holds, if it is a short list of them.
pub(super) fn reals(tensor: &TensorProto) -> Option<Vec<f64>> {
    const LONGEST: u64 = 64;
    if elements(tensor).ok()? > LONGEST || tensor.data_type != Some(DataType::Float as i32) {
        return None;
    }
    Some(match &tensor.raw_data {
        Some(raw) => {
            raw.as_chunks().0.iter().map(|&word| f64::from(f32::from_le_bytes(word))).collect()
        }
        None => tensor.float_data.iter().copied().map(f64::from).collect(),
    })
}
