//! Gradient descent with momentum and a gain per coordinate (Jacobs, 1988).

use super::plane::Plane;

/// The gain where the gradient keeps to the direction of the movement, and where it turns against
/// it; never below the least.
const GAIN_UP: f64 = 0.2;
const GAIN_DOWN: f64 = 0.8;
const LEAST_GAIN: f64 = 0.01;

/// Points on their way down.
pub(super) struct Descent {
    pub(super) points: Plane,
    /// To be written before each step.
    pub(super) gradient: Plane,
    velocity: Vec<f64>,
    gains: Vec<f64>,
}

impl Descent {
    pub(super) fn new(points: Plane) -> Self {
        let length = points.coordinates.len();
        Descent {
            gradient: Plane::zeros(points.len()),
            points,
            velocity: vec![0.0; length],
            gains: vec![1.0; length],
        }
    }

    /// Forgets movement and gains.
    pub(super) fn rest(&mut self) {
        self.velocity.fill(0.0);
        self.gains.fill(1.0);
    }

    /// Moves all points.
    pub(super) fn step(&mut self, rate: f64, momentum: f64) {
        let state = self.velocity.iter_mut().zip(&mut self.gains);
        let moved = self.points.coordinates.iter_mut().zip(&self.gradient.coordinates);
        for ((velocity, gain), (point, slope)) in state.zip(moved) {
            // Downhill is against the gradient: opposite signs mean the same way as before.
            let same_way = *velocity * slope < 0.0;
            *gain = if same_way { *gain + GAIN_UP } else { (*gain * GAIN_DOWN).max(LEAST_GAIN) };
            *velocity = momentum * *velocity - rate * *gain * slope;
            *point += *velocity;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_bottom_of_a_narrow_valley() {
        // ½·(x² + 100·y²), for two points.
        let mut descent = Descent::new(Plane { coordinates: vec![5.0, -3.0, 1.0, 2.0] });
        for _ in 0..400 {
            for k in 0..4 {
                let stiffness = if k < 2 { 1.0 } else { 100.0 };
                descent.gradient.coordinates[k] = stiffness * descent.points.coordinates[k];
            }
            descent.step(0.005, 0.8);
        }
        assert!(descent.points.coordinates.iter().all(|value| value.abs() < 1e-6));
    }

    #[test]
    fn first_step_is_against_the_gradient_and_rest_forgets() {
        let mut descent = Descent::new(Plane::zeros(1));
        descent.gradient.coordinates = vec![1.0, -2.0];
        descent.step(1.0, 0.5);
        assert_eq!(descent.points.coordinates, [-0.8, 1.6]);
        descent.step(1.0, 0.5);
        // The same way again: gain 0.8 + 0.2, and half of the first movement.
        assert_eq!(descent.points.coordinates, [-2.2, 4.4]);
        descent.rest();
        descent.step(1.0, 0.5);
        assert!((descent.points.coordinates[0] + 3.0).abs() < 1e-15);
    }
}
