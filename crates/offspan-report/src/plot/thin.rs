//! Fewer points for the same picture.

/// A curve has at most about this many points.
pub(super) const MOST: usize = 400;

/// Thins a curve given in pixels. Its ends and its extremes in both directions stay.
///
/// First, of consecutive points in the same half pixel column only the first, last, lowest and
/// highest are kept; then points closer to the curve without them than a tolerance go
/// (Ramer, Douglas and Peucker). The tolerance begins at a sixth of a pixel.
pub(super) fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 2 {
        return points.to_vec();
    }
    let columns = by_column(points);
    let mut tolerance = 0.15;
    loop {
        let thinned = simplify(&columns, tolerance);
        if thinned.len() <= MOST {
            return thinned;
        }
        tolerance *= 1.5;
    }
}

fn by_column(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let column = |&(x, _): &(f64, f64)| (x * 2.0).floor();
    points
        .chunk_by(|a, b| column(a) == column(b))
        .flat_map(|run| {
            let last = run.len() - 1;
            let by_y = |a: &usize, b: &usize| run[*a].1.total_cmp(&run[*b].1);
            let by_x = |a: &usize, b: &usize| run[*a].0.total_cmp(&run[*b].0);
            let mut keep = vec![0, last];
            keep.extend((0..=last).min_by(by_y));
            keep.extend((0..=last).max_by(by_y));
            keep.extend((0..=last).min_by(by_x));
            keep.extend((0..=last).max_by(by_x));
            keep.sort_unstable();
            keep.dedup();
            keep.into_iter().map(|k| run[k])
        })
        .collect()
}

fn simplify(points: &[(f64, f64)], tolerance: f64) -> Vec<(f64, f64)> {
    let last = points.len() - 1;
    let mut keep = vec![false; points.len()];
    for at in extremes(points).into_iter().chain([0, last]) {
        keep[at] = true;
    }
    let fixed: Vec<usize> = (0..=last).filter(|&k| keep[k]).collect();
    let mut open: Vec<(usize, usize)> = fixed.windows(2).map(|w| (w[0], w[1])).collect();
    while let Some((from, to)) = open.pop() {
        let (mut worst, mut at) = (tolerance, None);
        for k in from + 1..to {
            let away = distance(points[k], points[from], points[to]);
            if away > worst {
                (worst, at) = (away, Some(k));
            }
        }
        if let Some(k) = at {
            keep[k] = true;
            open.extend([(from, k), (k, to)]);
        }
    }
    points.iter().zip(keep).filter(|(_, keep)| *keep).map(|(p, _)| *p).collect()
}

fn extremes(points: &[(f64, f64)]) -> Vec<usize> {
    let by_x = |a: &usize, b: &usize| points[*a].0.total_cmp(&points[*b].0);
    let by_y = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
    let all = 0..points.len();
    let found = [
        all.clone().min_by(by_x),
        all.clone().max_by(by_x),
        all.clone().min_by(by_y),
        all.clone().max_by(by_y),
    ];
    found.into_iter().flatten().collect()
}

/// From a point to a piece of a line.
fn distance(p: (f64, f64), a: (f64, f64), b: (f64, f64)) -> f64 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = dx * dx + dy * dy;
    let share = if length > 0.0 {
        (((p.0 - a.0) * dx + (p.1 - a.1) * dy) / length).clamp(0.0, 1.0)
    } else {
        0.0
    };
    (p.0 - a.0 - share * dx).hypot(p.1 - a.1 - share * dy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(n: usize) -> Vec<(f64, f64)> {
        let at = |k: usize| 500.0 * k as f64 / n as f64;
        (0..n)
            .map(|k| (at(k), 100.0 + 80.0 * (at(k) * 0.05).sin() + (k % 7) as f64 * 0.05))
            .collect()
    }

    fn bounds(points: &[(f64, f64)]) -> [f64; 4] {
        let fold = |of: fn(&(f64, f64)) -> f64, pick: fn(f64, f64) -> f64| {
            points.iter().map(of).reduce(pick).unwrap()
        };
        [
            fold(|p| p.0, f64::min),
            fold(|p| p.0, f64::max),
            fold(|p| p.1, f64::min),
            fold(|p| p.1, f64::max),
        ]
    }

    #[test]
    fn a_long_curve_keeps_its_ends_and_extremes() {
        let mut points = wave(50_000);
        points[31_234].1 = 3.0;
        let thinned = thin(&points);
        assert!(thinned.len() <= MOST, "{}", thinned.len());
        assert_eq!(bounds(&thinned), bounds(&points));
        assert_eq!((thinned[0], thinned.last()), (points[0], points.last()));
    }

    #[test]
    fn no_point_of_a_smooth_curve_is_further_than_half_a_pixel_from_the_thinned_one() {
        let points = wave(20_000);
        let thinned = thin(&points);
        for &p in &points {
            let away = thinned.windows(2).map(|w| distance(p, w[0], w[1]));
            assert!(away.reduce(f64::min).unwrap() < 0.7);
        }
    }

    #[test]
    fn noise_and_worst_cases_end_below_the_limit() {
        let noise: Vec<_> =
            (0..9999).map(|k| (k as f64 * 0.05, (k * 7919 % 1000) as f64)).collect();
        assert!(thin(&noise).len() <= MOST);
        let same = vec![(1.0, 1.0); 5000];
        assert!(thin(&same).len() <= 4);
        assert_eq!(thin(&[(1.0, 2.0)]), [(1.0, 2.0)]);
    }
}
