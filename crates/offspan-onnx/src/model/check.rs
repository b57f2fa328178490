//! What must hold of a graph before anything runs it: every value has one source, and none depends on itself.

use std::collections::{HashMap, HashSet};

use super::tensors;
use crate::nodes::{order, what};
use crate::proto::{GraphProto, ModelProto};
use crate::tensors::short;

/// The versions of operators that are read. In earlier ones several have other inputs.
const OLDEST_OPSET: i64 = 11;
/// Far more than any network has.
const MOST_NODES: usize = 100_000;
const MOST_GRAPHS: usize = 1_000;

/// Version of ONNX's own operators.
pub(super) fn opset(model: &ModelProto) -> Option<i64> {
    let own = |domain: &str| domain.is_empty() || domain == "ai.onnx";
    model.opset_import.iter().find(|set| own(set.domain()))?.version
}

pub(super) fn check(model: &ModelProto) -> Result<(), String> {
    let graph = model.graph.as_ref().ok_or("it has no graph")?;
    match opset(model) {
        None => {
            return Err(
                "it does not say which version of operators it uses (opset_import)".to_owned()
            );
        }
        Some(version) if version < OLDEST_OPSET => {
            return Err(format!(
                "expected operators of version {OLDEST_OPSET} or later, got {version}; export the model again with a \
                 later opset"
            ));
        }
        Some(_) => {}
    }
    if graph.node.is_empty() {
        return Err("its graph has no nodes".to_owned());
    }
    if graph.output.is_empty() {
        return Err("its graph has no outputs".to_owned());
    }
    check_graph(graph, &HashSet::new(), &mut Counts::default())
}

/// How many there were so far, in all graphs.
#[derive(Default)]
struct Counts {
    nodes: usize,
    graphs: usize,
}

/// Checks a graph and those inside its nodes; `outer` are the values that surrounding graphs have.
fn check_graph(
    graph: &GraphProto,
    outer: &HashSet<&str>,
    counts: &mut Counts,
) -> Result<(), String> {
    counts.nodes += graph.node.len();
    counts.graphs += 1;
    if counts.nodes > MOST_NODES || counts.graphs > MOST_GRAPHS {
        return Err(format!(
            "expected at most {MOST_NODES} nodes and {MOST_GRAPHS} graphs within one another, got more"
        ));
    }
    if !graph.sparse_initializer.is_empty() {
        return Err("it has sparse weights, which cannot be used; export them dense".to_owned());
    }
    let mut known: HashSet<&str> = outer.clone();
    for tensor in &graph.initializer {
        tensors::check(tensor)?;
        if tensor.name().is_empty() {
            return Err("one of its weights has no name".to_owned());
        }
        if !known.insert(tensor.name()) {
            return Err(format!("two of its weights are called `{}`", short(tensor.name())));
        }
    }
    // An input may have an initializer of its name: its default.
    known.extend(graph.input.iter().map(|input| input.name()));
    let mut sources = HashMap::new();
    for (index, node) in graph.node.iter().enumerate() {
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            if known.contains(output.as_str()) || sources.insert(output.as_str(), index).is_some() {
                return Err(format!("the value `{}` has two sources", short(output)));
            }
        }
    }
    let is_known = |name: &str| known.contains(name) || sources.contains_key(name);
    for node in &graph.node {
        if let Some(missing) = node.input.iter().find(|name| !name.is_empty() && !is_known(name)) {
            return Err(format!(
                "{} needs `{}`, which is no weight, no input and no result of another node",
                what(node),
                short(missing)
            ));
        }
    }
    for output in &graph.output {
        if !is_known(output.name()) {
            return Err(format!("its output `{}` has no source", short(output.name())));
        }
    }
    check_order(graph)?;
    let visible: HashSet<&str> = known.iter().copied().chain(sources.keys().copied()).collect();
    for node in &graph.node {
        for attribute in &node.attribute {
            attribute.t.iter().chain(&attribute.tensors).try_for_each(tensors::check)?;
            for inside in attribute.g.iter().chain(&attribute.graphs) {
                check_graph(inside, &visible, counts)?;
            }
        }
    }
    Ok(())
}

/// Fails if values depend on themselves.
fn check_order(graph: &GraphProto) -> Result<(), String> {
    let order = order(graph);
    if order.len() == graph.node.len() {
        return Ok(());
    }
    let done: HashSet<usize> = order.into_iter().collect();
    let stuck = (0..graph.node.len()).find(|index| !done.contains(index)).unwrap_or(0);
    Err(format!("{} depends on itself: the graph has a cycle", what(&graph.node[stuck])))
}
