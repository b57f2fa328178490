//! The inner loops of products in 16-bit fixed point. Integers round nowhere, so all give the same bits.

#![allow(
    clippy::needless_range_loop,
    reason = "sums stay in registers where indices are constants"
)]

use super::panels::{Kernel, Number, PANEL, Sums, WithKernel};
use crate::numeric::instructions::Leave;

impl Number for i16 {
    const DEPTH: usize = 128;
    const STEP: usize = 2;

    fn with_kernel(work: impl WithKernel<i16>) {
        match Leave::chosen() {
            Leave::Portable => work.run(Plain),
            #[cfg(target_arch = "x86_64")]
            Leave::Avx2(simd) => work.run(avx2::Pairs(simd)),
            #[cfg(target_arch = "x86_64")]
            Leave::Avx512(simd) => work.run(avx512::Pairs(simd)),
            #[cfg(target_arch = "x86_64")]
            Leave::Avx512Vnni(_, simd) => work.run(avx512::FusedPairs(simd)),
        }
    }
}

/// Rows of a tile whose sums fill 16 registers of 256 bits.
const ROWS: usize = 6;

/// What every processor can do.
#[derive(Clone, Copy)]
struct Plain;

impl Plain {
    #[inline(always)]
    fn tile<const ROWS: usize>(terms: &[i16], panel: &[i16]) -> [[f32; PANEL]; ROWS] {
        let mut sums = [[0i32; PANEL]; ROWS];
        let steps = panel.chunks_exact(i16::STEP * PANEL);
        for (x, columns) in terms.chunks_exact(i16::STEP * ROWS).zip(steps) {
            for i in 0..ROWS {
                let (a, b) = (i32::from(x[2 * i]), i32::from(x[2 * i + 1]));
                for j in 0..PANEL {
                    sums[i][j] += a * i32::from(columns[2 * j]) + b * i32::from(columns[2 * j + 1]);
                }
            }
        }
        sums.map(|sums| sums.map(|sum| sum as f32))
    }
}

impl Kernel<i16> for Plain {
    const PANELS: usize = 1;

    #[inline(always)]
    fn vectorize(self, work: impl FnOnce()) {
        work();
    }

    #[inline(always)]
    fn group(_: usize) -> usize {
        ROWS
    }

    #[inline(always)]
    fn sums(self, rows: usize, terms: &[i16], panels: &[&[i16]], out: &mut impl Sums) {
        for (panel, numbers) in panels.iter().enumerate() {
            match rows {
                1 => out.put(0, panel, &Self::tile::<1>(terms, numbers)[0]),
                _ => {
                    for (row, sums) in Self::tile::<ROWS>(terms, numbers).iter().enumerate() {
                        out.put(row, panel, sums);
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::__m256i;

    use pulp::cast;
    use pulp::x86::V3;

    use super::super::panels::put_all;
    use super::{Kernel, PANEL, ROWS, Sums};

    /// Half a panel.
    const EIGHT: usize = PANEL / 2;

    #[derive(Clone, Copy)]
    pub(super) struct Pairs(pub(super) V3);

    impl Pairs {
        #[inline(always)]
        fn tile<const ROWS: usize, const PANELS: usize>(
            self,
            terms: &[i16],
            panels: &[&[i16]],
            out: &mut impl Sums,
        ) {
            let simd = self.0;
            let pairs = terms.as_chunks::<2>().0.as_chunks::<ROWS>().0;
            let mut steps = [&[[[0i16; PANEL]; 2]; 0][..]; PANELS];
            for (steps, panel) in steps.iter_mut().zip(panels) {
                *steps = &panel.as_chunks::<PANEL>().0.as_chunks::<2>().0[..pairs.len()];
            }
            let mut sums = [[[simd.avx._mm256_setzero_si256(); 2]; PANELS]; ROWS];
            for (step, x) in pairs.iter().enumerate() {
                for i in 0..ROWS {
                    let x = simd.avx._mm256_set1_epi32(cast(x[i]));
                    for panel in 0..PANELS {
                        let columns = &steps[panel][step];
                        for half in 0..2 {
                            let columns: __m256i = cast(columns[half]);
                            let products = simd.avx2._mm256_madd_epi16(x, columns);
                            let sum = &mut sums[i][panel][half];
                            *sum = simd.avx2._mm256_add_epi32(*sum, products);
                        }
                    }
                }
            }
            // A loop of its own, short enough to be unrolled: sums that `put` is handed by an index would be
            // kept in memory all the while, with a store for each product.
            let mut all = [[[0.0; PANEL]; PANELS]; ROWS];
            for i in 0..ROWS {
                for panel in 0..PANELS {
                    let [low, high] = sums[i][panel];
                    let low: [f32; EIGHT] = cast(simd.avx._mm256_cvtepi32_ps(low));
                    let high: [f32; EIGHT] = cast(simd.avx._mm256_cvtepi32_ps(high));
                    all[i][panel][..EIGHT].copy_from_slice(&low);
                    all[i][panel][EIGHT..].copy_from_slice(&high);
                }
            }
            put_all(&all, out);
        }
    }

    impl Kernel<i16> for Pairs {
        const PANELS: usize = 1;

        #[inline(always)]
        fn vectorize(self, work: impl FnOnce()) {
            self.0.vectorize(work);
        }

        #[inline(always)]
        fn group(_: usize) -> usize {
            ROWS
        }

        #[inline(always)]
        fn sums(self, rows: usize, terms: &[i16], panels: &[&[i16]], out: &mut impl Sums) {
            match (rows, panels.len()) {
                (1, 4) => self.tile::<1, 4>(terms, panels, out),
                (1, _) => self.tile::<1, 1>(terms, panels, out),
                _ => self.tile::<ROWS, 1>(terms, panels, out),
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::__m512i;

    use pulp::cast;
    use pulp::x86::V4;

    use super::super::panels::put_all;
    use super::{Kernel, PANEL, Sums};
    use crate::numeric::tile;
    use crate::numeric::vnni::Vnni;

    /// sums + a₀·b₀ + a₁·b₁ for each of 16 pairs, in two instructions or in one.
    trait AddProducts: Copy {
        fn zero(self) -> __m512i;
        fn repeat(self, pair: [i16; 2]) -> __m512i;
        fn add_products(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i;
        fn floats(self, sums: __m512i) -> [f32; PANEL];
    }

    #[derive(Clone, Copy)]
    pub(super) struct Pairs(pub(super) V4);

    #[derive(Clone, Copy)]
    pub(super) struct FusedPairs(pub(super) Vnni);

    macro_rules! kernel {
        ($kernel:ident, |$simd:ident, $sums:ident, $a:ident, $b:ident| $add:expr) => {
            impl AddProducts for $kernel {
                #[inline(always)]
                fn zero(self) -> __m512i {
                    self.0.avx512f._mm512_setzero_si512()
                }

                #[inline(always)]
                fn repeat(self, pair: [i16; 2]) -> __m512i {
                    self.0.avx512f._mm512_set1_epi32(cast(pair))
                }

                #[inline(always)]
                fn add_products(self, $sums: __m512i, $a: __m512i, $b: __m512i) -> __m512i {
                    let $simd = self.0;
                    $add
                }

                #[inline(always)]
                fn floats(self, sums: __m512i) -> [f32; PANEL] {
                    cast(self.0.avx512f._mm512_cvtepi32_ps(sums))
                }
            }

            impl Kernel<i16> for $kernel {
                const PANELS: usize = tile::PANELS;

                #[inline(always)]
                fn vectorize(self, work: impl FnOnce()) {
                    self.0.vectorize(work);
                }

                #[inline(always)]
                fn group(left: usize) -> usize {
                    left.next_multiple_of(4).min(tile::ROWS)
                }

                #[inline(always)]
                fn sums(self, rows: usize, terms: &[i16], panels: &[&[i16]], out: &mut impl Sums) {
                    match (rows, panels.len()) {
                        (12, 2) => tile::<12, 2>(self, terms, panels, out),
                        (8, 2) => tile::<8, 2>(self, terms, panels, out),
                        (4, 2) => tile::<4, 2>(self, terms, panels, out),
                        (1, 4) => tile::<1, 4>(self, terms, panels, out),
                        (12, _) => tile::<12, 1>(self, terms, panels, out),
                        (8, _) => tile::<8, 1>(self, terms, panels, out),
                        (4, _) => tile::<4, 1>(self, terms, panels, out),
                        _ => tile::<1, 1>(self, terms, panels, out),
                    }
                }
            }
        };
    }

    kernel!(Pairs, |simd, sums, a, b| {
        let products = simd.avx512bw._mm512_madd_epi16(a, b);
        simd.avx512f._mm512_add_epi32(sums, products)
    });
    kernel!(FusedPairs, |simd, sums, a, b| simd.add_products_of_pairs(sums, a, b));

    #[inline(always)]
    fn tile<const ROWS: usize, const PANELS: usize>(
        simd: impl AddProducts,
        terms: &[i16],
        panels: &[&[i16]],
        out: &mut impl Sums,
    ) {
        let pairs = terms.as_chunks::<2>().0.as_chunks::<ROWS>().0;
        let mut steps = [&[[0i16; 2 * PANEL]; 0][..]; PANELS];
        for (steps, panel) in steps.iter_mut().zip(panels) {
            *steps = &panel.as_chunks::<{ 2 * PANEL }>().0[..pairs.len()];
        }
        let mut sums = [[simd.zero(); PANELS]; ROWS];
        for (step, x) in pairs.iter().enumerate() {
            let mut columns = [simd.zero(); PANELS];
            for (columns, steps) in columns.iter_mut().zip(steps) {
                *columns = cast(steps[step]);
            }
            for i in 0..ROWS {
                let x = simd.repeat(x[i]);
                for panel in 0..PANELS {
                    sums[i][panel] = simd.add_products(sums[i][panel], x, columns[panel]);
                }
            }
        }
        // As in AVX2: sums stay in registers.
        let mut all = [[[0.0; PANEL]; PANELS]; ROWS];
        for i in 0..ROWS {
            for panel in 0..PANELS {
                all[i][panel] = simd.floats(sums[i][panel]);
            }
        }
        put_all(&all, out);
    }
}
