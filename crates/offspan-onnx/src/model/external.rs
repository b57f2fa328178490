//! Weights in files beside the model. Only such files are read: a model must not make us open others.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use prost::bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use super::tensors::element_size;
use crate::input_error::{InputError, InputResult};
use crate::proto::{DataLocation, GraphProto, ModelProto, NodeProto, TensorProto};
use crate::tensors::{elements, label, short};

/// Puts the numbers of external tensors into the model, and adds the files to the hash in the order of their names.
pub(super) fn fill(model: &Path, proto: &mut ModelProto, hash: &mut Xxh3) -> InputResult<()> {
    let mut files = BTreeMap::new();
    let graph = proto.graph.as_mut();
    graph.map_or(Ok(()), |graph| fill_graph(model, graph, &mut files))?;
    files.values().for_each(|bytes: &Bytes| hash.update(bytes));
    Ok(())
}

type Files = BTreeMap<String, Bytes>;

fn fill_graph(model: &Path, graph: &mut GraphProto, files: &mut Files) -> InputResult<()> {
    graph.initializer.iter_mut().try_for_each(|tensor| fill_tensor(model, tensor, files))?;
    graph.node.iter_mut().try_for_each(|node| fill_node(model, node, files))
}

fn fill_node(model: &Path, node: &mut NodeProto, files: &mut Files) -> InputResult<()> {
    for attribute in &mut node.attribute {
        let tensors = attribute.t.iter_mut().chain(&mut attribute.tensors);
        tensors.into_iter().try_for_each(|tensor| fill_tensor(model, tensor, files))?;
        let graphs = attribute.g.iter_mut().chain(&mut attribute.graphs);
        graphs.into_iter().try_for_each(|graph| fill_graph(model, graph, files))?;
    }
    Ok(())
}

fn fill_tensor(model: &Path, tensor: &mut TensorProto, files: &mut Files) -> InputResult<()> {
    if tensor.data_location != Some(DataLocation::External as i32) {
        return Ok(());
    }
    let wrong = |reason: String| InputError::model(model, reason);
    let name = label(tensor);
    let entry = |key: &str| {
        let entry = tensor.external_data.iter().find(|entry| entry.key() == key)?;
        entry.value.clone()
    };
    let Some(location) = entry("location") else {
        return Err(wrong(format!("{name} is in another file, but does not say in which")));
    };
    let number = |key: &str| match entry(key) {
        None => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| {
            wrong(format!("{name}: expected a whole number as its {key}, got `{}`", short(&text)))
        }),
    };
    let offset = number("offset")?.unwrap_or(0);
    let expected = elements(tensor)
        .and_then(|elements| Ok(elements * element_size(tensor)?))
        .map_err(&wrong)?;
    let length = number("length")?.unwrap_or(expected);
    if length != expected {
        return Err(wrong(format!(
            "{name} of sizes {:?}: expected {expected} bytes, got {length} in `{}`",
            tensor.dims,
            short(&location)
        )));
    }
    if !files.contains_key(&location) {
        files.insert(location.clone(), read(model, &location)?);
    }
    let bytes = &files[&location];
    let end = offset.checked_add(length).filter(|end| *end <= bytes.len() as u64);
    let Some(end) = end else {
        return Err(wrong(format!(
            "{name}: expected {length} bytes from {offset} on in `{}`, which has {}; the file is truncated or another one",
            short(&location),
            bytes.len()
        )));
    };
    tensor.raw_data = Some(bytes.slice(offset as usize..end as usize));
    tensor.data_location = None;
    tensor.external_data.clear();
    Ok(())
}

/// The bytes of a file in the model's own folder, or in one inside it.
fn read(model: &Path, location: &str) -> InputResult<Bytes> {
    let relative = Path::new(location);
    let stays = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let climbs = !relative.components().all(stays);
    let outside = || {
        InputError::model(
            model,
            format!(
                "its weights are said to be in `{}`, which is outside the model's folder; only files in that folder are read",
                short(location)
            ),
        )
    };
    if climbs || location.is_empty() || location.contains(['\\', '\0']) {
        return Err(outside());
    }
    let folder = model.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let path = folder.join(relative);
    // A link may lead out of the folder, too.
    let real = path.canonicalize().map_err(InputError::io("open the weights in", &path))?;
    let home = folder.canonicalize().map_err(InputError::io("open", folder))?;
    if !real.starts_with(&home) {
        return Err(outside());
    }
    if !real.is_file() {
        return Err(InputError::model(&path, "expected a file with weights, got something else"));
    }
    Ok(Bytes::from(std::fs::read(&real).map_err(InputError::io("read", &path))?))
}
