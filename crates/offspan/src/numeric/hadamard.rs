//! The Walsh–Hadamard transform: y = Hx with H[i, j] = (−1)^(number of ones in i & j).
//!
//! Rounds whose partners lie at least a vector apart vectorise by themselves. The first three, whose
//! partners sit in one vector, take shuffles that compilers do not find; they are written out.

#![allow(clippy::needless_range_loop, reason = "pairs of a transform are found by their places")]

use crate::numeric::instructions::Leave;
use crate::numeric::vector::{dispatch, multiply};
use crate::{Precision, Real};

/// Points whose partners in the first rounds are among themselves.
const FIRST: usize = 8;

/// In place and without scaling; the length is a power of two.
pub(crate) fn transform<T: Real>(x: &mut [T]) {
    debug_assert!(x.len().is_power_of_two());
    dispatch(
        #[inline(always)]
        || {
            let mut half = 1;
            while half < FIRST && half < x.len() {
                one_round(x, half);
                half *= 2;
            }
            later_rounds(x, half);
        },
    );
}

/// As [`transform`], same bits.
pub(crate) fn single_transform(x: &mut [f32]) {
    match Leave::chosen() {
        #[cfg(target_arch = "x86_64")]
        Leave::Avx2(simd) if x.len() >= avx2::SHORTEST => avx2::transform(simd, x),
        #[cfg(target_arch = "x86_64")]
        Leave::Avx512(simd) | Leave::Avx512Vnni(simd, _) if x.len() >= avx512::SHORTEST => {
            avx512::transform(simd, x, None);
        }
        _ => transform(x),
    }
}

/// The transform of x times signs, which are as many.
pub(crate) fn signed_transform<T: Real>(x: &mut [T], signs: &[T]) {
    #[cfg(target_arch = "x86_64")]
    if T::PRECISION == Precision::F32
        && x.len() >= avx512::SHORTEST
        && let Leave::Avx512(simd) | Leave::Avx512Vnni(simd, _) = Leave::chosen()
    {
        // One trip through memory less.
        let signs = bytemuck::cast_slice(signs);
        return avx512::transform(simd, bytemuck::cast_slice_mut(x), Some(signs));
    }
    multiply(x, signs);
    T::walsh_hadamard(x);
}

/// Rounds from partners `half` apart on, two at a time: half the trips through memory.
#[inline(always)]
fn later_rounds<T: Real>(x: &mut [T], mut half: usize) {
    while 4 * half <= x.len() {
        two_rounds(x, half);
        half *= 4;
    }
    if 2 * half <= x.len() {
        one_round(x, half);
    }
}

#[inline(always)]
fn one_round<T: Real>(x: &mut [T], half: usize) {
    for pair in x.chunks_exact_mut(2 * half) {
        let (left, right) = pair.split_at_mut(half);
        for (a, b) in left.iter_mut().zip(right) {
            (*a, *b) = (*a + *b, *a - *b);
        }
    }
}

#[inline(always)]
fn two_rounds<T: Real>(x: &mut [T], half: usize) {
    for quad in x.chunks_exact_mut(4 * half) {
        let (left, right) = quad.split_at_mut(2 * half);
        let (a, b) = left.split_at_mut(half);
        let (c, d) = right.split_at_mut(half);
        for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
            let (ab, a_b) = (*a + *b, *a - *b);
            let (cd, c_d) = (*c + *d, *c - *d);
            (*a, *b, *c, *d) = (ab + cd, a_b + c_d, ab - cd, a_b - c_d);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::__m256;

    use pulp::cast;
    use pulp::x86::V3;

    use super::{FIRST, later_rounds};

    type Eight = [f32; FIRST];

    /// Points that [`transform`] takes at least.
    pub(super) const SHORTEST: usize = 4 * FIRST;

    /// Swapped partners plus the points with signs: one shuffle and one exact multiply-add a round.
    #[inline(always)]
    fn first_rounds(simd: V3, x: Eight) -> __m256 {
        const SIGNS: [Eight; 3] = [
            [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0],
            [1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0],
            [1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0],
        ];
        let x: __m256 = cast(x);
        let swapped = simd.avx._mm256_permute_ps::<0b10_11_00_01>(x);
        let x = simd.fma._mm256_fmadd_ps(x, cast(SIGNS[0]), swapped);
        let swapped = simd.avx._mm256_permute_ps::<0b01_00_11_10>(x);
        let x = simd.fma._mm256_fmadd_ps(x, cast(SIGNS[1]), swapped);
        let swapped = simd.avx._mm256_permute2f128_ps::<1>(x, x);
        simd.fma._mm256_fmadd_ps(x, cast(SIGNS[2]), swapped)
    }

    pub(super) fn transform(simd: V3, x: &mut [f32]) {
        simd.vectorize(
            #[inline(always)]
            || {
                // The first three rounds and the next two in one trip through memory.
                let (blocks, _) = x.as_chunks_mut::<FIRST>();
                for quad in blocks.chunks_exact_mut(4) {
                    let (a, b) = (first_rounds(simd, quad[0]), first_rounds(simd, quad[1]));
                    let (c, d) = (first_rounds(simd, quad[2]), first_rounds(simd, quad[3]));
                    let (ab, a_b) = (simd.avx._mm256_add_ps(a, b), simd.avx._mm256_sub_ps(a, b));
                    let (cd, c_d) = (simd.avx._mm256_add_ps(c, d), simd.avx._mm256_sub_ps(c, d));
                    quad[0] = cast(simd.avx._mm256_add_ps(ab, cd));
                    quad[1] = cast(simd.avx._mm256_add_ps(a_b, c_d));
                    quad[2] = cast(simd.avx._mm256_sub_ps(ab, cd));
                    quad[3] = cast(simd.avx._mm256_sub_ps(a_b, c_d));
                }
                later_rounds(x, 4 * FIRST);
            },
        );
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::__m512;

    use pulp::cast;
    use pulp::x86::V4;

    const LANES: usize = 16;
    /// Vectors of the first trip through memory.
    const FIRST: usize = 8;
    /// Points that [`transform`] takes at least.
    pub(super) const SHORTEST: usize = FIRST * LANES;

    type Lanes = [f32; LANES];

    /// The four rounds whose partners sit in one vector: swapped partners plus the points with signs.
    #[inline(always)]
    fn within(simd: V4, x: __m512) -> __m512 {
        const fn signs(round: usize) -> Lanes {
            let mut signs = [1.0; LANES];
            let mut i = 0;
            while i < LANES {
                if i & (1 << round) != 0 {
                    signs[i] = -1.0;
                }
                i += 1;
            }
            signs
        }
        const SIGNS: [Lanes; 4] = [signs(0), signs(1), signs(2), signs(3)];
        let simd = simd.avx512f;
        let swapped = simd._mm512_permute_ps::<0b10_11_00_01>(x);
        let x = simd._mm512_fmadd_ps(x, cast(SIGNS[0]), swapped);
        let swapped = simd._mm512_permute_ps::<0b01_00_11_10>(x);
        let x = simd._mm512_fmadd_ps(x, cast(SIGNS[1]), swapped);
        let swapped = simd._mm512_shuffle_f32x4::<0b10_11_00_01>(x, x);
        let x = simd._mm512_fmadd_ps(x, cast(SIGNS[2]), swapped);
        let swapped = simd._mm512_shuffle_f32x4::<0b01_00_11_10>(x, x);
        simd._mm512_fmadd_ps(x, cast(SIGNS[3]), swapped)
    }

    /// The rounds among COUNT vectors.
    #[inline(always)]
    fn among<const COUNT: usize>(simd: V4, x: &mut [__m512; COUNT]) {
        for round in 0..COUNT.ilog2() {
            for i in 0..COUNT {
                let partner = i | 1 << round;
                if partner != i {
                    let (a, b) = (x[i], x[partner]);
                    x[i] = simd.avx512f._mm512_add_ps(a, b);
                    x[partner] = simd.avx512f._mm512_sub_ps(a, b);
                }
            }
        }
    }

    /// As many rounds as COUNT has bits, from partners `half` vectors apart on.
    #[inline(always)]
    fn rounds<const COUNT: usize>(simd: V4, x: &mut [Lanes], half: usize) {
        for block in x.chunks_exact_mut(COUNT * half) {
            let mut parts = block.chunks_exact_mut(half);
            let parts: [&mut [Lanes]; COUNT] =
                std::array::from_fn(|_| &mut parts.next().unwrap_or_default()[..half]);
            for j in 0..half {
                let mut vectors = [simd.avx512f._mm512_setzero_ps(); COUNT];
                for i in 0..COUNT {
                    vectors[i] = cast(parts[i][j]);
                }
                among(simd, &mut vectors);
                for i in 0..COUNT {
                    parts[i][j] = cast(vectors[i]);
                }
            }
        }
    }

    /// The first seven rounds in one trip through memory, with signs if there are any.
    #[inline(always)]
    fn first_rounds(simd: V4, x: &mut [Lanes], signs: Option<&[Lanes]>) {
        let (blocks, _) = x.as_chunks_mut::<FIRST>();
        for (index, block) in blocks.iter_mut().enumerate() {
            let mut vectors = [simd.avx512f._mm512_setzero_ps(); FIRST];
            for i in 0..FIRST {
                vectors[i] = cast(block[i]);
            }
            if let Some(signs) = signs {
                let signs = &signs[index * FIRST..][..FIRST];
                for i in 0..FIRST {
                    vectors[i] = simd.avx512f._mm512_mul_ps(vectors[i], cast(signs[i]));
                }
            }
            for vector in &mut vectors {
                *vector = within(simd, *vector);
            }
            among(simd, &mut vectors);
            for i in 0..FIRST {
                block[i] = cast(vectors[i]);
            }
        }
    }

    pub(super) fn transform(simd: V4, x: &mut [f32], signs: Option<&[f32]>) {
        simd.vectorize(
            #[inline(always)]
            || {
                let (vectors, _) = x.as_chunks_mut::<LANES>();
                first_rounds(simd, vectors, signs.map(|signs| signs.as_chunks().0));
                let mut half = FIRST;
                while half < vectors.len() {
                    match vectors.len() / half {
                        2 => rounds::<2>(simd, vectors, half),
                        4 => rounds::<4>(simd, vectors, half),
                        8 => rounds::<8>(simd, vectors, half),
                        _ => rounds::<16>(simd, vectors, half),
                    }
                    half *= 16;
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(length: usize) -> Vec<f64> {
        (0..length).map(|i| (i * i % 7) as f64 - 2.0).collect()
    }

    #[test]
    fn equals_the_definition_in_both_precisions() {
        for length in [1, 2, 4, 8, 16, 32, 64, 128, 512, 1024] {
            let original = points(length);
            let mut double = original.clone();
            transform(&mut double);
            let mut single: Vec<f32> = original.iter().map(|&x| x as f32).collect();
            single_transform(&mut single);
            for (i, (double, single)) in double.iter().zip(single).enumerate() {
                let sign =
                    |j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
                let exact: f64 = original.iter().enumerate().map(|(j, x)| sign(j) * x).sum();
                // All numbers are small integers.
                assert_eq!((*double, f64::from(single)), (exact, exact), "{i} of {length}");
            }
        }
    }

    #[test]
    fn every_path_rounds_alike() {
        let original: Vec<f32> = (0..2048).map(|i| (i as f32 * 0.37).sin()).collect();
        let signs: Vec<f32> = (0..2048).map(|i| if i % 3 == 0 { -1.0 } else { 1.0 }).collect();
        for length in [1, 64, 128, 256, 512, 1024, 2048] {
            let original = &original[..length];
            let (mut fast, mut plain) = (original.to_vec(), original.to_vec());
            single_transform(&mut fast);
            transform(&mut plain);
            assert_eq!(fast, plain);
            let (mut signed, mut plain) = (original.to_vec(), original.to_vec());
            signed_transform(&mut signed, &signs[..length]);
            plain.iter_mut().zip(&signs).for_each(|(x, sign)| *x *= sign);
            transform(&mut plain);
            assert_eq!(signed, plain, "{length} with signs");
        }
    }
}
