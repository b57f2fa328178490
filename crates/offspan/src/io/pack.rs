//! Pack folders: the splits of one experiment under fixed names.

use std::path::{Path, PathBuf};

use super::{Dataset, Head, TensorFile, open_dataset};
use crate::{Error, Result};

/// A folder with `train`, and where given `test`, `ood/NAME` and `head`.
pub struct Pack {
    /// The folder's name.
    pub name: String,
    /// Rows to fit on.
    pub train: Dataset<'static>,
    /// In-distribution rows that the network did not train on.
    pub test: Option<Dataset<'static>>,
    /// Out-of-distribution sets, by name.
    pub ood: Vec<Dataset<'static>>,
    /// The network's last layer.
    pub head: Option<Head>,
}

/// Whether a path is a folder that holds a training split.
#[must_use]
pub fn is_pack(path: &Path) -> bool {
    path.is_dir()
}

impl Pack {
    /// Opens a pack folder and checks that its parts fit together.
    ///
    /// # Errors
    /// If `train` is missing, a file is malformed, or widths differ.
    pub fn open(folder: &Path) -> Result<Self> {
        std::fs::read_dir(folder).map_err(Error::io("open", folder))?;
        let shown = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let name = shown.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let train = open_split(&folder.join("train"), "train")?.ok_or_else(|| {
            Error::malformed(
                folder,
                "a pack folder",
                "it has neither train.safetensors nor train.npy",
            )
        })?;
        let test = open_split(&folder.join("test"), "test")?;
        let ood = ood_names(&folder.join("ood"))?
            .into_iter()
            .filter_map(|(name, stem)| open_split(&stem, &name).transpose())
            .collect::<Result<Vec<_>>>()?;
        let head_path = folder.join("head.safetensors");
        let head = if head_path.exists() {
            Some(Head::from_tensors(&TensorFile::open(&head_path)?)?)
        } else {
            None
        };
        Self::new(name, train, test, ood, head)
    }

    /// Puts a pack together from parts.
    ///
    /// # Errors
    /// If their widths differ.
    pub fn new(
        name: String,
        train: Dataset<'static>,
        test: Option<Dataset<'static>>,
        ood: Vec<Dataset<'static>>,
        head: Option<Head>,
    ) -> Result<Self> {
        for split in test.iter().chain(&ood) {
            if split.width() != train.width() {
                return Err(Error::shape(
                    format!("{} of pack {name}", split.name),
                    format!("{} columns, as in train", train.width()),
                    format!("{} columns", split.width()),
                ));
            }
        }
        if let Some(head) = &head {
            head.check_width(train.width())?;
        }
        Ok(Pack { name, train, test, ood, head })
    }
}

/// Opens `stem.safetensors` or `stem.npy`, if one exists.
fn open_split(stem: &Path, name: &str) -> Result<Option<Dataset<'static>>> {
    for extension in ["safetensors", "npy"] {
        // Not `with_extension`: a set may be called `v1.5`.
        let path = PathBuf::from(format!("{}.{extension}", stem.display()));
        if path.exists() {
            let mut dataset = open_dataset(&path, None)?;
            name.clone_into(&mut dataset.name);
            return Ok(Some(dataset));
        }
    }
    Ok(None)
}

/// The sets in a folder, sorted, as (name, path without extension).
fn ood_names(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        let known = path.extension().is_some_and(|e| e == "safetensors" || e == "npy");
        if let (true, Some(stem)) = (known, path.file_stem()) {
            names.insert(stem.to_string_lossy().into_owned(), folder.join(stem));
        }
    }
    Ok(names.into_iter().collect())
}
