//! What a network is run over: folders and lists of images, or arrays of ready inputs.

mod folder;
mod list;
mod splits;

use std::path::{Path, PathBuf};

use offspan::io::{FeatureSource, InputRows, open_inputs, open_labels};
use offspan::ndarray::ArrayViewMut2;

use crate::image::{ENDINGS, FORMATS};
use crate::input_error::{InputError, InputResult};

pub use splits::{Split, SplitName, find_splits};

/// Rows to run a network over.
pub struct Data {
    /// What to call it in messages.
    pub(crate) name: String,
    pub(crate) inputs: Inputs,
    /// One class number per row.
    pub(crate) labels: Option<Vec<i64>>,
    /// What the classes are called, in the order of their numbers, where folders name them.
    pub(crate) classes: Option<Vec<String>>,
    /// Files that are no images, and so were left alone.
    pub(crate) ignored: Vec<PathBuf>,
}

/// What the rows are.
pub(crate) enum Inputs {
    Images(Vec<PathBuf>),
    Arrays(InputRows),
}

impl Data {
    /// Opens a folder of images, an image, a list of images, or an array. Sub-folders of a folder are classes; `classes`
    /// are those that are known already, whose numbers count.
    ///
    /// # Errors
    /// If there is nothing there that could be used.
    pub fn open(path: &Path, classes: Option<&[String]>) -> InputResult<Self> {
        if path.is_dir() {
            return folder::open_with_classes(path, classes);
        }
        let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        match extension.as_deref() {
            Some("npy" | "safetensors") => arrays(path),
            Some("txt" | "csv" | "tsv" | "list") => list::open(path),
            Some(ending) if ENDINGS.contains(&ending) => {
                // An image that is not there is an error of its own, not one that may be skipped.
                std::fs::metadata(path).map_err(InputError::io("open", path))?;
                Ok(Data::of_images(path, vec![path.to_owned()]))
            }
            _ if !path.exists() => {
                Err(InputError::io("open", path)(std::io::ErrorKind::NotFound.into()))
            }
            _ => Err(InputError::data(
                path,
                format!(
                    "expected a folder of images, an image ({FORMATS}), a list of images (.txt, .csv, .tsv, .list) or an array \
                     (.npy, .safetensors)"
                ),
            )),
        }
    }

    /// Opens all images below a folder, whatever folders they are in; without labels.
    ///
    /// # Errors
    /// If there are none.
    pub fn open_flat(path: &Path) -> InputResult<Self> {
        if path.is_dir() { folder::open_flat(path) } else { Self::open(path, None) }
    }

    fn of_images(path: &Path, images: Vec<PathBuf>) -> Self {
        Data {
            name: path.display().to_string(),
            inputs: Inputs::Images(images),
            labels: None,
            classes: None,
            ignored: Vec::new(),
        }
    }

    /// The same with labels from a file.
    ///
    /// # Errors
    /// If there are some already, or not as many as rows.
    pub fn with_labels_of(mut self, path: &Path) -> InputResult<Self> {
        if self.labels.is_some() {
            return Err(InputError::data(
                path,
                format!("{} has labels of its own; expected one of the two", self.name),
            ));
        }
        let labels = open_labels(path)?;
        if labels.len() != self.rows() {
            return Err(InputError::data(
                path,
                format!("expected {} labels, one per row of {}, got {}", self.rows(), self.name, labels.len()),
            ));
        }
        self.labels = Some(labels.read(0..labels.len())?);
        Ok(self)
    }

    /// The same without labels.
    #[must_use]
    pub fn without_labels(self) -> Self {
        Data { labels: None, classes: None, ..self }
    }

    /// What to call it in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the classes are called, where folders name them.
    #[must_use]
    pub fn classes(&self) -> Option<&[String]> {
        self.classes.as_deref()
    }

    /// Number of rows, those of images that cannot be read included.
    #[must_use]
    pub fn rows(&self) -> usize {
        match &self.inputs {
            Inputs::Images(images) => images.len(),
            Inputs::Arrays(array) => array.rows.rows(),
        }
    }

    /// Whether the rows are images.
    #[must_use]
    pub fn is_images(&self) -> bool {
        matches!(self.inputs, Inputs::Images(_))
    }

    /// What to call a row in messages.
    pub(crate) fn row_name(&self, row: usize) -> PathBuf {
        match &self.inputs {
            Inputs::Images(images) => images[row].clone(),
            Inputs::Arrays(_) => PathBuf::from(format!("{}, row {row}", self.name)),
        }
    }
}

impl Inputs {
    /// Rows of an array, one after another.
    pub(crate) fn read_array(array: &InputRows, start: usize, out: &mut [f32]) -> InputResult<()> {
        let width = array.rows.width();
        let view = ArrayViewMut2::from_shape((out.len() / width, width), out);
        let view = view.unwrap_or_else(|_| unreachable!("the buffer holds whole rows"));
        Ok(array.rows.read_f32(start, view)?)
    }
}

fn arrays(path: &Path) -> InputResult<Data> {
    let mut array = open_inputs(path)?;
    let labels = array.labels.take();
    let labels = labels.map(|labels| labels.read(0..labels.len())).transpose()?;
    Ok(Data {
        name: path.display().to_string(),
        inputs: Inputs::Arrays(array),
        labels,
        classes: None,
        ignored: Vec::new(),
    })
}
