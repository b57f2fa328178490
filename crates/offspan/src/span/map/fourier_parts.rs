//! Frequencies that are given instead of drawn.

use std::path::Path;

use ndarray::{Array1, Array2};
use xxhash_rust::xxh3::xxh3_64;

use crate::Result;
use crate::io::{FeatureSource, open_matrix, read_vector};

/// Given frequencies (one row per feature), phases and, where they differ, amplitudes of a Fourier
/// map.
#[derive(Debug, Clone, PartialEq)]
pub struct FourierParts {
    /// ω
    pub frequencies: Array2<f64>,
    /// u
    pub phases: Array1<f64>,
    /// What each cosine is multiplied by; √(2/M) if there are none.
    pub amplitudes: Option<Array1<f64>>,
}

impl FourierParts {
    /// Reads a safetensors file with `omega` (one row per feature) and `u`.
    ///
    /// # Errors
    /// If the file cannot be read or has no such tensors.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let omega = open_matrix(path, "omega", None)?;
        let mut frequencies = Array2::zeros((omega.rows(), omega.width()));
        omega.read_f64(0, frequencies.view_mut())?;
        Ok(FourierParts { frequencies, phases: read_vector(path, "u")?, amplitudes: None })
    }

    /// Identifies the numbers.
    pub(crate) fn hash(&self) -> u64 {
        let amplitudes = self.amplitudes.iter().flatten();
        let all: Vec<f64> =
            self.frequencies.iter().chain(&self.phases).chain(amplitudes).copied().collect();
        xxh3_64(bytemuck::cast_slice(&all))
    }
}
