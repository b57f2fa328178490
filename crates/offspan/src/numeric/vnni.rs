//! The one instruction that the dispatcher does not wrap: multiply pairs of 16-bit numbers and add both
//! products to a 32-bit sum.

use std::arch::x86_64::{__m512i, _mm512_dpwssd_epi32};

pulp::simd_type! {
    /// Leave to use AVX-512 with VNNI.
    pub(crate) struct Vnni {
        pub(crate) sse: "sse",
        pub(crate) sse2: "sse2",
        pub(crate) fxsr: "fxsr",
        pub(crate) sse3: "sse3",
        pub(crate) ssse3: "ssse3",
        pub(crate) sse4_1: "sse4.1",
        pub(crate) sse4_2: "sse4.2",
        pub(crate) popcnt: "popcnt",
        pub(crate) avx: "avx",
        pub(crate) avx2: "avx2",
        pub(crate) bmi1: "bmi1",
        pub(crate) bmi2: "bmi2",
        pub(crate) fma: "fma",
        pub(crate) lzcnt: "lzcnt",
        pub(crate) avx512f: "avx512f",
        pub(crate) avx512bw: "avx512bw",
        pub(crate) avx512cd: "avx512cd",
        pub(crate) avx512dq: "avx512dq",
        pub(crate) avx512vl: "avx512vl",
        pub(crate) avx512vnni: "avx512vnni",
    }
}

impl Vnni {
    /// sums + a₀·b₀ + a₁·b₁ for each of 16 pairs.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub(crate) fn add_products_of_pairs(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: a value of this type exists only where the processor has the instruction.
        unsafe { _mm512_dpwssd_epi32(sums, a, b) }
    }
}
