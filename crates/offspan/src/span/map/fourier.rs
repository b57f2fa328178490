//! Random Fourier features (Rahimi & Recht): √(2/M)·cos(ωᵀx + u), or √(2q)·cos(ωᵀx + u) where a
//! distribution q over the features is given.

use std::f64::consts::TAU;

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2};
use serde::{Deserialize, Serialize};

use crate::error::names::names;
use crate::graph::{Builder, Op, Value, product};
use crate::numeric::hadamard;
use crate::numeric::linalg;
use crate::numeric::math;
use crate::numeric::product::weights::Weights;
use crate::numeric::random::{Random, Stream};
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::{Error, Kernel, Real, Result};

/// How the frequencies ω are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// Every entry on its own.
    Iid,
    /// Rows of random rotations, with the lengths that independent rows would have: less variance.
    Orthogonal,
    /// Three rounds of random signs and Walsh–Hadamard transforms: M·log m instead of M·m work,
    /// and nothing to store.
    #[default]
    Structured,
}

names!(Draw { Iid "iid", Orthogonal "orthogonal", Structured "structured", });

/// Where the frequencies come from.
#[derive(Debug, Clone)]
enum Frequencies<T> {
    /// One row per feature.
    Dense(Weights<T>),
    /// Blocks of `padded` features, each three sign vectors.
    Structured { padded: usize, signs: Vec<[Vec<T>; 3]>, scale: T },
}

/// What the cosines are multiplied by.
#[derive(Debug, Clone)]
enum Amplitudes<T> {
    /// All by the same.
    Uniform(T),
    /// Each by its own.
    Each(Array1<T>),
}

/// A random Fourier feature map.
#[derive(Debug, Clone)]
pub struct Fourier<T> {
    input: usize,
    frequencies: Frequencies<T>,
    phases: Array1<T>,
    amplitudes: Amplitudes<T>,
    /// Whether a file has to carry the frequencies.
    given: bool,
}

impl<T: Real> Fourier<T> {
    /// Draws `features` frequencies for a kernel from a seed.
    ///
    /// # Errors
    /// If the kernel has no such features, or the draw does not suit it.
    pub fn seeded(
        kernel: Kernel,
        draw: Draw,
        input: usize,
        features: usize,
        seed: u64,
    ) -> Result<Self> {
        kernel.check()?;
        check_size(draw, input, features)?;
        let frequencies = match (kernel, draw) {
            (Kernel::Gaussian { gamma }, draw) => {
                let deviation = (2.0 * gamma).sqrt();
                match draw {
                    Draw::Iid => {
                        Frequencies::Dense(Weights::new(iid(input, features, seed, |random| {
                            deviation * random.normal()
                        })))
                    }
                    Draw::Orthogonal => Frequencies::Dense(Weights::new(orthogonal(
                        input, features, seed, deviation,
                    ))),
                    Draw::Structured => structured(input, features, seed, deviation),
                }
            }
            (Kernel::Laplacian { gamma }, Draw::Iid) => {
                Frequencies::Dense(Weights::new(iid(input, features, seed, |random| {
                    gamma * random.cauchy()
                })))
            }
            (Kernel::Laplacian { .. }, _) => {
                return Err(Error::parameter(
                    "draw",
                    "iid for the laplacian kernel (its frequencies are Cauchy per coordinate, \
                     which no rotation preserves)",
                    draw.name(),
                ));
            }
            (Kernel::Linear | Kernel::Polynomial { .. }, _) => {
                return Err(Error::parameter(
                    "kernel",
                    "gaussian or laplacian for random Fourier features (polynomial: kpca-sketch; \
                     linear: pca)",
                    kernel.name(),
                ));
            }
        };
        let mut random = Random::new(seed, Stream::Phases);
        let phases = (0..features).map(|_| T::from_double(TAU * random.uniform())).collect();
        Ok(Self::new(input, frequencies, phases, false))
    }

    /// Uses given frequencies (one row per feature) and phases.
    ///
    /// # Errors
    /// If their numbers differ or there are none.
    pub fn from_parts(frequencies: Array2<T>, phases: Array1<T>) -> Result<Self> {
        let (features, input) = frequencies.dim();
        let numbers = frequencies.indexed_iter().map(|(at, x)| (at, x.to_double()));
        if let Some(((row, column), value)) = numbers.into_iter().find(|(_, x)| !x.is_finite()) {
            let what = "the given frequencies".to_owned();
            return Err(Error::NotFinite { what, row, column, value, hint: String::new() });
        }
        if let Some(row) = phases.iter().position(|x| !x.is_finite_number()) {
            let (what, value) = ("the given phases".to_owned(), phases[row].to_double());
            return Err(Error::NotFinite { what, row, column: 0, value, hint: String::new() });
        }
        if features != phases.len() || features == 0 {
            return Err(Error::shape(
                "the phases",
                format!("[{}], one per frequency, and at least one", frequencies.nrows()),
                format!("[{}]", phases.len()),
            ));
        }
        let frequencies = frequencies.as_standard_layout().into_owned();
        Ok(Self::new(input, Frequencies::Dense(Weights::new(frequencies)), phases, true))
    }

    /// The same features, each with its own factor in place of √(2/M).
    ///
    /// # Errors
    /// If there is not one factor per feature, or one is negative or not finite.
    pub fn with_amplitudes(mut self, amplitudes: Array1<T>) -> Result<Self> {
        let good = |x: &T| x.is_finite_number() && *x >= T::default();
        if amplitudes.len() != self.output() || !amplitudes.iter().all(good) {
            return Err(Error::shape(
                "the amplitudes",
                format!("[{}], one finite number of at least 0 per frequency", self.output()),
                match amplitudes.iter().position(|x| !good(x)) {
                    Some(at) => format!("{} at {at}", amplitudes[at]),
                    None => format!("[{}]", amplitudes.len()),
                },
            ));
        }
        self.amplitudes = Amplitudes::Each(amplitudes.as_standard_layout().into_owned());
        Ok(self)
    }

    fn new(input: usize, frequencies: Frequencies<T>, phases: Array1<T>, given: bool) -> Self {
        let amplitude = T::from_double((2.0 / phases.len() as f64).sqrt());
        let amplitudes = Amplitudes::Uniform(amplitude);
        Fourier { input, frequencies, phases, amplitudes, given }
    }

    /// Length of x.
    #[must_use]
    pub fn input(&self) -> usize {
        self.input
    }

    /// Number of features.
    #[must_use]
    pub fn output(&self) -> usize {
        self.phases.len()
    }

    /// Frequencies and phases, if they were given and not drawn from a seed.
    pub(crate) fn given_parts(&self) -> Option<(&Array2<T>, &Array1<T>)> {
        if self.given { self.dense_parts() } else { None }
    }

    /// Frequencies and phases, unless the draw is structured and has none to show.
    pub(crate) fn dense_parts(&self) -> Option<(&Array2<T>, &Array1<T>)> {
        match &self.frequencies {
            Frequencies::Dense(dense) => Some((dense.matrix(), &self.phases)),
            Frequencies::Structured { .. } => None,
        }
    }

    /// The factor that all features have, if it is one.
    pub(crate) fn amplitude(&self) -> Option<T> {
        match &self.amplitudes {
            Amplitudes::Uniform(amplitude) => Some(*amplitude),
            Amplitudes::Each(_) => None,
        }
    }

    /// The features' own factors, if they have any.
    pub(crate) fn amplitudes(&self) -> Option<&Array1<T>> {
        match &self.amplitudes {
            Amplitudes::Uniform(_) => None,
            Amplitudes::Each(amplitudes) => Some(amplitudes),
        }
    }

    pub(crate) fn apply(&self, x: ArrayView2<'_, T>, mut out: ArrayViewMut2<'_, T>) {
        let one = T::from_double(1.0);
        let factor = match &self.frequencies {
            Frequencies::Dense(dense) => {
                dense.product(x, out.view_mut());
                one
            }
            Frequencies::Structured { padded, signs, scale } => {
                let mut buffer = vec![T::default(); *padded];
                for (x, mut out) in x.rows().into_iter().zip(out.rows_mut()) {
                    let (x, out) = (contiguous(&x), contiguous_mut(&mut out));
                    for (out, signs) in out.chunks_mut(*padded).zip(signs) {
                        if out.len() == *padded {
                            spin(x, signs, out);
                        } else {
                            spin(x, signs, &mut buffer);
                            out.copy_from_slice(&buffer[..out.len()]);
                        }
                    }
                }
                *scale
            }
        };
        let phases = contiguous(&self.phases);
        for mut out in out.rows_mut() {
            let out = contiguous_mut(&mut out);
            match &self.amplitudes {
                Amplitudes::Uniform(amplitude) => {
                    math::scaled_cosines(out, factor, phases, *amplitude);
                }
                Amplitudes::Each(amplitudes) => {
                    math::scaled_cosines(out, factor, phases, one);
                    out.iter_mut().zip(amplitudes).for_each(|(o, &amplitude)| *o *= amplitude);
                }
            }
        }
    }
}

impl<T: Real> Fourier<T> {
    /// The same within a graph.
    pub(crate) fn graph(&self, x: Value, builder: &mut Builder<'_>) -> Value {
        let angles = match &self.frequencies {
            Frequencies::Dense(dense) => product(builder, "frequencies", x, dense),
            Frequencies::Structured { padded, signs, scale } => {
                let spun = spin_graph(x, self.input, *padded, signs, builder);
                let spun = builder.part(spun, 0, self.output());
                builder.times(spun, scale.to_double())
            }
        };
        let phases = builder.vector("phases", &self.phases);
        let angles = builder.add(angles, phases);
        let cosines = builder.node(Op::Cos, &[angles]);
        match &self.amplitudes {
            Amplitudes::Uniform(amplitude) => builder.times(cosines, amplitude.to_double()),
            Amplitudes::Each(amplitudes) => {
                let amplitudes = builder.vector("amplitudes", amplitudes);
                builder.mul(cosines, amplitudes)
            }
        }
    }
}

/// What [`spin`] gives for all blocks, one after the other, within a graph.
///
/// A Walsh–Hadamard transform of a·b numbers is one of a and one of b numbers, each a small matrix, so that neither
/// frequencies nor a large matrix are written down.
fn spin_graph<T: Real>(
    x: Value,
    input: usize,
    padded: usize,
    signs: &[[Vec<T>; 3]],
    builder: &mut Builder<'_>,
) -> Value {
    let left = 1 << (padded.trailing_zeros() / 2);
    let right = padded / left;
    let [of_left, of_right] =
        [left, right].map(|size| builder.owned("hadamard", walsh_hadamard_matrix::<T>(size)));
    let blocks = signs.len();
    let mut rows = x;
    if padded > input {
        // The padding is shorter than the row: zero times as many of its numbers.
        let some = builder.part(x, 0, padded - input);
        let zeros = builder.times(some, 0.0);
        rows = builder.joined(&[x, zeros]);
    }
    rows = builder.reshape(rows, &[1, padded]);
    for round in 0..3 {
        let of_round = signs.iter().flat_map(|signs| signs[round].iter().copied()).collect();
        let of_round = Array2::from_shape_vec((blocks, padded), of_round)
            .unwrap_or_else(|_| unreachable!("as many signs as numbers"));
        let of_round = builder.owned("signs", of_round);
        rows = builder.mul(rows, of_round);
        rows = builder.reshape(rows, &[blocks, left, right]);
        rows = builder.matmul(of_left, rows);
        rows = builder.matmul(rows, of_right);
        rows = builder.reshape(rows, &[blocks, padded]);
    }
    builder.reshape(rows, &[blocks * padded])
}

/// The matrix of a transform without scaling.
fn walsh_hadamard_matrix<T: Real>(size: usize) -> Array2<T> {
    let sign = |(i, j): (usize, usize)| if (i & j).count_ones() % 2 == 0 { 1.0 } else { -1.0 };
    Array2::from_shape_fn((size, size), |at| T::from_double(sign(at)))
}

/// buffer = H·D₃·H·D₂·H·D₁·x, x padded with zeros.
fn spin<T: Real>(x: &[T], signs: &[Vec<T>; 3], buffer: &mut [T]) {
    let (head, tail) = buffer.split_at_mut(x.len());
    vector::multiply_into(head, x, &signs[0]);
    tail.fill(T::default());
    T::walsh_hadamard(buffer);
    for signs in &signs[1..] {
        hadamard::signed_transform(buffer, signs);
    }
}

/// Numbers that are drawn for the frequencies, at most.
const MOST_DRAWN: usize = 1 << 28;

/// Fails if more numbers would be drawn than anybody wants to: a file has only the seed of them, so that its length says
/// nothing of their number.
fn check_size(draw: Draw, input: usize, features: usize) -> Result<()> {
    let most = match draw {
        // A number and some signs for each feature and each column.
        Draw::Structured => return Ok(()),
        // A rotation of all columns is made for them.
        Draw::Orthogonal if input.saturating_mul(input) > MOST_DRAWN => 0,
        Draw::Iid | Draw::Orthogonal => MOST_DRAWN / input.max(1),
    };
    if features <= most {
        return Ok(());
    }
    let expected = format!("at most {most} of draw {} for {input} columns", draw.name());
    Err(Error::parameter("features", expected, features))
}

fn iid<T: Real>(
    input: usize,
    features: usize,
    seed: u64,
    mut draw: impl FnMut(&mut Random) -> f64,
) -> Array2<T> {
    let mut random = Random::new(seed, Stream::Frequencies);
    Array2::from_shape_simple_fn((features, input), || T::from_double(draw(&mut random)))
}

fn orthogonal<T: Real>(input: usize, features: usize, seed: u64, deviation: f64) -> Array2<T> {
    let mut random = Random::new(seed, Stream::Frequencies);
    let mut out = Array2::from_elem((features, input), T::default());
    for mut block in out.axis_chunks_iter_mut(ndarray::Axis(0), input) {
        let gaussian = Array2::from_shape_simple_fn((input, input), || random.normal());
        let rotation = linalg::haar_rotation(gaussian.view());
        for (mut row, direction) in block.rows_mut().into_iter().zip(rotation.rows()) {
            // The length that an independent Gaussian row would have.
            let length = (0..input).map(|_| random.normal().powi(2)).sum::<f64>().sqrt();
            row.zip_mut_with(&direction, |o, &d| *o = T::from_double(deviation * length * d));
        }
    }
    out
}

fn structured<T: Real>(input: usize, features: usize, seed: u64, deviation: f64) -> Frequencies<T> {
    let padded = input.next_power_of_two();
    let mut random = Random::new(seed, Stream::Signs);
    let mut signs = || (0..padded).map(|_| T::from_double(random.sign())).collect::<Vec<T>>();
    let signs = (0..features.div_ceil(padded)).map(|_| [signs(), signs(), signs()]).collect();
    // Three plain transforms multiply lengths by padded^(3/2); rows shall have √padded·deviation.
    let scale = T::from_double(deviation / padded as f64);
    Frequencies::Structured { padded, signs, scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean absolute error of Φ(x)ᵀΦ(y) against the kernel over a few pairs.
    fn error(kernel: Kernel, draw: Draw) -> f64 {
        let width = 24;
        let rows = Array2::from_shape_fn((12, width), |(i, j)| {
            ((i * 31 + j * 17 + i * j) % 19) as f64 / 60.0
        });
        let map = Fourier::<f64>::seeded(kernel, draw, width, 4096, 5).unwrap();
        let mut phi = Array2::zeros((12, 4096));
        map.apply(rows.view(), phi.view_mut());
        let mut exact = Array2::zeros((12, 12));
        kernel.block(
            rows.view(),
            &crate::span::kernel::Anchors::new(kernel, rows.clone()),
            exact.view_mut(),
        );
        let gram = phi.dot(&phi.t()) - kernel.offset();
        (&gram - &exact).iter().map(|x| x.abs()).sum::<f64>() / 144.0
    }

    #[test]
    fn inner_products_approximate_the_kernel_for_every_draw() {
        for draw in [Draw::Iid, Draw::Orthogonal, Draw::Structured] {
            let error = error(Kernel::Gaussian { gamma: 1.3 }, draw);
            // The standard error of a mean of 4096 cosines is about 0.01.
            assert!(error < 0.02, "{draw:?}: {error}");
        }
        let error = error(Kernel::Laplacian { gamma: 0.2 }, Draw::Iid);
        assert!(error < 0.02, "laplacian: {error}");
    }

    #[test]
    fn orthogonal_frequencies_are_orthogonal_within_a_block() {
        let map =
            Fourier::<f64>::seeded(Kernel::Gaussian { gamma: 0.5 }, Draw::Orthogonal, 6, 15, 1)
                .unwrap();
        let Frequencies::Dense(w) = &map.frequencies else { panic!("dense expected") };
        let w = w.matrix();
        assert_eq!(w.dim(), (15, 6));
        for i in 0..6 {
            for j in 0..i {
                assert!(w.row(i).dot(&w.row(j)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn more_numbers_than_anybody_wants_are_not_drawn() {
        let kernel = Kernel::Gaussian { gamma: 1.0 };
        let refused = |draw, input, features| {
            Fourier::<f32>::seeded(kernel, draw, input, features, 0).unwrap_err().to_string()
        };
        let message = refused(Draw::Iid, 1 << 24, 4096);
        assert!(message.contains("at most 16 of draw iid for 16777216 columns"), "{message}");
        refused(Draw::Iid, 3, usize::MAX);
        // Few features, but a rotation of all columns.
        refused(Draw::Orthogonal, 1 << 20, 2);
    }

    #[test]
    fn laplacian_refuses_draws_that_rotate() {
        let kernel = Kernel::Laplacian { gamma: 1.0 };
        for draw in [Draw::Orthogonal, Draw::Structured] {
            assert!(Fourier::<f32>::seeded(kernel, draw, 4, 8, 0).is_err());
        }
    }

    #[test]
    fn parts_give_the_formula() {
        let frequencies = ndarray::array![[1.0, 2.0], [0.5, -1.0]];
        let map = Fourier::from_parts(frequencies, ndarray::array![0.1, 0.2]).unwrap();
        let mut out = Array2::zeros((1, 2));
        map.apply(ndarray::array![[0.3, 0.4]].view(), out.view_mut());
        assert!((out[[0, 0]] - 1.2f64.cos()).abs() < 1e-15);
        assert!((out[[0, 1]] - (-0.05f64).cos()).abs() < 1e-15);

        let map = map.with_amplitudes(ndarray::array![3.0, 0.5]).unwrap();
        map.apply(ndarray::array![[0.3, 0.4]].view(), out.view_mut());
        assert!((out[[0, 0]] - 3.0 * 1.2f64.cos()).abs() < 1e-15);
        assert!((out[[0, 1]] - 0.5 * (-0.05f64).cos()).abs() < 1e-15);
    }

    #[test]
    fn amplitudes_must_fit_the_features() {
        let map =
            Fourier::<f64>::seeded(Kernel::Gaussian { gamma: 0.5 }, Draw::Iid, 3, 2, 1).unwrap();
        for bad in [vec![1.0], vec![1.0, f64::NAN], vec![1.0, -1.0]] {
            assert!(map.clone().with_amplitudes(bad.into()).is_err());
        }
    }
}
