//! A detector as an ONNX file: alone, or behind the model that its features come from.

mod attach;
mod messages;
mod node;

use std::path::Path;

use offspan::graph::Graph;
use offspan::io::{ONNX_METADATA, write_bytes};
use offspan::{Detector, Error, Result};
use prost::Message;

use self::messages::{constant, input_info, op_version, output_info, text_entry};
use self::node::Writer;
use crate::proto::{GraphProto, ModelProto, OperatorSetIdProto, StringStringEntryProto};

pub use self::attach::{AttachOptions, Guarded, attach};

/// Operators of a file that is no part of another model: all runtimes since 2022 have them.
const OPSET: i64 = 17;
/// The version of the format that came with them.
const IR_VERSION: i64 = 8;
/// Protocol buffers cannot be longer.
const LONGEST_FILE: usize = (1 << 31) - 1;

/// A detector as an ONNX model.
///
/// Its inputs and outputs are those of [`Detector::graph`]; numbers are in single precision. `threshold` is an
/// initializer that callers may override. `metadata_props` tell what the detector is, under names that begin with
/// `offspan.`.
///
/// # Errors
/// If the method's arithmetic has no operators in ONNX.
pub fn export(detector: &Detector) -> Result<ModelProto> {
    let graph = detector.graph()?;
    let mut writer = Writer::new(OPSET, String::new());
    let inputs: Vec<_> = graph.inputs.iter().map(|input| input_info(input, &writer)).collect();
    write_graph(&graph, &mut writer);
    let outputs = name_outputs(&graph, &mut writer, |name| name.to_owned());
    Ok(ModelProto {
        ir_version: Some(IR_VERSION),
        producer_name: Some("offspan".to_owned()),
        producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        graph: Some(GraphProto {
            name: Some(detector.info().method.clone()),
            node: writer.nodes,
            initializer: writer.initializers,
            input: inputs,
            output: outputs,
            ..GraphProto::default()
        }),
        opset_import: vec![op_version(OPSET)],
        metadata_props: metadata(&graph),
        ..ModelProto::default()
    })
}

/// Writes a model; the file appears whole or not at all.
///
/// # Errors
/// If it is too large for one file, or cannot be written.
pub fn save(model: &ModelProto, path: &Path) -> Result<usize> {
    let length = model.encoded_len();
    if length > LONGEST_FILE {
        return Err(Error::NotExportable {
            method: path.display().to_string(),
            reason: format!(
                "an ONNX file has at most {LONGEST_FILE} bytes, and this one would have {length}; a detector with a \
                 smaller bank or map fits"
            ),
        });
    }
    write_bytes(path, &model.encode_to_vec())?;
    Ok(length)
}

/// All nodes and constants.
fn write_graph(graph: &Graph<'_>, writer: &mut Writer) {
    for input in &graph.inputs {
        if let Some(default) = input.default {
            let name = writer.name(&input.value.name);
            writer.initializers.push(messages::number(&name, default));
        }
    }
    for known in &graph.constants {
        let name = writer.name(&known.name);
        writer.initializers.push(constant(name, known));
    }
    for node in &graph.nodes {
        writer.node(node);
    }
}

/// The outputs under the names that `called` gives them.
fn name_outputs(
    graph: &Graph<'_>,
    writer: &mut Writer,
    called: impl Fn(&str) -> String,
) -> Vec<crate::proto::ValueInfoProto> {
    graph
        .outputs
        .iter()
        .map(|output| {
            let name = called(&output.name);
            let value = writer.name(&output.value);
            writer.push("Identity", &[&value], &[&name], Vec::new());
            output_info(&name, graph, output)
        })
        .collect()
}

/// What the detector says of itself.
fn metadata(graph: &Graph<'_>) -> Vec<StringStringEntryProto> {
    let entry =
        |(name, text): (&String, &String)| text_entry(format!("{ONNX_METADATA}{name}"), text);
    graph.metadata.iter().map(entry).collect()
}

/// Whose operators ONNX's own are.
fn is_own_domain(set: &OperatorSetIdProto) -> bool {
    matches!(set.domain(), "" | "ai.onnx")
}
