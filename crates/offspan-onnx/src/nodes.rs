//! Nodes: what they need, what they say, and an order in which they can be carried out.

use std::collections::HashMap;

use crate::proto::{AttributeProto, GraphProto, NodeProto};
use crate::tensors::short;

/// The nodes in an order in which each comes behind all that it needs. Files may have another one. Those that depend on
/// themselves are left out.
pub(crate) fn order(graph: &GraphProto) -> Vec<usize> {
    let sources: HashMap<&str, usize> = graph
        .node
        .iter()
        .enumerate()
        .flat_map(|(index, node)| node.output.iter().map(move |name| (name.as_str(), index)))
        .filter(|(name, _)| !name.is_empty())
        .collect();
    let mut waiting = vec![0_usize; graph.node.len()];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); graph.node.len()];
    for (index, node) in graph.node.iter().enumerate() {
        for needed in needs(node) {
            if let Some(&source) = sources.get(needed) {
                users[source].push(index);
                waiting[index] += 1;
            }
        }
    }
    let mut ready: Vec<usize> = (0..waiting.len()).filter(|&index| waiting[index] == 0).collect();
    let mut order = Vec::with_capacity(waiting.len());
    while let Some(index) = ready.pop() {
        order.push(index);
        for &user in &users[index] {
            waiting[user] -= 1;
            if waiting[user] == 0 {
                ready.push(user);
            }
        }
    }
    order
}

/// The values that a node uses, those in graphs inside it included.
pub(crate) fn needs(node: &NodeProto) -> Vec<&str> {
    let mut names: Vec<&str> =
        node.input.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    for graph in inner(node) {
        // Values of the inner graph are among them; no node of the outer one has their names.
        names.extend(graph.node.iter().flat_map(needs));
        names.extend(graph.output.iter().map(|output| output.name()));
    }
    names
}

/// What to call a node in messages.
pub(crate) fn what(node: &NodeProto) -> String {
    let kind = short(node.op_type());
    match node.name() {
        "" => format!("a node of type `{kind}`"),
        name => format!("the node `{}` ({kind})", short(name)),
    }
}

/// The graphs inside a node.
pub(crate) fn inner(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs))
}

pub(crate) fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|found| found.name() == name)
}

/// A whole number that a node says.
pub(crate) fn int(node: &NodeProto, name: &str) -> Option<i64> {
    attribute(node, name)?.i
}

/// A short list of whole numbers that a node says.
pub(crate) fn ints(node: &NodeProto, name: &str) -> Option<Vec<i64>> {
    const LONGEST: usize = 64;
    let ints = &attribute(node, name)?.ints;
    (ints.len() <= LONGEST).then(|| ints.clone())
}
