//! Pack folders: the splits of one experiment under fixed names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::cache::{Cache, Splits};
use super::folder::{is_folder, is_there, read_dir, split_path, stem};
use super::pack_file::{Described, SetGroup};
use super::{
    Dataset, Head, Reading, feature_files, is_parts, open_head, open_with_neighbours, table,
};
use crate::{Error, Result};

/// A folder with `train`, and where given `test`, `calibrate` (or `val`), `ood/NAME` or `ood/GROUP/NAME`,
/// `shifted/NAME`, `head` and `pack.toml`; or one with the feature caches of the paper's authors.
#[non_exhaustive]
pub struct Pack {
    /// The folder's name.
    pub name: String,
    /// Rows to fit on.
    pub train: Dataset<'static>,
    /// In-distribution rows that the network did not train on.
    pub test: Option<Dataset<'static>>,
    /// In-distribution rows that the network did not train on either, to set the threshold with.
    pub calibrate: Option<Dataset<'static>>,
    /// Out-of-distribution sets, by name.
    pub ood: Vec<Dataset<'static>>,
    /// Groups of these sets: folders in `ood/`, and what `pack.toml` says.
    pub groups: Vec<SetGroup>,
    /// In-distribution rows of another appearance (covariate shift), by name: `shifted/NAME`, or sets of
    /// `ood/` that `pack.toml` names so.
    pub shifted: Vec<Dataset<'static>>,
    /// The network's last layer.
    pub head: Option<Head>,
}

/// Whether a path is a folder with splits, and not one with the parts of a single one.
#[must_use]
pub fn is_pack(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    path.is_dir() && !is_parts(path)
}

impl Pack {
    /// Opens a pack folder and checks that its parts fit together.
    ///
    /// # Errors
    /// If `train` is missing, a file is malformed, or widths differ.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(folder, Reading::default())
    }

    /// Opens a pack folder, or a folder of the authors' caches: `train_in`, `val_in` and
    /// `NAME_out`, as `.mmap` files without header, whose layout has to be given, or as
    /// transposed `.npy` files.
    ///
    /// # Errors
    /// If there are no training rows, a file is malformed, widths differ, or the layout is missing
    /// or has no file to belong to.
    pub fn open_with(folder: impl AsRef<Path>, reading: impl Into<Reading>) -> Result<Self> {
        let (folder, reading) = (folder.as_ref(), reading.into());
        read_dir(folder).map_err(Error::io("open", folder))?;
        let shown = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let name = shown.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (train, test, ood) = open_splits(folder, &reading)?;
        let mut pack = Self::new(name, train, test, ood, open_pack_head(folder)?)?;
        pack.calibrate = open_calibration(folder, &reading)?;
        for (name, path) in sets_in(&folder.join("shifted"))? {
            pack.shifted.push(open_split(&path, &name, &reading)?);
        }
        pack.describe(folder)?;
        let more = pack.calibrate.iter().chain(&pack.shifted);
        more.into_iter().try_for_each(|split| pack.check_split(split))?;
        Ok(pack)
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
        if let Some(head) = &head {
            head.check_width(train.width())?;
        }
        let (groups, shifted) = (Vec::new(), Vec::new());
        let pack = Pack { name, train, test, calibrate: None, ood, groups, shifted, head };
        pack.test.iter().chain(&pack.ood).try_for_each(|split| pack.check_split(split))?;
        Ok(pack)
    }

    /// The same pack with its training rows changed, such as with labels.
    ///
    /// # Errors
    /// If the change fails.
    pub fn with_train(
        self,
        change: impl FnOnce(Dataset<'static>) -> Result<Dataset<'static>>,
    ) -> Result<Self> {
        Ok(Pack { train: change(self.train)?, ..self })
    }

    /// Takes over what `pack.toml` says, and the folders of `ood/` as groups.
    fn describe(&mut self, folder: &Path) -> Result<()> {
        let mut described = Described::read(folder)?;
        described.add_by_names(self.ood.iter().map(|set| set.name.as_str()));
        let known: Vec<String> = self.ood.iter().map(|set| set.name.clone()).collect();
        described.check(folder, &known)?;
        let (shifted, ood): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ood)
            .into_iter()
            .partition(|set| described.shifted.contains(&set.name));
        self.ood = ood;
        for set in shifted {
            if let Some(group) =
                described.groups.iter().find(|group| group.sets.contains(&set.name))
            {
                return Err(Error::malformed(
                    folder,
                    "a pack folder",
                    format!("{} is called shifted and also in the group {}", set.name, group.name),
                ));
            }
            if self.shifted.iter().any(|other| other.name == set.name) {
                return Err(Error::malformed(
                    folder,
                    "a pack folder",
                    format!("{} is in ood/ and in shifted/", set.name),
                ));
            }
            self.shifted.push(set);
        }
        self.groups = described.groups;
        if let Some(name) = described.name {
            self.name = name;
        }
        Ok(())
    }

    fn check_split(&self, split: &Dataset<'_>) -> Result<()> {
        if split.width() == self.train.width() {
            return Ok(());
        }
        Err(Error::shape(
            format!("{} of pack {}", split.name, self.name),
            format!("{} columns, as in train", self.train.width()),
            format!("{} columns", split.width()),
        ))
    }
}

fn open_splits(folder: &Path, reading: &Reading) -> Result<Splits> {
    let train = split_path(&folder.join("train"))?;
    let cache = match &train {
        // A pack may hold any other files; only two sets of training rows leave it open which to use.
        Some(train) => Cache::no_other_train(folder, train).map(|()| None)?,
        None => Cache::find(folder)?,
    };
    if reading.raw.is_some() && !cache.as_ref().is_some_and(Cache::needs_layout) {
        return Err(Error::parameter(
            "--raw",
            "a folder with files without header (train_in.mmap, val_in.mmap, NAME_out.mmap)",
            format!("{}, which has none", folder.display()),
        ));
    }
    if let Some(cache) = cache {
        reading.check_no_columns(folder.display())?;
        return cache.open(reading.raw);
    }
    let Some(train) = train else {
        return Err(Error::malformed(
            folder,
            "a pack folder",
            "it has neither train.safetensors nor train.npy, nor train as .npz, .parquet, .arrow, .feather or a folder \
             of part files",
        ));
    };
    let test = split_path(&folder.join("test"))?;
    let ood = sets_in(&folder.join("ood"))?;
    let has_table =
        [&train].into_iter().chain(&test).chain(ood.values()).any(|path| table::is_table(path));
    if !has_table {
        reading.check_no_columns(format!("{}, which has none", folder.display()))?;
    }
    let train = open_split(&train, "train", reading)?;
    let test = test.map(|path| open_split(&path, "test", reading)).transpose()?;
    let ood = ood
        .into_iter()
        .map(|(name, path)| open_split(&path, &name, reading))
        .collect::<Result<_>>()?;
    Ok((train, test, ood))
}

/// What the rows that set the threshold may be called.
const CALIBRATION_NAMES: [&str; 2] = ["calibrate", "val"];

fn open_calibration(folder: &Path, reading: &Reading) -> Result<Option<Dataset<'static>>> {
    let mut found: Vec<(&str, PathBuf)> = Vec::new();
    for name in CALIBRATION_NAMES {
        found.extend(split_path(&folder.join(name))?.map(|path| (name, path)));
    }
    match found.as_slice() {
        [] => Ok(None),
        [(name, path)] => open_split(path, name, reading).map(Some),
        _ => Err(Error::malformed(
            folder,
            "a pack folder",
            "it has both `calibrate` and `val`, of which only one can set the threshold",
        )),
    }
}

fn open_split(path: &Path, name: &str, reading: &Reading) -> Result<Dataset<'static>> {
    let mut dataset = open_with_neighbours(path, reading.suited_to(path))?;
    name.clone_into(&mut dataset.name);
    Ok(dataset)
}

/// The sets in a folder by their names; those in a folder inside it are called `FOLDER/NAME`.
fn sets_in(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    if !is_folder(folder)? {
        return Ok(BTreeMap::new());
    }
    let named = |path: PathBuf| {
        let group = path.parent().filter(|parent| *parent != folder).and_then(Path::file_name);
        let name = match group {
            Some(group) => format!("{}/{}", group.to_string_lossy(), stem(&path)),
            None => stem(&path),
        };
        (name, path)
    };
    // Of a set in both formats the last one counts, which is .safetensors, as everywhere.
    Ok(feature_files(folder)?.into_iter().map(named).collect())
}

/// The last layer of a pack, if it has one.
fn open_pack_head(folder: &Path) -> Result<Option<Head>> {
    let [whole, weight, bias] = ["head.safetensors", "head-weight.npy", "head-bias.npy"];
    let has = |name: &str| is_there(&folder.join(name));
    let malformed = |reason: String| Err(Error::malformed(folder, "a pack folder", reason));
    match (has(whole)?, has(weight)?, has(bias)?) {
        (false, false, false) => Ok(None),
        (true, false, false) => open_head(folder.join(whole)).map(Some),
        (false, true, true) => Head::from_npy(&folder.join(weight), &folder.join(bias)).map(Some),
        (true, ..) => malformed(format!(
            "it has {whole} and also {weight} or {bias}; expected one of the two forms"
        )),
        (false, true, false) => malformed(format!("it has {weight} but no {bias}")),
        (false, false, true) => malformed(format!("it has {bias} but no {weight}")),
    }
}
