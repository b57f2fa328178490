//! A model that computes what is wanted and nothing else.

use std::collections::{HashMap, HashSet};

use super::spell_out::spell_out;
use crate::nodes::needs;
use crate::proto::{GraphProto, ModelProto, ValueInfoProto};

/// The model with these values as its outputs, without the nodes and weights that they do not need.
pub(crate) fn cut(model: &ModelProto, outputs: &[String]) -> ModelProto {
    let empty = GraphProto::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    let sources: HashMap<&str, usize> = graph
        .node
        .iter()
        .enumerate()
        .flat_map(|(index, node)| node.output.iter().map(move |name| (name.as_str(), index)))
        .collect();
    let mut needed: HashSet<&str> = HashSet::new();
    let mut nodes: HashSet<usize> = HashSet::new();
    let mut open: Vec<&str> = outputs.iter().map(String::as_str).collect();
    while let Some(name) = open.pop() {
        if needed.insert(name)
            && let Some(&index) = sources.get(name)
            && nodes.insert(index)
        {
            open.extend(needs(&graph.node[index]));
        }
    }
    let typed = |name: &String| {
        let known = graph.output.iter().chain(&graph.value_info).find(|info| info.name() == name);
        known.cloned().unwrap_or_else(|| ValueInfoProto {
            name: Some(name.clone()),
            ..ValueInfoProto::default()
        })
    };
    let kept = |(index, node): (usize, &_)| nodes.contains(&index).then(|| Clone::clone(node));
    let mut cut = GraphProto {
        node: graph.node.iter().enumerate().filter_map(kept).collect(),
        name: graph.name.clone(),
        initializer: graph
            .initializer
            .iter()
            .filter(|tensor| needed.contains(tensor.name()))
            .cloned()
            .collect(),
        input: graph.input.iter().filter(|input| needed.contains(input.name())).cloned().collect(),
        output: outputs.iter().map(typed).collect(),
        ..GraphProto::default()
    };
    spell_out(&mut cut);
    ModelProto {
        ir_version: model.ir_version,
        producer_name: model.producer_name.clone(),
        opset_import: model.opset_import.clone(),
        functions: model.functions.clone(),
        graph: Some(cut),
        ..ModelProto::default()
    }
}
