//! Values outside of bounds: ReAct's cap, BATS's range per channel, VRA's.

use ndarray::Array1;

use super::step::Step;
use crate::Result;
use crate::graph::{Builder, Op, Value};
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
    pub(super) fn read(stored: Stored<'_>, outside: Outside) -> Result<Self> {
        let (low, high) =
            (stored.vector("low", stored.width)?, stored.vector("high", stored.width)?);
        Ok(Bounds::PerChannel { low, high, outside })
    }
}

impl Step for Bounds {
    fn apply_to_row(&self, row: &mut [f64]) {
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

    fn graph(&self, rows: Value, builder: &mut Builder<'_>) -> (Value, Option<Value>) {
        let changed = match self {
            Bounds::Cap(at) => builder.at_most(rows, *at),
            Bounds::PerChannel { low, high, outside } => {
                let (low, high) = (builder.vector("low", low), builder.vector("high", high));
                let below = builder.node(Op::Less, &[rows, low]);
                let capped = builder.smaller(rows, high);
                let instead = match outside {
                    Outside::Moved => low,
                    Outside::ZeroBelow => builder.scalar(0.0),
                };
                builder.choose(below, instead, capped)
            }
        };
        (changed, None)
    }

    fn found(&self) -> Found {
        match self {
            Bounds::Cap(at) => Found::from([("clip".to_owned(), *at)]),
            Bounds::PerChannel { .. } => Found::new(),
        }
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
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
        let (low, high) = (array![1.0, 1.0, 1.0], array![2.0, 2.0, 2.0]);
        let bounds = |outside| Bounds::PerChannel { low: low.clone(), high: high.clone(), outside };
        let mut row = [0.5, 1.5, 2.5];
        bounds(Outside::ZeroBelow).apply_to_row(&mut row);
        assert_eq!(row, [0.0, 1.5, 2.0]);
        let mut row = [0.5, 1.5, 2.5];
        bounds(Outside::Moved).apply_to_row(&mut row);
        assert_eq!(row, [1.0, 1.5, 2.0]);
    }
}
