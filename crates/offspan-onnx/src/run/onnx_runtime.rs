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

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::proto::{
        DataType, Dimension, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
        TensorShapeProto, TypeProto, ValueInfoProto, dimension, type_proto,
    };

    fn value(name: &str) -> ValueInfoProto {
        let size = |value| Dimension { value: Some(value), ..Dimension::default() };
        let rows = dimension::Value::DimParam("N".to_owned());
        let tensor = type_proto::Tensor {
            elem_type: Some(DataType::Float as i32),
            shape: Some(TensorShapeProto {
                dim: vec![size(rows), size(dimension::Value::DimValue(2))],
            }),
        };
        ValueInfoProto {
            name: Some(name.to_owned()),
            r#type: Some(TypeProto {
                value: Some(type_proto::Value::TensorType(tensor)),
                ..TypeProto::default()
            }),
            ..ValueInfoProto::default()
        }
    }

    #[test]
    fn it_runs_a_model_where_its_library_is_named() {
        if std::env::var_os("ORT_DYLIB_PATH").is_none() {
            eprintln!("skipped: ORT_DYLIB_PATH names no library of ONNX Runtime");
            return;
        }
        let relu = NodeProto {
            op_type: Some("Relu".to_owned()),
            input: vec!["x".to_owned()],
            output: vec!["y".to_owned()],
            ..NodeProto::default()
        };
        let model = ModelProto {
            ir_version: Some(8),
            opset_import: vec![OperatorSetIdProto { version: Some(17), domain: None }],
            graph: Some(GraphProto {
                name: Some("test".to_owned()),
                node: vec![relu],
                input: vec![value("x")],
                output: vec![value("y")],
                ..GraphProto::default()
            }),
            ..ModelProto::default()
        };
        let program = |model: Vec<u8>| Program {
            model,
            input: "x".to_owned(),
            outputs: vec!["y".to_owned()],
            threads: 1,
        };
        let mut runner = start(program(model.encode_to_vec())).unwrap().unwrap();
        let found = runner.run(&[2, 2], vec![1.0, -2.0, 0.5, -0.0]).unwrap();
        assert_eq!(
            (&found[0].shape[..], &found[0].numbers[..]),
            (&[2, 2][..], &[1., 0., 0.5, 0.][..])
        );
        let refused = runner.run(&[2, 3], vec![0.0; 6]).err().unwrap();
        assert!(refused.contains("cannot be run by ONNX Runtime"), "{refused}");
        let refused = start(program(b"no model".to_vec())).unwrap().err().unwrap();
        assert!(refused.contains("cannot be run by ONNX Runtime"), "{refused}");
    }
}
