//! Numbers as people read them.

/// A fraction as percent with two digits: 0.0465 → 4.65.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:.2}", 100.0 * fraction)
}

/// A fraction with its sign, which stays on its line: 0.0465 → 4.65 %, 0.95 → 95 %.
pub(crate) fn share(fraction: f64) -> String {
    let text = percent(fraction);
    format!("{}\u{a0}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A whole number with thousands apart: 50000 → 50,000.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, without needless zeros: what people type as a parameter.
pub(crate) fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Seconds in the unit that fits.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", 1e6 * s),
        s if s < 1.0 => format!("{:.2} ms", 1e3 * s),
        s if s < 90.0 => format!("{s:.1} s"),
        s => format!("{:.0} min", (s / 60.0).ceil()),
    }
}

/// Bytes in the unit that fits.
pub(crate) fn bytes(count: usize) -> String {
    match count as f64 {
        b if b < 1024.0 => format!("{count} B"),
        b if b < 1048576.0 => format!("{:.1} KiB", b / 1024.0),
        b => format!("{:.1} MiB", b / 1048576.0),
    }
}

/// A name as part of a file name.
pub(crate) fn file_name(name: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    name.chars().map(|c| if fits(c) { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [share(0.95), share(0.0465), share(1.0)],
            ["95\u{a0}%", "4.65\u{a0}%", "100\u{a0}%"]
        );
        assert_eq!(
            [grouped(999), grouped(50_000), grouped(1_281_167)],
            ["999", "50,000", "1,281,167"]
        );
        assert_eq!(
            [three_digits(0.012_345), three_digits(2.0), three_digits(1234.5)],
            [0.0123, 2.0, 1230.0]
        );
        assert_eq!(
            [duration(2.5e-6), duration(0.5), duration(61.0), duration(600.0)],
            ["2.5 µs", "500.00 ms", "61.0 s", "10 min"]
        );
        assert_eq!([bytes(12), bytes(2048), bytes(3 << 20)], ["12 B", "2.0 KiB", "3.0 MiB"]);
        assert_eq!(file_name("tiny/imagenet v1.5"), "tiny-imagenet-v1-5");
    }
}
