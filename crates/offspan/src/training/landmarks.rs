//! Which training rows serve as Nyström landmarks.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::in_order;
use crate::error::names::no_such_name;
use crate::error::wording::{Data, Setting};
use crate::io::observer::check_interrupt;
use crate::numeric::random::{Random, Stream};
use crate::training::Training;
use crate::training::holdout::{HoldOut, at_ranks};
use crate::training::logits::LogitSource;
use crate::training::part::{Field, Part, Smallest};
use crate::{Error, Result};

/// How landmarks are chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// The rows with the smallest energy score: those the network is least sure of (the paper).
    #[default]
    LowEnergy,
    /// The rows with the largest energy score.
    HighEnergy,
    /// A seeded uniform sample without replacement.
    Uniform,
    /// These rows.
    Given(Vec<u64>),
}

impl Sampling {
    /// The names of those that can be asked for by name.
    pub const NAMES: &'static [&'static str] = &["low-energy", "high-energy", "uniform"];

    /// Whether energies are needed.
    #[must_use]
    pub fn needs_energy(&self) -> bool {
        matches!(self, Sampling::LowEnergy | Sampling::HighEnergy)
    }

    /// The name as users write it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Sampling::LowEnergy => "low-energy",
            Sampling::HighEnergy => "high-energy",
            Sampling::Uniform => "uniform",
            Sampling::Given(_) => "given",
        }
    }
}

impl std::str::FromStr for Sampling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = [Sampling::LowEnergy, Sampling::HighEnergy, Sampling::Uniform];
        let found = named.into_iter().find(|sampling| sampling.name() == text);
        found.ok_or_else(|| no_such_name(Sampling::NAMES, text))
    }
}

/// A seeded uniform choice of `count` among `rows` rows, as [`Sampling::Uniform`] makes it; ascending
/// row numbers.
///
/// # Errors
/// If there are not so many rows.
pub fn uniform_rows(rows: usize, count: usize, seed: u64) -> Result<Vec<usize>> {
    uniform(count, rows, &[], seed)
}

/// Rows per task when energies are computed.
const BLOCK: usize = 256;
const BLOCKS_PER_ROUND: usize = 32;

/// Chooses `count` rows of a fit; ascending row numbers. `energies` are there if the choice needs them.
///
/// Equal energies are ordered by row number, so the choice does not depend on threads. Memory is
/// for the chosen rows only, not for all.
pub(crate) fn choose(
    sampling: &Sampling,
    count: usize,
    training: &Training<'_>,
    energies: Option<&LogitSource<'_>>,
    seed: u64,
) -> Result<Vec<usize>> {
    let rows = training.data.rows();
    let sign = match sampling {
        Sampling::Given(chosen) => {
            check_count(count, training.rows()?)?;
            return training.settled_rows(|| given(chosen, rows, training.hold_out));
        }
        Sampling::Uniform => {
            return training.settled_rows(|| uniform(count, rows, &training.held_out(), seed));
        }
        Sampling::LowEnergy => 1.0,
        Sampling::HighEnergy => -1.0,
    };
    let energies =
        energies.unwrap_or_else(|| unreachable!("the fit asks for energies before it starts"));
    let stage = "energies of the training rows";
    check_count(count, training.rows()?)?;
    let mut part = training.pass(stage, || {
        let smallest = smallest(energies, count, training, sign, stage)?;
        Ok(Part::default().with("smallest", Field::Smallest(smallest)))
    })?;
    Ok(part.take::<Smallest>("smallest")?.rows())
}

/// A seeded uniform choice among the rows that are not held out; ascending.
pub(crate) fn uniform(
    count: usize,
    rows: usize,
    held_out: &[usize],
    seed: u64,
) -> Result<Vec<usize>> {
    let available = rows - held_out.len();
    check_count(count, available)?;
    let ranks = Random::new(seed, Stream::Landmarks).sample(available as u64, count);
    Ok(at_ranks(held_out, ranks.into_iter().map(|rank| rank as usize)).collect())
}

fn check_count(count: usize, available: usize) -> Result<()> {
    if (1..=available).contains(&count) {
        return Ok(());
    }
    Err(Error::parameter(
        "landmarks",
        format!("from 1 to {available}, the training rows used for the fit"),
        count,
    ))
}

fn given(chosen: &[u64], rows: usize, hold_out: HoldOut) -> Result<Vec<usize>> {
    let mut out = Vec::with_capacity(chosen.len());
    for &row in chosen {
        match usize::try_from(row) {
            Ok(row) if row < rows && hold_out.keeps(row) => out.push(row),
            Ok(index) if index < rows => {
                return Err(Error::parameter(
                    "landmark-rows",
                    format!(
                        "rows that are not held out for the threshold (use {} or {})",
                        Setting("hold-out", "0"),
                        Data("calibrate")
                    ),
                    row,
                ));
            }
            _ => {
                return Err(Error::parameter(
                    "landmark-rows",
                    format!("row numbers from 0 to {}", rows - 1),
                    row,
                ));
            }
        }
    }
    out.sort_unstable();
    out.dedup();
    Ok(out)
}

/// The `count` rows at hand with the smallest sign·energy.
fn smallest(
    energies: &LogitSource<'_>,
    count: usize,
    training: &Training<'_>,
    sign: f64,
    stage: &str,
) -> Result<Smallest> {
    let (all, observer) = (training.at_hand(), training.observer);
    observer.begin(stage, all.len() as u64);
    let mut best = Smallest::new(count);
    let round = BLOCK * BLOCKS_PER_ROUND;
    for start in all.clone().step_by(round) {
        check_interrupt(observer)?;
        let end = (start + round).min(all.end);
        let blocks = (start..end)
            .into_par_iter()
            .step_by(BLOCK)
            .map(|from| {
                let mut block = vec![0.0; BLOCK.min(end - from)];
                energies.read(from, &mut block)?;
                let tagged = block.into_iter().enumerate();
                Ok(tagged
                    .map(|(i, energy)| (sign * energy, from + i))
                    .filter(|&(_, row)| training.hold_out.keeps(row))
                    .collect::<Vec<_>>())
            })
            .collect();
        best.add(in_order(blocks)?.into_iter().flatten());
        observer.advance((end - start) as u64);
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};

    use super::*;
    use crate::io::Dataset;
    use crate::io::observer::Silent;

    fn pick(sampling: Sampling, count: usize, logits: &Array2<f64>) -> Vec<usize> {
        let view = logits.view();
        let energies = LogitSource::Logits(&view);
        let data = Dataset::new("rows", view);
        let training = Training::new(&data, None, &Silent);
        choose(&sampling, count, &training, Some(&energies), 3).unwrap()
    }

    #[test]
    fn ties_go_to_the_lower_row_number() {
        let logits = array![[2.0], [1.0], [1.0], [5.0], [1.0]];
        assert_eq!(pick(Sampling::LowEnergy, 2, &logits), [1, 2]);
        assert_eq!(pick(Sampling::LowEnergy, 4, &logits), [0, 1, 2, 4]);
        assert_eq!(pick(Sampling::HighEnergy, 2, &logits), [0, 3]);
    }

    #[test]
    fn selection_over_many_rounds_equals_sorting_and_ignores_threads() {
        let rows = BLOCK * BLOCKS_PER_ROUND * 2 + 77;
        let logits = Array2::from_shape_fn((rows, 1), |(i, _)| ((i * 7919) % 1009) as f64);
        let mut all: Vec<(f64, usize)> = logits.iter().copied().zip(0..).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut expected: Vec<usize> = all[..500].iter().map(|x| x.1).collect();
        expected.sort_unstable();
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| pick(Sampling::LowEnergy, 500, &logits)), expected);
        }
    }

    #[test]
    fn uniform_takes_kept_rows_only_and_follows_the_seed() {
        let odd: Vec<usize> = (1..100).step_by(2).collect();
        let chosen = |seed| uniform(20, 100, &odd, seed).unwrap();
        assert!(chosen(1).iter().all(|row| row % 2 == 0));
        assert_eq!(chosen(1), chosen(1));
        assert_ne!(chosen(1), chosen(2));
        assert_eq!(chosen(1).len(), 20);
    }

    #[test]
    fn more_landmarks_than_rows_is_an_error() {
        let error = uniform(11, 10, &[], 0).unwrap_err().to_string();
        assert_eq!(
            error,
            "landmarks: expected from 1 to 10, the training rows used for the fit, got 11"
        );
    }
}
