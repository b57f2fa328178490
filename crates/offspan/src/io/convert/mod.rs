//! Features that other programs left, as a pack: OpenOOD's archives, tensors of PyTorch, the authors' caches, Hugging
//! Face datasets of embeddings, and every other file that rows are read from.

mod hugging_face;
mod pickle;
mod scores;
mod selected;
mod source;
mod split_file;
mod torch_file;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ndarray::Array1;
use serde::Serialize;

use super::atomic::sync_folder;
use super::folder::{is_folder, read_dir};
use super::{Dataset, ElementType, Head, Reading, open_head, read_rows, write_bytes};
use crate::io::observer::Observer;
use crate::{Error, Result};

pub use scores::convert_scores;
pub use source::name_of_set;

use source::{Named, Parts};
use split_file::{Features, write_head, write_split};

/// What is to become a pack, and how. At least a source or training rows are needed.
///
/// ```no_run
/// use offspan::Silent;
/// use offspan::io::Conversion;
///
/// let conversion = Conversion {
///     train: Some("cifar10_train.npz".into()),
///     test: Some("cifar10_test.npz".into()),
///     ood: vec![("svhn".to_owned(), "svhn.npz".into())],
///     ..Conversion::default()
/// };
/// conversion.write("my-pack", &Silent)?;
/// # Ok::<(), offspan::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Conversion {
    /// A pack, a folder of the authors' caches, or a Hugging Face dataset.
    pub source: Option<PathBuf>,
    /// Training rows: a file, or a split of the source.
    pub train: Option<PathBuf>,
    /// In-distribution rows to judge with.
    pub test: Option<PathBuf>,
    /// In-distribution rows to set the threshold with.
    pub calibrate: Option<PathBuf>,
    /// Out-of-distribution sets by name; `near/NAME` and `far/NAME` say which they are.
    pub ood: Vec<(String, PathBuf)>,
    /// The network's last layer.
    pub head: Option<PathBuf>,
    /// One vector per class, such as the embeddings of the classes' names, from which a last layer of cosines is made.
    pub class_vectors: Option<PathBuf>,
    /// What cosines are divided by [default: 1].
    pub temperature: Option<f64>,
    /// The set that rows with negative labels go to.
    pub unknown: Option<String>,
    /// Whether each row is scaled to unit length.
    pub unit: bool,
    /// The type of the features [default: f32].
    pub element: Option<ElementType>,
    /// How files are read, where they do not tell it themselves.
    pub reading: Reading,
}

/// What a conversion wrote.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Converted {
    /// The splits in the order of writing.
    pub splits: Vec<ConvertedSplit>,
    /// Classes of the last layer, if there is one.
    pub classes: Option<usize>,
    /// Splits of the source that were not asked for.
    pub left_out: Vec<String>,
}

/// One split of the new pack.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ConvertedSplit {
    /// Where it lies in the pack, without its ending.
    pub name: String,
    /// Number of rows.
    pub rows: usize,
    /// Width of the features.
    pub width: usize,
    /// Number of logits, if there are any.
    pub logits: Option<usize>,
    /// Whether it has labels.
    pub labels: bool,
}

impl Conversion {
    /// Writes the pack, which appears whole or not at all. Its folder must not exist, or be empty.
    ///
    /// # Errors
    /// If a file cannot be read or written, splits do not fit together, or the observer asks to stop.
    pub fn write(&self, pack: impl AsRef<Path>, observer: &dyn Observer) -> Result<Converted> {
        let pack = pack.as_ref();
        check_new(pack)?;
        let parts = Parts::open(self, observer)?;
        let head = self.new_head(observer)?.or(parts.head);
        if let Some(head) = &head {
            head.check_width(parts.train.width())?;
        }
        let features = Features {
            element: self.element.unwrap_or(ElementType::F32),
            unit: self.unit || self.class_vectors.is_some(),
        };
        let mut converted = Converted {
            classes: head.as_ref().map(Head::classes),
            left_out: parts.left_out,
            ..Converted::default()
        };
        in_new_folder(pack, |folder| {
            let of_pack = [
                ("train", Some(parts.train)),
                ("test", parts.test),
                ("calibrate", parts.calibrate),
            ];
            let mut splits: Vec<Named> = Vec::new();
            for (name, split) in of_pack {
                splits.extend(split.map(|data| (name.to_owned(), data)));
            }
            let width = splits[0].1.width();
            splits.extend(parts.shifted);
            splits.extend(parts.ood.into_iter().map(|(name, data)| (format!("ood/{name}"), data)));
            let splits = self.without_unknown(splits)?;
            check_names(&splits)?;
            for (name, data) in splits {
                check_width(&name, &data, width)?;
                converted.splits.push(write(folder, &name, &data, features, observer)?);
            }
            if let Some(about) = &parts.about {
                let text = std::fs::read(about).map_err(Error::io("read", about))?;
                write_bytes(folder.join("pack.toml"), &text)?;
            }
            head.iter().try_for_each(|head| write_head(&folder.join("head.safetensors"), head))
        })?;
        Ok(converted)
    }

    /// The last layer that was asked for.
    fn new_head(&self, observer: &dyn Observer) -> Result<Option<Head>> {
        match (&self.head, &self.class_vectors) {
            (Some(_), Some(vectors)) => Err(Error::parameter(
                "class-vectors",
                "either these or a last layer (head)",
                format!("both, {}", vectors.display()),
            )),
            (Some(path), None) => open_head(path).map(Some),
            (None, Some(path)) => {
                let vectors = source::open_table(path, observer)?;
                let vectors = read_rows(&*vectors, 0..vectors.rows())?;
                Head::of_cosines(vectors, self.temperature.unwrap_or(1.0)).map(Some)
            }
            (None, None) if self.temperature.is_some() => Err(Error::parameter(
                "temperature",
                "class vectors, whose cosines it divides",
                "none",
            )),
            (None, None) => Ok(None),
        }
    }

    /// The splits, with rows of negative labels taken out of those that are in-distribution.
    fn without_unknown(&self, splits: Vec<Named>) -> Result<Vec<Named>> {
        let (mut kept, mut ood, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        for (name, data) in splits {
            if name.starts_with("ood/") {
                ood.push((name, data));
                continue;
            }
            let labels = data.labels().map(|labels| labels.read(0..labels.len())).transpose()?;
            let negative = labels.iter().flatten().filter(|label| **label < 0).count();
            let (labels, set) = match (labels, &self.unknown) {
                (Some(labels), Some(set)) if negative > 0 => (labels, set),
                (_, None) if negative > 0 => {
                    return Err(Error::shape(
                        format!("labels of {name}"),
                        format!(
                            "classes from 0 on, or {} for rows with negative ones, which pytorch-ood and OpenOOD \
                             mean as out-of-distribution",
                            crate::error::wording::Setting("unknown", "NAME")
                        ),
                        format!("{negative} negative ones"),
                    ));
                }
                _ => {
                    kept.push((name, data));
                    continue;
                }
            };
            let (known, others) = selected::by_sign(data, &labels)?;
            let Some(known) = known else {
                return Err(Error::TooFewRows {
                    what: format!("{name} without negative labels"),
                    expected: 1,
                    got: 0,
                });
            };
            kept.push((name.clone(), known));
            unknown.extend(others.map(|others| (name, set, others)));
        }
        if let (Some(set), true) = (&self.unknown, unknown.is_empty()) {
            return Err(Error::parameter(
                "unknown",
                "rows with negative labels to go to it",
                format!("none for {set}"),
            ));
        }
        // One set of two splits would hide which rows the network has seen.
        let several = unknown.len() > 1;
        for (split, set, data) in unknown {
            let name = if several { format!("ood/{set}-{split}") } else { format!("ood/{set}") };
            if ood.iter().any(|(other, _)| *other == name) {
                return Err(Error::parameter("unknown", "a name that no other set has", set));
            }
            ood.push((name, data));
        }
        kept.extend(ood);
        Ok(kept)
    }
}

fn write(
    folder: &Path,
    name: &str,
    data: &Dataset<'_>,
    features: Features,
    observer: &dyn Observer,
) -> Result<ConvertedSplit> {
    let path = folder.join(format!("{name}.safetensors"));
    create_folder_of(&path)?;
    let labels = data.labels().map(|labels| labels.read(0..labels.len())).transpose()?;
    // Labels of out-of-distribution rows are no classes of the network where they are negative.
    let labels = labels
        .filter(|labels| !(name.starts_with("ood/") && labels.iter().any(|label| *label < 0)));
    let split = ConvertedSplit {
        name: name.to_owned(),
        rows: data.rows(),
        width: data.width(),
        logits: data.logits().map(super::FeatureSource::width),
        labels: labels.is_some(),
    };
    write_split(&path, data, labels, features, observer)?;
    Ok(split)
}

/// A file of one split must not take the place of another's: the source may call a set shifted that is given anew.
fn check_names(splits: &[Named]) -> Result<()> {
    for (place, (name, _)) in splits.iter().enumerate() {
        if splits[..place].iter().any(|(other, _)| other == name) {
            let set = name.trim_start_matches("ood/");
            return Err(Error::parameter(
                "ood",
                "a name that no other set has",
                format!("{set} twice"),
            ));
        }
    }
    Ok(())
}

/// Makes the folder that a file of a new pack belongs into.
fn create_folder_of(path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) if !is_folder(parent)? => {
            std::fs::create_dir_all(parent).map_err(Error::io("create", parent))
        }
        _ => Ok(()),
    }
}

fn check_width(name: &str, data: &Dataset<'_>, width: usize) -> Result<()> {
    if data.width() == width {
        return Ok(());
    }
    Err(Error::shape(
        name,
        format!("{width} columns, as in train"),
        format!("{} columns", data.width()),
    ))
}

/// Says, before any work, that a folder is there already.
fn check_new(folder: &Path) -> Result<()> {
    let taken = match read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) if error.kind() == ErrorKind::NotADirectory => true,
        Err(error) => return Err(Error::io("read", folder)(error)),
    };
    if !taken {
        return Ok(());
    }
    Err(Error::malformed(
        folder,
        "a new folder",
        "it is there already and not empty; expected a name that is free",
    ))
}

/// Fills a folder beside the place and renames it: what is there is whole, and on the disk.
fn in_new_folder(folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let work = tempfile::Builder::new()
        .prefix(".offspan-")
        .suffix(".partial")
        .tempdir_in(parent)
        .map_err(Error::io("create a folder in", parent))?;
    // A folder in it has the permissions that new folders have.
    let inner = work.path().join("pack");
    std::fs::create_dir(&inner).map_err(Error::io("create", &inner))?;
    fill(&inner)?;
    sync_folders(&inner)?;
    if folder.is_dir() {
        std::fs::remove_dir(folder).map_err(Error::io("replace", folder))?;
    }
    std::fs::rename(&inner, folder).map_err(Error::io("create", folder))?;
    sync_folder(parent).map_err(Error::io("write", folder))
}

/// Puts the names in a folder, and in the folders in it, on the disk.
fn sync_folders(folder: &Path) -> Result<()> {
    for entry in read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        if is_folder(&path)? {
            sync_folders(&path)?;
        }
    }
    sync_folder(folder).map_err(Error::io("write", folder))
}

impl Head {
    /// A last layer whose logits are cosines with these vectors, divided by a temperature, for rows of unit length: zero-shot
    /// classifiers as CLIP's. The largest softmax probability of such logits is MCM (Ming et al. 2022), whose temperature
    /// is 1.
    ///
    /// # Errors
    /// If a vector has no direction, or the temperature is not positive.
    pub fn of_cosines(vectors: ndarray::Array2<f64>, temperature: f64) -> Result<Self> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(Error::parameter("temperature", "a number above 0", temperature));
        }
        let mut weight = vectors;
        for (row, mut vector) in weight.rows_mut().into_iter().enumerate() {
            let length = vector.dot(&vector).sqrt();
            if length == 0.0 {
                let what = "the class vectors".to_owned();
                return Err(Error::ZeroRow { what, row, after: "", hint: String::new() });
            }
            vector /= length * temperature;
        }
        let bias = Array1::zeros(weight.nrows());
        Head::new(weight, bias)
    }
}
