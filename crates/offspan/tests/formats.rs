//! What goes into a file comes out of it again, whatever the format: rows, labels, packs, moments,
//! detectors and checkpoints.

#![allow(clippy::unwrap_used)]

mod common;

#[path = "formats/caches.rs"]
mod caches;
#[path = "formats/checkpoints.rs"]
mod checkpoints;
#[path = "formats/checksums.rs"]
mod checksums;
#[path = "formats/detectors.rs"]
mod detectors;
#[path = "formats/rows.rs"]
mod rows;
#[path = "formats/thumbnails.rs"]
mod thumbnails;
#[path = "formats/versions.rs"]
mod versions;
#[path = "formats/writing.rs"]
mod writing;

use half::{bf16, f16};
use ndarray::{Array2, ShapeBuilder, s};
use offspan::io::{ElementType, FeatureSource};
use safetensors::Dtype;

const TYPES: [(ElementType, Dtype); 4] = [
    (ElementType::F16, Dtype::F16),
    (ElementType::Bf16, Dtype::BF16),
    (ElementType::F32, Dtype::F32),
    (ElementType::F64, Dtype::F64),
];

/// Signed numbers that every element type holds exactly, with zeros and the smallest normal f16.
fn exact_rows(rows: usize, width: usize) -> Array2<f64> {
    Array2::from_shape_fn((rows, width), |(i, j)| match (i * width + j) % 9 {
        0 => 0.0,
        1 => 2f64.powi(-14),
        k => (k as f64 - 5.0) * 0.25 * 2f64.powi((i % 5) as i32),
    })
}

fn encode<'a>(element: ElementType, values: impl IntoIterator<Item = &'a f64>) -> Vec<u8> {
    values
        .into_iter()
        .flat_map(|&x| match element {
            ElementType::F16 => f16::from_f64(x).to_le_bytes().to_vec(),
            ElementType::Bf16 => bf16::from_f64(x).to_le_bytes().to_vec(),
            ElementType::F32 => (x as f32).to_le_bytes().to_vec(),
            ElementType::F64 => x.to_le_bytes().to_vec(),
        })
        .collect()
}

/// Fails unless the source gives exactly these rows: in both precisions, from the start and from
/// the middle, into memory that lies together and memory that does not.
fn assert_reads(source: &dyn FeatureSource, expected: &Array2<f64>, what: &str) {
    assert_eq!((source.rows(), source.width()), expected.dim(), "{what}");
    for start in [0, expected.nrows() / 2] {
        let part = expected.slice(s![start.., ..]);
        let mut wide = Array2::zeros(part.dim());
        source.read_f64(start, wide.view_mut()).unwrap();
        assert_eq!(wide, part, "{what}, f64 from row {start}");
        let mut narrow = Array2::zeros(part.dim().f());
        source.read_f32(start, narrow.view_mut()).unwrap();
        assert_eq!(narrow.mapv(f64::from), part, "{what}, f32 from row {start}");
    }
}
