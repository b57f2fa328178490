//! Which part of a pack the data become, and folders that hold all parts at once.

use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::folder::{entries, name_of};
use crate::input_error::{InputError, InputResult};

/// A part of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitName {
    /// Rows to fit on.
    Train,
    /// In-distribution rows to measure with.
    Test,
    /// In-distribution rows to set the threshold with.
    Calibrate,
    /// An out-of-distribution set.
    Ood(String),
}

/// The folders that name a part; `val` is `calibrate`.
const FOLDERS: [&str; 5] = ["train", "test", "calibrate", "val", "ood"];

impl Display for SplitName {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            SplitName::Train => f.write_str("train"),
            SplitName::Test => f.write_str("test"),
            SplitName::Calibrate => f.write_str("calibrate"),
            SplitName::Ood(name) => write!(f, "ood/{name}"),
        }
    }
}

impl FromStr for SplitName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
        };
        match text {
            "train" => Ok(SplitName::Train),
            "test" => Ok(SplitName::Test),
            "calibrate" | "val" => Ok(SplitName::Calibrate),
            _ => match text.strip_prefix("ood/") {
                Some(name) if is_name(name) => Ok(SplitName::Ood(name.to_owned())),
                _ => Err(format!("expected train, test, calibrate or ood/NAME, got `{text}`")),
            },
        }
    }
}

impl SplitName {
    /// The split's file in a pack.
    #[must_use]
    pub fn file(&self, pack: &Path) -> PathBuf {
        pack.join(format!("{self}.safetensors"))
    }

    /// Whether class numbers mean something here: an out-of-distribution set has no classes of the network.
    #[must_use]
    pub fn has_classes(&self) -> bool {
        !matches!(self, SplitName::Ood(_))
    }
}

/// A part of a pack, and where its data are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Which part.
    pub name: SplitName,
    /// Its data.
    pub path: PathBuf,
}

/// The parts that data have. Data are all of one part, if it is named or if they are no folder; a folder whose sub-folders
/// are called `train` and, where there are more, `test`, `calibrate` or `val`, and `ood`, has one part in each, and in
/// `ood` one in each sub-folder. Training rows come first.
///
/// # Errors
/// If only some of the sub-folders are called so.
pub fn find_splits(path: &Path, named: Option<&SplitName>) -> InputResult<Vec<Split>> {
    let whole = |name: SplitName| vec![Split { name, path: path.to_owned() }];
    if let Some(name) = named {
        return Ok(whole(name.clone()));
    }
    if !path.is_dir() {
        return Ok(whole(SplitName::Train));
    }
    let (files, folders) = entries(path)?;
    let names: Vec<String> = folders.iter().map(|folder| name_of(folder)).collect();
    let is_split = |name: &String| FOLDERS.contains(&name.as_str());
    if !names.iter().any(|name| name == "train") {
        return Ok(whole(SplitName::Train));
    }
    let other = names.iter().find(|name| !is_split(name)).cloned();
    let other = other.or_else(|| files.first().map(|file| name_of(file)));
    if let Some(other) = other {
        return Err(InputError::data(
            path,
            format!(
                "it has a folder `train` and also `{other}`: are they parts of a pack or classes? Expected train, test, \
                 calibrate or val, and ood alone; --split train takes all folders for classes"
            ),
        ));
    }
    if names.iter().any(|name| name == "calibrate") && names.iter().any(|name| name == "val") {
        return Err(InputError::data(
            path,
            "it has both `calibrate` and `val`, of which only one can set the threshold",
        ));
    }
    let mut splits = Vec::new();
    for wanted in FOLDERS {
        let Some(folder) = folders.iter().find(|folder| name_of(folder) == wanted) else {
            continue;
        };
        if wanted == "ood" {
            let (_, sets) = entries(folder)?;
            if sets.is_empty() {
                return Err(InputError::data(folder, "expected a folder for each out-of-distribution set"));
            }
            splits.extend(
                sets.into_iter().map(|path| Split { name: SplitName::Ood(name_of(&path)), path }),
            );
        } else {
            let name = wanted.parse().unwrap_or_else(|_| unreachable!("{wanted} is a part"));
            splits.push(Split { name, path: folder.clone() });
        }
    }
    Ok(splits)
}
