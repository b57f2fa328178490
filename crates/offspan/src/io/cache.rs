//! The feature caches that the paper's authors' scripts leave, as the splits of a pack.
//!
//! Their ImageNet script writes `train_in.mmap`, `val_in.mmap` and `NAME_out.mmap`: rows of float64
//! without header. Their CIFAR-10 script writes `.npy` files of the same names, transposed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::folder::{is_there, read_dir};
use super::{Dataset, RawLayout, npy, open_labels, raw};
use crate::error::wording::as_flags;
use crate::{Error, Result};

/// The files of a cache, before any of them is opened.
#[derive(Debug)]
pub(super) struct Cache {
    kind: Kind,
    train: PathBuf,
    test: Option<PathBuf>,
    ood: BTreeMap<String, PathBuf>,
}

/// Training rows, test rows, out-of-distribution sets.
pub(super) type Splits = (Dataset<'static>, Option<Dataset<'static>>, Vec<Dataset<'static>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `.mmap`: rows without header.
    Headerless,
    /// `.npy`: one column per sample.
    Transposed,
}

impl Kind {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "mmap" => Some(Kind::Headerless),
            "npy" => Some(Kind::Transposed),
            _ => None,
        }
    }
}

const WHAT: &str = "a folder of cached features";

impl Cache {
    /// The cache in a folder, if one of its files is called as in a cache.
    pub(super) fn find(folder: &Path) -> Result<Option<Self>> {
        let mut parts = BTreeMap::new();
        for entry in read_dir(folder).map_err(Error::io("read", folder))? {
            let path = entry.map_err(Error::io("read", folder))?.path();
            let Some(kind) = Kind::of(&path) else { continue };
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_set = stem.strip_suffix("_out").is_some_and(|name| !name.is_empty());
            if is_set || stem == "train_in" || stem == "val_in" {
                // By stem and kind, so that which files a message names is not left to chance.
                parts.insert((stem, kind == Kind::Transposed), (kind, path));
            }
        }
        let Some((kind, first)) = parts.values().next().cloned() else { return Ok(None) };
        let malformed = |reason: String| Error::malformed(folder, WHAT, reason);
        if let Some((_, other)) = parts.values().find(|(other, _)| *other != kind) {
            return Err(malformed(format!(
                "it has both {} and {}; expected either .mmap or .npy throughout",
                file_name(&first),
                file_name(other)
            )));
        }
        let mut by_stem: BTreeMap<String, PathBuf> =
            parts.into_iter().map(|((stem, _), (_, path))| (stem, path)).collect();
        let train = by_stem.remove("train_in").ok_or_else(|| {
            let extension = first.extension().unwrap_or_default().to_string_lossy();
            malformed(format!("it has {} but no train_in.{extension}", file_name(&first)))
        })?;
        let test = by_stem.remove("val_in");
        let named = |(stem, path): (String, PathBuf)| {
            stem.strip_suffix("_out").map(|name| (name.to_owned(), path))
        };
        let ood = by_stem.into_iter().filter_map(named).collect();
        Ok(Some(Cache { kind, train, test, ood }))
    }

    /// Fails if a folder with this training split has that of a cache as well.
    pub(super) fn no_other_train(folder: &Path, train: &Path) -> Result<()> {
        let in_cache = ["train_in.mmap", "train_in.npy"];
        for other in in_cache {
            if is_there(&folder.join(other))? {
                let reason =
                    format!("it has both {} and {other}; expected one of them", file_name(train));
                return Err(Error::malformed(folder, "a pack folder", reason));
            }
        }
        Ok(())
    }

    /// Whether its files are read by a layout that has to be given.
    pub(super) fn needs_layout(&self) -> bool {
        self.kind == Kind::Headerless
    }

    pub(super) fn open(&self, layout: Option<RawLayout>) -> Result<Splits> {
        let labelled = |path: &Path, name| with_labels(self.split(path, name, layout)?, path);
        let train = labelled(&self.train, "train")?;
        let test = self.test.as_deref().map(|path| labelled(path, "test")).transpose()?;
        let sets = self.ood.iter().map(|(name, path)| self.split(path, name, layout));
        let ood = sets.collect::<Result<Vec<_>>>()?;
        self.check_direction(&train, test.iter().chain(&ood))?;
        Ok((train, test, ood))
    }

    /// Columns that agree where rows should tell of files that hold one row per sample.
    fn check_direction<'a>(
        &self,
        train: &Dataset<'_>,
        mut others: impl Iterator<Item = &'a Dataset<'static>> + Clone,
    ) -> Result<()> {
        let widths_differ = others.clone().any(|split| split.width() != train.width());
        if self.kind == Kind::Headerless
            || !widths_differ
            || others.any(|split| split.rows() != train.rows())
        {
            return Ok(());
        }
        Err(Error::shape(
            self.train.display().to_string(),
            "[columns, rows], as the authors' scripts save it",
            format!(
                "[{}, {}], as many columns as in every other file, which looks like [rows, \
                 columns]: call such files train.npy, test.npy and ood/NAME.npy",
                train.width(),
                train.rows()
            ),
        ))
    }

    fn split(
        &self,
        path: &Path,
        name: &str,
        layout: Option<RawLayout>,
    ) -> Result<Dataset<'static>> {
        let rows = match (self.kind, layout) {
            (Kind::Transposed, _) => npy::open(path)?.transposed(),
            (Kind::Headerless, Some(layout)) => raw::open(path, layout)?,
            (Kind::Headerless, None) => {
                return Err(Error::MissingInput {
                    who: path.display().to_string(),
                    what: if as_flags() { "--raw TYPE:WIDTH" } else { "its type and width" },
                    hint: "it has no header that tells type and width; the authors' caches are \
                           f64:2048 (ResNet50), f64:1280 (MobileNetV2) or f64:768 (ViT-B/16)"
                        .to_owned(),
                });
            }
        };
        Ok(Dataset::new(name, rows))
    }
}

/// Adds the class numbers in `train_labels.npy` beside `train_in.*`, or `val_labels.npy` beside
/// `val_in.*`, if that file is there. The authors' scripts do not write it; some methods need it.
fn with_labels(split: Dataset<'static>, path: &Path) -> Result<Dataset<'static>> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let Some(name) = stem.strip_suffix("_in") else { return Ok(split) };
    let labels = path.with_file_name(format!("{name}_labels.npy"));
    if is_there(&labels)? { split.with_labels(open_labels(&labels)?) } else { Ok(split) }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
