//! t-SNE with the exact gradient (van der Maaten and Hinton, 2008).

use ndarray::ArrayView2;

use super::affinity::affinities;
use super::classical::{Principal, principal_coordinates};
use super::descent::Descent;
use super::gradient::{divergence, gradient};
use super::orient::orient;
use super::pairs::Pairs;
use super::plane::Plane;
use super::random::{Stream, uniform};
use super::{EmbedError, Embedding, Progress};

/// How much the pull is exaggerated at first, so that points find their groups.
const EXAGGERATION: f64 = 12.0;
/// For how many iterations, at most a quarter of all.
const EXAGGERATED: usize = 250;
/// Standard deviation of the start along its first axis.
const START: f64 = 1e-4;
/// A second axis with less than this share of the first one's variance is none.
const FLAT: f64 = 1e-12;
/// Without groups, the exaggerated pull can draw all points into one. Once their mean square is
/// down to this share, the descent begins anew without exaggeration.
const COLLAPSED: f64 = 0.01;
/// A gradient shorter than this moves no point visibly.
const STILL: f64 = 1e-7;

/// t-SNE: a picture that keeps who is near whom.
///
/// The affinities are Gaussian with one perplexity for all points; the picture starts from the
/// principal coordinates, scaled to a standard deviation of 1e-4, and descends along the exact
/// gradient with momentum (0.5, later 0.8) and a gain per coordinate. The pull is exaggerated
/// twelvefold for the first 250 iterations.
///
/// The same distances give the same picture. The same rows in another order are summed in another
/// order: a picture that comes to rest stays as it is, but one that is still moving at the last
/// iteration can amplify the difference in rounding, as t-SNE does with any small change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tsne {
    /// The effective number of neighbours: at least 1, and cut to a third of the other points.
    pub perplexity: f64,
    /// Iterations at most; fewer if the picture comes to rest.
    pub iterations: usize,
    /// Decides where the distances do not: the second axis of rows on a line, and the directions
    /// of a start without principal ones.
    pub seed: u64,
}

impl Default for Tsne {
    fn default() -> Self {
        Tsne { perplexity: 30.0, iterations: 1000, seed: 0 }
    }
}

impl Tsne {
    /// Makes the picture from the squared distances of all pairs.
    ///
    /// # Errors
    /// There are fewer than four points, the matrix is not one of squared distances, the perplexity
    /// is no number of at least 1, or `progress` answered that the work should stop.
    pub fn fit(
        &self,
        squared_distances: ArrayView2<'_, f64>,
        progress: Progress<'_>,
    ) -> Result<Embedding, EmbedError> {
        if !(self.perplexity >= 1.0 && self.perplexity.is_finite()) {
            return Err(EmbedError::Perplexity { got: self.perplexity });
        }
        let pairs = Pairs::check(squared_distances)?;
        let n = pairs.points;
        let go_on = || progress(0, self.iterations);
        let start = self.start(principal_coordinates(&pairs, self.seed, &go_on)?);
        let p = affinities(&pairs, self.perplexity.min((n - 1) as f64 / 3.0));
        drop(pairs);

        let spread = start.spread();
        let mut descent = Descent::new(start.clone());
        let mut exaggerated = EXAGGERATED.min(self.iterations / 4);
        let mut done = 0;
        while done < self.iterations {
            let early = done < exaggerated;
            let (exaggeration, momentum, still) =
                if early { (EXAGGERATION, 0.5, 0.0) } else { (1.0, 0.8, STILL) };
            if done == exaggerated {
                descent.rest();
            }
            if gradient(&p, &descent.points, exaggeration, &mut descent.gradient) <= still {
                break;
            }
            descent.step(learning_rate(n, exaggeration), momentum);
            done += 1;
            if early && descent.points.spread() < COLLAPSED * spread {
                descent.points = start.clone();
                exaggerated = done;
            }
            if !progress(done, self.iterations) {
                return Err(EmbedError::Interrupted);
            }
        }
        let quality = divergence(&p, &descent.points);
        Ok(Embedding { points: orient(descent.points, 1.0), quality, iterations: done })
    }

    /// Scales the principal coordinates to a small spread. A second axis of zeros would stay so for
    /// ever; it gets a little noise.
    fn start(&self, principal: Principal) -> Plane {
        let Principal { mut points, eigenvalues: [first, second] } = principal;
        if first > 0.0 {
            let factor = START / (first / points.len() as f64).sqrt();
            points.coordinates.iter_mut().for_each(|value| *value *= factor);
            if second <= FLAT * first {
                let mut draw = uniform(self.seed, Stream::SecondAxis);
                points.axes_mut().1.fill_with(|| 0.01 * START * draw());
            }
        }
        points
    }
}

/// The number of points over the exaggeration (Belkina and others, 2019), whose gradient lacks the
/// factor 4. Faster descents oscillate: the curvature of the pull reaches about 8 e/n.
fn learning_rate(points: usize, exaggeration: f64) -> f64 {
    points as f64 / (4.0 * exaggeration)
}
