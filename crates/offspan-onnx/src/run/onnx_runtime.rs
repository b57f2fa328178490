//! ONNX Runtime, by its library.

use ort::session::Session;
use ort::value::Tensor;

use super::guarded::guarded;
use super::{Program, Runner, Value};
use crate::input_error::InputResult;

struct OnnxRuntime {
    session: Session,
    input: String,
    outputs: Vec<String>,
}

pub(super) fn start(program: Program) -> InputResult<Result<Box<dyn Runner>, String>> {
    Ok(session(program))
}

fn session(program: Program) -> Result<Box<dyn Runner>, String> {
    let Program { model, input, outputs, threads } = program;
    let refused = |error: ort::Error| format!("cannot be run by ONNX Runtime: {error}");
    // A library that is not there is a panic of `ort`.
    let session = guarded(|| {
        Session::builder()
            .and_then(|builder| builder.with_intra_threads(threads))
            .and_then(|builder| builder.commit_from_memory(&model))
            .map_err(refused)
    })
    .map_err(|reason| {
        format!("{reason} (ORT_DYLIB_PATH names the library, such as libonnxruntime.so)")
    })?;
    Ok(Box::new(OnnxRuntime { session, input, outputs }))
}

impl Runner for OnnxRuntime {
    fn run(&mut self, shape: &[usize], numbers: Vec<f32>) -> Result<Vec<Value>, String> {
        let refused = |error: ort::Error| format!("cannot be run by ONNX Runtime: {error}");
        let input = Tensor::from_array((shape.to_vec(), numbers)).map_err(refused)?;
        let results =
            self.session.run(ort::inputs![self.input.as_str() => input]).map_err(refused)?;
        self.outputs
            .iter()
            .map(|name| {
                let (shape, numbers) = results[name.as_str()]
                    .try_extract_tensor::<f32>()
                    .map_err(|error| format!("`{name}`: {error}"))?;
                let shape = shape.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect();
                Ok(Value { shape, numbers: numbers.to_vec() })
            })
            .collect()
    }
}
