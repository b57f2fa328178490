//! The two-parameter Weibull distribution and its exact maximum likelihood.

/// F(x) = 1 − exp(−(x/scale)^shape).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weibull {
    pub(crate) shape: f64,
    pub(crate) scale: f64,
}

impl Weibull {
    /// F(x).
    pub(crate) fn share_below(self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        -(-(x / self.scale).powf(self.shape)).exp_m1()
    }
}

/// The most likely distribution of positive numbers; none if they are all equal, when none is.
///
/// The shape k solves Σ x^k log x / Σ x^k − 1/k − mean(log x) = 0, which increases in k, so it is bracketed
/// and bisected until no number is left between the ends.
pub(crate) fn fit_weibull(values: &[f64]) -> Option<Weibull> {
    let largest = values.iter().fold(0.0f64, |m, &x| m.max(x));
    let smallest = values.iter().fold(f64::INFINITY, |m, &x| m.min(x));
    if !(smallest > 0.0 && largest > smallest && largest.is_finite()) {
        return None;
    }
    // Relative to the largest, so that no power overflows.
    let logs: Vec<f64> = values.iter().map(|x| (x / largest).ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let slope = |shape: f64| {
        let (mut weighted, mut sum) = (0.0, 0.0);
        for log in &logs {
            let power = (shape * log).exp();
            weighted += power * log;
            sum += power;
        }
        weighted / sum - 1.0 / shape - mean
    };
    let (mut low, mut high) = (1.0, 1.0);
    while slope(low) > 0.0 {
        low /= 2.0;
    }
    while slope(high) < 0.0 {
        high *= 2.0;
        if !high.is_finite() {
            return None;
        }
    }
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if slope(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    let shape = high;
    let power = logs.iter().map(|log| (shape * log).exp()).sum::<f64>() / logs.len() as f64;
    Some(Weibull { shape, scale: largest * power.powf(1.0 / shape) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_distribution_give_it_back() {
        for (shape, scale) in [(0.6, 3.0), (1.0, 0.1), (2.5, 40.0), (20.0, 1e6)] {
            let n = 20_000;
            let quantile = |i: usize| {
                let share = (i as f64 + 0.5) / n as f64;
                scale * (-(1.0 - share).ln()).powf(1.0 / shape)
            };
            let values: Vec<f64> = (0..n).map(quantile).collect();
            let fit = fit_weibull(&values).unwrap();
            assert!((fit.shape / shape - 1.0).abs() < 2e-3, "{fit:?}");
            assert!((fit.scale / scale - 1.0).abs() < 2e-3, "{fit:?}");
            assert!((fit.share_below(values[n / 2]) - 0.5).abs() < 2e-3);
        }
    }

    #[test]
    fn no_change_of_the_parameters_makes_the_numbers_more_likely() {
        let values = [1.0, 1.2, 1.9, 2.0, 3.7];
        let likelihood = |w: Weibull| -> f64 {
            let log = |x: f64| {
                let r = x / w.scale;
                (w.shape / w.scale).ln() + (w.shape - 1.0) * r.ln() - r.powf(w.shape)
            };
            values.iter().map(|x| log(*x)).sum()
        };
        let fit = fit_weibull(&values).unwrap();
        for (a, b) in [(1e-4, 0.0), (-1e-4, 0.0), (0.0, 1e-4), (0.0, -1e-4), (1e-4, 1e-4)] {
            let other = Weibull { shape: fit.shape * (1.0 + a), scale: fit.scale * (1.0 + b) };
            assert!(likelihood(other) < likelihood(fit));
        }
    }

    #[test]
    fn equal_numbers_and_one_number_have_no_fit() {
        assert_eq!(fit_weibull(&[1.0, 1.0, 1.0]), None);
        assert_eq!(fit_weibull(&[2.0]), None);
        assert_eq!(fit_weibull(&[]), None);
        assert_eq!(Weibull { shape: 2.0, scale: 1.0 }.share_below(-1.0), 0.0);
    }
}
