//! Where the rows of a conversion come from.

use std::path::{Path, PathBuf};

use super::Conversion;
use super::hugging_face::{Role, SplitFiles, role, splits};
use super::torch_file;
use crate::io::folder::{is_there, stem};
use crate::io::observer::Observer;
use crate::io::pack_file::Described;
use crate::io::{
    Dataset, FeatureSource, Head, Pack, Reading, is_parts, open_matrix, open_with_neighbours, table,
};
use crate::{Error, Result};

/// A split with its name.
pub(super) type Named = (String, Dataset<'static>);

/// The splits of a pack to be.
pub(super) struct Parts {
    pub(super) train: Dataset<'static>,
    pub(super) test: Option<Dataset<'static>>,
    pub(super) calibrate: Option<Dataset<'static>>,
    pub(super) ood: Vec<Named>,
    /// In-distribution rows of another appearance, with the places that they have in the pack.
    pub(super) shifted: Vec<Named>,
    pub(super) head: Option<Head>,
    /// What the source says of itself.
    pub(super) about: Option<PathBuf>,
    pub(super) left_out: Vec<String>,
}

impl Parts {
    pub(super) fn open(conversion: &Conversion, observer: &dyn Observer) -> Result<Self> {
        let reading = &conversion.reading;
        let hub = match &conversion.source {
            Some(folder) => splits(folder)?,
            None => None,
        };
        let pack = match &conversion.source {
            Some(folder) if hub.is_none() => Some(Pack::open_with(folder, reading.clone())?),
            _ => None,
        };
        let shelf = Shelf { hub: hub.unwrap_or_default(), conversion, observer };
        let mut wanted = Wanted::of(conversion);
        let is_plain = wanted.is_empty();
        if is_plain && pack.is_none() {
            wanted = Wanted::by_names(&shelf.hub);
        }
        let mut parts = Given {
            head: None,
            about: None,
            train: None,
            test: None,
            calibrate: None,
            ood: Vec::new(),
            shifted: Vec::new(),
        };
        if let (Some(pack), Some(folder)) = (pack, &conversion.source) {
            parts.head = pack.head;
            let about = folder.join("pack.toml");
            parts.about = is_there(&about)?.then_some(about);
            (parts.train, parts.test, parts.calibrate) =
                (Some(pack.train), pack.test, pack.calibrate);
            let named = Described::read(folder)?.shifted;
            let place = |name: &str| match named.iter().any(|set| set == name) {
                true => format!("ood/{name}"),
                false => format!("shifted/{name}"),
            };
            parts.shifted = pack.shifted.into_iter().map(|set| (place(set.name()), set)).collect();
            parts.ood = pack.ood.into_iter().map(|set| (set.name().to_owned(), set)).collect();
        }
        for (place, path) in [
            (&mut parts.train, &wanted.train),
            (&mut parts.test, &wanted.test),
            (&mut parts.calibrate, &wanted.calibrate),
        ] {
            if let Some(path) = path {
                *place = Some(shelf.open(path)?);
            }
        }
        for (name, path) in &wanted.ood {
            check_set_name(name)?;
            if parts.ood.iter().any(|(other, _)| other == name) {
                return Err(Error::parameter(
                    "ood",
                    "a name of its own for each set",
                    format!("{name} twice"),
                ));
            }
            parts.ood.push((name.clone(), shelf.open(path)?));
        }
        let left_out = shelf.hub.keys().filter(|name| !wanted.names(name)).cloned().collect();
        let Given { train, test, calibrate, ood, shifted, head, about } = parts;
        let train = train.ok_or_else(|| Error::MissingInput {
            who: "a pack".to_owned(),
            what: "training rows",
            hint: format!("name them with {}", crate::error::wording::Setting("train", "FILE")),
        })?;
        Ok(Parts { train, test, calibrate, ood, shifted, head, about, left_out })
    }
}

/// The parts that there are so far.
struct Given {
    train: Option<Dataset<'static>>,
    test: Option<Dataset<'static>>,
    calibrate: Option<Dataset<'static>>,
    ood: Vec<Named>,
    shifted: Vec<Named>,
    head: Option<Head>,
    about: Option<PathBuf>,
}

/// Which file, or split of the source, is what.
#[derive(Default)]
struct Wanted {
    train: Option<PathBuf>,
    test: Option<PathBuf>,
    calibrate: Option<PathBuf>,
    ood: Vec<(String, PathBuf)>,
}

impl Wanted {
    fn of(conversion: &Conversion) -> Self {
        Wanted {
            train: conversion.train.clone(),
            test: conversion.test.clone(),
            calibrate: conversion.calibrate.clone(),
            ood: conversion.ood.clone(),
        }
    }

    fn is_empty(&self) -> bool {
        self.train.is_none()
            && self.test.is_none()
            && self.calibrate.is_none()
            && self.ood.is_empty()
    }

    /// What the names of splits tell. Without a `test`, the validation rows are the ones to judge with.
    fn by_names(splits: &SplitFiles) -> Self {
        let mut wanted = Wanted::default();
        for name in splits.keys() {
            let place = match role(name) {
                Some(Role::Train) => &mut wanted.train,
                Some(Role::Test) => &mut wanted.test,
                Some(Role::Calibrate) => &mut wanted.calibrate,
                None => {
                    wanted.ood.push((name.clone(), name.into()));
                    continue;
                }
            };
            place.get_or_insert_with(|| name.into());
        }
        if wanted.test.is_none() {
            wanted.test = wanted.calibrate.take();
        }
        wanted
    }

    fn names(&self, split: &str) -> bool {
        let of_pack = [&self.train, &self.test, &self.calibrate].into_iter().flatten();
        let mut all = of_pack.chain(self.ood.iter().map(|(_, path)| path));
        all.any(|path| path == Path::new(split))
    }
}

/// What paths are looked up in: the splits of the source first, then files.
struct Shelf<'a> {
    hub: SplitFiles,
    conversion: &'a Conversion,
    observer: &'a dyn Observer,
}

impl Shelf<'_> {
    fn open(&self, path: &Path) -> Result<Dataset<'static>> {
        let reading = &self.conversion.reading;
        if let Some(files) = path.to_str().and_then(|name| self.hub.get(name)) {
            let shown = self.conversion.source.as_deref().unwrap_or(Path::new("")).join(path);
            return table::open_dataset_of(&shown, files.clone(), reading);
        }
        open_rows(path, reading, self.observer)
    }
}

/// Rows of any file.
fn open_rows(path: &Path, reading: &Reading, observer: &dyn Observer) -> Result<Dataset<'static>> {
    match torch_file::is_torch_file(path) {
        true => torch_file::open(path, observer),
        false => open_with_neighbours(path, reading.suited_to(path)),
    }
}

/// A single table of numbers.
pub(super) fn open_table(path: &Path, observer: &dyn Observer) -> Result<Box<dyn FeatureSource>> {
    Ok(match torch_file::is_torch_file(path) {
        true => Box::new(torch_file::open_matrix(path, observer)?),
        false => Box::new(open_matrix(path, "features", None)?),
    })
}

/// The name of a set that is given as a path only.
#[must_use]
pub fn name_of_set(path: &Path) -> String {
    if is_parts(path) && path.is_dir() {
        return path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    stem(path)
}

/// A set's name becomes a file in the pack: a name, or a group and a name.
pub(super) fn check_set_name(name: &str) -> Result<()> {
    let parts: Vec<&str> = name.split('/').collect();
    let is_plain = |part: &&str| {
        !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', ':', '\0'])
    };
    if parts.len() <= 2 && parts.iter().all(is_plain) {
        return Ok(());
    }
    Err(Error::parameter("ood", "NAME or GROUP/NAME for a set", format!("`{name}`")))
}
