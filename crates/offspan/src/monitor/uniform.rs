//! Random numbers by row number, so that a stream gives the same ones in whatever batches it comes.

use crate::numeric::random::mix;

/// A number between 0 and 1, neither included, for this row.
pub(super) fn uniform(seed: u64, row: u64) -> f64 {
    // The seed is mixed first: seeds that differ by a little must not give shifted copies of
    // each other's numbers.
    let bits = mix(mix(seed) ^ row);
    // 52 bits and a half: the largest is below 1 even after rounding.
    ((bits >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_pinned_because_saved_monitors_rely_on_them() {
        let got: Vec<String> = (0..3).map(|row| format!("{:.12}", uniform(7, row))).collect();
        assert_eq!(got, ["0.721508180605", "0.239284472857", "0.275982433327"]);
    }

    #[test]
    fn numbers_are_spread_evenly_and_differ_between_seeds() {
        let rows = 100_000;
        let mut tenths = [0_u32; 10];
        for row in 0..rows {
            let value = uniform(1, row);
            assert!(0.0 < value && value < 1.0);
            tenths[(value * 10.0) as usize] += 1;
        }
        // Five standard errors of 95.
        assert!(tenths.iter().all(|&count| count.abs_diff(10_000) < 475), "{tenths:?}");
        assert_ne!(uniform(1, 0), uniform(2, 0));
        assert_ne!(uniform(1, 1), uniform(2, 0));
    }
}
