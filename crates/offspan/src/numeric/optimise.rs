//! L-BFGS for smooth convex functions of many variables.

use std::collections::VecDeque;

use crate::Result;
use crate::numeric::vector;

/// Pairs of steps and gradient changes that model the curvature.
const MEMORY: usize = 20;
/// Share of the predicted decrease that a step must bring (Armijo).
const SUFFICIENT: f64 = 1e-4;

/// A change of the value that may be rounding, relative.
const ROUNDING: f64 = 1e-14;
/// Share of the slope that may be left after a step that does not change the value.
const FLATTER: f64 = 0.9;

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    /// No entry of the gradient is larger than this.
    pub(crate) gradient: f64,
    pub(crate) most_steps: usize,
}

/// Where the search ended.
#[derive(Debug, Clone)]
pub(crate) struct Minimum {
    pub(crate) at: Vec<f64>,
    pub(crate) largest_gradient: f64,
    pub(crate) steps: usize,
}

/// Minimises from `at`. `function` returns the value and writes the gradient; it may fail, for
/// example because the user asks to stop.
pub(crate) fn minimise(
    mut at: Vec<f64>,
    stop: Stop,
    mut function: impl FnMut(&[f64], &mut [f64]) -> Result<f64>,
) -> Result<Minimum> {
    let mut gradient = vec![0.0; at.len()];
    let mut value = function(&at, &mut gradient)?;
    let mut history: VecDeque<(Vec<f64>, Vec<f64>, f64)> = VecDeque::new();
    let largest = |gradient: &[f64]| gradient.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let mut steps = 0;
    while largest(&gradient) > stop.gradient && steps < stop.most_steps {
        let direction = descent(&gradient, &history);
        let slope = vector::dot(&direction, &gradient);
        let first = history.is_empty();
        let mut length = if first { 1.0 / vector::sum_of_squares(&gradient).sqrt() } else { 1.0 };
        let mut next = vec![0.0; at.len()];
        let mut next_gradient = vec![0.0; at.len()];
        let moved = loop {
            for ((next, at), direction) in next.iter_mut().zip(&at).zip(&direction) {
                *next = at + length * direction;
            }
            let next_value = function(&next, &mut next_gradient)?;
            // Near the minimum rounding hides the decrease; there a flatter slope is as good a sign.
            let level = next_value <= value + ROUNDING * (1.0 + value.abs())
                && vector::dot(&direction, &next_gradient).abs() <= FLATTER * slope.abs();
            if next_value <= value + SUFFICIENT * length * slope || level {
                value = next_value;
                break true;
            }
            length *= 0.5;
            if length < 1e-20 {
                // Rounding hides any further decrease.
                break false;
            }
        };
        if !moved {
            break;
        }
        let step: Vec<f64> = next.iter().zip(&at).map(|(a, b)| a - b).collect();
        let change: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        let curvature = vector::dot(&step, &change);
        if curvature > 0.0 {
            if history.len() == MEMORY {
                history.pop_front();
            }
            history.push_back((step, change, 1.0 / curvature));
        }
        (at, gradient) = (next, next_gradient);
        steps += 1;
    }
    Ok(Minimum { largest_gradient: largest(&gradient), at, steps })
}

/// −H·gradient by the two-loop recursion.
fn descent(gradient: &[f64], history: &VecDeque<(Vec<f64>, Vec<f64>, f64)>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut weights = Vec::with_capacity(history.len());
    for (step, change, inverse) in history.iter().rev() {
        let weight = inverse * vector::dot(step, &direction);
        add(&mut direction, -weight, change);
        weights.push(weight);
    }
    if let Some((_, change, inverse)) = history.back() {
        vector::scale(&mut direction, 1.0 / (inverse * vector::sum_of_squares(change)));
    }
    for ((step, change, inverse), weight) in history.iter().zip(weights.iter().rev()) {
        let correction = weight - inverse * vector::dot(change, &direction);
        add(&mut direction, correction, step);
    }
    direction
}

fn add(to: &mut [f64], factor: f64, what: &[f64]) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += factor * what);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_minimum_of_an_ill_conditioned_convex_function() {
        // Σ w_i (x_i − i)² + log Σ exp(x_i/10), condition 100
        let weight = |i: usize| 10f64.powf(2.0 * i as f64 / 29.0);
        let stop = Stop { gradient: 1e-9, most_steps: 1000 };
        let minimum = minimise(vec![0.0; 30], stop, |x, g| {
            let exps: Vec<f64> = x.iter().map(|x| (x / 10.0).exp()).collect();
            let sum: f64 = exps.iter().sum();
            let mut value = sum.ln();
            for i in 0..30 {
                let d = x[i] - i as f64;
                value += weight(i) * d * d;
                g[i] = 2.0 * weight(i) * d + exps[i] / sum / 10.0;
            }
            Ok(value)
        })
        .unwrap();
        assert!(minimum.largest_gradient <= 1e-9, "{minimum:?}");
        assert!(minimum.steps < 300, "{}", minimum.steps);
        assert!(minimum.at.iter().enumerate().all(|(i, x)| (x - i as f64).abs() < 0.06));
    }
}
