//! Text as pdfTeX takes it, in the encoding that documents have by default.

use std::fmt::Write;

/// Letters with accents that LaTeX composes only in fonts of another encoding.
const NEED_OTHER_FONTS: &str = "ÐÞðþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲųſ";

/// Text that LaTeX sets as it is.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let after = letters.peek().copied();
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                out.push('\\');
                out.push(letter);
            }
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '`' => out += "\\textasciigrave{}",
            '<' | '>' | '|' => math(&mut out, letter.encode_utf8(&mut [0; 4])),
            '"' => out += "{''}",
            // At the beginning of a row these would be an argument of the row before.
            '[' => out += "{[}",
            '*' => out += "{*}",
            '-' if is_sign(before, after) => math(&mut out, "-"),
            // Two strokes would become a dash.
            '-' if before == '-' => out += "{}-",
            '\u{a0}' => out.push('~'),
            '\n' | '\r' | '\t' => out.push(' '),
            plain if plain.is_ascii() => out.push(plain),
            other => match symbol(other) {
                Some(command) => out += command,
                None if has_accents(other) => out.push(other),
                // Nothing that every document can set: better its number than no document.
                None => {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "\\texttt{{U+{:04X}}}", u32::from(other));
                }
            },
        }
        before = letter;
    }
    out
}

/// Whether a stroke is the sign of a number and not a part of a name.
fn is_sign(before: char, after: Option<char>) -> bool {
    (before.is_whitespace() || ['(', '/', '–', '±', ',', '='].contains(&before))
        && after.is_some_and(|after| after.is_ascii_digit() || after == '.' || after == '∞')
}

fn math(out: &mut String, symbol: &str) {
    out.push('$');
    *out += symbol;
    out.push('$');
}

fn has_accents(letter: char) -> bool {
    ('\u{c0}'..='\u{17f}').contains(&letter) && !NEED_OTHER_FONTS.contains(letter)
}

/// What LaTeX calls a letter.
fn symbol(letter: char) -> Option<&'static str> {
    Some(match letter {
        '–' => "--",
        '—' => "---",
        '‘' => "`",
        '’' => "'",
        '“' => "``",
        '”' | '„' => "''",
        '«' => "$\\ll$",
        '»' => "$\\gg$",
        '…' => "\\dots{}",
        '•' => "$\\bullet$",
        '°' => "$^{\\circ}$",
        '§' => "\\S{}",
        '©' => "\\textcopyright{}",
        '€' => "\\texteuro{}",
        '‰' => "\\textperthousand{}",
        '½' => "$\\frac12$",
        '\u{200b}' | '\u{feff}' => "",
        '\u{2009}' | '\u{202f}' => "\\,",
        '−' | '‐' | '‑' => "$-$",
        '±' => "$\\pm$",
        '×' => "$\\times$",
        '÷' => "$\\div$",
        '·' => "$\\cdot$",
        '∘' => "$\\circ$",
        '⊗' => "$\\otimes$",
        '≈' => "$\\approx$",
        '≠' => "$\\neq$",
        '≡' => "$\\equiv$",
        '≤' => "$\\le$",
        '≥' => "$\\ge$",
        '∝' => "$\\propto$",
        '∞' => "$\\infty$",
        '√' => "$\\surd$",
        '∑' => "$\\sum$",
        '∏' => "$\\prod$",
        '∫' => "$\\int$",
        '∂' => "$\\partial$",
        '∇' => "$\\nabla$",
        '∈' => "$\\in$",
        '∪' => "$\\cup$",
        '∩' => "$\\cap$",
        '‖' | '∥' => "$\\|$",
        '⟨' => "$\\langle$",
        '⟩' => "$\\rangle$",
        '←' => "$\\leftarrow$",
        '→' => "$\\to$",
        '↑' => "$\\uparrow$",
        '↓' => "$\\downarrow$",
        '↔' => "$\\leftrightarrow$",
        '†' => "$\\dagger$",
        '‡' => "$\\ddagger$",
        'ᵀ' => "$^{\\mathsf{T}}$",
        '⁻' => "$^{-}$",
        '⁺' => "$^{+}$",
        '⁰' => "$^0$",
        '¹' => "$^1$",
        '²' => "$^2$",
        '³' => "$^3$",
        '⁴' => "$^4$",
        '₀' => "$_0$",
        '₁' => "$_1$",
        '₂' => "$_2$",
        '₃' => "$_3$",
        'α' => "$\\alpha$",
        'β' => "$\\beta$",
        'γ' => "$\\gamma$",
        'δ' => "$\\delta$",
        'ε' => "$\\varepsilon$",
        'ζ' => "$\\zeta$",
        'η' => "$\\eta$",
        'θ' => "$\\theta$",
        'ι' => "$\\iota$",
        'κ' => "$\\kappa$",
        'λ' => "$\\lambda$",
        'µ' | 'μ' => "$\\mu$",
        'ν' => "$\\nu$",
        'ξ' => "$\\xi$",
        'ο' => "o",
        'π' => "$\\pi$",
        'ρ' => "$\\rho$",
        'σ' => "$\\sigma$",
        'ς' => "$\\varsigma$",
        'τ' => "$\\tau$",
        'υ' => "$\\upsilon$",
        'φ' => "$\\varphi$",
        'χ' => "$\\chi$",
        'ψ' => "$\\psi$",
        'ω' => "$\\omega$",
        'Α' => "A",
        'Β' => "B",
        'Γ' => "$\\Gamma$",
        'Δ' | '∆' => "$\\Delta$",
        'Ε' => "E",
        'Ζ' => "Z",
        'Η' => "H",
        'Θ' => "$\\Theta$",
        'Ι' => "I",
        'Κ' => "K",
        'Λ' => "$\\Lambda$",
        'Μ' => "M",
        'Ν' => "N",
        'Ξ' => "$\\Xi$",
        'Ο' => "O",
        'Π' => "$\\Pi$",
        'Ρ' => "P",
        'Σ' => "$\\Sigma$",
        'Τ' => "T",
        'Υ' => "$\\Upsilon$",
        'Φ' => "$\\Phi$",
        'Χ' => "X",
        'Ψ' => "$\\Psi$",
        'Ω' => "$\\Omega$",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_name_cannot_become_a_command() {
        assert_eq!(
            escaped("\\input{x}_#1~^[2]--y"),
            "\\textbackslash{}input\\{x\\}\\_\\#1\\textasciitilde{}\\textasciicircum{}{[}2]-{}-y"
        );
        assert_eq!(escaped("*ours"), "{*}ours", "a star behind \\\\ belongs to it");
    }

    #[test]
    fn negative_numbers_have_a_minus_and_names_their_stroke() {
        assert_eq!(escaped("-11.53"), "$-$11.53");
        assert_eq!(escaped("4.0 / -0.5 (-1)"), "4.0 / $-$0.5 ($-$1)");
        assert_eq!(escaped("kpca-rff -x 1e-5"), "kpca-rff -x 1e-5");
        assert_eq!(escaped("−1"), "$-$1");
    }

    #[test]
    fn every_letter_becomes_one_that_documents_can_set() {
        assert_eq!(escaped("β=±1, Å ≥ λ†"), "$\\beta$=$\\pm$1, Å $\\ge$ $\\lambda$$\\dagger$");
        assert_eq!(escaped("数ą"), "\\texttt{U+6570}\\texttt{U+0105}");
        for letter in ('Α'..='Ρ').chain('Σ'..='Ω').chain('α'..='ω') {
            assert!(escaped(letter.encode_utf8(&mut [0; 4])).is_ascii(), "{letter}");
        }
    }
}
