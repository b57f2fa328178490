//! The number type in which a detector keeps its weights.

use half::{bf16, f16};
use ndarray::Array2;
use serde::{Deserialize, Serialize};

use crate::Real;
use crate::error::names::names;

/// How landmarks are kept, or the projection where there are none. The 16-bit types halve the file;
/// arithmetic stays `f32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightType {
    /// In the precision of the arithmetic.
    #[default]
    Full,
    /// IEEE half precision: 11 bits.
    F16,
    /// The upper half of an `f32`: 8 bits.
    Bf16,
}

impl WeightType {
    pub(crate) fn is_full(&self) -> bool {
        *self == WeightType::Full
    }

    /// The nearest number that the type can hold.
    fn round(self, x: f64) -> f64 {
        match self {
            WeightType::Full => x,
            WeightType::F16 => f16::from_f64(x).to_f64(),
            WeightType::Bf16 => bf16::from_f64(x).to_f64(),
        }
    }

    pub(crate) fn round_all<T: Real>(self, numbers: &mut Array2<T>) {
        if !self.is_full() {
            numbers.mapv_inplace(|x| T::from_double(self.round(x.to_double())));
        }
    }

    /// The numbers, already rounded, as little-endian bytes of 16 bits each; `None` for full numbers.
    pub(crate) fn halves<T: Real>(self, numbers: &Array2<T>) -> Option<Vec<u8>> {
        let bits: fn(f64) -> u16 = match self {
            WeightType::Full => return None,
            WeightType::F16 => |x| f16::from_f64(x).to_bits(),
            WeightType::Bf16 => |x| bf16::from_f64(x).to_bits(),
        };
        Some(numbers.iter().flat_map(|x| bits(x.to_double()).to_le_bytes()).collect())
    }
}

names!(WeightType { Full "full", F16 "f16", Bf16 "bf16", });
