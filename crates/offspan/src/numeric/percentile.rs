//! Percentiles by linear interpolation between order statistics (type 7), in one place.

/// The order statistics, from 0, between which the share `q` of `count` values lies, and how far it is
/// from the lower to the upper one.
pub(crate) fn place(q: f64, count: usize) -> (usize, usize, f64) {
    let last = count.saturating_sub(1);
    let position = q * last as f64;
    let below = (position.floor() as usize).min(last);
    (below, (below + 1).min(last), position - below as f64)
}

/// The number at this share of the way.
pub(crate) fn between(low: f64, high: f64, share: f64) -> f64 {
    low + share * (high - low)
}

/// The quantile of at least one sorted value.
pub(crate) fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    let (below, above, share) = place(q, sorted.len());
    between(sorted[below], sorted[above], share)
}

/// The quantile of at least one value; they are put out of order.
pub(crate) fn quantile_of(values: &mut [f64], q: f64) -> f64 {
    let (below, above, share) = place(q, values.len());
    let (_, &mut low, rest) = values.select_nth_unstable_by(below, f64::total_cmp);
    let high = match above == below {
        true => low,
        false => rest.iter().copied().min_by(f64::total_cmp).unwrap_or(low),
    };
    between(low, high, share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_order_statistics() {
        let sorted = [1.0, 2.0, 4.0, 8.0, 16.0];
        for (q, expected) in
            [(0.0, 1.0), (0.25, 2.0), (0.5, 4.0), (0.6, 5.6), (0.95, 14.4), (1.0, 16.0)]
        {
            let mut mixed = [8.0, 1.0, 16.0, 4.0, 2.0];
            assert!((quantile_of_sorted(&sorted, q) - expected).abs() < 1e-12, "{q}");
            assert_eq!(quantile_of(&mut mixed, q), quantile_of_sorted(&sorted, q));
        }
        assert_eq!(quantile_of(&mut [3.0], 0.7), 3.0);
    }
}
