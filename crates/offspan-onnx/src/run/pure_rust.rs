//! rten: ONNX in Rust.

use std::sync::Arc;

use rten::{ModelOptions, NodeId, RunOptions, ThreadPool};
use rten_tensor::Tensor;
use rten_tensor::prelude::*;

use super::guarded::guarded;
use super::{Program, Runner, Value};

struct PureRust {
    model: rten::Model,
    input: NodeId,
    outputs: Vec<(String, NodeId)>,
    pool: Arc<ThreadPool>,
}

pub(super) fn start(program: Program) -> Result<Box<dyn Runner>, String> {
    let Program { model, input, outputs, threads } = program;
    let model = guarded(|| {
        let mut options = ModelOptions::with_all_ops();
        options.prepack_weights(true);
        options.load(model).map_err(|error| format!("cannot be run by rten: {error}"))
    })?;
    let node = |name: &str| {
        model.node_id(name).map_err(|error| format!("cannot be run by rten: `{name}`: {error}"))
    };
    let input = node(&input)?;
    let outputs = outputs
        .into_iter()
        .map(|name| node(&name).map(|id| (name, id)))
        .collect::<Result<_, String>>()?;
    let pool = Arc::new(ThreadPool::with_num_threads(threads));
    Ok(Box::new(PureRust { model, input, outputs, pool }))
}

impl Runner for PureRust {
    fn run(&mut self, shape: &[usize], numbers: Vec<f32>) -> Result<Vec<Value>, String> {
        let ids: Vec<NodeId> = self.outputs.iter().map(|(_, id)| *id).collect();
        let values = guarded(|| {
            let input = Tensor::from_data(shape, numbers);
            let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&self.pool)));
            self.model
                .run(vec![(self.input, input.into())], &ids, Some(options))
                .map_err(|error| format!("cannot be run by rten: {error}"))
        })?;
        self.outputs
            .iter()
            .zip(values)
            .map(|((name, _), value)| {
                let Some(tensor) = value.into_tensor::<f32>() else {
                    return Err(format!("`{name}`: expected numbers in single precision, got others"));
                };
                Ok(Value { shape: tensor.shape().to_vec(), numbers: tensor.into_data() })
            })
            .collect()
    }
}
