//! Finds a free place for a label: inside the data's area, off the curves and other labels.

use super::canvas::Rect;

pub(super) struct Places {
    area: Rect,
    taken: Vec<Rect>,
    dots: Vec<(f64, f64)>,
}

impl Places {
    pub(super) fn new(area: Rect) -> Self {
        Self { area, taken: Vec::new(), dots: Vec::new() }
    }

    /// A straight piece of a curve, in pixels, which labels should not cover.
    pub(super) fn avoid_line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let pieces = (length / 4.0).ceil().clamp(1.0, 1000.0);
        for k in 0..=pieces as usize {
            let share = k as f64 / pieces;
            self.dots.push((from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1)));
        }
    }

    /// A place that is taken.
    pub(super) fn avoid(&mut self, rect: Rect) {
        self.taken.push(rect);
    }

    /// Takes the best of the candidates and tells which it was. Earlier ones win ties.
    pub(super) fn take(&mut self, candidates: &[Rect]) -> usize {
        let mut best = (f64::INFINITY, 0);
        for (k, rect) in candidates.iter().enumerate() {
            let cost = self.cost(rect) + k as f64 * 0.01;
            if cost < best.0 {
                best = (cost, k);
            }
        }
        if let Some(rect) = candidates.get(best.1) {
            self.taken.push(*rect);
        }
        best.1
    }

    fn cost(&self, r: &Rect) -> f64 {
        let outside = (self.area.x - r.x).max(0.0)
            + (r.right() - self.area.right()).max(0.0)
            + (self.area.y - r.y).max(0.0)
            + (r.bottom() - self.area.bottom()).max(0.0);
        let overlap: f64 = self
            .taken
            .iter()
            .map(|t| {
                let w = (r.right().min(t.right()) - r.x.max(t.x)).max(0.0);
                let h = (r.bottom().min(t.bottom()) - r.y.max(t.y)).max(0.0);
                w * h
            })
            .sum();
        let covers = |&&(x, y): &&(f64, f64)| {
            (r.x - 2.0..=r.right() + 2.0).contains(&x)
                && (r.y - 2.0..=r.bottom() + 2.0).contains(&y)
        };
        outside * 100.0 + overlap + self.dots.iter().filter(covers).count() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidate_that_covers_nothing_wins() {
        let mut places = Places::new(Rect { x: 0.0, y: 0.0, w: 100.0, h: 100.0 });
        places.avoid_line((0.0, 5.0), (100.0, 5.0));
        let at = |x: f64, y: f64| Rect { x, y, w: 20.0, h: 10.0 };
        assert_eq!(places.take(&[at(10.0, 0.0), at(-5.0, 50.0), at(10.0, 50.0)]), 2);
        assert_eq!(places.take(&[at(12.0, 52.0), at(60.0, 50.0)]), 1);
    }
}
