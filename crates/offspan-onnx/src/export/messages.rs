//! Messages for the parts of a graph.

use offspan::graph::{Constant, Element, Graph, Input, Numbers, Output, Size, ValueInfo};
use prost::bytes::Bytes;

use super::node::Writer;
use crate::proto::dimension::Value as Dim;
use crate::proto::type_proto::{Tensor, Value as Kind};
use crate::proto::{
    DataType, Dimension, OperatorSetIdProto, StringStringEntryProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto,
};

/// The type of numbers.
pub(super) fn data_type(element: Element) -> DataType {
    match element {
        Element::Real => DataType::Float,
        Element::Index => DataType::Int64,
        Element::Flag => DataType::Bool,
    }
}

/// A constant's numbers, reals in single precision.
pub(super) fn constant(name: String, constant: &Constant<'_>) -> TensorProto {
    let bytes: Vec<u8> = match &constant.numbers {
        Numbers::Single(numbers) => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Numbers::Double(numbers) => {
            numbers.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect()
        }
        Numbers::Index(numbers) => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Numbers::Flag(numbers) => numbers.iter().map(|&flag| u8::from(flag)).collect(),
    };
    let shape = constant.shape.iter().map(|&size| size as i64).collect();
    tensor(name, shape, data_type(constant.numbers.element()), bytes)
}

/// A single real.
pub(super) fn number(name: &str, number: f64) -> TensorProto {
    let bytes = (number as f32).to_le_bytes().to_vec();
    tensor(name.to_owned(), Vec::new(), DataType::Float, bytes)
}

/// Whole numbers, such as the axes of a reduction.
pub(super) fn whole_numbers(name: String, shape: Vec<i64>, numbers: &[i64]) -> TensorProto {
    let bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    tensor(name, shape, DataType::Int64, bytes)
}

fn tensor(name: String, dims: Vec<i64>, data_type: DataType, bytes: Vec<u8>) -> TensorProto {
    TensorProto {
        dims,
        data_type: Some(data_type as i32),
        name: Some(name),
        raw_data: Some(Bytes::from(bytes)),
        ..TensorProto::default()
    }
}

/// What callers give.
pub(super) fn input_info(input: &Input, writer: &Writer) -> ValueInfoProto {
    let ValueInfo { name, element, shape } = &input.value;
    value_info(&writer.name(name), *element, shape)
}

/// What comes out under this name.
pub(super) fn output_info(name: &str, graph: &Graph<'_>, output: &Output) -> ValueInfoProto {
    let results = graph.nodes.iter().flat_map(|node| &node.outputs);
    let known = results.chain(graph.inputs.iter().map(|input| &input.value));
    match known.into_iter().find(|value| value.name == output.value) {
        Some(value) => value_info(name, value.element, &value.shape),
        None => ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() },
    }
}

pub(super) fn value_info(name: &str, element: Element, shape: &[Size]) -> ValueInfoProto {
    let size = |size: &Size| {
        let value = match size {
            Size::Fixed(size) => Dim::DimValue(*size as i64),
            Size::Rows => Dim::DimParam("N".to_owned()),
            Size::Named(name) => Dim::DimParam((*name).to_owned()),
        };
        Dimension { value: Some(value), denotation: None }
    };
    let tensor = Tensor {
        elem_type: Some(data_type(element) as i32),
        shape: Some(TensorShapeProto { dim: shape.iter().map(size).collect() }),
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { value: Some(Kind::TensorType(tensor)), denotation: None }),
        ..ValueInfoProto::default()
    }
}

/// A version of ONNX's own operators.
pub(super) fn op_version(version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: Some(String::new()), version: Some(version) }
}

pub(super) fn text_entry(key: String, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(key), value: Some(value.to_owned()) }
}
