//! `head.safetensors`: the model's last linear layer.

use std::path::Path;

use bytemuck::cast_slice;
use offspan::io::write_bytes;
use serde_json::json;

use crate::graph_search::HeadPlace;
use crate::input_error::{InputError, InputResult};

const NAME: &str = "head.safetensors";

/// Writes the last layer into a pack; equal layers give equal bytes.
pub(super) fn write(pack: &Path, head: &HeadPlace) -> InputResult<()> {
    Ok(write_bytes(pack.join(NAME), &bytes_of(head))?)
}

/// Fails if a pack has another last layer, which would be replaced.
pub(super) fn check(pack: &Path, head: &HeadPlace) -> InputResult<()> {
    let path = pack.join(NAME);
    let bytes = bytes_of(head);
    let same = match std::fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        metadata => {
            let size = metadata.map_err(InputError::io("open", &path))?.len();
            size == bytes.len() as u64
                && std::fs::read(&path).map_err(InputError::io("read", &path))? == bytes
        }
    };
    if same {
        return Ok(());
    }
    let reason = "the pack's last layer is another one than the model's; --force replaces it, or extract into a folder of its own";
    Err(InputError::data(&path, reason))
}

fn bytes_of(head: &HeadPlace) -> Vec<u8> {
    let little_endian = |numbers: &[f32]| -> Vec<u8> {
        if cfg!(target_endian = "little") {
            return cast_slice(numbers).to_vec();
        }
        numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
    };
    let (bias, weight) = (little_endian(&head.bias), little_endian(&head.weight));
    let mut header = json!({
        "bias": { "dtype": "F32", "shape": [head.classes], "data_offsets": [0, bias.len()] },
        "weight": {
            "dtype": "F32",
            "shape": [head.classes, head.width],
            "data_offsets": [bias.len(), bias.len() + weight.len()],
        },
    })
    .to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(bias);
    bytes.extend(weight);
    bytes
}
