//! What carries a model out. Everything else sees [`Runner`] only.

mod guarded;
#[cfg(feature = "ort")]
mod onnx_runtime;
mod pure_rust;

use std::fmt::{Display, Formatter};
use std::str::FromStr;

#[cfg(not(feature = "ort"))]
use crate::input_error::InputError;
use crate::input_error::InputResult;

/// A value that came out: sizes, and numbers in row-major order.
pub(crate) struct Value {
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Vec<f32>,
}

/// A model that is ready to run.
pub(crate) trait Runner: Send {
    /// Carries the model out on an input of this shape; gives the outputs in their order.
    fn run(&mut self, shape: &[usize], numbers: Vec<f32>) -> Result<Vec<Value>, String>;
}

/// The engines that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// rten: in Rust, needs nothing else.
    #[default]
    Rten,
    /// ONNX Runtime, from the library that `ORT_DYLIB_PATH` names.
    Ort,
}

impl Display for Engine {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Engine::Rten => "rten",
            Engine::Ort => "ort",
        })
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "rten" => Ok(Engine::Rten),
            "ort" => Ok(Engine::Ort),
            _ => Err(format!("expected rten or ort, got `{text}`")),
        }
    }
}

/// What an engine is started with.
pub(crate) struct Program {
    /// The model, as it is in a file.
    pub(crate) model: Vec<u8>,
    pub(crate) input: String,
    pub(crate) outputs: Vec<String>,
    pub(crate) threads: usize,
}

/// Starts an engine.
pub(crate) fn start(
    engine: Engine,
    program: Program,
) -> InputResult<Result<Box<dyn Runner>, String>> {
    match engine {
        Engine::Rten => Ok(pure_rust::start(program)),
        #[cfg(feature = "ort")]
        Engine::Ort => onnx_runtime::start(program),
        #[cfg(not(feature = "ort"))]
        Engine::Ort => Err(InputError::setting(
            "engine",
            "rten, for this program was built without the feature `ort`",
            "ort",
        )),
    }
}
