//! Exact percentiles of all entries of a file, in bounded memory.
//!
//! An order statistic is found digit by digit: a pass counts the entries by the next sixteen bits
//! of their (order-preserving) bit pattern among those that share the digits found so far. Two
//! passes settle `f16`, three settle `f32` and four `f64`, because bits that no entry uses need no
//! look; memory is a table of 65,536 counts per distinct order statistic.

use ndarray::{Array1, Array2, Axis};
use rayon::prelude::*;

use crate::error::in_order;
use crate::io::observer::check_interrupt;
use crate::io::{read_finite, read_rows};
use crate::numeric::percentile::{between, place};
use crate::training::Training;
use crate::training::part::{Field, Part};
use crate::{Error, Result};

const DIGIT_BITS: u32 = 16;
const DIGITS: usize = 1 << DIGIT_BITS;
const ROWS_PER_TASK: usize = 256;
const TASKS_PER_ROUND: usize = 64;

/// Percentiles (0 to 100) of all entries of the rows of a fit, by linear interpolation between
/// order statistics at p/100·(n − 1) (type 7). They are found together: as many passes for
/// several as for one.
pub(crate) fn percentiles(training: &Training<'_>, percents: &[f64]) -> Result<Vec<f64>> {
    let data = training.data;
    let entries = training.rows()? as u64 * data.width() as u64;
    if entries == 0 {
        return Err(Error::TooFewRows { what: data.name.clone(), expected: 1, got: 0 });
    }
    let places: Vec<_> =
        percents.iter().map(|percent| place(percent / 100.0, entries as usize)).collect();
    let ranks = places.iter().flat_map(|&(below, above, _)| [below as u64, above as u64]);
    let mut targets: Vec<Target<u64>> = ranks.map(|rank| Target { prefix: 0, rank }).collect();
    let (mut found, mut used_bits) = (0, u64::MAX);
    while found < 64 && (found == 0 || used_bits << found != 0) {
        let shift = 64 - DIGIT_BITS - found;
        let mut prefixes: Vec<u64> = targets.iter().map(|target| target.prefix).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        let mut pass = training.pass(STAGE, || count_digits(training, &prefixes, found, shift))?;
        let counts: Vec<u64> = pass.take("counts")?;
        for target in &mut targets {
            let table = prefixes.partition_point(|&prefix| prefix < target.prefix);
            let digit = target.next_digit(counts.chunks(DIGITS).nth(table).unwrap_or(&[]))?;
            target.prefix |= (digit as u64) << shift;
        }
        used_bits = pass.take("used bits")?;
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
pub(crate) fn percentile(training: &Training<'_>, percent: f64) -> Result<f64> {
    percentiles(training, &[percent]).map(|found| found[0])
}

/// An order statistic on the way to being found.
#[derive(Debug, Clone, Copy)]
struct Target<K> {
    prefix: K,
    /// Rank among the values that share the prefix.
    rank: u64,
}

impl<K> Target<K> {
    /// The digit that comes next, from how many values there are with each.
    fn next_digit(&mut self, counts: &[u64]) -> Result<usize> {
        for (digit, &count) in counts.iter().enumerate() {
            if self.rank < count {
                return Ok(digit);
            }
            self.rank -= count;
        }
        Err(Error::Plan(
            "a pass counted fewer values than there are rows: parts are missing".into(),
        ))
    }
}

const STAGE: &str = "percentiles of the activations";

/// Counts entries of the rows at hand by the digit at `shift`: a table per prefix, of those whose first
/// `found` bits it is; and the bits that are set in any entry's pattern.
fn count_digits(training: &Training<'_>, prefixes: &[u64], found: u32, shift: u32) -> Result<Part> {
    let (all, observer) = (training.at_hand(), training.observer);
    observer.begin(STAGE, all.len() as u64);
    let empty = || (vec![0u64; DIGITS * prefixes.len()], 0u64);
    let (mut counts, mut used_bits) = empty();
    let round = ROWS_PER_TASK * TASKS_PER_ROUND;
    for start in all.clone().step_by(round) {
        check_interrupt(observer)?;
        let end = (start + round).min(all.end);
        let tasks = (start..end)
            .into_par_iter()
            .step_by(ROWS_PER_TASK)
            .map(|from| {
                let to = (from + ROWS_PER_TASK).min(end);
                let block = read_rows::<f64>(&*training.data.features, from..to)?;
                let (mut counts, mut used_bits) = empty();
                let rows = block.axis_iter(Axis(0)).enumerate();
                let kept = rows.filter(|(i, _)| training.hold_out.keeps(from + i));
                for &x in kept.flat_map(|(_, row)| row) {
                    used_bits |= x.to_bits();
                    let bits = to_ordered(x);
                    for (prefix, counts) in prefixes.iter().zip(counts.chunks_mut(DIGITS)) {
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
            counts.iter_mut().zip(more).for_each(|(a, b)| *a += b);
        }
        observer.advance((end - start) as u64);
    }
    Ok(Part::default()
        .with("counts", Field::Counts(counts))
        .with("used bits", Field::Bits(used_bits)))
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
    training: &Training<'_>,
    quantiles: &[f64],
) -> Result<Vec<Array1<f64>>> {
    let data = training.data;
    let rows = training.rows()?;
    if rows == 0 {
        return Err(Error::TooFewRows { what: data.name.clone(), expected: 1, got: 0 });
    }
    let places: Vec<_> = quantiles.iter().map(|&q| place(q, rows)).collect();
    let ranks = places.iter().flat_map(|&(below, above, _)| [below as u64, above as u64]);
    let targets: Vec<Target<u32>> = ranks.map(|rank| Target { prefix: 0, rank }).collect();
    let mut channels = vec![targets; data.width()];
    let mut found = 0;
    for bits in CHANNEL_DIGITS {
        let mut pass = training.pass(CHANNEL_STAGE, || {
            let counts = count_channel_digits(training, &channels, found, bits)?;
            Ok(Part::default().with("counts", Field::Counts(counts)))
        })?;
        let counts: Vec<u64> = pass.take("counts")?;
        let shift = 32 - found - bits;
        for (target, counts) in channels.iter_mut().flatten().zip(counts.chunks(CHANNEL_COUNTS)) {
            target.prefix |= (target.next_digit(counts)? as u32) << shift;
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

const CHANNEL_STAGE: &str = "quantiles of the channels";

/// Per channel, a table of counts per target: how many values of the rows at hand that share the target's
/// first `found` bits have each digit next.
fn count_channel_digits(
    training: &Training<'_>,
    channels: &[Vec<Target<u32>>],
    found: u32,
    bits: u32,
) -> Result<Vec<u64>> {
    let (data, all, observer) = (training.data, training.at_hand(), training.observer);
    observer.begin(CHANNEL_STAGE, all.len() as u64);
    let of_channel = channels.first().map_or(0, Vec::len) * CHANNEL_COUNTS;
    let mut counts = vec![0; channels.len() * of_channel];
    let shift = 32 - found - bits;
    let round = crate::training::chunk_rows(data.width());
    let mut block = Array2::<f32>::zeros((round.min(all.len()), data.width()));
    for start in all.clone().step_by(round) {
        check_interrupt(observer)?;
        let end = (start + round).min(all.end);
        let mut block = block.slice_mut(ndarray::s![..end - start, ..]);
        read_finite(&*data.features, start, block.view_mut())?;
        let kept: Vec<bool> = (start..end).map(|row| training.hold_out.keeps(row)).collect();
        let tasks = counts.par_chunks_mut(CHANNELS_PER_TASK * of_channel).enumerate();
        tasks.for_each(|(task, counts)| {
            let first = task * CHANNELS_PER_TASK;
            for (row, _) in block.rows().into_iter().zip(&kept).filter(|(_, kept)| **kept) {
                for (offset, counts) in counts.chunks_mut(of_channel).enumerate() {
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
    use crate::HoldOut;
    use crate::io::Dataset;
    use crate::io::observer::{Observer, Silent};
    use crate::numeric::percentile::quantile_of;

    #[test]
    fn channel_quantiles_and_percentiles_in_memory_equal_sorting() {
        let x = Array2::from_shape_fn((601, 37), |(i, j)| {
            let v = ((i * 37 + j * 101) % 97) as f64 - 48.0;
            f64::from(v as f32 / 7.0) * if j == 5 { 0.0 } else { 1.0 }
        });
        let quantiles = [0.0, 0.013, 0.5, 0.6, 0.9, 1.0];
        let data = Dataset::new("x", x.view());
        let training = some_of(&data);
        let keep = |row: usize| training.hold_out.keeps(row);
        assert!((100..500).contains(&training.rows().unwrap()));
        let got = channel_quantiles(&training, &quantiles).unwrap();
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

    /// A fit of about two thirds of the rows.
    fn some_of<'a>(data: &'a Dataset<'a>) -> Training<'a> {
        Training { hold_out: HoldOut::new(0.33, 5), ..Training::new(data, None, &Silent) }
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
        let data = Dataset::new("x", x.view());
        let training = Training::new(&data, None, &Silent);
        for percent in [0.0, 0.01, 10.0, 50.0, 90.0, 99.97, 100.0] {
            let got = percentile(&training, percent).unwrap();
            assert_eq!(got, direct(&values, percent), "{percent}");
        }
        let percents = [20.0, 90.0];
        let together = percentiles(&training, &percents).unwrap();
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
            let data = Dataset::new("x", x.view());
            let got = percentile(&Training::new(&data, None, &passes), 33.3).unwrap();
            assert_eq!(got, direct(x.as_slice().unwrap(), 33.3));
            assert_eq!(passes.0.into_inner(), expected);
        }
    }

    #[test]
    fn leaves_out_rows_that_are_not_kept() {
        let x = Array2::from_shape_fn((300, 1), |(i, _)| i as f64);
        let data = Dataset::new("x", x.view());
        let training = some_of(&data);
        let kept: Vec<f64> = training.kept_rows().map(|row| row as f64).collect();
        assert_eq!(percentile(&training, 100.0).unwrap(), *kept.last().unwrap());
        assert_eq!(percentile(&training, 50.0).unwrap(), direct(&kept, 50.0));
        let none = Training { hold_out: HoldOut::new(1.0, 5), ..training };
        assert!(percentile(&none, 50.0).is_err());
    }
}
