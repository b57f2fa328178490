//! Tensors inside a model: whether their numbers are what their sizes say.

use crate::proto::{DataType, TensorProto};
use crate::tensors::{elements, label};

/// Bytes of one element, in raw data.
pub(super) fn element_size(tensor: &TensorProto) -> Result<u64, String> {
    let number = tensor.data_type.unwrap_or(0);
    Ok(match DataType::try_from(number) {
        Ok(DataType::Bool | DataType::Int8 | DataType::Uint8) => 1,
        Ok(DataType::Float16 | DataType::Bfloat16 | DataType::Int16 | DataType::Uint16) => 2,
        Ok(DataType::Float | DataType::Int32 | DataType::Uint32) => 4,
        Ok(DataType::Double | DataType::Int64 | DataType::Uint64) => 8,
        Ok(DataType::String | DataType::Undefined) | Err(_) => {
            return Err(format!(
                "{} is of a type (number {number}) that cannot be used",
                label(tensor)
            ));
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
        return if raw.len() as u64 == expected {
            Ok(())
        } else {
            wrong("bytes", expected, raw.len())
        };
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
