//! Colours: concrete ones for files, variables for pages.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use super::viridis;

/// Where a plot will be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// A file with a light background.
    #[default]
    Light,
    /// A file with a dark background.
    Dark,
    /// Inside an HTML page: colours are the variables that [`page_css`] defines.
    Page,
}

/// What a colour is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// The background.
    Paper,
    /// Titles, labels, marks.
    Text,
    /// Ticks, notes, reference lines.
    Muted,
    /// Grid lines.
    Grid,
    /// The lines on which the axes stand.
    Axis,
    /// The side that is called out-of-distribution, and cells without a value.
    Shade,
    /// The colour of a series.
    Series(usize),
    /// A step of the colour scale.
    Step(usize),
    /// Text on a step of the colour scale.
    OnStep(usize),
}

/// Series have this many colours; then they begin again, with other dashes and markers.
pub(super) const SERIES: usize = 7;

struct Palette {
    plain: [(&'static str, &'static str); 6],
    series: [&'static str; SERIES],
}

// The colours of Okabe and Ito. Yellow is left to the dark theme, which has blue in its brighter
// form; grey comes last.
const LIGHT: Palette = Palette {
    plain: [
        ("paper", "#ffffff"),
        ("ink", "#1b1f24"),
        ("muted", "#59616b"),
        ("grid", "#e6e9ed"),
        ("axis", "#8a929c"),
        ("shade", "#f1f2f5"),
    ],
    series: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7078"],
};
const DARK: Palette = Palette {
    plain: [
        ("paper", "#15181d"),
        ("ink", "#e8eaed"),
        ("muted", "#a3abb5"),
        ("grid", "#2a2f37"),
        ("axis", "#6d7682"),
        ("shade", "#20242b"),
    ],
    series: ["#5ab8ee", "#f07f35", "#1fb98c", "#d98bb6", "#f2b43c", "#efe455", "#b3b9c2"],
};

impl Theme {
    /// What to write for a colour.
    pub(super) fn paint(self, ink: Ink) -> Cow<'static, str> {
        let palette = match self {
            Self::Light => &LIGHT,
            Self::Dark => &DARK,
            Self::Page => return Cow::Owned(format!("var(--{})", variable(ink))),
        };
        match ink {
            Ink::Series(k) => Cow::Borrowed(palette.series[k % SERIES]),
            Ink::Step(k) => Cow::Owned(hex(viridis::rgb(k))),
            Ink::OnStep(k) => {
                Cow::Borrowed(if viridis::wants_white(k) { "#ffffff" } else { "#000000" })
            }
            _ => Cow::Borrowed(palette.plain[plain_index(ink)].1),
        }
    }
}

fn plain_index(ink: Ink) -> usize {
    match ink {
        Ink::Paper => 0,
        Ink::Muted => 2,
        Ink::Grid => 3,
        Ink::Axis => 4,
        Ink::Shade => 5,
        _ => 1,
    }
}

fn variable(ink: Ink) -> Cow<'static, str> {
    match ink {
        Ink::Series(k) => Cow::Owned(format!("c{}", k % SERIES)),
        Ink::Step(k) => Cow::Owned(format!("v{}", k.min(viridis::STEPS - 1))),
        Ink::OnStep(k) => Cow::Borrowed(if viridis::wants_white(k) { "on-low" } else { "on-high" }),
        _ => Cow::Borrowed(LIGHT.plain[plain_index(ink)].0),
    }
}

fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The style sheet for plots drawn with [`Theme::Page`], once per page.
///
/// Dark colours hold where the system asks for them, unless the root says `data-theme="light"`, and
/// inside everything that says `data-theme="dark"`.
#[must_use]
pub fn page_css() -> &'static str {
    static CSS: LazyLock<String> = LazyLock::new(|| {
        let (light, dark) = (variables(&LIGHT), variables(&DARK));
        let mut scale = String::from("--on-low:#ffffff;--on-high:#000000;");
        for k in 0..viridis::STEPS {
            let _ = write!(scale, "--v{k}:{};", hex(viridis::rgb(k)));
        }
        format!(
            ":root{{{scale}}}\n\
             :root,[data-theme=light]{{{light}}}\n\
             @media (prefers-color-scheme: dark){{:root:not([data-theme=light]){{{dark}}}}}\n\
             [data-theme=dark]{{{dark}}}\n\
             svg.plot{{max-width:100%;height:auto}}\n"
        )
    });
    &CSS
}

fn variables(palette: &Palette) -> String {
    let mut css = String::new();
    for (name, colour) in palette.plain {
        let _ = write!(css, "--{name}:{colour};");
    }
    for (k, colour) in palette.series.iter().enumerate() {
        let _ = write!(css, "--c{k}:{colour};");
    }
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Ink; 9] = [
        Ink::Paper,
        Ink::Text,
        Ink::Muted,
        Ink::Grid,
        Ink::Axis,
        Ink::Shade,
        Ink::Series(3),
        Ink::Step(5),
        Ink::OnStep(5),
    ];

    #[test]
    fn the_style_sheet_defines_every_variable_that_plots_use() {
        let series = (0..2 * SERIES).map(Ink::Series);
        let steps = (0..viridis::STEPS).flat_map(|k| [Ink::Step(k), Ink::OnStep(k)]);
        for ink in ALL.into_iter().chain(series).chain(steps) {
            let used = Theme::Page.paint(ink);
            let name = used.trim_start_matches("var(").trim_end_matches(')');
            assert!(page_css().contains(&format!("{name}:#")), "{name}");
        }
    }

    #[test]
    fn series_stand_out_from_the_paper_in_both_themes() {
        let rgb = |s: &str| -> [u8; 3] {
            std::array::from_fn(|c| u8::from_str_radix(&s[1 + 2 * c..3 + 2 * c], 16).unwrap())
        };
        for palette in [LIGHT, DARK] {
            let paper = viridis::luminance(rgb(palette.plain[0].1));
            for colour in palette.series {
                let light = viridis::luminance(rgb(colour));
                let contrast = (light.max(paper) + 0.05) / (light.min(paper) + 0.05);
                assert!(contrast > 2.0, "{colour}: {contrast}");
            }
        }
    }
}
