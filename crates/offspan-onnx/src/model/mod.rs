//! A model that is to be run: read within bounds, checked before anything runs it, cut down to what is wanted.

mod check;
mod cut;
mod external;
mod input;
mod sizes;
mod spell_out;
mod tensors;

use std::io::Read;
use std::path::{Path, PathBuf};

use prost::Message;
use prost::bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use crate::input_error::{InputError, InputResult};
use crate::proto::{GraphProto, ModelProto};
use crate::tensors::short;

pub(crate) use cut::cut;
pub(crate) use input::ModelInput;
pub(crate) use sizes::check_sizes;

/// Protocol buffers cannot be longer.
const LONGEST_FILE: u64 = (1 << 31) - 1;

/// A model as its file has it, with the weights from other files put in.
pub struct OnnxModel {
    path: PathBuf,
    hash: String,
    proto: ModelProto,
}

impl OnnxModel {
    /// Reads a model, and checks that it can be run: what it says of itself holds, everything that is used is there, and
    /// no value depends on itself.
    ///
    /// # Errors
    /// If not.
    pub fn open(path: impl AsRef<Path>) -> InputResult<Self> {
        let path = path.as_ref();
        let wrong = |reason: String| InputError::model(path, reason);
        let bytes = read_file(path)?;
        let mut hash = Xxh3::new();
        hash.update(&bytes);
        let mut proto = ModelProto::decode(bytes).map_err(|error| {
            // Of a deep place the whole way is told.
            let reason = short(&error.to_string());
            wrong(format!("not an ONNX model, or a truncated one: {reason}"))
        })?;
        if proto.graph.is_none() {
            return Err(wrong("not an ONNX model: it has no graph".to_owned()));
        }
        external::fill(path, &mut proto, &mut hash)?;
        check::check(&proto).map_err(wrong)?;
        let hash = format!("xxh3-128:{:032x}", hash.digest128());
        Ok(OnnxModel { path: path.to_owned(), hash, proto })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's name without its folder.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// `xxh3-128:` and 32 hex digits of all bytes, those of its external data included.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The model's messages.
    #[must_use]
    pub fn proto(&self) -> &ModelProto {
        &self.proto
    }

    pub(crate) fn graph(&self) -> &GraphProto {
        self.proto.graph.as_ref().unwrap_or_else(|| unreachable!("checked when it was opened"))
    }

    /// Version of ONNX's operators.
    pub(crate) fn opset(&self) -> i64 {
        check::opset(&self.proto).unwrap_or(0)
    }

    pub(crate) fn wrong(&self, reason: impl std::fmt::Display) -> InputError {
        InputError::model(&self.path, reason)
    }
}

/// A regular file's bytes, no longer than a model can be.
fn read_file(path: &Path) -> InputResult<Bytes> {
    let metadata = std::fs::metadata(path).map_err(InputError::io("open", path))?;
    if !metadata.is_file() {
        return Err(InputError::model(
            path,
            "expected a file with an ONNX model, got something else",
        ));
    }
    let size = metadata.len();
    if size == 0 {
        return Err(InputError::model(path, "not an ONNX model: the file is empty"));
    }
    if size > LONGEST_FILE {
        return Err(InputError::model(
            path,
            format!(
                "expected an ONNX model of at most {LONGEST_FILE} bytes, got {size}; larger ones keep their weights in \
                 files beside them"
            ),
        ));
    }
    let file = std::fs::File::open(path).map_err(InputError::io("open", path))?;
    let mut bytes = Vec::with_capacity(size as usize);
    // The file may grow meanwhile.
    file.take(size).read_to_end(&mut bytes).map_err(InputError::io("read", path))?;
    Ok(Bytes::from(bytes))
}
