//! Text: escaping, and how wide it will be.

use std::borrow::Cow;

/// Advance widths of the printable ASCII characters in Noto Sans, in hundredths of an em. Other
/// fonts of the stack are about as wide or narrower.
const WIDTHS: [u8; 95] = [
    26, 27, 41, 65, 57, 83, 73, 23, 30, 30, 55, 57, 27, 32, 27, 37, 57, 57, 57, 57, 57, 57, 57, 57,
    57, 57, 27, 27, 57, 57, 57, 43, 90, 64, 65, 63, 73, 56, 52, 73, 74, 34, 27, 62, 52, 91, 76, 78,
    60, 78, 62, 55, 56, 73, 60, 93, 59, 57, 57, 33, 37, 33, 57, 44, 58, 56, 62, 48, 62, 56, 34, 62,
    62, 26, 26, 53, 26, 94, 62, 60, 62, 62, 41, 48, 36, 62, 51, 79, 53, 51, 47, 38, 55, 38, 57,
];

/// Bold text is wider by this much.
const BOLD: f64 = 1.07;

/// Widths are estimates and fonts differ: some room to spare.
const SPARE: f64 = 1.03;

/// The estimated width of a text, in pixels.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let ems: f64 = text.chars().map(|c| f64::from(hundredths(c)) / 100.0).sum();
    ems * size * SPARE
}

/// The estimated width of a bold text, in pixels.
pub(super) fn bold_width(text: &str, size: f64) -> f64 {
    width(text, size) * BOLD
}

fn hundredths(c: char) -> u8 {
    match c {
        ' '..='~' => WIDTHS[c as usize - 32],
        '\u{2009}' | '\u{202f}' => 20,
        '…' => 82,
        '∞' => 72,
        '←'..='↓' | '\u{fffd}' => 103,
        '\u{1100}'.. if !('\u{1e00}'..='\u{2dff}').contains(&c) => 100,
        _ => 62,
    }
}

/// Text as XML wants it. Characters that XML forbids become U+FFFD, line breaks spaces.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| {
        !matches!(c, '<' | '>' | '&' | '"' | '\'' | '\u{fffe}' | '\u{ffff}') && !c.is_control()
    };
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\r' | '\t' => out.push(' '),
            c if is_plain(c) => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    Cow::Owned(out)
}

/// The text, cut with an ellipsis where it would be wider than `limit`.
pub(super) fn shorten(text: &str, size: f64, limit: f64) -> Cow<'_, str> {
    if width(text, size) <= limit {
        return Cow::Borrowed(text);
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if width(&kept, size) + width("…", size) > limit {
            kept.pop();
            break;
        }
    }
    Cow::Owned(format!("{}…", kept.trim_end()))
}

/// The text in lines that are at most `limit` wide, at most `most` of them.
pub(super) fn wrap(text: &str, size: f64, bold: bool, limit: f64, most: usize) -> Vec<String> {
    let limit = if bold { limit / BOLD } else { limit };
    let mut lines: Vec<String> = Vec::new();
    // Narrow spaces inside numbers are no place for a break.
    for word in text.split([' ', '\n', '\t', '\r']).filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= limit => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > most {
        let rest = lines.split_off(most.max(1) - 1).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| shorten(line, size, limit).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped_and_forbidden_characters_are_replaced() {
        assert_eq!(escape("<b>&\"'"), "&lt;b&gt;&amp;&quot;&#39;");
        assert_eq!(escape("a\u{0}b\nc\u{ffff}"), "a\u{fffd}b c\u{fffd}");
        assert!(matches!(escape("γ = −0.5"), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_fit_and_the_last_one_tells_that_more_was_there() {
        let text = "a rather long sentence that must be broken into several lines to fit";
        let lines = wrap(text, 12.0, false, 100.0, 3);
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| width(line, 12.0) <= 100.0), "{lines:?}");
        assert!(lines[2].ends_with('…'));
        assert_eq!(wrap(text, 12.0, false, 1e4, 3), [text]);
    }

    #[test]
    fn a_word_wider_than_the_line_is_cut() {
        let lines = wrap(&"w".repeat(500), 12.0, true, 200.0, 2);
        assert_eq!(lines.len(), 1);
        assert!(bold_width(&lines[0], 12.0) <= 200.0);
    }
}
