//! Adam (Kingma & Ba 2015): steps scaled by running means of the gradient and of its square.

use rayon::prelude::*;

use crate::Real;

const FIRST_DECAY: f64 = 0.9;
const SECOND_DECAY: f64 = 0.999;
/// Keeps a parameter without gradient from dividing by zero.
const FLOOR: f64 = 1e-8;

/// Parameters that one task updates; they do not depend on each other, so any split gives the same.
const PARAMETERS_PER_TASK: usize = 1 << 14;

/// The running means of one group of parameters.
pub(super) struct Adam<T> {
    first: Vec<T>,
    second: Vec<T>,
    steps: i32,
}

impl<T: Real> Adam<T> {
    pub(super) fn new(parameters: usize) -> Self {
        let zeros = vec![T::default(); parameters];
        Adam { first: zeros.clone(), second: zeros, steps: 0 }
    }

    /// Moves the parameters down the gradient.
    pub(super) fn step(&mut self, parameters: &mut [T], gradient: &[T], rate: f64) {
        self.steps = self.steps.saturating_add(1);
        // The means start at zero; early ones are too small by these factors.
        let first_share = 1.0 - FIRST_DECAY.powi(self.steps);
        let second_share = 1.0 - SECOND_DECAY.powi(self.steps);
        parameters
            .par_chunks_mut(PARAMETERS_PER_TASK)
            .zip(gradient.par_chunks(PARAMETERS_PER_TASK))
            .zip(self.first.par_chunks_mut(PARAMETERS_PER_TASK))
            .zip(self.second.par_chunks_mut(PARAMETERS_PER_TASK))
            .for_each(|(((parameters, gradient), first), second)| {
                for (((parameter, gradient), first), second) in
                    parameters.iter_mut().zip(gradient).zip(first).zip(second)
                {
                    let g = gradient.to_double();
                    let mean = FIRST_DECAY * first.to_double() + (1.0 - FIRST_DECAY) * g;
                    let square = SECOND_DECAY * second.to_double() + (1.0 - SECOND_DECAY) * g * g;
                    (*first, *second) = (T::from_double(mean), T::from_double(square));
                    let size = (square / second_share).sqrt() + FLOOR;
                    *parameter -= T::from_double(rate * mean / first_share / size);
                }
            });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_step_has_the_size_of_the_rate_whatever_the_gradient() {
        let mut parameters = [1.0f64, 1.0, 1.0];
        Adam::new(3).step(&mut parameters, &[1e-3, -50.0, 0.0], 0.1);
        assert!((parameters[0] - 0.9).abs() < 1e-5);
        assert!((parameters[1] - 1.1).abs() < 1e-9);
        assert_eq!(parameters[2], 1.0);
    }

    #[test]
    fn finds_the_minimum_of_a_badly_scaled_bowl() {
        let mut x = [3.0f64, -2.0];
        let mut adam = Adam::new(2);
        for _ in 0..2000 {
            let gradient = [2.0 * (x[0] - 1.0), 200.0 * (x[1] - 0.5)];
            adam.step(&mut x, &gradient, 0.02);
        }
        assert!((x[0] - 1.0).abs() < 1e-3 && (x[1] - 0.5).abs() < 1e-3, "{x:?}");
    }
}
