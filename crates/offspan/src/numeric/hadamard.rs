//! The Walsh–Hadamard transform: y = Hx with H[i, j] = (−1)^(number of ones in i & j).
//!
//! Rounds whose partners lie at least a vector apart vectorise by themselves. The first three, whose
//! partners sit in one vector, take shuffles that compilers do not find; they are written out.

use crate::Real;
use crate::numeric::vector::dispatch;

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
    #[cfg(target_arch = "x86_64")]
    if x.len() >= 4 * FIRST
        && let Some(simd) = pulp::x86::V3::try_new()
    {
        return avx2::transform(simd, x);
    }
    transform(x);
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
        let (mut fast, mut plain) = (original.clone(), original);
        single_transform(&mut fast);
        transform(&mut plain);
        assert_eq!(fast, plain);
    }
}
