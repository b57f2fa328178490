//! ASH and SCALE: what happens to a row follows from its own largest entries.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::step::{Step, StepParams, check_percent};
use crate::Result;
use crate::graph::{Builder, Op, Value};
use crate::io::Head;
use crate::methods::Stored;
use crate::methods::method::{Entry, GOLDEN_BASELINE};
use crate::methods::option::{Options, PRUNE};
use crate::training::Training;
use crate::training::statistics::Statistics;

const ASH: &str = "Djurisic et al., Extremely Simple Activation Shaping, 2023";
const SCALE: &str = "Xu et al., Scaling for Training Time and Post-hoc Out-of-distribution Detection Enhancement, 2024";

/// The parameters of one of the forms.
macro_rules! form {
    ($(#[$doc:meta])* $type:ident $name:literal $prune:literal $rest:ident $source:ident $summary:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
        pub struct $type {
            /// Percent of the entries that are not among the largest.
            pub prune: f64,
        }

        impl Default for $type {
            fn default() -> Self {
                $type { prune: $prune }
            }
        }

        impl StepParams for $type {
            fn entry() -> Entry<Self> {
                Entry {
                    name: $name,
                    summary: $summary,
                    needs: "features and head; made for features that are never negative",
                    source: $source,
                    parity: GOLDEN_BASELINE,
                    default: Self::default(),
                }
            }

            fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
                options.add(&PRUNE, &mut self.prune).map(drop)
            }

            fn check(&self) -> Result<()> {
                check_percent("prune", self.prune)
            }

            fn wants_non_negative(&self) -> bool {
                true
            }

            fn fit(&self, _: &Training<'_>, _: &Statistics) -> Result<Arc<dyn Step>> {
                Ok(Arc::new(Ash { prune: self.prune, rest: Rest::$rest }))
            }

            fn read(&self, _: Stored<'_>, _: Option<&Head>) -> Result<Arc<dyn Step>> {
                Ok(Arc::new(Ash { prune: self.prune, rest: Rest::$rest }))
            }
        }
    };
}

form!(
    /// Parameters of ASH-B.
    AshBParams "ash-b" 65.0 Binarised ASH
    "the largest activations of a row become equal, the rest 0, then the energy"
);
form!(
    /// Parameters of ASH-P.
    AshPParams "ash-p" 65.0 Kept ASH
    "all but the largest activations of a row become 0, then the energy"
);
form!(
    /// Parameters of ASH-S.
    AshSParams "ash-s" 90.0 Scaled ASH
    "all but the largest activations of a row become 0 and those grow, then the energy"
);
form!(
    /// Parameters of SCALE.
    ScaleParams "scale" 85.0 AllScaled SCALE
    "a row grows with the share of its largest activations, then the energy"
);

/// Largest exponent of a factor: beyond it single precision overflows. Rows of non-negative entries
/// reach it only when nearly all of them are pruned.
const LARGEST_EXPONENT: f64 = 80.0;

/// How many entries of a row are among the largest, with this percent of them not.
pub(crate) fn count_largest(width: usize, prune: f64) -> usize {
    // The public code rounds half to even, as Python does.
    width.saturating_sub((width as f64 * prune / 100.0).round_ties_even() as usize)
}

/// SCALE of a row.
pub(crate) fn scale_row(row: &mut [f64], prune: f64) {
    Ash { prune, rest: Rest::AllScaled }.apply_to_row(row);
}

/// The same within a graph.
pub(crate) fn scale_graph(rows: Value, prune: f64, builder: &mut Builder<'_>) -> Value {
    Ash { prune, rest: Rest::AllScaled }.graph(rows, builder).0
}

/// What becomes of the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// ASH-B: the largest become (sum of the row)/(their number), the rest 0.
    Binarised,
    /// ASH-P: the largest stay, the rest becomes 0.
    Kept,
    /// ASH-S: as ASH-P, times exp(sum of the row / sum of the largest).
    Scaled,
    /// SCALE: everything times exp(sum of the row / sum of the largest).
    AllScaled,
}

/// A step on the largest entries of each row.
#[derive(Debug, Clone, Copy)]
struct Ash {
    /// Percent of the entries that are not among the largest.
    prune: f64,
    rest: Rest,
}

impl Step for Ash {
    fn apply_to_row(&self, row: &mut [f64]) {
        let width = row.len();
        let kept = count_largest(width, self.prune);
        if kept == 0 {
            if self.rest != Rest::AllScaled {
                row.fill(0.0);
            }
            return;
        }
        // Of equal entries at the edge the first ones count, so that exactly `kept` are chosen.
        let mut order: Vec<u32> = (0..width as u32).collect();
        let by_size =
            |a: &u32, b: &u32| row[*b as usize].total_cmp(&row[*a as usize]).then(a.cmp(b));
        order.select_nth_unstable_by(kept - 1, by_size);
        let (largest, rest) = order.split_at(kept);
        let sum: f64 = row.iter().sum();
        let sum_kept: f64 = {
            let mut sorted = largest.to_vec();
            sorted.sort_unstable();
            sorted.iter().map(|&i| row[i as usize]).sum()
        };
        if self.rest != Rest::AllScaled {
            rest.iter().for_each(|&i| row[i as usize] = 0.0);
        }
        match self.rest {
            Rest::Kept => {}
            Rest::Binarised => {
                largest.iter().for_each(|&i| row[i as usize] = sum / kept as f64);
            }
            Rest::Scaled | Rest::AllScaled => {
                // Without a positive sum there is nothing to scale by.
                if sum_kept > 0.0 {
                    let factor = (sum / sum_kept).min(LARGEST_EXPONENT).exp();
                    row.iter_mut().for_each(|x| *x *= factor);
                }
            }
        }
    }

    fn graph(&self, rows: Value, builder: &mut Builder<'_>) -> (Value, Option<Value>) {
        let kept = count_largest(builder.last_size(rows), self.prune);
        if kept == 0 {
            let unchanged = self.rest == Rest::AllScaled;
            return (if unchanged { rows } else { builder.times(rows, 0.0) }, None);
        }
        let is_kept = largest_graph(rows, kept, builder);
        let zero = builder.scalar(0.0);
        let of_kept = builder.choose(is_kept, rows, zero);
        let sum = builder.sum_kept(rows);
        let factor = |builder: &mut Builder<'_>| {
            let sum_kept = builder.sum_kept(of_kept);
            let positive = builder.node(Op::Greater, &[sum_kept, zero]);
            let one = builder.scalar(1.0);
            let divisor = builder.choose(positive, sum_kept, one);
            let exponent = builder.div(sum, divisor);
            let exponent = builder.at_most(exponent, LARGEST_EXPONENT);
            let factor = builder.exp(exponent);
            builder.choose(positive, factor, one)
        };
        let changed = match self.rest {
            Rest::Kept => of_kept,
            Rest::Binarised => {
                let each = builder.times(sum, 1.0 / kept as f64);
                builder.choose(is_kept, each, zero)
            }
            Rest::Scaled => {
                let factor = factor(builder);
                builder.mul(of_kept, factor)
            }
            Rest::AllScaled => {
                let factor = factor(builder);
                builder.mul(rows, factor)
            }
        };
        (changed, None)
    }
}

/// Which numbers of each row are among the `kept` largest; of equal ones at the edge the first ones are.
fn largest_graph(rows: Value, kept: usize, builder: &mut Builder<'_>) -> Value {
    let (largest, _) = builder.top_k(rows, kept, true);
    let edge = builder.part(largest, kept - 1, kept);
    let above = builder.node(Op::Greater, &[rows, edge]);
    let at_edge = builder.node(Op::Equal, &[rows, edge]);
    let above_count = builder.counted(above);
    let above_count = builder.sum_kept(above_count);
    let places = builder.counted(at_edge);
    let places = builder.node(Op::CumSum { axis: 1 }, &[places]);
    let places = builder.add(places, above_count);
    let all = builder.scalar(kept as f64);
    let in_time = builder.node(Op::LessOrEqual, &[places, all]);
    let at_edge = builder.node(Op::And, &[at_edge, in_time]);
    builder.node(Op::Or, &[above, at_edge])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(rest: Rest, prune: f64, mut row: [f64; 4]) -> [f64; 4] {
        Ash { prune, rest }.apply_to_row(&mut row);
        row
    }

    #[test]
    fn the_four_forms_by_hand() {
        let row = [1.0, 4.0, 0.0, 3.0];
        assert_eq!(apply(Rest::Kept, 50.0, row), [0.0, 4.0, 0.0, 3.0]);
        assert_eq!(apply(Rest::Binarised, 50.0, row), [0.0, 4.0, 0.0, 4.0]);
        let factor = (8.0f64 / 7.0).exp();
        assert_eq!(apply(Rest::Scaled, 50.0, row), [0.0, 4.0 * factor, 0.0, 3.0 * factor]);
        assert_eq!(apply(Rest::AllScaled, 50.0, row), row.map(|x| x * factor));
    }

    #[test]
    fn ties_keep_exactly_as_many_as_asked_and_zero_rows_stay() {
        assert_eq!(apply(Rest::Kept, 50.0, [2.0; 4]), [2.0, 2.0, 0.0, 0.0]);
        assert_eq!(apply(Rest::Scaled, 50.0, [0.0; 4]), [0.0; 4]);
        assert_eq!(apply(Rest::Kept, 99.0, [1.0; 4]), [0.0; 4]);
    }
}
