//! Tiles of products in AVX-512: chains of fused multiply-adds from zero, as [`vector::outer_chains`]
//! has them, for as many rows and columns as 32 registers hold. Same bits.
//!
//! [`vector::outer_chains`]: super::vector::outer_chains

use pulp::cast;
use pulp::x86::V4;

/// Rows of a whole tile: with two vectors of columns its sums take 24 registers.
pub(crate) const ROWS: usize = 12;
/// Vectors of columns of a whole tile.
pub(crate) const PANELS: usize = 2;

macro_rules! chains {
    ($name:ident, $type:ident, $vector:ident, $lanes:literal, $zero:ident, $repeat:ident, $fused:ident) => {
        /// out\[row\]\[panel\] = Σ row·panel. Terms of the rows lie side by side, those of a panel too.
        /// For use within [`V4::vectorize`].
        #[inline(always)]
        pub(crate) fn $name<const ROWS: usize, const PANELS: usize>(
            simd: V4,
            rows: &[$type],
            panels: [&[$type]; PANELS],
            out: &mut [[[$type; $lanes]; PANELS]; ROWS],
        ) {
            use std::arch::x86_64::$vector;

            let (rows, _) = rows.as_chunks::<ROWS>();
            let mut terms = [&[[0.0; $lanes]; 0][..]; PANELS];
            for (terms, panel) in terms.iter_mut().zip(panels) {
                // All of one length, which leaves nothing to check in the loop.
                *terms = &panel.as_chunks::<$lanes>().0[..rows.len()];
            }
            let mut sums = [[simd.avx512f.$zero(); PANELS]; ROWS];
            for (step, x) in rows.iter().enumerate() {
                let mut columns = [simd.avx512f.$zero(); PANELS];
                for (columns, terms) in columns.iter_mut().zip(terms) {
                    *columns = cast::<[$type; $lanes], $vector>(terms[step]);
                }
                for i in 0..ROWS {
                    let x = simd.avx512f.$repeat(x[i]);
                    for panel in 0..PANELS {
                        sums[i][panel] = simd.avx512f.$fused(x, columns[panel], sums[i][panel]);
                    }
                }
            }
            for i in 0..ROWS {
                for panel in 0..PANELS {
                    out[i][panel] = cast(sums[i][panel]);
                }
            }
        }
    };
}

chains!(single, f32, __m512, 16, _mm512_setzero_ps, _mm512_set1_ps, _mm512_fmadd_ps);
chains!(double, f64, __m512d, 8, _mm512_setzero_pd, _mm512_set1_pd, _mm512_fmadd_pd);
