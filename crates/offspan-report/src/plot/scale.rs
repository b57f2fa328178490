//! Axes: which value lies where, and where the ticks stand.

use super::number;

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences take equal room.
    #[default]
    Linear,
    /// Equal ratios take equal room; only positive values can be drawn.
    Log,
}

impl Scale {
    /// Whether a value has a place on an axis of this scale.
    pub(super) fn can_draw(self, value: f64) -> bool {
        drawable(value) && (self == Self::Linear || value > 1e-100)
    }
}

/// Finite, and small enough that differences are finite too.
pub(super) fn drawable(value: f64) -> bool {
    value.abs() <= 1e100
}

/// A tick and its label.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// A range of values, never empty, on a scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) scale: Scale,
    pub(super) lo: f64,
    pub(super) hi: f64,
}

impl Axis {
    /// From `lo` to `hi`, in whatever order they come. A range without extent is widened.
    pub(super) fn new(scale: Scale, lo: f64, hi: f64) -> Self {
        let fallback = Self { scale, lo: if scale == Scale::Log { 0.1 } else { 0.0 }, hi: 1.0 };
        if !(scale.can_draw(lo) && scale.can_draw(hi)) {
            return fallback;
        }
        let (lo, hi) = (lo.min(hi), lo.max(hi));
        if hi - lo > 1e-12 * lo.abs().max(hi.abs()) && hi - lo > 1e-200 {
            return Self { scale, lo, hi };
        }
        if scale == Scale::Log {
            return Self { scale, lo: lo / 2.0, hi: hi * 2.0 };
        }
        let room = if lo.abs() > 1e-100 { 0.1 * lo.abs() } else { 1.0 };
        Self { scale, lo: lo - room, hi: hi + room }
    }

    /// Around all values that can be drawn, with a margin as a share of the range. `None` when there
    /// are none.
    pub(super) fn around(
        scale: Scale,
        values: impl IntoIterator<Item = f64>,
        margin: f64,
    ) -> Option<Self> {
        let mut ends: Option<(f64, f64)> = None;
        for v in values.into_iter().filter(|&v| scale.can_draw(v)) {
            ends = Some(ends.map_or((v, v), |(lo, hi)| (lo.min(v), hi.max(v))));
        }
        let (lo, hi) = ends?;
        let tight = Self::new(scale, lo, hi);
        Some(tight.widened(margin, margin))
    }

    /// Around all values, as [`Self::around`], but from zero on when that is near for values that are
    /// never negative.
    pub(super) fn around_or_from_zero(
        scale: Scale,
        values: impl IntoIterator<Item = f64>,
        (low, high): (f64, f64),
    ) -> Option<Self> {
        let tight = Self::around(scale, values, 0.0)?;
        let wide = tight.widened(low, high);
        let near_zero = scale == Scale::Linear && tight.lo >= 0.0 && tight.lo < 0.2 * tight.hi;
        Some(if near_zero { Self { lo: 0.0, ..wide } } else { wide })
    }

    /// Wider by shares of the range on the low and the high side.
    pub(super) fn widened(self, low: f64, high: f64) -> Self {
        match self.scale {
            Scale::Linear => {
                let span = self.hi - self.lo;
                Self { lo: self.lo - low * span, hi: self.hi + high * span, ..self }
            }
            Scale::Log => {
                let ratio = self.hi / self.lo;
                Self { lo: self.lo / ratio.powf(low), hi: self.hi * ratio.powf(high), ..self }
            }
        }
    }

    /// The place of a value as a share of the axis.
    pub(super) fn share(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.lo) / (self.hi - self.lo),
            Scale::Log => (value / self.lo).ln() / (self.hi / self.lo).ln(),
        }
    }

    /// Whether a value lies on the axis, with a hair's breadth to spare.
    pub(super) fn contains(&self, value: f64) -> bool {
        self.scale.can_draw(value) && (-1e-9..=1.0 + 1e-9).contains(&self.share(value))
    }

    /// About `target` ticks at round values.
    pub(super) fn ticks(&self, target: f64) -> Vec<Tick> {
        match self.scale {
            Scale::Linear => linear_ticks(self.lo, self.hi, target),
            Scale::Log => log_ticks(self.lo, self.hi, target),
        }
    }
}

/// One of 1, 2, 5 times a power of ten that is near `rough`, as multiple and power.
fn nice(rough: f64) -> (f64, i32) {
    let power = rough.log10().floor() as i32;
    let multiple = rough / 10f64.powi(power);
    // A few more ticks than asked for are better than half as many.
    match [1.0, 2.0, 5.0].into_iter().find(|m| multiple <= m * 1.3) {
        Some(m) => (m, power),
        None => (1.0, power + 1),
    }
}

fn linear_ticks(lo: f64, hi: f64, target: f64) -> Vec<Tick> {
    let (multiple, power) = nice((hi - lo) / target.clamp(1.0, 50.0));
    let value_of = |i: f64| {
        // Dividing by a power of ten gives the nearest double to 0.3; multiplying by 0.1 does not.
        if (0..=22).contains(&-power) {
            i * multiple / 10f64.powi(-power)
        } else {
            i * multiple * 10f64.powi(power)
        }
    };
    let step = value_of(1.0);
    let (first, last) = ((lo / step - 1e-6).ceil(), (hi / step + 1e-6).floor());
    if !(first.is_finite() && last - first <= 200.0) {
        return Vec::new();
    }
    let largest = lo.abs().max(hi.abs());
    let mut ticks = Vec::new();
    let mut i = first;
    while i <= last {
        let value = value_of(i);
        let label = if value == 0.0 {
            "0".into()
        } else if (1e-4..1e7).contains(&largest) || (power >= -6 && largest < 1e7) {
            number::fixed(value, (-power).clamp(0, 17) as usize)
        } else {
            let leading = value.abs().log10().floor() as i32;
            number::scientific(value, (leading - power).clamp(0, 17) as usize)
        };
        ticks.push(Tick { value, label });
        // Beyond 2^53 steps from zero adding one changes nothing; such ranges are widened before.
        i += 1.0;
        if ticks.len() > 200 {
            break;
        }
    }
    ticks
}

fn log_ticks(lo: f64, hi: f64, target: f64) -> Vec<Tick> {
    let (low, high) = (lo.log10(), hi.log10());
    let decades: Vec<i32> = (low.floor() as i32..=high.ceil() as i32).collect();
    let close = 1.0 + 1e-9;
    let within = |v: &f64| *v * close >= lo && *v <= hi * close;
    let at = |multiples: &[f64]| -> Vec<f64> {
        let all = decades.iter().flat_map(|&d| multiples.iter().map(move |m| power_of_ten(m, d)));
        all.filter(within).collect()
    };
    let mut values = at(&[1.0, 2.0, 5.0]);
    if values.len() as f64 > target {
        values = at(&[1.0, 3.0]);
    }
    if values.len() as f64 > target {
        values = at(&[1.0]);
    }
    if values.len() as f64 > target {
        let every = (values.len() as f64 / target).ceil() as i32;
        let whole = |v: &f64| (v.log10().round() as i32).rem_euclid(every) == 0;
        values.retain(whole);
    }
    if values.len() < 3 && high - low < 1.0 {
        return linear_ticks(lo, hi, target);
    }
    // One form for all: 1e−8 and 0.001 side by side read badly.
    let plain = values.iter().all(|v| (1e-4..1e7).contains(v));
    let label = |v: f64| {
        if plain || (0.1..=100.0).contains(&v) {
            number::short(v)
        } else {
            number::scientific(v, 0)
        }
    };
    values.into_iter().map(|value| Tick { value, label: label(value) }).collect()
}

fn power_of_ten(multiple: &f64, decade: i32) -> f64 {
    if decade < 0 { multiple / 10f64.powi(-decade) } else { multiple * 10f64.powi(decade) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(lo: f64, hi: f64, target: f64) -> Vec<String> {
        linear_ticks(lo, hi, target).into_iter().map(|t| t.label).collect()
    }

    #[test]
    fn ticks_are_round_and_written_with_the_digits_they_need() {
        assert_eq!(labels(0.0, 1.0, 5.0), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(-0.52, 0.31, 4.0), ["−0.4", "−0.2", "0", "0.2"]);
        assert_eq!(labels(-3.0, 3.0, 3.0), ["−2", "0", "2"]);
        assert_eq!(
            labels(1e6, 1.000_002e6, 2.0),
            ["1\u{202f}000\u{202f}000", "1\u{202f}000\u{202f}001", "1\u{202f}000\u{202f}002"]
        );
        assert_eq!(labels(0.0, 3e-9, 3.0), ["0", "1e−9", "2e−9", "3e−9"]);
        assert_eq!(labels(0.0, 2e12, 2.0), ["0", "1e12", "2e12"]);
    }

    #[test]
    fn tricky_ranges_give_a_few_increasing_ticks_inside() {
        let ranges = [
            (0.999_999, 1.0),
            (-1e-15, 1e-15),
            (1e15, 1e15 + 8.0),
            (-1e100, 1e100),
            (0.1, 0.1 + 1e-12),
            (-5.0, -4.9),
            (1e-90, 2e-90),
        ];
        for (lo, hi) in ranges {
            let axis = Axis::new(Scale::Linear, lo, hi);
            let ticks = axis.ticks(6.0);
            assert!((2..=14).contains(&ticks.len()), "{lo} {hi}: {ticks:?}");
            assert!(ticks.is_sorted_by(|a, b| a.value < b.value), "{ticks:?}");
            assert!(ticks.iter().all(|t| (-0.01..=1.01).contains(&axis.share(t.value))));
            let labels: std::collections::HashSet<_> = ticks.iter().map(|t| &t.label).collect();
            assert_eq!(labels.len(), ticks.len(), "{ticks:?}");
        }
    }

    #[test]
    fn log_ticks_are_decades_or_1_2_5_or_thinned_decades() {
        let labels = |lo, hi, target| -> Vec<String> {
            log_ticks(lo, hi, target).into_iter().map(|t| t.label).collect()
        };
        assert_eq!(labels(1.0, 100.0, 8.0), ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(labels(0.001, 1000.0, 8.0), ["0.001", "0.01", "0.1", "1", "10", "100", "1000"]);
        assert_eq!(labels(1e-10, 1e10, 5.0).len(), 5);
        assert_eq!(labels(3.0, 4.0, 5.0), ["3.0", "3.2", "3.4", "3.6", "3.8", "4.0"]);
    }

    #[test]
    fn ranges_without_extent_or_sense_are_widened() {
        for (lo, hi) in [(0.0, 0.0), (5.0, 5.0), (f64::NAN, 1.0), (f64::NEG_INFINITY, 0.0)] {
            for scale in [Scale::Linear, Scale::Log] {
                let axis = Axis::new(scale, lo, hi);
                assert!(axis.hi > axis.lo, "{axis:?}");
                assert!(axis.share(axis.hi).is_finite());
            }
        }
        assert_eq!(Axis::around(Scale::Log, [-1.0, 0.0, f64::NAN], 0.1), None);
    }
}
