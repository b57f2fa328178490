//! Every kind of plot, with data as they come and as they should not come. With `OFFSPAN_PLOTS` set
//! to a folder, the samples are written there, to be looked at.
#![allow(clippy::unwrap_used)]

use offspan_report::plot::{
    Bar, Bars, Best, Curve, Group, HeatMap, Histograms, Lines, Plot, PointMark, Reference, Scale,
    Scatter, Set, Side, Size, Theme, Threshold, page_css,
};

const THEMES: [Theme; 3] = [Theme::Light, Theme::Dark, Theme::Page];

/// Standard normal values, the same in every run.
struct Normal(u64);

impl Normal {
    fn uniform(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn next(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn many(&mut self, n: usize, mean: f64, deviation: f64) -> Vec<f64> {
        (0..n).map(|_| mean + deviation * self.next()).collect()
    }
}

fn histograms() -> Histograms {
    let mut normal = Normal(1);
    let mut near = normal.many(3000, -0.75, 0.25);
    near.extend([f64::NEG_INFINITY; 12]);
    Histograms {
        title: "CoRP separates SVHN from CIFAR-10; CIFAR-100 overlaps".into(),
        x_label: "score (higher is more in-distribution)".into(),
        sets: vec![
            Set::new("CIFAR-10 test", normal.many(4000, -0.2, 0.12)),
            Set::new("CIFAR-100", near),
            Set::new("SVHN", normal.many(6000, -1.4, 0.3)),
        ],
        thresholds: vec![Threshold { at: -0.4, label: "threshold −0.40: keeps 95 %".into() }],
        ood_side: Some(Side::Below),
        ..Histograms::default()
    }
}

fn distances() -> Histograms {
    let mut normal = Normal(6);
    let mut far = normal.many(900, 9.0, 2.5);
    far.extend([4e3, 1e5, f64::INFINITY]);
    Histograms {
        title: "Far from the class means: half of the textures".into(),
        x_label: "Mahalanobis distance".into(),
        sets: vec![
            Set::new("ImageNet validation", normal.many(1500, 4.0, 1.0)),
            Set::new("Textures", far),
        ],
        thresholds: vec![
            Threshold { at: 5.65, label: "keeps 95 %".into() },
            Threshold { at: 6.4, label: "keeps 99 %".into() },
        ],
        ood_side: Some(Side::Above),
        ..Histograms::default()
    }
}

fn precision() -> Lines {
    let methods = [
        "CoRP (ours)",
        "CoP",
        "KNN",
        "Mahalanobis",
        "ViM",
        "energy",
        "MSP",
        "ReAct + energy",
        "residual",
    ];
    let curve = |(k, name): (usize, &&str)| {
        let bend = 9.0 - k as f64 * 0.9;
        let points = (0..=200).map(|i| f64::from(i) / 200.0).map(|r| (r, 1.0 - 0.5 * r.powf(bend)));
        Curve::new(*name, points.collect())
    };
    Lines {
        title: "Precision holds until nearly all of the data are found".into(),
        x_label: "recall".into(),
        y_label: "precision".into(),
        x_range: Some((0.0, 1.0)),
        y_range: Some((0.0, 1.0)),
        curves: methods.iter().enumerate().map(curve).collect(),
        references: vec![Reference::Horizontal {
            at: 0.5,
            label: "share of in-distribution rows".into(),
        }],
        size: Size { width: 480.0, height: 480.0 },
        ..Lines::default()
    }
}

fn roc() -> Lines {
    let mut normal = Normal(2);
    let mut curve = |name: &str, distance: f64| {
        let mut scores: Vec<(f64, bool)> =
            normal.many(3000, distance, 1.0).into_iter().map(|s| (s, true)).collect();
        scores.extend(normal.many(3000, 0.0, 1.0).into_iter().map(|s| (s, false)));
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut hits, mut alarms) = (0.0, 0.0);
        let mut points = vec![(0.0, 0.0)];
        for (_, is_ind) in scores {
            if is_ind {
                hits += 1.0;
            } else {
                alarms += 1.0;
            }
            points.push((alarms / 3000.0, hits / 3000.0));
        }
        Curve::new(name, points)
    };
    Lines {
        title: "CoRP finds more of SVHN at every rate of false alarms".into(),
        x_label: "false positive rate".into(),
        y_label: "true positive rate".into(),
        x_range: Some((0.0, 1.0)),
        y_range: Some((0.0, 1.0)),
        curves: vec![
            curve("CoRP", 2.6),
            curve("CoP", 2.0),
            curve("energy", 1.3),
            curve("MSP", 0.9),
        ],
        references: vec![
            Reference::Diagonal { label: "chance".into() },
            Reference::Horizontal { at: 0.95, label: "95 % kept".into() },
        ],
        ..Lines::default()
    }
}

fn sweep() -> Lines {
    let gammas = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];
    let bump = |centre: f64, height: f64| -> Vec<(f64, f64)> {
        gammas.iter().map(|&g: &f64| (g, height - 0.02 * (g.ln() - centre).powi(2))).collect()
    };
    let around =
        |points: &[(f64, f64)]| points.iter().map(|p| (p.1 - 0.025, p.1 + 0.018)).collect();
    let (a, b) = (bump(0.2, 0.95), bump(1.2, 0.91));
    Lines {
        title: "AUROC peaks near γ = 1 and falls off on both sides".into(),
        x_label: "γ of the Gaussian kernel".into(),
        y_label: "AUROC".into(),
        x_scale: Scale::Log,
        curves: vec![
            Curve::new("near OoD (CIFAR-100)", a.clone()).with_markers().with_intervals(around(&a)),
            Curve::new("far OoD (SVHN)", b.clone()).with_markers().with_intervals(around(&b)),
        ],
        references: vec![
            Reference::Vertical { at: 3.0, label: "median heuristic".into() },
            Reference::Horizontal { at: 0.8, label: "plain PCA".into() },
        ],
        marks: vec![PointMark { x: 1.0, y: a[4].1, label: "chosen: γ = 1".into() }],
        ..Lines::default()
    }
}

fn spectrum() -> Lines {
    let mut normal = Normal(5);
    let mut total = 0.0;
    let points: Vec<(f64, f64)> = (1..=2048)
        .map(|k| {
            total += 1.0 / f64::from(k) + 0.0004 * normal.uniform();
            (f64::from(k), total)
        })
        .collect();
    let points: Vec<_> = points.iter().map(|p| (p.0, p.1 / total)).collect();
    let band = points.iter().map(|p| (p.1 - 0.03, p.1 + 0.03)).collect();
    let (q, share) = points[127];
    Lines {
        title: "128 of 2048 directions hold two thirds of the variance, and the rest is spread so thinly that no further cut stands out".into(),
        x_label: "number of directions q".into(),
        y_label: "share of variance".into(),
        curves: vec![Curve::new("training rows", points).with_intervals(band)],
        marks: vec![PointMark { x: q, y: share, label: "chosen: q = 128".into() }],
        ..Lines::default()
    }
}

fn scatter() -> Scatter {
    let mut normal = Normal(3);
    let mut blob = |name: &str, n: usize, x: f64, y: f64, s: f64| {
        Group::new(
            name,
            (0..n).map(|_| (x + s * normal.next(), y + 0.8 * s * normal.next())).collect(),
        )
    };
    Scatter {
        title: "SVHN lies apart from CIFAR-10; CIFAR-100 lies in between".into(),
        groups: vec![
            blob("CIFAR-10", 800, 0.0, 0.0, 1.0),
            blob("CIFAR-100", 600, 1.5, 0.9, 1.1),
            blob("SVHN", 500, 4.8, -0.6, 0.7),
            blob("Textures", 300, 3.4, 2.8, 0.8),
            blob("noise", 100, -2.5, 3.0, 0.4),
        ],
        embedding: true,
        ..Scatter::default()
    }
}

fn plain_scatter() -> Scatter {
    let mut normal = Normal(4);
    let points = |n: usize, shift: f64, normal: &mut Normal| {
        (0..n)
            .map(|_| {
                let x = 10.0 + 3.0 * normal.next();
                (x, 0.02 * x + shift + 0.03 * normal.next())
            })
            .collect()
    };
    Scatter {
        title: "The error grows with the norm of the feature".into(),
        x_label: "norm of the feature".into(),
        y_label: "reconstruction error".into(),
        groups: vec![
            Group::new("in", points(120, 0.1, &mut normal)),
            Group::new("out", points(100, 0.3, &mut normal)),
        ],
        ..Scatter::default()
    }
}

fn heat_map() -> HeatMap {
    let rows = ["64", "128", "256", "512", "1024"];
    let columns = ["0.01", "0.1", "0.3", "1", "3", "10"];
    let value = |i: usize, j: usize| {
        0.97 - 0.012 * (j as f64 - 3.2).powi(2) - 0.011 * (4.2 - i as f64).powi(2)
    };
    let mut values: Vec<Vec<f64>> = (0..5).map(|i| (0..6).map(|j| value(i, j)).collect()).collect();
    values[0][5] = f64::NAN;
    HeatMap {
        title: "AUROC is best with many features and γ near 1".into(),
        x_label: "γ".into(),
        y_label: "random features M".into(),
        value_label: "AUROC".into(),
        rows: rows.map(String::from).to_vec(),
        columns: columns.map(String::from).to_vec(),
        values,
        best: Best::Highest,
        ..HeatMap::default()
    }
}

fn wide_heat_map() -> HeatMap {
    let columns = [
        "CIFAR-100",
        "TinyImageNet",
        "MNIST",
        "SVHN",
        "Textures",
        "Places365 (subset)",
        "iNaturalist",
    ];
    let rows = ["CoRP", "CoP", "KNN", "Mahalanobis distance", "energy"];
    let values = (0..5).map(|i| {
        (0..7).map(|j| 61.0 - 9.0 * f64::from((i * 3 + j * 5) % 7) + f64::from(i)).collect()
    });
    HeatMap {
        title: "FPR95 per method and set: lower is better".into(),
        value_label: "FPR95 in %".into(),
        rows: rows.map(String::from).to_vec(),
        columns: columns.map(String::from).to_vec(),
        values: values.collect(),
        best: Best::Lowest,
        ..HeatMap::default()
    }
}

fn bars() -> Bars {
    Bars {
        title: "CoRP scores an image in a millisecond; KNN needs hundreds".into(),
        x_label: "time per image in milliseconds (logarithmic)".into(),
        bars: vec![
            Bar::new("CoRP, M = 1024", 1.1, "1.1 ms").highlighted(),
            Bar::new("CoP", 0.24, "0.24 ms"),
            Bar::new("Mahalanobis", 3.4, "3.4 ms"),
            Bar::new("KNN, k = 50, all training rows", 412.0, "412 ms"),
            Bar::new("residual", f64::NAN, ""),
        ],
        x_scale: Scale::Log,
        ..Bars::default()
    }
}

fn storage() -> Bars {
    let bar = |label: &str, value: f64| Bar::new(label, value, "");
    Bars {
        title: "Storage".into(),
        x_label: "megabytes".into(),
        bars: vec![bar("CoRP", 8.4), bar("KNN", 97.6), bar("Mahalanobis", 1.0)],
        ..Bars::default()
    }
}

fn samples() -> Vec<(&'static str, Plot)> {
    vec![
        ("histograms", histograms().into()),
        ("distances", distances().into()),
        ("precision", precision().into()),
        ("roc", roc().into()),
        ("sweep", sweep().into()),
        ("spectrum", spectrum().into()),
        ("scatter", scatter().into()),
        ("plain_scatter", plain_scatter().into()),
        ("heat_map", heat_map().into()),
        ("wide_heat_map", wide_heat_map().into()),
        ("bars", bars().into()),
        ("storage", storage().into()),
    ]
}

/// Data that a plot must bear.
fn degenerate() -> Vec<(String, Plot)> {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let hostile = "<b>&\"' \u{1} ∞ name ".repeat(12);
    let mut plots: Vec<(String, Plot)> = vec![
        ("empty histograms".into(), Histograms::default().into()),
        ("empty lines".into(), Lines::default().into()),
        ("empty scatter".into(), Scatter::default().into()),
        ("empty heat map".into(), HeatMap::default().into()),
        ("empty bars".into(), Bars::default().into()),
    ];
    let lists: [(&str, Vec<f64>); 8] = [
        ("none", vec![]),
        ("nan", vec![nan; 3]),
        ("infinite", vec![inf, -inf]),
        ("one", vec![3.0]),
        ("equal", vec![0.5; 40]),
        ("huge", vec![f64::MAX, f64::MIN, 1.0, 2.0]),
        ("tiny", vec![0.0, f64::MIN_POSITIVE, 1e-300]),
        ("mixed", vec![-inf, -1e9, 0.0, nan, 1e-9, 1.0, 2.0, 1e15]),
    ];
    for (name, values) in &lists {
        let pairs: Vec<(f64, f64)> = values.iter().map(|&v| (v, v)).collect();
        for scale in [Scale::Linear, Scale::Log] {
            let lines = Lines {
                title: hostile.clone(),
                x_label: hostile.clone(),
                y_label: hostile.clone(),
                x_scale: scale,
                curves: vec![
                    Curve::new(hostile.clone(), pairs.clone())
                        .with_markers()
                        .with_intervals(pairs.clone()),
                    Curve::new("b", vec![]),
                ],
                references: vec![
                    Reference::Vertical { at: nan, label: "v".into() },
                    Reference::Horizontal { at: 1.0, label: hostile.clone() },
                    Reference::Diagonal { label: hostile.clone() },
                ],
                marks: vec![
                    PointMark { x: inf, y: 0.0, label: "m".into() },
                    PointMark { x: 1.0, y: 1.0, label: hostile.clone() },
                ],
                ..Lines::default()
            };
            plots.push((format!("lines {name} {scale:?}"), lines.into()));
            let bars = values.iter().map(|&v| Bar::new(hostile.clone(), v, ""));
            let bars = Bars {
                bars: bars.collect(),
                x_scale: scale,
                x_label: hostile.clone(),
                ..Bars::default()
            };
            plots.push((format!("bars {name} {scale:?}"), bars.into()));
        }
        for side in [Side::Below, Side::Above] {
            let histograms = Histograms {
                title: hostile.clone(),
                sets: vec![Set::new(hostile.clone(), values.clone()), Set::new("", vec![])],
                thresholds: vec![
                    Threshold { at: 0.5, label: hostile.clone() },
                    Threshold { at: nan, label: "t".into() },
                ],
                ood_side: Some(side),
                ..Histograms::default()
            };
            plots.push((format!("histograms {name} {side:?}"), histograms.into()));
        }
        for embedding in [false, true] {
            let groups = vec![Group::new(hostile.clone(), pairs.clone()), Group::new("b", vec![])];
            let scatter = Scatter { groups, embedding, y_label: "y".into(), ..Scatter::default() };
            plots.push((format!("scatter {name} {embedding}"), scatter.into()));
        }
        let map = HeatMap {
            rows: vec![hostile.clone(); 2],
            columns: vec![hostile.clone(); 3],
            values: vec![values.clone(), vec![]],
            x_label: hostile.clone(),
            value_label: hostile.clone(),
            best: Best::Lowest,
            ..HeatMap::default()
        };
        plots.push((format!("heat map {name}"), map.into()));
    }
    let many = HeatMap {
        values: vec![vec![0.5; 90]; 70],
        rows: vec!["row".into(); 70],
        ..HeatMap::default()
    };
    plots.push(("heat map of many cells".into(), many.into()));
    let silly = Size { width: nan, height: -1.0 };
    plots.push(("size".into(), Lines { size: silly, ..roc() }.into()));
    let small = Size { width: 10.0, height: 10.0 };
    plots.push(("small".into(), Histograms { size: small, ..histograms() }.into()));
    plots.push(("small map".into(), HeatMap { size: small, ..heat_map() }.into()));
    let crowd = (0..25)
        .map(|k| Curve::new(format!("method number {k}"), vec![(0.0, 0.0), (1.0, f64::from(k))]));
    plots
        .push(("many curves".into(), Lines { curves: crowd.collect(), ..Lines::default() }.into()));
    plots
}

fn all() -> Vec<(String, Plot)> {
    let samples = samples().into_iter().map(|(name, plot)| (name.to_owned(), plot));
    samples.chain(degenerate()).collect()
}

/// The width of a text in a narrow font. What a real font does is measured with the PNG files.
fn rough_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.45
}

#[test]
fn every_plot_is_well_formed_and_tells_its_content_to_those_who_cannot_see_it() {
    for (name, plot) in all() {
        for theme in THEMES {
            let svg = plot.svg(theme);
            let tree = roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{name}: {e}"));
            let root = tree.root_element();
            assert_eq!(root.attribute("role"), Some("img"), "{name}");
            assert!(root.attribute("aria-label").is_some_and(|label| !label.is_empty()), "{name}");
            for tag in ["title", "desc"] {
                let element =
                    root.children().find(|e| e.has_tag_name(("http://www.w3.org/2000/svg", tag)));
                assert!(
                    element.and_then(|e| e.text()).is_some_and(|t| !t.is_empty()),
                    "{name} {tag}"
                );
            }
        }
    }
}

#[test]
fn no_coordinate_is_nan_or_infinite() {
    for (name, plot) in all() {
        let svg = plot.svg(Theme::Light);
        let tree = roxmltree::Document::parse(&svg).unwrap();
        for attribute in tree.descendants().flat_map(|e| e.attributes()) {
            if matches!(attribute.name(), "aria-label" | "font-family") {
                continue;
            }
            let value = attribute.value().to_lowercase();
            assert!(!value.contains("nan") && !value.contains("inf"), "{name}: {value}");
        }
    }
}

#[test]
fn all_text_lies_inside_the_plot() {
    for (name, plot) in all() {
        let svg = plot.svg(Theme::Light);
        let tree = roxmltree::Document::parse(&svg).unwrap();
        let number = |e: &roxmltree::Node<'_, '_>, key: &str| -> f64 {
            e.attribute(key).unwrap().parse().unwrap()
        };
        let root = tree.root_element();
        let (w, h) = (number(&root, "width"), number(&root, "height"));
        for e in tree.descendants().filter(|e| e.tag_name().name() == "text") {
            let (x, y, size) = (number(&e, "x"), number(&e, "y"), number(&e, "font-size"));
            assert!(size >= 11.0);
            let text = e.text().unwrap();
            let wide = rough_width(text, size);
            let (from, to) = match e.attribute("text-anchor") {
                None => (0.0, wide),
                Some("middle") => (-wide / 2.0, wide / 2.0),
                Some(_) => (-wide, 0.0),
            };
            let angle = e.attribute("transform").map_or(0.0, |t| {
                let first = t.trim_start_matches("rotate(").split(' ').next().unwrap();
                first.parse::<f64>().unwrap().to_radians()
            });
            for along in [from, to] {
                let (px, py) = (x + along * angle.cos(), y + along * angle.sin());
                assert!(px >= -0.5 && px <= w + 0.5, "{name}: {text:?} at x = {px} of {w}");
                assert!(py >= size * 0.5 && py <= h - 1.0, "{name}: {text:?} at y = {py} of {h}");
            }
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for ((name, a), (_, b)) in samples().into_iter().zip(samples()) {
        for theme in THEMES {
            assert_eq!(a.svg(theme), b.svg(theme), "{name}");
        }
    }
}

#[test]
fn names_are_escaped() {
    let curve = Curve::new("<b>&\"", vec![(0.0, 0.0), (1.0, 1.0)]);
    let svg = Lines { title: "</title><script>".into(), curves: vec![curve], ..Lines::default() }
        .svg(Theme::Page);
    assert!(svg.contains("&lt;b&gt;&amp;&quot;"));
    assert!(!svg.contains("<script") && !svg.contains("<b>"));
}

#[test]
fn files_have_colours_of_their_theme_and_pages_have_variables_only() {
    for (name, plot) in all() {
        let [light, dark, page] = THEMES.map(|theme| plot.svg(theme));
        assert_ne!(light, dark, "{name}");
        assert!(
            light.contains("#ffffff") && !light.contains("#15181d") && !light.contains("var("),
            "{name}"
        );
        assert!(
            dark.contains("#15181d") && !dark.contains("#0072b2") && !dark.contains("var("),
            "{name}"
        );
        assert!(page.contains("var(--ink)") || page.contains("var(--muted)"), "{name}");
        let tree = roxmltree::Document::parse(&page).unwrap();
        for e in tree.descendants() {
            for key in ["fill", "stroke"] {
                let paint = e.attribute(key).unwrap_or("none");
                assert!(paint == "none" || paint.starts_with("var(--"), "{name}: {paint}");
            }
        }
    }
    assert!(
        page_css().contains("prefers-color-scheme: dark")
            && page_css().contains("[data-theme=dark]")
    );
}

#[test]
fn plots_need_no_ids_so_that_many_fit_on_one_page() {
    for (name, plot) in samples() {
        assert!(!plot.svg(Theme::Page).contains(" id="), "{name}");
    }
}

#[test]
fn plots_without_data_say_so_in_words() {
    for (name, plot) in degenerate()
        .into_iter()
        .filter(|(name, _)| name.starts_with("empty") || name.contains("nan"))
    {
        assert!(plot.svg(Theme::Light).contains("Nothing to draw"), "{name}");
    }
    let equal = Histograms { sets: vec![Set::new("a", vec![0.5; 9])], ..Histograms::default() };
    assert!(equal.svg(Theme::Light).contains("All values of a equal 0.5."));
}

#[test]
fn infinite_values_are_counted_in_a_note() {
    assert!(histograms().svg(Theme::Light).contains("CIFAR-100: 12 at −∞"));
}

#[test]
fn plots_are_small() {
    for (name, plot) in samples() {
        let bytes = plot.svg(Theme::Page).len();
        assert!(bytes < 130_000, "{name}: {bytes}");
    }
    assert!(roc().svg(Theme::Page).len() < 30_000);
    let mut normal = Normal(9);
    let points = (0..4000).map(|_| (normal.next(), normal.next())).collect();
    let many = Scatter { groups: vec![Group::new("a", points)], ..Scatter::default() };
    assert!(many.svg(Theme::Page).len() < 200_000);
}

#[cfg(feature = "png")]
mod png {
    use super::*;
    use offspan_report::plot::PngError;
    use resvg::usvg;

    fn size_of(png: &[u8]) -> (u32, u32) {
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        let word = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        (word(16), word(20))
    }

    /// Every text with the box that it fills in Noto Sans.
    fn texts(svg: &str) -> (Vec<(String, usvg::Rect)>, usvg::Size) {
        fn walk(group: &usvg::Group, found: &mut Vec<(String, usvg::Rect)>) {
            for node in group.children() {
                match node {
                    usvg::Node::Group(group) => walk(group, found),
                    usvg::Node::Text(text) => {
                        let words = text.chunks().iter().map(|c| c.text()).collect::<String>();
                        found.push((words, text.abs_bounding_box()));
                    }
                    _ => {}
                }
            }
        }
        let mut options =
            usvg::Options { font_family: "Noto Sans".into(), ..usvg::Options::default() };
        let fonts = options.fontdb_mut();
        fonts.load_font_data(notosans::REGULAR_TTF.to_vec());
        fonts.load_font_data(notosans::BOLD_TTF.to_vec());
        fonts.set_sans_serif_family("Noto Sans");
        let tree = usvg::Tree::from_str(svg, &options).unwrap();
        let mut found = Vec::new();
        walk(tree.root(), &mut found);
        (found, tree.size())
    }

    #[test]
    fn texts_set_in_the_built_in_font_lie_inside_the_plot() {
        for (name, plot) in all() {
            let (texts, size) = texts(&plot.svg(Theme::Light));
            for (text, r) in texts {
                let inside = r.left() >= 0.0
                    && r.top() >= 0.0
                    && r.right() <= size.width()
                    && r.bottom() <= size.height();
                assert!(inside, "{name}: {text:?} fills {r:?}");
            }
        }
    }

    #[test]
    fn no_text_of_a_sample_touches_another() {
        for (name, plot) in samples() {
            let (texts, _) = texts(&plot.svg(Theme::Light));
            assert!(texts.len() > 4, "{name}");
            for (k, (a, r)) in texts.iter().enumerate() {
                // The box of a turned text holds much more than the text.
                for (b, s) in texts[..k].iter().filter(|_| name != "wide_heat_map") {
                    // Boxes are as high as the font's lines, with much air over small letters.
                    let air = |r: &usvg::Rect| 0.2 * r.height().min(r.width());
                    let apart = r.left() >= s.right()
                        || s.left() >= r.right()
                        || r.top() + air(r) >= s.bottom() - air(s)
                        || s.top() + air(s) >= r.bottom() - air(r);
                    assert!(apart, "{name}: {a:?} and {b:?}");
                }
            }
        }
    }

    #[test]
    fn pictures_have_the_right_size_and_are_not_blank() {
        for (name, plot) in samples() {
            for (theme, colour) in [(Theme::Light, [255u8; 3]), (Theme::Dark, [0x15, 0x18, 0x1d])] {
                let png = plot.png(theme, 1.5).unwrap();
                let picture = resvg::tiny_skia::Pixmap::decode_png(&png).unwrap();
                assert_eq!(size_of(&png), (picture.width(), picture.height()));
                assert_eq!(picture.width(), if name == "precision" { 720 } else { 960 }, "{name}");
                assert!(picture.pixels().iter().all(|p| p.alpha() == 255), "{name}");
                let is_paper = |p: &&resvg::tiny_skia::PremultipliedColorU8| {
                    [p.red(), p.green(), p.blue()] == colour
                };
                let paper = picture.pixels().iter().filter(is_paper).count();
                let share = paper as f64 / picture.pixels().len() as f64;
                assert!((0.2..0.98).contains(&share), "{name}: {share}");
            }
        }
    }

    #[test]
    fn text_is_drawn_without_fonts_of_the_system() {
        let plot = |title: &str| Scatter { title: title.into(), ..Scatter::default() };
        let a = plot("A title").png(Theme::Light, 1.0).unwrap();
        assert_ne!(a, plot("Another").png(Theme::Light, 1.0).unwrap());
    }

    #[test]
    fn a_page_theme_and_a_senseless_scale_are_errors() {
        let plot = bars();
        assert!(matches!(plot.png(Theme::Page, 1.0), Err(PngError::PageTheme)));
        for scale in [0.0, -1.0, f32::NAN, 100.0] {
            assert!(matches!(plot.png(Theme::Light, scale), Err(PngError::Scale(_))));
        }
    }

    #[test]
    fn samples_can_be_looked_at() {
        let Some(folder) = std::env::var_os("OFFSPAN_PLOTS").map(std::path::PathBuf::from) else {
            return;
        };
        for (name, plot) in samples() {
            for theme in [Theme::Light, Theme::Dark] {
                let file = folder.join(format!("{name}-{theme:?}.png"));
                std::fs::write(file, plot.png(theme, 1.5).unwrap()).unwrap();
            }
        }
        let mut page = format!("<!doctype html><meta charset=utf-8><style>{}</style>", page_css());
        page.extend(samples().iter().map(|(_, plot)| plot.svg(Theme::Page)));
        std::fs::write(folder.join("page.html"), page).unwrap();
        for (name, plot) in degenerate() {
            let file = folder.join(format!("odd-{}.png", name.replace(' ', "-")));
            std::fs::write(file, plot.png(Theme::Light, 1.0).unwrap()).unwrap();
        }
    }
}
