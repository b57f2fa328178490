//! The arithmetic of the kernel PCA's products: the cheapest that leaves the residuals as they are.

use ndarray::Array1;

use crate::methods::kpca::{KpcaModel, largest_change};
use crate::methods::model::{Found, Stored};
use crate::{Error, Result};

/// The largest change of a residual, as a share of itself, that 16-bit numbers may cause.
const LARGEST_CHANGE: f64 = 1e-3;

/// What products are computed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Products {
    /// The precision of everything else.
    Full,
    /// 16-bit fixed point: about two thirds of the time, and half of the memory.
    Fixed,
}

impl Products {
    /// A kernel PCA in the cheapest arithmetic for rows of which `read` gives residuals; and those.
    pub(super) fn cheapest(
        kpca: KpcaModel,
        read: impl Fn(&KpcaModel) -> Result<Array1<f64>>,
    ) -> Result<(KpcaModel, Self, Array1<f64>)> {
        let exact = read(&kpca)?;
        if let Some(fixed) = kpca.in_fixed_point() {
            let residuals = read(&fixed)?;
            if largest_change(&exact, &residuals) <= LARGEST_CHANGE {
                return Ok((fixed, Products::Fixed, residuals));
            }
        }
        Ok((kpca, Products::Full, exact))
    }

    /// The kernel PCA of a file as it was when it was fitted.
    pub(super) fn apply(self, kpca: KpcaModel) -> Result<(KpcaModel, Self)> {
        let kpca = match self {
            Products::Full => kpca,
            Products::Fixed => kpca.in_fixed_point().ok_or_else(|| {
                Error::parameter(NAME, "none, because the precision is not single", BITS)
            })?,
        };
        Ok((kpca, self))
    }

    pub(super) fn tell(self, found: &mut Found) {
        if self == Products::Fixed {
            found.insert(NAME.to_owned(), BITS);
        }
    }

    pub(super) fn read(stored: Stored<'_>) -> Result<Self> {
        if !stored.found.contains_key(NAME) {
            return Ok(Products::Full);
        }
        let bits = stored.number(NAME)?;
        if bits == BITS {
            return Ok(Products::Fixed);
        }
        Err(Error::parameter(NAME, BITS.to_string(), bits))
    }
}

/// What a detector tells of fixed point.
const NAME: &str = "bits of products";
const BITS: f64 = 16.0;
