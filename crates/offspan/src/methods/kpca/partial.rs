//! A fit whose rows come bit by bit, or on several machines.

use std::path::Path;

use ndarray::{Array1, Array2, ArrayView2};
use serde::{Deserialize, Serialize};

use crate::io::observer::{Observer, Silent};
use crate::io::{
    Bytes, Content, Dataset, Format, Head, TensorFile, TensorWriter, gather, write_bytes,
};
use crate::span::map::{FeatureMap, FourierParts};
use crate::span::moments::Moments;
use crate::span::preprocess::Preprocess;
use crate::training::{Fitted, Training, joined};
use crate::{Error, Precision, Real, Result};

use super::checkpoint::Progress;
use super::fit::{accumulate, build_map, check_inputs, choose_landmarks, compile, decompose};
use super::model::{AnyPlan, KpcaModel};
use super::params::{Clip, KpcaParams, MapParams, ValidKpca};
use super::plan::Plan;

/// 1 had no checksum.
const FORMAT: Format =
    Format { content: Content::PartialFit, version: 2, oldest: 1, if_older: "fit again" };

/// A feature map, and the moments of what it made of the rows so far.
///
/// Two of them with the same map add up, in any order, to the fit of all their rows.
#[derive(Debug, Clone)]
pub struct PartialFit {
    params: ValidKpca,
    width: usize,
    /// Nyström: the landmarks as they were given, before preprocessing.
    landmarks: Option<Array2<f64>>,
    map: AnyMap,
    moments: Moments,
    /// Chained hash of the rows seen.
    fingerprint: u64,
}

/// A feature map in the precision of the fit.
#[derive(Debug, Clone)]
enum AnyMap {
    F32(Box<FeatureMap<f32>>),
    F64(Box<FeatureMap<f64>>),
}

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    params: KpcaParams,
    width: usize,
    count: u64,
    fingerprint: u64,
}

impl PartialFit {
    /// A fit of no rows yet, of this width.
    ///
    /// # Errors
    /// If the map needs to see rows first: Nyström ([`PartialFit::with_landmarks`]), exact kernel
    /// PCA, or clipping at a percentile.
    pub fn new(params: &ValidKpca, width: usize) -> Result<Self> {
        if let MapParams::Nystrom { .. } = params.map {
            return Err(Error::MissingInput {
                who: "a partial fit of kpca-nys".to_owned(),
                what: "landmarks",
                hint: "give rows to use as landmarks, or begin with a first part of the rows"
                    .to_owned(),
            });
        }
        Self::build(params.clone(), width, None)
    }

    /// A Nyström fit of no rows yet, with these landmarks.
    ///
    /// # Errors
    /// If the parameters are not of a Nyström map, or the landmarks are bad.
    pub fn with_landmarks(params: &ValidKpca, landmarks: ArrayView2<'_, f64>) -> Result<Self> {
        let mut params = params.params().clone();
        let MapParams::Nystrom { landmarks: count, .. } = &mut params.map else {
            return Err(Error::parameter("landmarks", "none for this map", landmarks.nrows()));
        };
        *count = landmarks.nrows();
        Self::build(params.check()?, landmarks.ncols(), Some(landmarks.to_owned()))
    }

    /// A fit of no rows yet, with landmarks, where it needs some, chosen among the first part of the
    /// rows as a whole fit chooses among all.
    ///
    /// # Errors
    /// If the rows do not have what the choice needs.
    pub fn begin(params: &ValidKpca, first: &Dataset<'_>, head: Option<&Head>) -> Result<Self> {
        if !matches!(params.map, MapParams::Nystrom { .. }) {
            return Self::new(params, first.width());
        }
        let training = Training::new(first, head, &Silent);
        check_inputs(params, &training)?;
        let chosen = choose_landmarks(params, &training, fixed_clip(params)?)?;
        Self::with_landmarks(params, gather(&*first.features, &chosen)?.view())
    }

    fn build(params: ValidKpca, width: usize, landmarks: Option<Array2<f64>>) -> Result<Self> {
        if matches!(params.map, MapParams::Exact { .. }) {
            return Err(Error::parameter("method", "one that sums up rows", params.method()));
        }
        if width == 0 {
            return Err(Error::shape(
                "the rows of a partial fit",
                "at least one column",
                "0 columns",
            ));
        }
        let map = match params.precision {
            Precision::F32 => AnyMap::F32(Box::new(map(&params, width, landmarks.as_ref())?)),
            Precision::F64 => AnyMap::F64(Box::new(map(&params, width, landmarks.as_ref())?)),
        };
        let is_kernel = matches!(params.map, MapParams::Nystrom { .. });
        if !params.weights.is_full() && !is_kernel {
            return Err(Error::parameter(
                "weights",
                "full for a partial fit without landmarks: whether rounding keeps the scores is \
                 measured on the training rows, which it does not keep",
                params.weights,
            ));
        }
        let moments = Moments::new(map.coordinates());
        Ok(PartialFit { params, width, landmarks, map, moments, fingerprint: 0 })
    }

    /// Rows seen.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.moments.count()
    }

    /// Width of the rows.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &KpcaParams {
        &self.params
    }

    /// Adds rows. After an error nothing has changed.
    ///
    /// # Errors
    /// If the width differs, a value is bad, or the observer asks to stop.
    pub fn update(&mut self, rows: &Dataset<'_>, observer: &dyn Observer) -> Result<()> {
        if rows.width() != self.width {
            return Err(Error::shape(
                &rows.name,
                format!("{} columns, as the rows before", self.width),
                format!("{} columns", rows.width()),
            ));
        }
        let training = Training::new(rows, None, observer);
        let before = Progress::new(self.moments.clone(), 0, self.fingerprint);
        let preprocess = preprocess(&self.params)?;
        let after = match &self.map {
            AnyMap::F32(map) => accumulate(&self.params, map, preprocess, before, &training, None),
            AnyMap::F64(map) => accumulate(&self.params, map, preprocess, before, &training, None),
        }?;
        (self.moments, self.fingerprint) = (after.moments, after.fingerprint);
        Ok(())
    }

    /// Adds the rows that another fit with the same map has seen.
    ///
    /// # Errors
    /// If its parameters, width or landmarks differ.
    pub fn merge(&mut self, other: &PartialFit) -> Result<()> {
        let difference = if self.params != other.params {
            Some("other parameters")
        } else if self.width != other.width {
            Some("rows of another width")
        } else if self.landmarks != other.landmarks {
            Some("other landmarks")
        } else {
            None
        };
        if let Some(difference) = difference {
            return Err(Error::parameter(
                "merge",
                "a partial fit with the same map",
                format!("one with {difference}"),
            ));
        }
        self.moments.merge(&other.moments)?;
        self.fingerprint = joined([self.fingerprint, other.fingerprint]);
        Ok(())
    }

    /// The fit of all rows seen.
    pub(crate) fn finish(&self, head: Option<&Head>) -> Result<Fitted<KpcaModel>> {
        let name = "the rows of the partial fit";
        if self.rows() < 2 {
            let got = self.rows() as usize;
            return Err(Error::TooFewRows { what: name.to_owned(), expected: 2, got });
        }
        if let Some(head) = head {
            head.check_width(self.width)?;
        }
        let model = match &self.map {
            AnyMap::F32(map) => self.model(map, name, head, AnyPlan::F32),
            AnyMap::F64(map) => self.model(map, name, head, AnyPlan::F64),
        }?;
        Ok(Fitted { model, rows: self.rows(), fingerprint: self.fingerprint })
    }

    fn model<T: Real>(
        &self,
        map: &FeatureMap<T>,
        name: &str,
        head: Option<&Head>,
        any: fn(Plan<T>) -> AnyPlan,
    ) -> Result<KpcaModel> {
        let centre: Array1<f64> = self.moments.mean().clone();
        let subspace = decompose(&self.params, map, self.moments.clone(), name)?;
        let preprocess = preprocess(&self.params)?;
        let (plan, found) = compile(&self.params, preprocess, map.clone(), &centre, &subspace)?;
        Ok(KpcaModel::new(self.params.clone(), any(plan), subspace.eigenvalues, found, head))
    }

    /// The partial fit as bytes (a safetensors file).
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = Header {
            version: FORMAT.version,
            params: self.params.params().clone(),
            width: self.width,
            count: self.moments.count(),
            fingerprint: self.fingerprint,
        };
        let mut writer = TensorWriter::default();
        self.moments.write_tensors(&mut writer);
        if let Some(landmarks) = &self.landmarks {
            writer.array2("landmarks", landmarks);
        }
        if let MapParams::Fourier { parts: Some(parts), .. } = &self.params.map {
            writer.array2("frequencies", &parts.frequencies);
            writer.array1("phases", &parts.phases);
            if let Some(amplitudes) = &parts.amplitudes {
                writer.array1("amplitudes", amplitudes);
            }
        }
        writer.to_bytes(&FORMAT, serde_json::json!(header))
    }

    /// The partial fit that [`PartialFit::to_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes are no such thing.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::read(&TensorFile::from_bytes(Path::new("partial fit"), Bytes::Memory(bytes.into()))?)
    }

    /// Saves the partial fit; the file appears whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        write_bytes(path, &self.to_bytes())
    }

    /// Loads a partial fit.
    ///
    /// # Errors
    /// If the file cannot be read or anything in it is wrong.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::read(&TensorFile::open(path)?)
    }

    fn read(file: &TensorFile) -> Result<Self> {
        let header: Header = file.document(&FORMAT)?;
        let mut params = header.params;
        if let MapParams::Fourier { parts, .. } = &mut params.map
            && file.has("frequencies")
        {
            let amplitudes = file.has("amplitudes").then(|| file.array1("amplitudes"));
            *parts = Some(Box::new(FourierParts {
                frequencies: file.array2("frequencies")?,
                phases: file.array1("phases")?,
                amplitudes: amplitudes.transpose()?,
            }));
        }
        let params = params.check()?;
        let landmarks = file.has("landmarks").then(|| file.array2("landmarks")).transpose()?;
        let mut partial = Self::build(params, header.width, landmarks)?;
        if partial.map.input() != header.width {
            return Err(Error::shape(
                file.label("the map"),
                format!("{} columns", header.width),
                format!("{} columns", partial.map.input()),
            ));
        }
        let moments = Moments::read_tensors(file, header.count)?;
        if moments.width() != partial.moments.width() {
            return Err(Error::shape(
                file.label("mean"),
                format!("[{}], the coordinates of its map", partial.moments.width()),
                format!("[{}]", moments.width()),
            ));
        }
        (partial.moments, partial.fingerprint) = (moments, header.fingerprint);
        Ok(partial)
    }
}

impl AnyMap {
    fn input(&self) -> usize {
        match self {
            AnyMap::F32(map) => map.raw.input(),
            AnyMap::F64(map) => map.raw.input(),
        }
    }

    fn coordinates(&self) -> usize {
        match self {
            AnyMap::F32(map) => map.raw.output(),
            AnyMap::F64(map) => map.raw.output(),
        }
    }
}

fn map<T: Real>(
    params: &ValidKpca,
    width: usize,
    landmarks: Option<&Array2<f64>>,
) -> Result<FeatureMap<T>> {
    let none = Array2::zeros((0, width));
    let rows = landmarks.unwrap_or(&none);
    let data = Dataset::new("landmarks", rows.view());
    let chosen: Vec<usize> = (0..rows.nrows()).collect();
    build_map(params, &Training::new(&data, None, &Silent), preprocess(params)?, &chosen)
}

fn preprocess(params: &KpcaParams) -> Result<Preprocess> {
    Ok(Preprocess { clip: fixed_clip(params)?, cosine: params.cosine })
}

/// A percentile would have to see all rows first.
fn fixed_clip(params: &KpcaParams) -> Result<Option<f64>> {
    match params.react {
        None => Ok(None),
        Some(Clip::Value(value)) => Ok(Some(value)),
        Some(Clip::Percentile(percent)) => {
            Err(Error::parameter("react", "a value for a partial fit", format!("p{percent}")))
        }
    }
}
