//! Values outside of bounds: ReAct's cap, BATS's range per channel, VRA's.

use ndarray::Array1;

use crate::Result;
use crate::io::TensorWriter;
use crate::methods::{Found, Stored};

/// What happens to a value below its lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    /// It becomes the bound.
    Moved,
    /// It becomes 0.
    ZeroBelow,
}

/// A lower and an upper bound, for all channels or for each.
#[derive(Debug, Clone)]
pub(crate) enum Bounds {
    Cap(f64),
    PerChannel { low: Array1<f64>, high: Array1<f64>, outside: Outside },
}

impl Bounds {
    /// min(z, c)
    pub(super) fn cap(at: f64) -> Self {
        Bounds::Cap(at)
    }

    pub(super) fn per_channel(low: Array1<f64>, high: Array1<f64>, outside: Outside) -> Self {
        Bounds::PerChannel { low, high, outside }
    }

    pub(super) fn read(stored: Stored<'_>, outside: Outside) -> Result<Self> {
        let (low, high) =
            (stored.vector("low", stored.width)?, stored.vector("high", stored.width)?);
        Ok(Bounds::per_channel(low, high, outside))
    }

    pub(super) fn apply(&self, row: &mut [f64]) {
        match self {
            Bounds::Cap(at) => crate::span::preprocess::clip_row(row, *at),
            Bounds::PerChannel { low, high, outside } => {
                for ((x, low), high) in row.iter_mut().zip(low).zip(high) {
                    if *x < *low {
                        *x = match outside {
                            Outside::Moved => *low,
                            Outside::ZeroBelow => 0.0,
                        };
                    } else if *x > *high {
                        *x = *high;
                    }
                }
            }
        }
    }

    pub(super) fn found(&self) -> Found {
        match self {
            Bounds::Cap(at) => Found::from([("clip".to_owned(), *at)]),
            Bounds::PerChannel { .. } => Found::new(),
        }
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        if let Bounds::PerChannel { low, high, .. } = self {
            writer.array1(format!("{prefix}low"), low);
            writer.array1(format!("{prefix}high"), high);
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn vra_zeroes_what_is_low_and_bats_raises_it() {
        let bounds =
            |outside| Bounds::per_channel(array![1.0, 1.0, 1.0], array![2.0, 2.0, 2.0], outside);
        let mut row = [0.5, 1.5, 2.5];
        bounds(Outside::ZeroBelow).apply(&mut row);
        assert_eq!(row, [0.0, 1.5, 2.0]);
        let mut row = [0.5, 1.5, 2.5];
        bounds(Outside::Moved).apply(&mut row);
        assert_eq!(row, [1.0, 1.5, 2.0]);
    }
}
