//! A shallow autoencoder: rows unlike the training rows are reconstructed badly.

mod layer;
mod method;
mod network;
mod train;

use ndarray::{Array1, ArrayView2};
use serde::{Deserialize, Serialize};

use crate::graph::{Builder, Value};
use crate::io::{TensorFile, TensorWriter};
use crate::{Error, Result};

use network::Network;
use train::train;

/// More units than this in a layer is a slip of the keyboard.
const MOST_UNITS: usize = 1 << 16;

/// Parameters of the shallow autoencoder, as given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoencoderParams {
    /// Units between features and code; half the features' width unless given.
    pub hidden: Option<usize>,
    /// Length of the code; a quarter of the features' width unless given.
    pub code: Option<usize>,
    /// Passes over the training rows after which the training ends if it has not settled before.
    pub most_epochs: usize,
    /// Seed of the weights, of the rows held aside and of the batches.
    pub seed: u64,
}

impl Default for AutoencoderParams {
    fn default() -> Self {
        AutoencoderParams { hidden: None, code: None, most_epochs: 50, seed: 0 }
    }
}

impl AutoencoderParams {
    /// Checks the parameters.
    ///
    /// # Errors
    /// If a layer has no units or far too many, or there is no epoch to train in.
    pub fn check(self) -> Result<Self> {
        for (name, units) in [("hidden", self.hidden), ("code", self.code)] {
            if let Some(units) = units
                && !(1..=MOST_UNITS).contains(&units)
            {
                return Err(Error::parameter(name, format!("from 1 to {MOST_UNITS}"), units));
            }
        }
        if self.most_epochs == 0 {
            return Err(Error::parameter("epochs", "at least 1", 0));
        }
        Ok(self)
    }

    /// Widths of the hidden layers and of the code for features of this width.
    fn units(&self, width: usize) -> (usize, usize) {
        let part = |given: Option<usize>, parts| given.unwrap_or(width.div_ceil(parts)).max(1);
        (part(self.hidden, 2), part(self.code, 4))
    }
}

/// A trained autoencoder for features in their own scale.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Autoencoder {
    /// The training rows' mean.
    centre: Array1<f32>,
    /// Works on z − centre; its outer layers contain the scale of the features.
    network: Network,
}

impl Autoencoder {
    /// ‖z − d(e(z))‖² of every row.
    pub(crate) fn squared_errors(&self, rows: ArrayView2<'_, f32>, out: &mut [f64]) {
        let x = &rows - &self.centre;
        out.copy_from_slice(&self.network.squared_errors(x.view()));
    }

    /// The same within a graph, [N].
    pub(crate) fn squared_error_graph(&self, rows: Value, builder: &mut Builder<'_>) -> Value {
        let centre = builder.vector("centre", &self.centre);
        let x = builder.sub(rows, centre);
        let output = self.network.graph(x, builder);
        let error = builder.sub(output, x);
        builder.squared_length(error)
    }

    /// Puts the centre and the layers into a detector file.
    pub(crate) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}centre"), &self.centre);
        self.network.write(prefix, writer);
    }

    /// Reads what [`Autoencoder::write`] wrote, for features of `width`.
    pub(crate) fn read(file: &TensorFile, prefix: &str, width: usize) -> Result<Self> {
        let centre: Array1<f32> = file.array1(&format!("{prefix}centre"))?;
        if centre.len() != width {
            return Err(Error::shape(
                format!("`{prefix}centre` of the detector"),
                format!("[{width}]"),
                format!("{:?}", centre.shape()),
            ));
        }
        Ok(Autoencoder { centre, network: Network::read(file, prefix, width)? })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::io::{Bytes, Content, Format};
    use crate::numeric::random::{Random, Stream};

    fn small() -> Autoencoder {
        let mut random = Random::new(1, Stream::Autoencoder);
        let network = Network::random(5, 4, 2, &mut random);
        Autoencoder { centre: (0..5).map(|i| i as f32 / 2.0).collect(), network }
    }

    fn reopened(model: &Autoencoder, width: usize) -> Result<Autoencoder> {
        let mut writer = TensorWriter::default();
        model.write("auto.", &mut writer);
        let format = Format { content: Content::Detector, version: 1, oldest: 1, if_older: "" };
        let bytes = Bytes::Static(writer.to_bytes(&format, serde_json::json!({})).leak());
        let file = TensorFile::from_bytes(Path::new("memory"), bytes).unwrap();
        Autoencoder::read(&file, "auto.", width)
    }

    #[test]
    fn a_file_gives_the_same_autoencoder_back() {
        assert_eq!(reopened(&small(), 5).unwrap(), small());
    }

    #[test]
    fn layers_that_do_not_fit_are_refused() {
        assert!(matches!(reopened(&small(), 6), Err(Error::Shape { .. })));
        let mut wrong = small();
        wrong.centre = Array1::zeros(4);
        assert!(reopened(&wrong, 5).unwrap_err().to_string().contains("`auto.centre`"));
        let mut wrong = small();
        wrong.network.layers[2].bias = Array1::zeros(3);
        let error = reopened(&wrong, 5).unwrap_err().to_string();
        assert!(error.contains("`auto.decoder.hidden.bias`"), "{error}");
        let mut wrong = small();
        wrong.network.layers[1].weight = ndarray::Array2::zeros((2, 3));
        let error = reopened(&wrong, 5).unwrap_err().to_string();
        assert!(error.contains("`auto.encoder.code.weight`"), "{error}");
    }

    #[test]
    fn parameters_are_checked_and_have_the_documented_defaults() {
        let params = AutoencoderParams::default().check().unwrap();
        assert_eq!(params.units(342), (171, 86));
        assert_eq!(params.units(1), (1, 1));
        for bad in [
            AutoencoderParams { hidden: Some(0), ..params.clone() },
            AutoencoderParams { code: Some(1 << 20), ..params.clone() },
            AutoencoderParams { most_epochs: 0, ..params.clone() },
        ] {
            assert!(bad.check().is_err());
        }
    }
}
