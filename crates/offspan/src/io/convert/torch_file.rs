//! Tensors as `torch.save` writes them: a dictionary such as pytorch-ood's buffers, features and labels as a tuple, or a
//! single tensor.

use std::path::Path;

use super::pickle::{Described, NumberType, tensors};
use crate::io::labels::Integer;
use crate::io::matrix::Order;
use crate::io::observer::Observer;
use crate::io::zip::Archive;
use crate::io::{Dataset, Labels, Matrix};
use crate::{Error, Result};

const WHAT: &str = "a file of torch.save";

/// What features, logits and labels are called; `embedding` and `label` are pytorch-ood's own.
const FEATURES: [&str; 6] = ["features", "embedding", "embeddings", "feature", "feats", "z"];
const LOGITS: [&str; 2] = ["logits", "logit"];
const LABELS: [&str; 5] = ["labels", "label", "targets", "target", "y"];

/// Whether a file's name is one of PyTorch's.
pub(super) fn is_torch_file(path: &Path) -> bool {
    path.extension()
        .is_some_and(|got| ["pt", "pth"].iter().any(|known| got.eq_ignore_ascii_case(known)))
}

/// Opens a file of tensors as a dataset.
pub(super) fn open(path: &Path, observer: &dyn Observer) -> Result<Dataset<'static>> {
    let file = TorchFile::open(path, observer)?;
    let features =
        file.named(&FEATURES).or_else(|| file.only_table()).ok_or_else(|| file.missing())?;
    let mut dataset = Dataset::new(path.display().to_string(), file.matrix(features)?);
    if let Some(logits) = file.named(&LOGITS) {
        dataset = dataset.with_logits(file.matrix(logits)?)?;
    }
    if let Some(labels) = file.named(&LABELS).or_else(|| file.only_numbers()) {
        dataset = dataset.with_labels(file.labels(labels)?)?;
    }
    Ok(dataset)
}

/// Opens a file with one table, such as a classifier's weights or class vectors.
pub(super) fn open_matrix(path: &Path, observer: &dyn Observer) -> Result<Matrix> {
    let file = TorchFile::open(path, observer)?;
    let table =
        file.named(&FEATURES).or_else(|| file.only_table()).ok_or_else(|| file.missing())?;
    file.matrix(table)
}

struct TorchFile<'a> {
    archive: Archive<'a>,
    /// The folder in the archive that everything lies in.
    root: String,
    tensors: Vec<(String, Described)>,
}

impl<'a> TorchFile<'a> {
    fn open(path: &Path, observer: &'a dyn Observer) -> Result<Self> {
        let malformed = |reason: &str| Error::malformed(path, WHAT, reason);
        let archive = Archive::open(path, WHAT, observer, |_| true).map_err(|error| match error {
            Error::Malformed { reason, .. } if reason.contains("not with PK") => malformed(
                "it is no archive; files from before PyTorch 1.6 must be loaded and saved again",
            ),
            other => other,
        })?;
        let pickle = archive.names().find_map(|name| name.strip_suffix("data.pkl"));
        let root = pickle.ok_or_else(|| malformed("it has no data.pkl"))?.to_owned();
        let read = |name: &str| -> Result<Option<Vec<u8>>> {
            let name = format!("{root}{name}");
            let label = format!("{} `{name}`", path.display());
            let Some((bytes, part)) = archive.file(&name, &label)? else { return Ok(None) };
            bytes.copy(part).map(Some).map_err(Error::io("read", path))
        };
        if read("byteorder")?.is_some_and(|order| order == b"big") {
            return Err(malformed("its numbers are big-endian; expected little-endian ones"));
        }
        let pickle = read("data.pkl")?.unwrap_or_default();
        let tensors = tensors(&pickle).map_err(|reason| malformed(&reason))?;
        Ok(TorchFile { archive, root, tensors })
    }

    fn named(&self, names: &[&str]) -> Option<&(String, Described)> {
        names.iter().find_map(|name| self.tensors.iter().find(|(known, _)| known == name))
    }

    /// The only tensor that passes.
    fn only(&self, fits: impl Fn(&Described) -> bool) -> Option<&(String, Described)> {
        let mut found = self.tensors.iter().filter(|(_, tensor)| fits(tensor));
        found.next().filter(|_| found.next().is_none())
    }

    fn only_table(&self) -> Option<&(String, Described)> {
        self.only(|tensor| {
            tensor.shape.len() == 2 && matches!(tensor.numbers, NumberType::Float(_))
        })
    }

    fn only_numbers(&self) -> Option<&(String, Described)> {
        self.only(|tensor| {
            tensor.shape.len() == 1 && matches!(tensor.numbers, NumberType::Integer(_))
        })
    }

    fn missing(&self) -> Error {
        let shown = |(name, tensor): &(String, Described)| format!("`{name}` {:?}", tensor.shape);
        let have: Vec<String> = self.tensors.iter().map(shown).collect();
        let have = if have.is_empty() { "no tensors".to_owned() } else { have.join(", ") };
        Error::MissingTensor { path: self.archive.path.clone(), name: "features".to_owned(), have }
    }

    fn label(&self, name: &str) -> String {
        let path = self.archive.path.display();
        if name.is_empty() { path.to_string() } else { format!("{path} `{name}`") }
    }

    fn matrix(&self, (name, tensor): &(String, Described)) -> Result<Matrix> {
        let label = self.label(name);
        let NumberType::Float(element) = tensor.numbers else {
            return Err(Error::shape(label, "floats", "whole numbers"));
        };
        let (&[rows, width], false) = (&tensor.shape[..], tensor.shape.contains(&0)) else {
            let expected = "[rows, columns], at least one of each";
            return Err(Error::shape(label, expected, format!("{:?}", tensor.shape)));
        };
        let (bytes, part) = self.numbers(tensor, &label)?;
        let (range, by_rows) = self.extent(tensor, part.len())?;
        let data = part.start + range.start..part.start + range.end;
        let order = if by_rows { Order::RowMajor } else { Order::ColumnMajor };
        Ok(Matrix { bytes, data, element, rows, width, order, name: label })
    }

    fn labels(&self, (name, tensor): &(String, Described)) -> Result<Labels> {
        let label = self.label(name);
        let NumberType::Integer(integer) = tensor.numbers else {
            return Err(Error::ElementType {
                path: self.archive.path.clone(),
                what: format!("tensor `{name}`"),
                expected: Integer::NAMES,
                got: "floats".to_owned(),
            });
        };
        if tensor.shape.len() != 1 {
            return Err(Error::shape(label, "[rows]", format!("{:?}", tensor.shape)));
        }
        let (bytes, part) = self.numbers(tensor, &label)?;
        let (range, _) = self.extent(tensor, part.len())?;
        let data = part.start + range.start..part.start + range.end;
        Ok(Labels { bytes, data, integer, name: label, placed: None })
    }

    fn numbers(
        &self,
        tensor: &Described,
        label: &str,
    ) -> Result<(crate::io::Bytes, std::ops::Range<usize>)> {
        let name = format!("{}data/{}", self.root, tensor.key);
        self.archive.file(&name, label)?.ok_or_else(|| {
            Error::malformed(&self.archive.path, WHAT, format!("it has no numbers under `{name}`"))
        })
    }

    fn extent(&self, tensor: &Described, length: usize) -> Result<(std::ops::Range<usize>, bool)> {
        tensor.extent(length).map_err(|reason| Error::malformed(&self.archive.path, WHAT, reason))
    }
}
