//! A colour scale that is ordered for every eye: dark is low, bright is high.
//!
//! Ten published points of viridis (Smith and van der Walt, released into the public domain),
//! linear in between.

const POINTS: [[u8; 3]; 10] = [
    [0x44, 0x01, 0x54],
    [0x48, 0x28, 0x78],
    [0x3e, 0x4a, 0x89],
    [0x31, 0x68, 0x8e],
    [0x26, 0x82, 0x8e],
    [0x1f, 0x9e, 0x89],
    [0x35, 0xb7, 0x79],
    [0x6e, 0xce, 0x58],
    [0xb5, 0xde, 0x2b],
    [0xfd, 0xe7, 0x25],
];

/// Colours in the scale. Few enough to be named in a style sheet, too many to be told apart.
pub(super) const STEPS: usize = 32;

/// The step of a share in `[0, 1]`.
pub(super) fn step_of(share: f64) -> usize {
    ((share.clamp(0.0, 1.0) * STEPS as f64) as usize).min(STEPS - 1)
}

/// Red, green and blue of a step.
pub(super) fn rgb(step: usize) -> [u8; 3] {
    let last = POINTS.len() - 1;
    let position = step.min(STEPS - 1) as f64 / (STEPS - 1) as f64 * last as f64;
    let under = (position as usize).min(last - 1);
    let share = position - under as f64;
    std::array::from_fn(|c| {
        let (a, b) = (f64::from(POINTS[under][c]), f64::from(POINTS[under + 1][c]));
        (a + share * (b - a)).round() as u8
    })
}

/// Whether white text is easier to read on this step than black text.
pub(super) fn wants_white(step: usize) -> bool {
    let light = luminance(rgb(step));
    (1.0 + 0.05) / (light + 0.05) > (light + 0.05) / 0.05
}

/// Relative luminance as in WCAG 2.
pub(super) fn luminance(rgb: [u8; 3]) -> f64 {
    let [r, g, b] = rgb.map(|c| {
        let c = f64::from(c) / 255.0;
        if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_steps_are_brighter() {
        let lights: Vec<f64> = (0..STEPS).map(|k| luminance(rgb(k))).collect();
        assert!(lights.is_sorted_by(|a, b| a < b), "{lights:?}");
    }

    #[test]
    fn text_on_every_step_has_a_contrast_of_at_least_four_and_a_half() {
        for step in 0..STEPS {
            let (cell, white) = (luminance(rgb(step)), wants_white(step));
            let text = luminance(if white { [255; 3] } else { [0; 3] });
            let contrast = (cell.max(text) + 0.05) / (cell.min(text) + 0.05);
            assert!(contrast >= 4.5, "step {step}: {contrast}");
        }
    }

    #[test]
    fn shares_outside_the_unit_interval_take_the_ends() {
        assert_eq!((step_of(-1.0), step_of(0.0), step_of(1.0), step_of(7.0)), (0, 0, 31, 31));
    }
}
