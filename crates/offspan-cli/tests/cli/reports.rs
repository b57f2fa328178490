//! Reports: one page that needs nothing else, its plots as files, and the same numbers everywhere.

use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::check_document;
use crate::util::Place;

/// Words of a page, without its plots and styles.
fn words(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        text += &rest[..start];
        let skip = ["<svg", "<style"].iter().find(|tag| rest[start..].starts_with(**tag));
        let end = match skip {
            Some(tag) => format!("</{}>", &tag[1..]),
            None => ">".to_owned(),
        };
        rest = &rest[start + rest[start..].find(&end).unwrap() + end.len()..];
        text.push(' ');
    }
    text.replace('\u{a0}', " ")
}

fn files_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_report_tells_the_threshold_and_how_often_it_is_wrong() {
    let place = Place::new();
    place.small_pack("pack", 600, 200);
    let text = place.run("eval pack --method pca,energy --report out --json out.json").fine();
    assert!(text.ends_with("\nreport: out/report.html\n"), "{text}");
    assert!(!text.contains("confidence"), "intervals that nobody asked for");
    let document = place.json("out.json");
    check_document(&document, "pack", &["pca", "energy"], "fpr95");
    assert_eq!(document, place.json("out/results.json"));

    let html = String::from_utf8(place.read("out/report.html")).unwrap();
    let words = words(&html);
    assert!(words.contains("pca on pack"), "the first method is the subject");
    assert!(words.contains("about 5 % of ordinary samples are called OoD by mistake"));
    let sets = &document["results"][0]["sets"];
    for name in ["digits", "textures"] {
        let share = 100.0 * sets[name]["fpr95"].as_f64().unwrap();
        let told = format!("{} % of {name}", (100.0 * share).round() / 100.0);
        assert!(words.contains(&told), "{told} in {words}");
        let interval = sets[name]["intervals"]["auroc"][0].as_f64().unwrap();
        assert!(words.contains(&format!("({:.2} – ", 100.0 * interval)), "interval of {name}");
    }
    for outside in ["http://www", "https://", "<script", "url("] {
        assert!(!html.replace("http://www.w3.org/", "").contains(outside), "{outside}");
    }
    assert!(!html.contains("NaN"), "a plot of what is no number");
}

#[test]
fn a_report_has_its_plots_as_files_and_its_table_for_machines() {
    let place = Place::new();
    place.small_pack("pack", 600, 200);
    place.run("eval pack --method kpca-nys --landmarks 64 --report out").fine();
    assert_eq!(
        files_in(&place.path("out")),
        ["plots", "report.html", "results.csv", "results.json", "results.md", "results.tex"]
    );
    let plots = files_in(&place.path("out/plots"));
    for name in [
        "mds-phi",
        "mds-z",
        "norms",
        "norms-cosine",
        "pr",
        "roc",
        "scores-digits",
        "scores-textures",
        "tsne-phi",
        "tsne-z",
        "variance",
    ] {
        for (ending, start) in [("svg", &b"<svg"[..]), ("png", b"\x89PNG")] {
            let file = format!("{name}.{ending}");
            assert!(plots.contains(&file), "{file} of {plots:?}");
            assert!(place.read(&format!("out/plots/{file}")).starts_with(start), "{file}");
        }
    }
    assert_eq!(plots.len(), 22, "{plots:?}");
    let table = String::from_utf8(place.read("out/results.csv")).unwrap();
    assert!(
        table.starts_with("method,average FPR95,average AUROC,average AUPR-in,digits FPR95,"),
        "{table}"
    );
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((lines.len(), lines[1].len()), (2, lines[0].len()), "{table}");
    let cell = |name: &str| -> f64 {
        let column = lines[0].iter().position(|known| *known == name);
        lines[1][column.unwrap_or_else(|| panic!("{name} in {table}"))].parse().unwrap()
    };
    for metric in ["digits FPR95", "textures AUROC"] {
        let [low, high] = ["low", "high"].map(|end| cell(&format!("{metric} {end}")));
        assert!(low <= cell(metric) && cell(metric) <= high, "{metric}: {table}");
    }
}

#[test]
fn the_same_command_writes_the_same_report() {
    let place = Place::new();
    place.small_pack("pack", 300, 100);
    let read = |folder: &str| {
        place.run(&format!("eval pack --method kpca-rff --features 64 --report {folder}")).fine();
        let mut files: Vec<Vec<u8>> = vec![place.read(&format!("{folder}/report.html"))];
        let plots = place.path(&format!("{folder}/plots"));
        files.extend(files_in(&plots).iter().map(|name| std::fs::read(plots.join(name)).unwrap()));
        files
    };
    assert!(read("one") == read("two"));
}

#[test]
fn thumbnails_of_a_pack_are_shown_beside_the_rows_at_both_ends() {
    let place = Place::new();
    place.small_pack("pack", 300, 40);
    let path = place.path("pack/test.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let pixels: Vec<u8> = (0..40 * 4 * 4).map(|pixel| (pixel % 251) as u8).collect();
    let mut all: Vec<(String, TensorView<'_>)> = tensors.tensors();
    all.push((
        "thumbnails".to_owned(),
        TensorView::new(Dtype::U8, vec![40, 4, 4], &pixels).unwrap(),
    ));
    let with_pictures = safetensors::serialize(all, None).unwrap();
    std::fs::write(&path, with_pictures).unwrap();
    place.run("eval pack --method pca --report out").fine();
    let html = String::from_utf8(place.read("out/report.html")).unwrap();
    assert_eq!(html.matches("<img src=\"data:image/png;base64,").count(), 16);
}

#[test]
fn the_report_of_the_demo_is_small_and_shows_its_best_method() {
    let place = Place::new();
    let text = place.run("demo --report out").fine();
    assert!(text.ends_with("\nreport: out/report.html\n"), "{text}");
    let html = place.read("out/report.html");
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
    let results = place.json("out/results.json");
    let results = results["results"].as_array().unwrap();
    let rate = |result: &&serde_json::Value| result["average"]["fpr95"].as_f64().unwrap();
    let best = results.iter().min_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap();
    let title = format!("<h1>{} on demo</h1>", best["method"].as_str().unwrap());
    assert!(String::from_utf8(html).unwrap().contains(&title), "{title}");
}

#[test]
fn a_report_that_cannot_be_written_says_where() {
    let place = Place::new();
    place.small_pack("pack", 300, 40);
    place.write("file", "");
    let ran = place.run("eval pack --method pca --report file/out");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.starts_with("error: cannot make the folder file/out: "), "{ran:?}");
}

#[test]
fn the_words_of_a_report_follow_its_own_threshold_whatever_the_rule_of_the_table() {
    let place = Place::new();
    place.small_pack("pack", 600, 200);
    let lead = |folder: &str, rule: &str| {
        place.run(&format!("eval pack --method pca --fpr-rule {rule} --report {folder}")).fine();
        words(&String::from_utf8(place.read(&format!("{folder}/report.html"))).unwrap())
    };
    let (ours, theirs) = (lead("one", "at-least"), lead("two", "ood-positive"));
    let told = |text: &str| {
        let start = text.find("these shares pass unnoticed").unwrap();
        text[start..start + 60].to_owned()
    };
    assert_eq!(told(&ours), told(&theirs));
    assert!(!ours.contains("follows the rule") && theirs.contains("follows the rule"));
}

#[test]
fn methods_without_a_result_are_named_in_the_report() {
    let place = Place::new();
    place.small_pack("pack", 300, 60);
    let ran = place.run("eval pack --method godin,pca --report out");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let html = String::from_utf8(place.read("out/report.html")).unwrap();
    assert!(html.contains("<h1>pca on pack</h1>"));
    assert!(
        html.contains("<summary>Methods without a result</summary>") && html.contains("godin_h")
    );
}

#[test]
fn a_set_of_a_single_row_still_makes_a_report() {
    let place = Place::new();
    place.small_pack("pack", 300, 60);
    let one = place.path("pack/ood/one.safetensors");
    crate::util::first_rows(&place.path("pack/ood/digits.safetensors"), &one, 1);
    place.run("eval pack --method pca --report out").fine();
    assert!(place.has("out/plots/scores-one.png"));
}

#[test]
fn a_report_tells_which_term_catches_which_set_and_speaks_against_which_row() {
    let place = Place::new();
    place.small_pack("pack", 600, 101);
    place.run("eval pack --method auto --report out").fine();
    let html = String::from_utf8(place.read("out/report.html")).unwrap();
    let text = words(&html).split_whitespace().collect::<Vec<_>>().join(" ");
    // The same fit, which holds nothing out.
    place.run("fit pack --hold-out 0 -o net").fine();
    let explain = |set: &str| {
        let line = format!("score net pack/{set}.safetensors --explain --json");
        place.run(&line).json()["explain"]["terms"].as_array().unwrap().clone()
    };
    let p_values = |term: &serde_json::Value| -> Vec<f64> {
        term["p_values"].as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).collect()
    };
    let sets = ["test", "ood/digits", "ood/textures"].map(explain);
    assert!(sets[0].len() > 1 && text.contains("What the score is made of"), "{text}");
    for (number, term) in sets[0].iter().enumerate() {
        let name = term["name"].as_str().unwrap();
        let share = format!("{:.2}", 100.0 * term["weight"].as_f64().unwrap());
        let mut row = format!("{name} {} %", share.trim_end_matches('0').trim_end_matches('.'));
        for set in &sets {
            let mut p = p_values(&set[number]);
            p.sort_by(f64::total_cmp);
            row += &match p[50] {
                p if p < 1e-3 => format!(" {p:.0e}").replace('-', "−"),
                p => format!(" {p:.3}"),
            };
        }
        assert!(text.contains(&row), "{row} in {text}");
    }
    let loudest = |row: usize| {
        let says =
            |term: &serde_json::Value| term["weight"].as_f64().unwrap() * p_values(term)[row].ln();
        sets[0].iter().min_by(|a, b| says(a).total_cmp(&says(b))).unwrap()["name"].clone()
    };
    let scores = place.run("score net pack/test.safetensors --json").json();
    let scores = scores["scores"].as_array().unwrap();
    let score = |row: &usize| scores[*row].as_f64().unwrap();
    let lowest = (0..scores.len()).min_by(|a, b| score(a).total_cmp(&score(b))).unwrap();
    let (_, after) = text.split_once("called what speaks loudest test ").unwrap();
    let (row, rest) = after.split_once(' ').unwrap();
    assert_eq!(row, lowest.to_string());
    let told = format!(" {} (p = ", loudest(lowest).as_str().unwrap());
    assert!(rest[..80].contains(&told), "{told} in {rest}");
    assert_eq!(text.matches("what speaks loudest").count(), 2, "for the lowest scores only");

    place.run("eval pack --method pca --report plain").fine();
    let plain = String::from_utf8(place.read("plain/report.html")).unwrap();
    assert!(!plain.contains("What the score is made of") && !plain.contains("speaks loudest"));
}
