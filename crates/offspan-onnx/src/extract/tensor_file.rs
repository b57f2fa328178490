//! A safetensors file put together from files that hold the numbers of one tensor each.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use offspan::io::create_atomically;
use serde_json::{Map, Value, json};

use crate::input_error::InputResult;

/// A tensor, and the file that its numbers are in.
pub(super) struct Part {
    pub(super) name: String,
    /// The type, as safetensors calls it.
    pub(super) dtype: &'static str,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: u64,
    pub(super) file: PathBuf,
}

/// Writes all parts as one file, which appears whole or not at all.
pub(super) fn assemble(path: &Path, mut parts: Vec<Part>) -> InputResult<()> {
    // The widest numbers first, so that each tensor begins at a multiple of its numbers' size.
    let width = |part: &Part| match part.dtype {
        "I64" => 8,
        "F32" => 4,
        _ => 2,
    };
    parts.sort_by(|a, b| width(b).cmp(&width(a)).then_with(|| a.name.cmp(&b.name)));
    let mut header = Map::new();
    let mut at = 0;
    for part in &parts {
        let end = at + part.bytes;
        let entry = json!({ "dtype": part.dtype, "shape": part.shape, "data_offsets": [at, end] });
        header.insert(part.name.clone(), entry);
        at = end;
    }
    let mut header = Value::Object(header).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    create_atomically(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        for part in &parts {
            let copied = std::io::copy(&mut File::open(&part.file)?, file)?;
            if copied != part.bytes {
                return Err(std::io::Error::other(format!(
                    "expected {} bytes of `{}`, got {copied}",
                    part.bytes, part.name
                )));
            }
        }
        Ok(())
    })?;
    Ok(())
}
