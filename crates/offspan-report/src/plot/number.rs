//! Numbers as readers expect them: a true minus sign, no needless digits.

use std::fmt;

/// A coordinate, to a tenth of a pixel.
pub(super) struct Px(pub(super) f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = if self.0.is_finite() { (self.0 * 10.0).round() } else { 0.0 };
        let tenths = tenths.clamp(-1e7, 1e7) as i64;
        let (sign, tenths) = (if tenths < 0 { "-" } else { "" }, tenths.unsigned_abs());
        match (tenths / 10, tenths % 10) {
            (whole, 0) => write!(f, "{sign}{whole}"),
            (0, tenth) => write!(f, "{sign}.{tenth}"),
            (whole, tenth) => write!(f, "{sign}{whole}.{tenth}"),
        }
    }
}

/// A value with a fixed number of decimals.
pub(super) fn fixed(value: f64, decimals: usize) -> String {
    let digits = format!("{value:.decimals$}");
    let is_zero = !digits.bytes().any(|b| b.is_ascii_digit() && b != b'0');
    let digits = if is_zero { digits.trim_start_matches('-') } else { &digits };
    typeset(digits)
}

/// A value in scientific form, with at most a number of decimals.
pub(super) fn scientific(value: f64, decimals: usize) -> String {
    strip_mantissa(&typeset(&format!("{value:.decimals$e}")))
}

/// A value with three significant digits, or all of a whole number's.
pub(super) fn short(value: f64) -> String {
    if value.is_nan() {
        return "not a number".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞".into() } else { "−∞".into() };
    }
    let size = value.abs();
    if value == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e7).contains(&size) {
        return scientific(value, 2);
    }
    if value.fract() == 0.0 || size >= 1000.0 {
        return fixed(value, 0);
    }
    let decimals = (2 - size.log10().floor() as i32).max(0) as usize;
    let digits = fixed(value, decimals);
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        digits
    }
}

fn strip_mantissa(text: &str) -> String {
    match text.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => {
            format!("{}e{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text.to_owned(),
    }
}

/// How many of something, with its noun.
pub(super) fn count(n: usize, one: &str, many: &str) -> String {
    format!("{} {}", typeset(&n.to_string()), if n == 1 { one } else { many })
}

/// The minus sign, and narrow spaces between groups of three digits from five digits on.
fn typeset(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("−", rest));
    let digits = digits.replace('-', "−");
    let whole = digits.find(['.', 'e']).unwrap_or(digits.len());
    let mut out = String::from(sign);
    for (k, digit) in digits.chars().enumerate() {
        if whole >= 5 && k > 0 && k < whole && (whole - k) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_never_nan() {
        let texts =
            [0.04, -0.04, 12.0, 12.34, -0.5, f64::NAN, f64::INFINITY].map(|v| Px(v).to_string());
        assert_eq!(texts, ["0", "0", "12", "12.3", "-.5", "0", "0"]);
    }

    #[test]
    fn values_are_set_with_a_true_minus_and_without_negative_zero() {
        assert_eq!(fixed(-0.52, 2), "−0.52");
        assert_eq!(fixed(-0.001, 2), "0.00");
        assert_eq!(fixed(1_234_567.0, 0), "1\u{202f}234\u{202f}567");
        assert_eq!(fixed(1234.5, 1), "1234.5");
        assert_eq!(scientific(1.2e-8, 1), "1.2e−8");
    }

    #[test]
    fn short_values_keep_three_significant_digits() {
        let texts =
            [0.0, 4096.0, 0.123_45, -7.5, 0.05, 99.95, 1e-7, 123_456.7, f64::INFINITY].map(short);
        assert_eq!(
            texts,
            ["0", "4096", "0.123", "−7.5", "0.05", "100", "1e−7", "123\u{202f}457", "∞"]
        );
    }
}
