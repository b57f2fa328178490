//! Exact percentiles of all entries of a file, in bounded memory.
//!
//! An order statistic is found digit by digit: a pass counts the entries by the next sixteen bits
//! of their (order-preserving) bit pattern among those that share the digits found so far. Two
//! passes settle `f16`, three settle `f32` and four `f64`, because bits that no entry uses need no
//! look; memory is a table of 65,536 counts per distinct order statistic.

use ndarray::{Array1, Array2, Axis};
use rayon::prelude::*;

use crate::error::in_order;
use crate::io::observer::{Observer, check_interrupt};
use crate::io::{FeatureSource, read_finite, read_rows};
use crate::numeric::percentile::{between, place};
use crate::{Error, Result};

const DIGIT_BITS: u32 = 16;
const DIGITS: usize = 1 << DIGIT_BITS;
const ROWS_PER_TASK: usize = 256;
const TASKS_PER_ROUND: usize = 64;

/// Percentiles (0 to 100) of all entries of the rows that `keep` accepts, by linear interpolation
/// between order statistics at p/100·(n − 1) (type 7). They are found together: as many passes for
/// several as for one.
pub(crate) fn percentiles(
    source: &dyn FeatureSource,
    keep: &(dyn Fn(usize) -> bool + Sync),
    percents: &[f64],
    observer: &dyn Observer,
) -> Result<Vec<f64>> {
    let rows = (0..source.rows()).filter(|&row| keep(row)).count();
    let entries = rows as u64 * source.width() as u64;
    if entries == 0 {
        return Err(Error::TooFewRows { what: source.name().to_owned(), expected: 1, got: 0 });
    }
    let places: Vec<_> =
        percents.iter().map(|percent| place(percent / 100.0, entries as usize)).collect();
    let ranks = places.iter().flat_map(|&(below, above, _)| [below as u64, above as u64]);
    let mut targets: Vec<Target<u64>> = ranks.map(|rank| Target { prefix: 0, rank }).collect();
    let (mut found, mut used_bits) = (0, u64::MAX);
    while found < 64 && (found == 0 || used_bits << found != 0) {
        let shift = 64 - DIGIT_BITS - found;
        let pass = count_digits(source, keep, &targets, found, shift, observer)?;
        for (target, table) in targets.iter_mut().zip(pass.tables) {
            let counts = &pass.counts[table];
            let mut digit = 0;
            while target.rank >= counts[digit] {
                target.rank -= counts[digit];
                digit += 1;
            }
            target.prefix |= (digit as u64) << shift;
        }
        used_bits = pass.used_bits;
        found += DIGIT_BITS;
    }
    // Bits that no entry uses are 0, which for negative numbers sorts as 1.
    let unused = if found == 64 { 0 } else { u64::MAX >> found };
    let value = |target: &Target<u64>| {
        let negative = target.prefix >> 63 == 0;
        from_ordered(if negative { target.prefix | unused } else { target.prefix })
    };
    let pairs = places.iter().zip(targets.chunks_exact(2));
    Ok(pairs.map(|(place, pair)| between(value(&pair[0]), value(&pair[1]), place.2)).collect())
}

/// One percentile.
pub(crate) fn percentile(
    source: &dyn FeatureSource,
    keep: &(dyn Fn(usize) -> bool + Sync),
    percent: f64,
    observer: &dyn Observer,
) -> Result<f64> {
    percentiles(source, keep, &[percent], observer).map(|found| found[0])
}

/// An order statistic on the way to being found.
#[derive(Debug, Clone, Copy)]
struct Target<K> {
    prefix: K,
    /// Rank among the values that share the prefix.
    rank: u64,
}

/// What a pass over all entries counted.
struct Pass {
    /// Per distinct prefix of the targets, the entries by their next digit.
    counts: Vec<Vec<u64>>,
    /// The table of each target.
    tables: Vec<usize>,
    /// Bits that are set in any entry's pattern.
    used_bits: u64,
}

/// Counts entries by the digit at `shift`, among those whose first `found` bits are a target's.
fn count_digits(
    source: &dyn FeatureSource,
    keep: &(dyn Fn(usize) -> bool + Sync),
    targets: &[Target<u64>],
    found: u32,
    shift: u32,
    observer: &dyn Observer,
) -> Result<Pass> {
    let mut prefixes: Vec<u64> = targets.iter().map(|target| target.prefix).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    let tables = targets.iter().map(|t| prefixes.partition_point(|&p| p < t.prefix)).collect();
    let rows = source.rows();
    observer.begin("percentiles of the activations", rows as u64);
    let empty = || (vec![vec![0u64; DIGITS]; prefixes.len()], 0u64);
    let (mut counts, mut used_bits) = empty();
    let round = ROWS_PER_TASK * TASKS_PER_ROUND;
    for start in (0..rows).step_by(round) {
        check_interrupt(observer)?;
        let end = (start + round).min(rows);
        let tasks = (start..end)
            .into_par_iter()
            .step_by(ROWS_PER_TASK)
            .map(|from| {
                let to = (from + ROWS_PER_TASK).min(end);
                let block = read_rows::<f64>(source, from..to)?;
                let (mut counts, mut used_bits) = empty();
                let kept = block.axis_iter(Axis(0)).enumerate().filter(|(i, _)| keep(from + i));
                for &x in kept.flat_map(|(_, row)| row) {
                    used_bits |= x.to_bits();
                    let bits = to_ordered(x);
                    for (prefix, counts) in prefixes.iter().zip(&mut counts) {
                        if found == 0 || (bits ^ prefix) >> (64 - found) == 0 {
                            counts[(bits >> shift) as usize % DIGITS] += 1;
                        }
                    }
                }
                Ok((counts, used_bits))
            })
            .collect();
        for (more, bits) in in_order(tasks)? {
            used_bits |= bits;
            for (counts, more) in counts.iter_mut().zip(more) {
                counts.iter_mut().zip(more).for_each(|(a, b)| *a += b);
            }
        }
        observer.advance((end - start) as u64);
    }
    Ok(Pass { counts, tables, used_bits })
}

/// Bits that sort as the numbers do.
fn to_ordered(x: f64) -> u64 {
    let bits = (x + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn from_ordered(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
}

/// Bits of a channel's digit: three digits settle an `f32`.
const CHANNEL_DIGITS: [u32; 3] = [11, 11, 10];
const CHANNEL_COUNTS: usize = 1 << 11;
const CHANNELS_PER_TASK: usize = 16;

/// Quantiles (0 to 1, type 7) of every channel on its own, one array per quantile; exact for values
/// that an `f32` holds. Three passes; memory is two tables of 2,048 counts per channel and quantile.
pub(crate) fn channel_quantiles(
    source: &dyn FeatureSource,
    keep: &(dyn Fn(usize) -> bool + Sync),
    quantiles: &[f64],
    observer: &dyn Observer,
) -> Result<Vec<Array1<f64>>> {
    let rows = (0..source.rows()).filter(|&row| keep(row)).count();
    if rows == 0 {
        return Err(Error::TooFewRows { what: source.name().to_owned(), expected: 1, got: 0 });
    }
    let places: Vec<_> = quantiles.iter().map(|&q| place(q, rows)).collect();
    let ranks = places.iter().flat_map(|&(below, above, _)| [below as u64, above as u64]);
    let targets: Vec<Target<u32>> = ranks.map(|rank| Target { prefix: 0, rank }).collect();
    let mut channels = vec![targets; source.width()];
    let mut found = 0;
    for bits in CHANNEL_DIGITS {
        let counts = count_channel_digits(source, keep, &channels, found, bits, observer)?;
        let shift = 32 - found - bits;
        for (targets, counts) in channels.iter_mut().zip(counts) {
            for (target, counts) in targets.iter_mut().zip(counts.chunks(CHANNEL_COUNTS)) {
                let mut digit = 0;
                while target.rank >= u64::from(counts[digit]) {
                    target.rank -= u64::from(counts[digit]);
                    digit += 1;
                }
                target.prefix |= (digit as u32) << shift;
            }
        }
        found += bits;
    }
    let value = |target: &Target<u32>| f64::from(from_ordered_f32(target.prefix));
    let quantile = |index: usize| {
        let of_channel = |targets: &Vec<Target<u32>>| {
            between(value(&targets[2 * index]), value(&targets[2 * index + 1]), places[index].2)
        };
        channels.iter().map(of_channel).collect()
    };
    Ok((0..quantiles.len()).map(quantile).collect())
}

/// Per channel, a table of counts per target: how many values that share the target's first
/// `found` bits have each digit next.
fn count_channel_digits(
    source: &dyn FeatureSource,
    keep: &(dyn Fn(usize) -> bool + Sync),
    channels: &[Vec<Target<u32>>],
    found: u32,
    bits: u32,
    observer: &dyn Observer,
) -> Result<Vec<Vec<u32>>> {
    let (rows, width) = (source.rows(), source.width());
    observer.begin("quantiles of the channels", rows as u64);
    let mut counts: Vec<Vec<u32>> =
        channels.iter().map(|targets| vec![0; targets.len() * CHANNEL_COUNTS]).collect();
    let shift = 32 - found - bits;
    let round = crate::training::chunk_rows(width);
    let mut block = Array2::<f32>::zeros((round.min(rows), width));
    for start in (0..rows).step_by(round) {
        check_interrupt(observer)?;
        let end = (start + round).min(rows);
        let mut block = block.slice_mut(ndarray::s![..end - start, ..]);
        read_finite(source, start, block.view_mut())?;
        let kept: Vec<bool> = (start..end).map(keep).collect();
        let tasks = counts.par_chunks_mut(CHANNELS_PER_TASK).enumerate();
        tasks.for_each(|(task, counts)| {
            let first = task * CHANNELS_PER_TASK;
            for (row, _) in block.rows().into_iter().zip(&kept).filter(|(_, kept)| **kept) {
                for (offset, counts) in counts.iter_mut().enumerate() {
                    let key = to_ordered_f32(row[first + offset]);
                    let digit = (key >> shift) as usize % (1 << bits);
                    let tables = counts.chunks_mut(CHANNEL_COUNTS);
                    for (target, table) in channels[first + offset].iter().zip(tables) {
                        if found == 0 || (key ^ target.prefix) >> (32 - found) == 0 {
                            table[digit] += 1;
                        }
                    }
                }
            }
        });
        observer.advance((end - start) as u64);
    }
    Ok(counts)
}

fn to_ordered_f32(x: f32) -> u32 {
    let bits = (x + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

fn from_ordered_f32(bits: u32) -> f32 {
    f32::from_bits(if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::observer::Silent;
    use crate::numeric::percentile::quantile_of;

    #[test]
    fn channel_quantiles_and_percentiles_in_memory_equal_sorting() {
        let x = Array2::from_shape_fn((601, 37), |(i, j)| {
            let v = ((i * 37 + j * 101) % 97) as f64 - 48.0;
            f64::from(v as f32 / 7.0) * if j == 5 { 0.0 } else { 1.0 }
        });
        let quantiles = [0.0, 0.013, 0.5, 0.6, 0.9, 1.0];
        let keep = |row: usize| row % 3 != 1;
        let got = channel_quantiles(&x.view(), &keep, &quantiles, &Silent).unwrap();
        for (q, got) in quantiles.iter().zip(got) {
            for (column, got) in x.columns().into_iter().zip(got) {
                let kept = column.iter().enumerate().filter(|(row, _)| keep(*row));
                let mut values: Vec<f64> = kept.map(|(_, x)| *x).collect();
                let expected = direct(&values, 100.0 * q);
                assert!((got - expected).abs() <= 1e-12, "{q}: {got} {expected}");
                assert_eq!(quantile_of(&mut values, *q), expected);
            }
        }
    }

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
        let percents = [20.0, 90.0];
        let together = percentiles(&x.view(), &|_| true, &percents, &Silent).unwrap();
        assert_eq!(together, percents.map(|percent| direct(&values, percent)));
    }

    #[test]
    fn passes_follow_the_precision_of_the_values() {
        struct Passes(std::sync::atomic::AtomicUsize);
        impl Observer for Passes {
            fn begin(&self, _: &str, _: u64) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let raw = |i: usize| (i as f64 * 0.7311).sin();
        let raw = Array2::from_shape_fn((300, 3), |(i, j)| raw(3 * i + j));
        for (x, expected) in [
            (raw.mapv(|x| f64::from(half::f16::from_f64(x))), 2),
            (raw.mapv(|x| f64::from(x as f32)), 3),
            (raw, 4),
        ] {
            let passes = Passes(0.into());
            let got = percentile(&x.view(), &|_| true, 33.3, &passes).unwrap();
            assert_eq!(got, direct(x.as_slice().unwrap(), 33.3));
            assert_eq!(passes.0.into_inner(), expected);
        }
    }

    #[test]
    fn leaves_out_rows_that_are_not_kept() {
        let x = ndarray::array![[1.0], [100.0], [3.0]];
        assert_eq!(percentile(&x.view(), &|row| row != 1, 100.0, &Silent).unwrap(), 3.0);
        assert!(percentile(&x.view(), &|_| false, 50.0, &Silent).is_err());
    }
}
