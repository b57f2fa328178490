//! Splits and the last layer as safetensors files, written as the rows are read.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use half::{bf16, f16};
use ndarray::Array2;
use serde_json::{Map, Value, json};

use crate::error::wording::Setting;
use crate::io::matrix::ElementType;
use crate::io::observer::{Observer, check_interrupt};
use crate::io::{Dataset, FeatureSource, Head, read_finite};
use crate::{Error, Result};

/// Rows that are read at a time.
const BLOCK: usize = 1024;

/// How features are written.
#[derive(Clone, Copy)]
pub(super) struct Features {
    pub(super) element: ElementType,
    /// Whether each row is scaled to unit length.
    pub(super) unit: bool,
}

/// One tensor of a file.
enum Tensor<'a> {
    Rows(&'a dyn FeatureSource, Features, Vec<usize>),
    Labels(Vec<i64>),
    Thumbnails([usize; 3]),
}

/// Writes a split; labels only where `labels` has some.
pub(super) fn write_split(
    path: &Path,
    data: &Dataset<'_>,
    labels: Option<Vec<i64>>,
    features: Features,
    observer: &dyn Observer,
) -> Result<()> {
    let plain = Features { element: ElementType::F32, unit: false };
    let mut tensors: Vec<(&str, Tensor<'_>)> = Vec::new();
    tensors.extend(labels.map(|labels| ("labels", Tensor::Labels(labels))));
    tensors.push(("features", Tensor::Rows(data.features(), features, vec![data.width()])));
    if let Some(logits) = data.logits() {
        tensors.push(("logits", Tensor::Rows(logits, plain, vec![logits.width()])));
    }
    for (name, extra) in data.extras() {
        tensors.push((name, Tensor::Rows(&*extra.rows, plain, extra.shape.clone())));
    }
    if let Some(first) = data.thumbnail(0)? {
        let shape = [first.height, first.width, first.channels];
        tensors.push(("thumbnails", Tensor::Thumbnails(shape)));
    }
    // Wide numbers first, so that each tensor begins at a multiple of the size of its numbers.
    tensors.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.size()));
    let rows = data.rows();
    let header = header(tensors.iter().map(|(name, tensor)| {
        let mut shape = vec![rows];
        shape.extend(tensor.row_shape());
        (*name, tensor.dtype(), shape, tensor.size())
    }));
    let mut file = BufWriter::new(File::create(path).map_err(Error::io("create", path))?);
    let write = |file: &mut BufWriter<File>, bytes: &[u8]| {
        file.write_all(bytes).map_err(Error::io("write", path))
    };
    write(&mut file, &header)?;
    observer.begin(&format!("rows of {}", data.name()), rows as u64);
    for (name, tensor) in &tensors {
        match tensor {
            Tensor::Labels(labels) => {
                let bytes: Vec<u8> = labels.iter().flat_map(|label| label.to_le_bytes()).collect();
                write(&mut file, &bytes)?;
            }
            Tensor::Thumbnails(_) => {
                for row in 0..rows {
                    let picture = data.thumbnail(row)?;
                    write(&mut file, picture.as_ref().map_or(&[][..], |picture| &picture.pixels))?;
                }
            }
            Tensor::Rows(source, form, _) => {
                for start in (0..rows).step_by(BLOCK) {
                    check_interrupt(observer)?;
                    let count = BLOCK.min(rows - start);
                    let mut block = Array2::<f64>::zeros((count, source.width()));
                    read_finite(*source, start, block.view_mut())?;
                    if form.unit {
                        scale_to_unit(&mut block);
                    }
                    write(&mut file, &encoded(&block, form.element, source.name(), start)?)?;
                    if *name == "features" {
                        observer.advance(count as u64);
                    }
                }
            }
        }
    }
    let file = file.into_inner().map_err(|error| Error::io("write", path)(error.into_error()))?;
    file.sync_all().map_err(Error::io("write", path))
}

/// Writes the last layer, in double precision where single does not hold it.
pub(super) fn write_head(path: &Path, head: &Head) -> Result<()> {
    let numbers = || head.weight().iter().chain(head.bias());
    let single = numbers().all(|&x| f64::from(x as f32) == x);
    let (dtype, size) = if single { ("F32", 4) } else { ("F64", 8) };
    let (classes, width) = head.weight().dim();
    let tensors =
        [("weight", dtype, vec![classes, width], size), ("bias", dtype, vec![classes], size)];
    let mut bytes = header(tensors.into_iter());
    for &x in numbers() {
        match single {
            true => bytes.extend((x as f32).to_le_bytes()),
            false => bytes.extend(x.to_le_bytes()),
        }
    }
    crate::io::write_bytes(path, &bytes)
}

impl Tensor<'_> {
    fn dtype(&self) -> &'static str {
        match self {
            Tensor::Rows(_, Features { element: ElementType::F16, .. }, _) => "F16",
            Tensor::Rows(_, Features { element: ElementType::Bf16, .. }, _) => "BF16",
            Tensor::Rows(_, Features { element: ElementType::F32, .. }, _) => "F32",
            Tensor::Rows(_, Features { element: ElementType::F64, .. }, _) => "F64",
            Tensor::Labels(_) => "I64",
            Tensor::Thumbnails(_) => "U8",
        }
    }

    /// Bytes of one number.
    fn size(&self) -> usize {
        match self {
            Tensor::Rows(_, form, _) => form.element.size(),
            Tensor::Labels(_) => 8,
            Tensor::Thumbnails(_) => 1,
        }
    }

    fn row_shape(&self) -> Vec<usize> {
        match self {
            Tensor::Rows(_, _, shape) => shape.clone(),
            Tensor::Labels(_) => Vec::new(),
            // Grey ones have no axis for colours.
            Tensor::Thumbnails([height, width, 1]) => vec![*height, *width],
            Tensor::Thumbnails(shape) => shape.to_vec(),
        }
    }
}

/// The beginning of a file with these tensors: name, type, shape, bytes of one number.
fn header<'a>(
    tensors: impl Iterator<Item = (&'a str, &'static str, Vec<usize>, usize)>,
) -> Vec<u8> {
    let (mut entries, mut at) = (Map::new(), 0);
    for (name, dtype, shape, size) in tensors {
        let end = at + size * shape.iter().product::<usize>();
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [at, end] });
        entries.insert(name.to_owned(), entry);
        at = end;
    }
    let mut text = Value::Object(entries).to_string();
    text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// Rows without direction stay as they are: every score puts them last.
fn scale_to_unit(block: &mut Array2<f64>) {
    for mut row in block.rows_mut() {
        let length = row.dot(&row).sqrt();
        if length > 0.0 {
            row /= length;
        }
    }
}

fn encoded(block: &Array2<f64>, element: ElementType, name: &str, start: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(block.len() * element.size());
    for (row, values) in block.rows().into_iter().enumerate() {
        for (column, &value) in values.iter().enumerate() {
            let rounded = match element {
                ElementType::F16 => {
                    let half = f16::from_f64(value);
                    bytes.extend(half.to_le_bytes());
                    half.to_f64()
                }
                ElementType::Bf16 => {
                    let half = bf16::from_f64(value);
                    bytes.extend(half.to_le_bytes());
                    half.to_f64()
                }
                ElementType::F32 => {
                    bytes.extend((value as f32).to_le_bytes());
                    f64::from(value as f32)
                }
                ElementType::F64 => {
                    bytes.extend(value.to_le_bytes());
                    value
                }
            };
            if !rounded.is_finite() {
                let hint = format!(
                    ", and this one is too large for {element} (use {})",
                    Setting("type", "f64")
                );
                return Err(Error::NotFinite {
                    what: name.to_owned(),
                    row: start + row,
                    column,
                    value,
                    hint,
                });
            }
        }
    }
    Ok(bytes)
}
