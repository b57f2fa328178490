//! NumPy's `.npz`: a ZIP archive of `.npy` files, stored as they are or deflated.

use std::path::Path;

use super::matrix::Order;
use super::npy::NpyArray;
use super::observer::Observer;
use super::zip::Archive;
use super::{Dataset, FeatureSource, Labels, Matrix, labels, npy};
use crate::{Error, Result};

const WHAT: &str = "a .npz file";

/// What features, logits and labels are called; the second names are those of OpenOOD.
const FEATURES: [&str; 2] = ["features", "feat_list"];
const LOGITS: [&str; 2] = ["logits", "logit_list"];
const LABELS: [&str; 2] = ["labels", "label_list"];

/// What a score per row is called in OpenOOD's score files.
const SCORES: [&str; 2] = ["scores", "conf"];
/// What the names of arrays end in within the archive.
const ENDING: &str = ".npy";

/// An open archive of arrays.
pub(super) struct Npz<'a> {
    archive: Archive<'a>,
}

impl<'a> Npz<'a> {
    /// `observer` may stop the work where an array has to be inflated.
    pub(super) fn open(path: &Path, observer: &'a dyn Observer) -> Result<Self> {
        let archive = Archive::open(path, WHAT, observer, |name| name.ends_with(ENDING))?;
        Ok(Npz { archive })
    }

    /// The names of the arrays.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.archive.names().map(|name| name.strip_suffix(ENDING).unwrap_or(name))
    }

    /// Features with the logits, labels and other tensors of the same rows.
    pub(super) fn dataset(&self) -> Result<Dataset<'static>> {
        let features = self.name_or_only(&FEATURES)?;
        let name = self.archive.path.display().to_string();
        let mut dataset = Dataset::new(name, self.matrix(&features)?);
        if let Some(logits) = self.known(&LOGITS) {
            dataset = dataset.with_logits(self.matrix(logits)?)?;
        }
        if self.known(&LABELS).is_some() {
            dataset = dataset.with_labels(self.labels()?)?;
        }
        let taken = |name: &str| {
            name == features || LOGITS.iter().chain(&LABELS).any(|known| name == *known)
        };
        for name in self.names().filter(|name| !taken(name)) {
            // An array of another length or type is something else and no business of ours.
            let Some(array) = self.floats(name)? else { continue };
            let shape = array.shape.clone();
            if array.order == Order::RowMajor
                && shape.first() == Some(&dataset.rows())
                && !shape.contains(&0)
            {
                let row: usize = shape[1..].iter().product();
                let array = NpyArray { shape: vec![shape[0], row], ..array };
                let rows = npy::matrix(&self.archive.path, self.label(name), array)?;
                dataset = dataset.with_extra(name, rows, &shape[1..])?;
            }
        }
        Ok(dataset)
    }

    /// The array called `role`, or else the only two-dimensional one of floats.
    pub(super) fn matrix_or_only(&self, role: &str) -> Result<Matrix> {
        let name = match role {
            "features" => self.name_or_only(&FEATURES)?,
            "logits" => self.name_or_only(&LOGITS)?,
            other => self.name_or_only(&[other])?,
        };
        self.matrix(&name)
    }

    /// The class labels.
    pub(super) fn labels(&self) -> Result<Labels> {
        let name = self.known(&LABELS).ok_or_else(|| self.missing(LABELS[0]))?;
        labels::from_array(&self.archive.path, self.label(name), self.array(name)?)
    }

    fn known<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.archive.has(&format!("{name}{ENDING}")))
    }

    fn name_or_only(&self, names: &[&str]) -> Result<String> {
        if let Some(name) = self.known(names) {
            return Ok(name.to_owned());
        }
        let mut tables = Vec::new();
        for name in self.names() {
            if self.floats(name)?.is_some_and(|array| array.shape.len() == 2) {
                tables.push(name);
            }
        }
        match tables.as_slice() {
            [only] => Ok((*only).to_owned()),
            _ => Err(self.missing(names[0])),
        }
    }

    /// An array, if it holds floats.
    fn floats(&self, name: &str) -> Result<Option<NpyArray>> {
        match self.array(name) {
            Err(Error::ElementType { .. }) => Ok(None),
            array => Ok(Some(array?).filter(|array| array.float_type().is_some())),
        }
    }

    fn missing(&self, name: &str) -> Error {
        let names: Vec<String> = self.names().map(|name| format!("`{name}`")).collect();
        let have = if names.is_empty() { "no arrays".to_owned() } else { names.join(", ") };
        Error::MissingTensor { path: self.archive.path.clone(), name: name.to_owned(), have }
    }

    fn label(&self, name: &str) -> String {
        format!("{} `{name}`", self.archive.path.display())
    }

    fn matrix(&self, name: &str) -> Result<Matrix> {
        npy::matrix(&self.archive.path, self.label(name), self.array(name)?)
    }

    /// One score per row, as OpenOOD's score files have them; none if the archive has no such array.
    pub(super) fn scores(&self) -> Result<Option<Vec<f64>>> {
        let Some(name) = self.known(&SCORES).filter(|_| self.known(&FEATURES).is_none()) else {
            return Ok(None);
        };
        let array = self.array(name)?;
        let [rows] = array.shape[..] else {
            return Err(Error::shape(self.label(name), "[rows]", format!("{:?}", array.shape)));
        };
        let column = NpyArray { shape: vec![rows, 1], ..array };
        let column = npy::matrix(&self.archive.path, self.label(name), column)?;
        let mut out = ndarray::Array2::zeros((rows, 1));
        column.read_f64(0, out.view_mut())?;
        Ok(Some(out.into_iter().collect()))
    }

    fn array(&self, name: &str) -> Result<NpyArray> {
        let label = self.label(name);
        let (bytes, part) = self
            .archive
            .file(&format!("{name}{ENDING}"), &label)?
            .ok_or_else(|| self.missing(name))?;
        npy::parse_bytes(Path::new(&label), bytes, part)
    }
}
