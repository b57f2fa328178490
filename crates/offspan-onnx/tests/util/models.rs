//! Small ONNX models, built of messages, and small images.

// Each test file compiles its own copy and uses a part of it.
#![allow(dead_code)]

use offspan_onnx::proto::{
    AttributeProto, AttributeType, DataType, Dimension, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, dimension,
    type_proto,
};
use prost::Message;

/// Numbers in [−1, 1) that are the same everywhere.
pub(crate) fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

pub(crate) fn tensor(name: &str, sizes: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: sizes.to_vec(),
        data_type: Some(DataType::Float as i32),
        raw_data: Some(values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>().into()),
        ..TensorProto::default()
    }
}

pub(crate) fn whole(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: vec![values.len() as i64],
        data_type: Some(DataType::Int64 as i32),
        int64_data: values.to_vec(),
        ..TensorProto::default()
    }
}

pub(crate) fn random(name: &str, sizes: &[i64], seed: u64) -> TensorProto {
    let count: i64 = sizes.iter().product();
    tensor(name, sizes, &numbers(count as usize, seed))
}

pub(crate) fn node(kind: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: Some(kind.to_owned()),
        name: Some(format!("{output}-node")),
        input: inputs.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

pub(crate) fn with_int(mut node: NodeProto, name: &str, value: i64) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        i: Some(value),
        r#type: Some(AttributeType::Int as i32),
        ..AttributeProto::default()
    });
    node
}

pub(crate) fn with_ints(mut node: NodeProto, name: &str, values: &[i64]) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        ints: values.to_vec(),
        r#type: Some(AttributeType::Ints as i32),
        ..AttributeProto::default()
    });
    node
}

/// A value's name and sizes; −1 is open.
pub(crate) fn value(name: &str, sizes: &[i64]) -> ValueInfoProto {
    let size = |&size: &i64| Dimension {
        value: Some(match size {
            -1 => dimension::Value::DimParam("N".to_owned()),
            size => dimension::Value::DimValue(size),
        }),
        ..Dimension::default()
    };
    let tensor = type_proto::Tensor {
        elem_type: Some(DataType::Float as i32),
        shape: Some(TensorShapeProto { dim: sizes.iter().map(size).collect() }),
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

pub(crate) fn model(
    input: ValueInfoProto,
    nodes: Vec<NodeProto>,
    weights: Vec<TensorProto>,
    outputs: Vec<ValueInfoProto>,
) -> ModelProto {
    let version = |version| OperatorSetIdProto { domain: None, version: Some(version) };
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![version(17)],
        graph: Some(GraphProto {
            name: Some("test".to_owned()),
            node: nodes,
            initializer: weights,
            input: vec![input],
            output: outputs,
            ..GraphProto::default()
        }),
        ..ModelProto::default()
    }
}

pub(crate) fn bytes(model: &ModelProto) -> Vec<u8> {
    model.encode_to_vec()
}

/// 6 numbers → 5, ReLU → 3 classes by Gemm, with what may stand between and behind.
pub(crate) fn perceptron() -> ModelProto {
    let nodes = vec![
        with_int(node("Gemm", &["x", "w1", "b1"], "h"), "transB", 1),
        node("Relu", &["h"], "z"),
        node("Identity", &["z"], "zi"),
        node("Dropout", &["zi"], "zd"),
        with_int(node("Gemm", &["zd", "w2", "b2"], "logits"), "transB", 1),
        node("Identity", &["logits"], "out"),
    ];
    let weights = vec![
        random("w1", &[5, 6], 1),
        random("b1", &[5], 2),
        random("w2", &[3, 5], 3),
        random("b2", &[3], 4),
    ];
    model(value("x", &[-1, 6]), nodes, weights, vec![value("out", &[-1, 3])])
}

/// 3 × 8 × 8 images → two convolutions → average → Flatten → 4 classes by MatMul and Add. `rows` is −1 for any
/// number.
pub(crate) fn network(rows: i64) -> ModelProto {
    let conv = |inputs: &[&str], output: &str| {
        with_ints(node("Conv", inputs, output), "pads", &[1, 1, 1, 1])
    };
    let nodes = vec![
        conv(&["image", "w1", "b1"], "c1"),
        node("Relu", &["c1"], "r1"),
        conv(&["r1", "w2", "b2"], "c2"),
        node("Relu", &["c2"], "maps"),
        node("GlobalAveragePool", &["maps"], "pooled"),
        with_int(node("Flatten", &["pooled"], "flat"), "axis", 1),
        node("MatMul", &["flat", "w3"], "product"),
        node("Add", &["product", "b3"], "logits"),
        with_int(node("Softmax", &["logits"], "probabilities"), "axis", 1),
    ];
    let weights = vec![
        random("w1", &[5, 3, 3, 3], 11),
        random("b1", &[5], 12),
        random("w2", &[7, 5, 3, 3], 13),
        random("b2", &[7], 14),
        random("w3", &[7, 4], 15),
        random("b3", &[4], 16),
    ];
    model(
        value("image", &[rows, 3, 8, 8]),
        nodes,
        weights,
        vec![value("probabilities", &[rows, 4])],
    )
}

/// The same for images with their channels last: a Transpose in front.
pub(crate) fn channels_last_network() -> ModelProto {
    let mut model = network(-1);
    let graph = model.graph.as_mut().unwrap();
    graph.input = vec![value("picture", &[-1, 8, 8, 3])];
    let turn = with_ints(node("Transpose", &["picture"], "image"), "perm", &[0, 3, 1, 2]);
    graph.node.insert(0, turn);
    model
}

/// What [`perceptron`] computes, in double precision: features and logits of one row.
pub(crate) fn perceptron_by_hand(row: &[f32]) -> (Vec<f64>, Vec<f64>) {
    let [w1, b1] = [numbers(30, 1), numbers(5, 2)];
    let [w2, b2] = [numbers(15, 3), numbers(3, 4)];
    let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<_>>();
    let hidden: Vec<f64> = linear(&w1, &b1, &wide(row)).into_iter().map(|x| x.max(0.0)).collect();
    let logits = linear(&w2, &b2, &hidden);
    (hidden, logits)
}

fn linear(weight: &[f32], bias: &[f32], row: &[f64]) -> Vec<f64> {
    let product =
        |weights: &[f32]| -> f64 { weights.iter().zip(row).map(|(w, x)| f64::from(*w) * x).sum() };
    weight.chunks(row.len()).zip(bias).map(|(w, b)| product(w) + f64::from(*b)).collect()
}

/// What [`network`] computes of an image with its channels first, in double precision: maps (7 × 64), features and
/// logits.
pub(crate) fn network_by_hand(image: &[f32]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let first = convolved(
        &image.iter().copied().map(f64::from).collect::<Vec<_>>(),
        (3, 5),
        &numbers(135, 11),
        &numbers(5, 12),
    );
    let maps = convolved(&first, (5, 7), &numbers(315, 13), &numbers(7, 14));
    let features: Vec<f64> = maps.chunks(64).map(|map| map.iter().sum::<f64>() / 64.0).collect();
    let (w3, b3) = (numbers(28, 15), numbers(4, 16));
    let logits = (0..4)
        .map(|class| {
            let sum: f64 =
                features.iter().enumerate().map(|(i, x)| x * f64::from(w3[i * 4 + class])).sum();
            sum + f64::from(b3[class])
        })
        .collect();
    (maps, features, logits)
}

/// A 3 × 3 convolution over 8 × 8 pixels with a border of zeros, and a ReLU.
fn convolved(image: &[f64], (from, to): (usize, usize), weight: &[f32], bias: &[f32]) -> Vec<f64> {
    let at = |channel: usize, y: i64, x: i64| {
        let inside = (0..8).contains(&y) && (0..8).contains(&x);
        if inside { image[channel * 64 + y as usize * 8 + x as usize] } else { 0.0 }
    };
    let mut out = Vec::with_capacity(to * 64);
    for channel in 0..to {
        for (y, x) in (0..64).map(|i| (i / 8, i % 8)) {
            let mut sum = f64::from(bias[channel]);
            for source in 0..from {
                for (dy, dx) in (0..9).map(|i| (i / 3, i % 3)) {
                    let w = weight[((channel * from + source) * 3 + dy as usize) * 3 + dx as usize];
                    sum += f64::from(w) * at(source, y + dy - 1, x + dx - 1);
                }
            }
            out.push(sum.max(0.0));
        }
    }
    out
}
