//! Exact percentiles of all entries of a file, in bounded memory.
//!
//! An order statistic is found digit by digit: a pass counts the entries by the next sixteen bits
//! of their (order-preserving) bit pattern among those that share the digits found so far. Two
//! passes settle `f16`, three settle `f32` and four `f64`; memory is one table of 65,536 counts.

use ndarray::{Array2, Axis};
use rayon::prelude::*;

use crate::io::{FeatureSource, read_finite};
use crate::observer::{Observer, check_interrupt};
use crate::{Error, Result};

const DIGIT_BITS: u32 = 16;
const DIGITS: usize = 1 << DIGIT_BITS;
const ROWS_PER_TASK: usize = 256;
const TASKS_PER_ROUND: usize = 64;

/// The p-th percentile (0 to 100) of all entries of the rows that `keep` accepts, by linear
/// interpolation between order statistics at p/100·(n − 1) (type 7).
pub(crate) fn percentile(
    source: &dyn FeatureSource,
    keep: &(dyn Fn(usize) -> bool + Sync),
    percent: f64,
    observer: &dyn Observer,
) -> Result<f64> {
    let rows = (0..source.rows()).filter(|&row| keep(row)).count();
    let entries = rows as u64 * source.width() as u64;
    if entries == 0 {
        return Err(Error::TooFewRows { what: source.name().to_owned(), expected: 1, got: 0 });
    }
    let position = percent / 100.0 * (entries - 1) as f64;
    let below = position.floor();
    let lower = order_statistic(source, keep, below as u64, observer)?;
    let fraction = position - below;
    if fraction == 0.0 {
        return Ok(lower.value);
    }
    let upper = if lower.last_copy {
        order_statistic(source, keep, below as u64 + 1, observer)?.value
    } else {
        lower.value
    };
    Ok(lower.value + fraction * (upper - lower.value))
}

struct OrderStatistic {
    value: f64,
    /// Whether the next larger order statistic has another value.
    last_copy: bool,
}

/// The entry that has exactly `rank` entries before it in ascending order.
fn order_statistic(
    source: &dyn FeatureSource,
    keep: &(dyn Fn(usize) -> bool + Sync),
    mut rank: u64,
    observer: &dyn Observer,
) -> Result<OrderStatistic> {
    let mut prefix = 0u64;
    let mut found_bits = 0;
    loop {
        let shift = 64 - DIGIT_BITS - found_bits;
        let counts = count_digits(source, keep, prefix, found_bits, shift, observer)?;
        let mut digit = 0;
        while rank >= counts[digit] {
            rank -= counts[digit];
            digit += 1;
        }
        prefix |= (digit as u64) << shift;
        found_bits += DIGIT_BITS;
        if found_bits == 64 {
            return Ok(OrderStatistic {
                value: from_ordered(prefix),
                last_copy: rank + 1 == counts[digit],
            });
        }
    }
}

/// Counts entries by the digit at `shift`, among those whose first `found_bits` bits are `prefix`'s.
fn count_digits(
    source: &dyn FeatureSource,
    keep: &(dyn Fn(usize) -> bool + Sync),
    prefix: u64,
    found_bits: u32,
    shift: u32,
    observer: &dyn Observer,
) -> Result<Vec<u64>> {
    let rows = source.rows();
    observer.begin("percentile of the activations", rows as u64);
    let mut counts = vec![0; DIGITS];
    let round = ROWS_PER_TASK * TASKS_PER_ROUND;
    for start in (0..rows).step_by(round) {
        check_interrupt(observer)?;
        let end = (start + round).min(rows);
        let partial = (start..end)
            .into_par_iter()
            .step_by(ROWS_PER_TASK)
            .map(|from| -> Result<Vec<u64>> {
                let to = (from + ROWS_PER_TASK).min(end);
                let mut block = Array2::<f64>::zeros((to - from, source.width()));
                read_finite(source, from, block.view_mut())?;
                let mut counts = vec![0; DIGITS];
                for (i, row) in block.axis_iter(Axis(0)).enumerate() {
                    if !keep(from + i) {
                        continue;
                    }
                    for &x in row {
                        let bits = to_ordered(x);
                        if found_bits == 0 || (bits ^ prefix) >> (64 - found_bits) == 0 {
                            counts[(bits >> shift) as usize % DIGITS] += 1;
                        }
                    }
                }
                Ok(counts)
            })
            .reduce(
                || Ok(vec![0; DIGITS]),
                // Of two errors the left one: its rows come first.
                |a, b| {
                    let (mut a, b) = (a?, b?);
                    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                    Ok(a)
                },
            )?;
        counts.iter_mut().zip(partial).for_each(|(a, b)| *a += b);
        source.release(start..end);
        observer.advance((end - start) as u64);
    }
    Ok(counts)
}

/// Bits that sort as the numbers do.
fn to_ordered(x: f64) -> u64 {
    let bits = (x + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn from_ordered(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;

    fn direct(values: &[f64], percent: f64) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let position = percent / 100.0 * (sorted.len() - 1) as f64;
        let low = sorted[position.floor() as usize];
        let high = sorted[position.ceil() as usize];
        low + (position - position.floor()) * (high - low)
    }

    #[test]
    fn equals_sorting_with_ties_negatives_and_zero_of_both_signs() {
        let x = Array2::from_shape_fn((600, 7), |(i, j)| {
            let v = ((i * 37 + j * 101) % 97) as f64 - 48.0;
            if v == 0.0 && i % 2 == 0 { -0.0 } else { v / 7.0 }
        });
        let values: Vec<f64> = x.iter().copied().collect();
        for percent in [0.0, 0.01, 10.0, 50.0, 90.0, 99.97, 100.0] {
            let got = percentile(&x.view(), &|_| true, percent, &Silent).unwrap();
            assert_eq!(got, direct(&values, percent), "{percent}");
        }
    }

    #[test]
    fn leaves_out_rows_that_are_not_kept() {
        let x = ndarray::array![[1.0], [100.0], [3.0]];
        assert_eq!(percentile(&x.view(), &|row| row != 1, 100.0, &Silent).unwrap(), 3.0);
        assert!(percentile(&x.view(), &|_| false, 50.0, &Silent).is_err());
    }
}
