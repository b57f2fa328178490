//! A split: features with, where known, logits and labels; and the network's last layer.

use std::collections::BTreeMap;
use std::path::Path;

use ndarray::{Array1, Array2, Axis};

use super::matrix::{FileKind, file_kind};
use super::npz::Npz;
use super::{
    Bytes, FeatureSource, Labels, Reading, TensorFile, TensorWriter, Thumbnail, Thumbnails, npy,
    raw, table,
};
use crate::{Error, Result};

/// Rows of features with what belongs to them.
pub struct Dataset<'a> {
    pub(crate) name: String,
    /// Penultimate features, one row per sample.
    pub(crate) features: Box<dyn FeatureSource + 'a>,
    pub(crate) logits: Option<Box<dyn FeatureSource + 'a>>,
    pub(crate) labels: Option<Labels>,
    /// What else a network gave for the same rows, by the tensor's name: un-pooled maps, outputs of
    /// other heads. A few methods ask for one.
    pub(crate) extras: BTreeMap<String, Extra<'a>>,
    /// Small pictures of the same rows.
    thumbnails: Option<Thumbnails>,
}

/// A tensor of any rank whose first axis are the rows.
pub struct Extra<'a> {
    /// One row of numbers per sample.
    pub rows: Box<dyn FeatureSource + 'a>,
    /// The shape of one row.
    pub shape: Vec<usize>,
}

impl<'a> Dataset<'a> {
    /// A dataset of features only.
    pub fn new(name: impl Into<String>, features: impl FeatureSource + 'a) -> Self {
        Dataset {
            name: name.into(),
            features: Box::new(features),
            logits: None,
            labels: None,
            extras: BTreeMap::new(),
            thumbnails: None,
        }
    }

    /// What to call it in messages and reports.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same under another name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Dataset { name: name.into(), ..self }
    }

    /// Penultimate features, one row per sample.
    #[must_use]
    pub fn features(&self) -> &(dyn FeatureSource + 'a) {
        &*self.features
    }

    /// The network's outputs for the same rows.
    #[must_use]
    pub fn logits(&self) -> Option<&(dyn FeatureSource + 'a)> {
        self.logits.as_deref()
    }

    /// Class labels of the same rows.
    #[must_use]
    pub fn labels(&self) -> Option<&Labels> {
        self.labels.as_ref()
    }

    /// What else a network gave for the same rows, by the tensor's name.
    #[must_use]
    pub fn extras(&self) -> &BTreeMap<String, Extra<'a>> {
        &self.extras
    }

    /// The same without what belongs to the rows under this name: `logits`, `labels` or another tensor.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        match name {
            "logits" => self.logits = None,
            "labels" => self.labels = None,
            _ => drop(self.extras.remove(name)),
        }
        self
    }

    /// Adds another tensor: one row of numbers per sample, each of this shape.
    ///
    /// # Errors
    /// If its number of rows differs, or the shape does not have as many numbers as a row.
    pub fn with_extra(
        mut self,
        name: impl Into<String>,
        rows: impl FeatureSource + 'a,
        shape: &[usize],
    ) -> Result<Self> {
        self.check_rows(rows.name(), rows.rows())?;
        if shape.iter().product::<usize>() != rows.width() {
            return Err(Error::shape(
                rows.name(),
                format!("{shape:?} per row"),
                format!("{} numbers per row", rows.width()),
            ));
        }
        self.extras.insert(name.into(), Extra { rows: Box::new(rows), shape: shape.to_vec() });
        Ok(self)
    }

    /// A tensor that a method needs, or a sentence that tells how to give it.
    pub(crate) fn extra(&self, who: &str, name: &'static str, hint: &str) -> Result<&Extra<'a>> {
        self.extras.get(name).ok_or_else(|| Error::MissingInput {
            who: format!("{who} on {}", self.name),
            what: name,
            hint: hint.to_owned(),
        })
    }

    /// Adds logits.
    ///
    /// # Errors
    /// If their number of rows differs.
    pub fn with_logits(mut self, logits: impl FeatureSource + 'a) -> Result<Self> {
        self.check_rows(logits.name(), logits.rows())?;
        self.logits = Some(Box::new(logits));
        Ok(self)
    }

    /// Adds labels.
    ///
    /// # Errors
    /// If their number differs from the rows.
    pub fn with_labels(mut self, labels: Labels) -> Result<Self> {
        self.check_rows("labels", labels.len())?;
        self.labels = Some(labels);
        Ok(self)
    }

    fn check_rows(&self, what: &str, got: usize) -> Result<()> {
        let expected = self.rows();
        if got == expected {
            return Ok(());
        }
        Err(Error::shape(
            what,
            format!("{expected} rows, as many as the features of {}", self.name),
            format!("{got} rows"),
        ))
    }

    /// Whether any feature is negative; reads until the first one.
    ///
    /// # Errors
    /// If a value is not finite.
    pub fn has_negative_features(&self) -> Result<bool> {
        const BLOCK: usize = 1024;
        let mut block = Array2::<f32>::zeros((BLOCK.min(self.rows()), self.width()));
        for start in (0..self.rows()).step_by(BLOCK) {
            let count = BLOCK.min(self.rows() - start);
            let mut part = block.slice_mut(ndarray::s![..count, ..]);
            super::read_finite(&*self.features, start, part.view_mut())?;
            if part.iter().any(|x| *x < 0.0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.features.rows()
    }

    /// Width of the features.
    #[must_use]
    pub fn width(&self) -> usize {
        self.features.width()
    }

    /// The small picture of a row, if the split carries pictures and has this row.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn thumbnail(&self, row: usize) -> Result<Option<Thumbnail>> {
        self.thumbnails.as_ref().map_or(Ok(None), |all| all.get(row))
    }

    pub(super) fn from_tensors(name: &str, file: &TensorFile) -> Result<Dataset<'static>> {
        let mut dataset = Dataset::new(name, file.matrix_or_only("features")?);
        if file.has("logits") {
            dataset = dataset.with_logits(file.matrix("logits")?)?;
        }
        if file.has("labels") {
            dataset = dataset.with_labels(file.labels("labels")?)?;
        }
        if file.has("thumbnails") {
            let thumbnails = file.thumbnails("thumbnails")?;
            dataset.check_rows(&file.label("thumbnails"), thumbnails.rows)?;
            dataset.thumbnails = Some(thumbnails);
        }
        let rows = dataset.rows();
        for name in file.float_names().filter(|name| !["features", "logits"].contains(name)) {
            // A tensor of another length is something else and no business of ours.
            let shape = file.shape(name)?;
            if shape.first() == Some(&rows) && !shape.contains(&0) {
                dataset = dataset.with_extra(name, file.rows_of(name)?, &shape[1..])?;
            }
        }
        Ok(dataset)
    }

    /// A dataset in the bytes of a safetensors file that is part of the program.
    ///
    /// # Errors
    /// If the bytes are no such file.
    pub fn from_static(name: &str, bytes: &'static [u8]) -> Result<Dataset<'static>> {
        Self::from_tensors(name, &TensorFile::from_bytes(Path::new(name), Bytes::Static(bytes))?)
    }

    /// The error for a row that has no direction.
    pub(crate) fn zero_row(&self, row: usize) -> Error {
        let after = if self.features.origin().is_some() { " after rectification" } else { "" };
        Error::ZeroRow { what: self.name.clone(), row, after, hint: String::new() }
    }
}

/// A few rows of a dataset, copied together.
pub(crate) struct Gathered {
    name: String,
    features: Array2<f64>,
    logits: Option<Array2<f64>>,
    extras: Vec<(String, Array2<f64>, Vec<usize>)>,
}

impl Gathered {
    /// Copies these rows, with the extra tensors of these names.
    pub(crate) fn new(data: &Dataset<'_>, rows: &[usize], extras: &[&str]) -> Result<Self> {
        let gather = |source: &dyn FeatureSource| super::gather(source, rows);
        Ok(Gathered {
            name: data.name.clone(),
            features: gather(&*data.features)?,
            logits: data.logits.as_deref().map(gather).transpose()?,
            extras: data
                .extras
                .iter()
                .filter(|(name, _)| extras.contains(&name.as_str()))
                .map(|(name, extra)| Ok((name.clone(), gather(&*extra.rows)?, extra.shape.clone())))
                .collect::<Result<_>>()?,
        })
    }

    /// The same rows without logits.
    pub(crate) fn without_logits(mut self) -> Self {
        self.logits = None;
        self
    }

    /// The same rows with the logits of these classes only.
    pub(crate) fn with_logits_of(mut self, classes: &[usize]) -> Self {
        self.logits = self.logits.map(|logits| logits.select(Axis(1), classes));
        self
    }

    pub(crate) fn dataset(&self) -> Result<Dataset<'_>> {
        let mut data = Dataset::new(self.name.clone(), self.features.view());
        if let Some(logits) = &self.logits {
            data = data.with_logits(logits.view())?;
        }
        for (name, rows, shape) in &self.extras {
            data = data.with_extra(name.clone(), rows.view(), shape)?;
        }
        Ok(data)
    }
}

/// Opens a feature file, or a folder of part files, with the logits and labels that it carries.
///
/// # Errors
/// If the file cannot be read or is malformed.
pub fn open_dataset(
    path: impl AsRef<Path>,
    reading: impl Into<Reading>,
) -> Result<Dataset<'static>> {
    let (path, reading) = (path.as_ref(), reading.into());
    let name = path.display().to_string();
    if let Some(layout) = reading.raw {
        reading.check_no_columns(format!("{name}, read as {layout}"))?;
        return Ok(Dataset::new(name, raw::open(path, layout)?));
    }
    let kind = file_kind(path)?;
    if !matches!(kind, FileKind::Table) {
        reading.check_no_columns(&name)?;
    }
    match kind {
        FileKind::Npy => Ok(Dataset::new(name, npy::open(path)?)),
        FileKind::Npz => Npz::open(path, reading.watcher())?.dataset(),
        FileKind::SafeTensors => Dataset::from_tensors(&name, &TensorFile::open(path)?),
        FileKind::Table => table::open_dataset(path, &reading),
    }
}

/// The network's last layer: logits = W·z + b.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// One row per class, row-major.
    pub(crate) weight: Array2<f64>,
    pub(crate) bias: Array1<f64>,
    pub(crate) block: Option<Box<LastBlock>>,
}

/// The last 1×1 convolution of a network with its batch normalisation folded into a scale and a
/// shift per channel: maps = relu(scale·(W x) + shift + shortcut).
#[derive(Debug, Clone, PartialEq)]
pub struct LastBlock {
    /// W, one row per output channel.
    pub weight: Array2<f64>,
    /// One factor per output channel.
    pub scale: Array1<f64>,
    /// One summand per output channel.
    pub shift: Array1<f64>,
}

impl Head {
    /// Checks that the two fit together.
    ///
    /// # Errors
    /// If the bias does not have one number per row of the weight.
    pub fn new(weight: Array2<f64>, bias: Array1<f64>) -> Result<Self> {
        Self::named("the head's bias".to_owned(), weight, bias)
    }

    /// `what` names the bias in messages.
    fn named(what: String, weight: Array2<f64>, bias: Array1<f64>) -> Result<Self> {
        if let Some(((row, column), &value)) =
            weight.indexed_iter().find(|(_, value)| !value.is_finite())
        {
            let what = "the head's weight".to_owned();
            return Err(Error::NotFinite { what, row, column, value, hint: String::new() });
        }
        if let Some((row, &value)) = bias.iter().enumerate().find(|(_, value)| !value.is_finite()) {
            let what = "the head's bias".to_owned();
            return Err(Error::NotFinite { what, row, column: 0, value, hint: String::new() });
        }
        if weight.nrows() == bias.len() {
            // Transposed weights are common: arrays of other programs keep columns together.
            let (weight, bias) = (weight.as_standard_layout(), bias.as_standard_layout());
            let (weight, bias) = (weight.into_owned(), bias.into_owned());
            return Ok(Head { weight, bias, block: None });
        }
        Err(Error::shape(
            what,
            format!("[{}], one number per row of its weight", weight.nrows()),
            format!("[{}]", bias.len()),
        ))
    }

    /// Adds the last convolution before the pooling.
    ///
    /// # Errors
    /// If scale and shift do not have one number per channel.
    pub fn with_block(mut self, block: LastBlock) -> Result<Self> {
        block.check(|part| format!("the block's {part}"))?;
        self.block = Some(Box::new(block));
        Ok(self)
    }

    /// W, one row per class.
    #[must_use]
    pub fn weight(&self) -> &Array2<f64> {
        &self.weight
    }

    /// b, one number per class.
    #[must_use]
    pub fn bias(&self) -> &Array1<f64> {
        &self.bias
    }

    /// The last convolution before the pooling, where it is known.
    #[must_use]
    pub fn block(&self) -> Option<&LastBlock> {
        self.block.as_deref()
    }

    /// Number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.bias.len()
    }

    /// Fails unless the head takes features of `width`.
    pub(crate) fn check_width(&self, width: usize) -> Result<()> {
        if self.weight.ncols() == width {
            return Ok(());
        }
        Err(Error::shape(
            "the head's weight",
            format!("[classes, {width}], the width of the features"),
            format!("{:?}", self.weight.shape()),
        ))
    }

    pub(super) fn from_tensors(file: &TensorFile) -> Result<Self> {
        let mut head =
            Head::named(file.label("bias"), file.array2("weight")?, file.array1("bias")?)?;
        head.block = LastBlock::read_optional(file, "")?.map(Box::new);
        Ok(head)
    }

    pub(super) fn from_npy(weight: &Path, bias: &Path) -> Result<Self> {
        let weight = npy::open(weight)?;
        Head::new(super::read_rows(&weight, 0..weight.rows())?, npy::read_vector(bias)?)
    }

    /// The last layer in a detector file, if it has one.
    pub(crate) fn read_optional(
        file: &TensorFile,
        prefix: &str,
        width: usize,
    ) -> Result<Option<Self>> {
        let (weight, bias) = (format!("{prefix}head.weight"), format!("{prefix}head.bias"));
        if !file.has(&weight) {
            return Ok(None);
        }
        let mut head = Head::new(file.array2(&weight)?, file.array1(&bias)?)?;
        head.block = LastBlock::read_optional(file, prefix)?.map(Box::new);
        head.check_width(width)?;
        Ok(Some(head))
    }

    /// Puts the last layer into a detector file.
    pub(crate) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.shortest(format!("{prefix}head.weight"), &self.weight);
        writer.array1(format!("{prefix}head.bias"), &self.bias);
    }

    /// The same last layer without what comes before the pooling.
    /// The last layer of these classes only.
    pub(crate) fn only(&self, classes: &[usize]) -> Result<Self> {
        Head::new(self.weight.select(Axis(0), classes), self.bias.select(Axis(0), classes))
    }

    pub(crate) fn without_block(&self) -> Self {
        Head { block: None, ..self.clone() }
    }

    /// A head in the bytes of a safetensors file that is part of the program.
    ///
    /// # Errors
    /// If the bytes are no such file.
    pub fn from_static(name: &str, bytes: &'static [u8]) -> Result<Self> {
        Self::from_tensors(&TensorFile::from_bytes(Path::new(name), Bytes::Static(bytes))?)
    }
}

impl LastBlock {
    fn read_optional(file: &TensorFile, prefix: &str) -> Result<Option<Self>> {
        let name = |part: &str| format!("{prefix}block.{part}");
        if !file.has(&name("weight")) {
            return Ok(None);
        }
        let block = LastBlock {
            weight: file.array2(&name("weight"))?,
            scale: file.array1(&name("scale"))?,
            shift: file.array1(&name("shift"))?,
        };
        block.check(|part| file.label(&name(part)))?;
        Ok(Some(block))
    }

    /// Fails unless there is a factor and a summand per channel; `label` names the part.
    fn check(&self, label: impl Fn(&str) -> String) -> Result<()> {
        let channels = self.weight.nrows();
        for (part, vector) in [("scale", &self.scale), ("shift", &self.shift)] {
            if vector.len() != channels {
                return Err(Error::shape(
                    label(part),
                    format!("[{channels}], one number per row of block.weight"),
                    format!("[{}]", vector.len()),
                ));
            }
        }
        Ok(())
    }

    /// Puts the block into a detector file.
    pub(crate) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}block.weight"), &self.weight);
        writer.array1(format!("{prefix}block.scale"), &self.scale);
        writer.array1(format!("{prefix}block.shift"), &self.shift);
    }
}

/// Opens a head: a safetensors file with `weight` and `bias`, or two `.npy` files as
/// `weight.npy,bias.npy`.
///
/// # Errors
/// If a file cannot be read or the shapes do not fit.
pub fn open_head(path: impl AsRef<Path>) -> Result<Head> {
    let path = path.as_ref();
    let pair = path.to_str().and_then(|text| text.split_once(','));
    if let (Some((weight, bias)), false) = (pair, path.exists()) {
        return Head::from_npy(Path::new(weight), Path::new(bias));
    }
    Head::from_tensors(&TensorFile::open(path)?)
}
