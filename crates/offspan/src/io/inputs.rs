//! Training data, from a pack, from files or from memory: the one place where they are put together.

use std::path::{Path, PathBuf};

use super::{
    Dataset, FeatureSource, Head, Labels, Pack, Reading, is_pack, open_dataset, open_head,
    open_labels, open_matrix,
};
use crate::Result;

/// Something that is in memory, or in a file.
pub enum Input<T> {
    /// As it is.
    Value(T),
    /// To be read from here.
    File(PathBuf),
}

impl<T> Input<T> {
    fn open(self, open: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        match self {
            Input::Value(value) => Ok(value),
            Input::File(path) => open(&path),
        }
    }
}

/// Rows of numbers in memory or in a file.
pub type Rows<'a> = Input<Box<dyn FeatureSource + 'a>>;

/// What a fit is given: rows, and all that belongs to them.
///
/// ```
/// use offspan::io::{Input, TrainingData, TrainingInputs};
/// use offspan::ndarray::Array2;
///
/// let rows = Array2::<f32>::zeros((100, 8));
/// let logits = Array2::<f32>::zeros((100, 3));
/// let inputs = TrainingInputs::of_rows("training rows", rows.view())
///     .logits(Input::Value(Box::new(logits.view())));
/// let TrainingData { rows, head, calibrate, .. } = inputs.open()?;
/// assert_eq!((rows.rows(), rows.width()), (100, 8));
/// assert!(rows.logits().is_some() && head.is_none() && calibrate.is_none());
/// # Ok::<(), offspan::Error>(())
/// ```
pub struct TrainingInputs<'a> {
    name: String,
    features: Rows<'a>,
    reading: Reading,
    logits: Option<Rows<'a>>,
    labels: Option<Input<Labels>>,
    head: Option<Input<Head>>,
}

/// What was opened.
#[non_exhaustive]
pub struct TrainingData<'a> {
    /// Rows to fit on.
    pub rows: Dataset<'a>,
    /// The network's last layer.
    pub head: Option<Head>,
    /// In-distribution rows that the network did not train on, where a pack has some: better ones to set
    /// the threshold with than training rows.
    pub calibrate: Option<Dataset<'a>>,
}

impl<'a> TrainingInputs<'a> {
    /// A pack folder, of which everything but the test and OoD rows is taken, or a feature file.
    pub fn of_path(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        Self::new(path.display().to_string(), Input::File(path.to_owned()))
    }

    /// Rows in memory, with a name for messages.
    pub fn of_rows(name: impl Into<String>, rows: impl FeatureSource + 'a) -> Self {
        Self::new(name.into(), Input::Value(Box::new(rows)))
    }

    fn new(name: String, features: Rows<'a>) -> Self {
        let reading = Reading::default();
        TrainingInputs { name, features, reading, logits: None, labels: None, head: None }
    }

    /// How feature files are read: type and width of one without header, columns of a table.
    #[must_use]
    pub fn reading(self, reading: impl Into<Reading>) -> Self {
        TrainingInputs { reading: reading.into(), ..self }
    }

    /// Logits of the same rows, in place of those that come with the features.
    #[must_use]
    pub fn logits(self, logits: Rows<'a>) -> Self {
        TrainingInputs { logits: Some(logits), ..self }
    }

    /// Class labels of the same rows, in place of those that come with the features.
    #[must_use]
    pub fn labels(self, labels: Input<Labels>) -> Self {
        TrainingInputs { labels: Some(labels), ..self }
    }

    /// The network's last layer, in place of the pack's.
    #[must_use]
    pub fn head(self, head: Input<Head>) -> Self {
        TrainingInputs { head: Some(head), ..self }
    }

    /// Opens everything; rows in files stay there until they are read.
    ///
    /// # Errors
    /// If a file cannot be read, or does not have as many rows as the features.
    pub fn open(self) -> Result<TrainingData<'a>> {
        let (mut data, mut head, calibrate) = match self.features {
            Input::Value(rows) => (Dataset::new(self.name, rows), None, None),
            Input::File(path) if is_pack(&path) => {
                let pack = Pack::open_with(&path, self.reading)?;
                (pack.train, pack.head, pack.calibrate)
            }
            Input::File(path) => (open_dataset(&path, self.reading)?, None, None),
        };
        if let Some(logits) = self.logits {
            let open = |path: &Path| -> Result<Box<dyn FeatureSource + 'a>> {
                Ok(Box::new(open_matrix(path, "logits", None)?))
            };
            data = data.with_logits(logits.open(open)?)?;
        }
        if let Some(labels) = self.labels {
            data = data.with_labels(labels.open(|path| open_labels(path))?)?;
        }
        if let Some(given) = self.head {
            head = Some(given.open(|path| open_head(path))?);
        }
        Ok(TrainingData { rows: data, head, calibrate })
    }
}
