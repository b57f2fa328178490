//! The inner loops of products in single precision: chains of fused multiply-adds from zero.

use super::panels::{Kernel, Number, PANEL, Sums, WithKernel, put_all};
use crate::numeric::instructions::Leave;
use crate::numeric::vector::outer_chains;

impl Number for f32 {
    const DEPTH: usize = 256;
    const STEP: usize = 1;

    fn with_kernel(work: impl WithKernel<f32>) {
        match Leave::chosen() {
            Leave::Portable => work.run(Plain),
            #[cfg(target_arch = "x86_64")]
            Leave::Avx2(simd) => work.run(avx2::Chains(simd)),
            #[cfg(target_arch = "x86_64")]
            Leave::Avx512(simd) | Leave::Avx512Vnni(simd, _) => work.run(avx512::Chains(simd)),
        }
    }
}

/// Rows of a tile whose sums fill 16 registers of 256 bits.
const ROWS: usize = 6;

#[inline(always)]
fn several_rows(rows: usize, terms: &[f32], panels: &[&[f32]], out: &mut impl Sums) {
    match rows {
        1 => one_row(terms, panels, out),
        _ => {
            for (panel, numbers) in panels.iter().enumerate() {
                let sums: [[f32; PANEL]; ROWS] = outer_chains(terms, numbers);
                for (row, sums) in sums.iter().enumerate() {
                    out.put(row, panel, sums);
                }
            }
        }
    }
}

#[inline(always)]
fn one_row(row: &[f32], panels: &[&[f32]], out: &mut impl Sums) {
    let &[a, b, c, d] = panels else {
        for (panel, numbers) in panels.iter().enumerate() {
            let [sums]: [[f32; PANEL]; 1] = outer_chains(row, numbers);
            out.put(0, panel, &sums);
        }
        return;
    };
    let mut sums = [[0.0f32; PANEL]; 4];
    let panels = a
        .chunks_exact(PANEL)
        .zip(b.chunks_exact(PANEL))
        .zip(c.chunks_exact(PANEL))
        .zip(d.chunks_exact(PANEL));
    for (&x, (((a, b), c), d)) in row.iter().zip(panels) {
        for j in 0..PANEL {
            sums[0][j] = x.mul_add(a[j], sums[0][j]);
            sums[1][j] = x.mul_add(b[j], sums[1][j]);
            sums[2][j] = x.mul_add(c[j], sums[2][j]);
            sums[3][j] = x.mul_add(d[j], sums[3][j]);
        }
    }
    put_all(&[sums], out);
}

/// What every processor can do.
#[derive(Clone, Copy)]
struct Plain;

impl Kernel<f32> for Plain {
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
    fn sums(self, rows: usize, terms: &[f32], panels: &[&[f32]], out: &mut impl Sums) {
        several_rows(rows, terms, panels, out);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use pulp::x86::V3;

    use super::{Kernel, ROWS, Sums, several_rows};

    #[derive(Clone, Copy)]
    pub(super) struct Chains(pub(super) V3);

    impl Kernel<f32> for Chains {
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
        fn sums(self, rows: usize, terms: &[f32], panels: &[&[f32]], out: &mut impl Sums) {
            several_rows(rows, terms, panels, out);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use pulp::x86::V4;

    use super::{Kernel, PANEL, Sums, put_all};
    use crate::numeric::tile;

    #[derive(Clone, Copy)]
    pub(super) struct Chains(pub(super) V4);

    impl Chains {
        #[inline(always)]
        fn tile<const ROWS: usize, const PANELS: usize>(
            self,
            terms: &[f32],
            panels: &[&[f32]],
            out: &mut impl Sums,
        ) {
            let mut views = [&terms[..0]; PANELS];
            views.copy_from_slice(panels);
            let mut sums = [[[0.0; PANEL]; PANELS]; ROWS];
            tile::single(self.0, terms, views, &mut sums);
            put_all(&sums, out);
        }
    }

    impl Kernel<f32> for Chains {
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
        fn sums(self, rows: usize, terms: &[f32], panels: &[&[f32]], out: &mut impl Sums) {
            match (rows, panels.len()) {
                (12, 2) => self.tile::<12, 2>(terms, panels, out),
                (8, 2) => self.tile::<8, 2>(terms, panels, out),
                (4, 2) => self.tile::<4, 2>(terms, panels, out),
                (1, 4) => self.tile::<1, 4>(terms, panels, out),
                (12, _) => self.tile::<12, 1>(terms, panels, out),
                (8, _) => self.tile::<8, 1>(terms, panels, out),
                (4, _) => self.tile::<4, 1>(terms, panels, out),
                _ => self.tile::<1, 1>(terms, panels, out),
            }
        }
    }
}
