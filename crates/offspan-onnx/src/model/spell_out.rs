//! What a model leaves unsaid and engines want to be told. The results are the same.

use std::collections::HashMap;

use crate::proto::{AttributeProto, AttributeType, GraphProto, NodeProto};

/// Writes out sizes of kernels and steps of pools, and takes dropout out: features are those of evaluation.
pub(super) fn spell_out(graph: &mut GraphProto) {
    let weights: HashMap<String, Vec<i64>> = graph
        .initializer
        .iter()
        .map(|tensor| (tensor.name().to_owned(), tensor.dims.clone()))
        .collect();
    for node in &mut graph.node {
        match node.op_type() {
            "Dropout" if node.output.iter().skip(1).all(String::is_empty) => {
                node.op_type = Some("Identity".to_owned());
                node.input.truncate(1);
                node.output.truncate(1);
                node.attribute.clear();
            }
            // rten takes the number of dimensions from the kernel's size, and ONNX allows to leave it out.
            "Conv" | "ConvTranspose" => {
                let kernel = node.input.get(1).and_then(|name| weights.get(name)?.get(2..));
                if let Some(kernel) = kernel.map(<[i64]>::to_vec) {
                    add_missing(node, "kernel_shape", kernel);
                }
            }
            "MaxPool" | "AveragePool" | "LpPool" => {
                let kernel = node.attribute.iter().find(|found| found.name() == "kernel_shape");
                if let Some(length) = kernel.map(|kernel| kernel.ints.len()) {
                    add_missing(node, "strides", vec![1; length]);
                }
            }
            _ => {}
        }
    }
}

fn add_missing(node: &mut NodeProto, name: &str, numbers: Vec<i64>) {
    if node.attribute.iter().any(|found| found.name() == name) {
        return;
    }
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        ints: numbers,
        r#type: Some(AttributeType::Ints as i32),
        ..AttributeProto::default()
    });
}
