//! What identifies the rows of a pack: their values, wherever and however they are kept.

use std::io::Read;
use std::path::Path;

use ndarray::ArrayView;
use offspan::io::{Dataset, FeatureSource, Head, read_rows};
use xxhash_rust::xxh3::Xxh3;

use crate::Result;
use crate::evaluation::Sets;

/// Rows hashed at a time.
const CHUNK: usize = 4096;

/// A hash of all features, logits, labels and weights.
pub(crate) fn fingerprint(sets: &Sets<'_>) -> Result<String> {
    let mut hash = Xxh3::new();
    dataset(&mut hash, sets.train)?;
    dataset(&mut hash, sets.test)?;
    for set in sets.ood {
        dataset(&mut hash, set)?;
    }
    if let Some(head) = sets.head {
        last_layer(&mut hash, head);
    }
    Ok(format!("{:032x}", hash.digest128()))
}

/// A hash of all rows of a split, under its kind: `xxh3-128:…`.
pub(crate) fn fingerprint_of(data: &Dataset<'_>) -> Result<String> {
    let mut hash = Xxh3::new();
    dataset(&mut hash, data)?;
    Ok(named(&hash))
}

/// The same of a last layer.
pub(crate) fn head_fingerprint(head: &Head) -> String {
    let mut hash = Xxh3::new();
    last_layer(&mut hash, head);
    named(&hash)
}

/// A hash of a file's bytes.
pub(crate) fn file_fingerprint(path: &Path) -> Result<String> {
    let failed = |source| offspan::Error::Io { action: "read", path: path.to_owned(), source };
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let (mut hash, mut block) = (Xxh3::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut block).map_err(failed)? {
            0 => return Ok(named(&hash)),
            count => hash.update(&block[..count]),
        }
    }
}

fn named(hash: &Xxh3) -> String {
    format!("xxh3-128:{:032x}", hash.digest128())
}

fn last_layer(hash: &mut Xxh3, head: &Head) {
    numbers(hash, head.weight().view());
    numbers(hash, head.bias().view());
    if let Some(block) = head.block() {
        numbers(hash, block.weight.view());
        numbers(hash, block.scale.view());
        numbers(hash, block.shift.view());
    }
}

/// A hash of the pictures of all rows, which no score depends on.
pub(crate) fn thumbnails_fingerprint(sets: &Sets<'_>) -> Result<String> {
    let mut hash = Xxh3::new();
    for data in std::iter::once(sets.test).chain(sets.ood) {
        for row in 0..data.rows() {
            let Some(thumbnail) = data.thumbnail(row)? else { break };
            hash.update(&thumbnail.pixels);
        }
    }
    Ok(format!("{:032x}", hash.digest128()))
}

fn dataset(hash: &mut Xxh3, data: &Dataset<'_>) -> Result<()> {
    hash.update(data.name().as_bytes());
    rows(hash, data.features())?;
    if let Some(logits) = &data.logits() {
        rows(hash, &**logits)?;
    }
    if let Some(labels) = &data.labels() {
        for label in labels.read(0..labels.len())? {
            hash.update(&label.to_le_bytes());
        }
    }
    for (name, extra) in data.extras() {
        hash.update(name.as_bytes());
        rows(hash, &*extra.rows)?;
    }
    Ok(())
}

fn rows(hash: &mut Xxh3, source: &dyn FeatureSource) -> Result<()> {
    hash.update(&[source.rows() as u64, source.width() as u64].map(u64::to_le_bytes).concat());
    for start in (0..source.rows()).step_by(CHUNK) {
        let range = start..(start + CHUNK).min(source.rows());
        numbers(hash, read_rows::<f64>(source, range.clone())?.view());
    }
    Ok(())
}

fn numbers<D: ndarray::Dimension>(hash: &mut Xxh3, values: ArrayView<'_, f64, D>) {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    hash.update(&bytes);
}
