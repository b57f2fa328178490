//! Tables in every format, also as LaTeX sets them.

use std::process::Command;

use crate::util::Place;

const LINE: &str = "eval PACK --method pca,knn,msp";

#[test]
fn every_format_has_the_same_figures() {
    let place = Place::new();
    let document = place.run(&format!("{LINE} --format json")).json();
    let pca = document["results"][0]["sets"]["mnist"]["auroc"].as_f64().unwrap();
    let shown = format!("{:.2}", 100.0 * pca);
    for (format, start) in [
        ("text", "FPR95 / AUROC in percent; lower / higher is better"),
        ("markdown", "| method | average FPR95 ↓ | average AUROC ↑ |"),
        ("csv", "method,q,average FPR95,average AUROC,"),
        ("latex", "% \\usepackage{booktabs}"),
        ("html", "<!doctype html>"),
    ] {
        let text = place.run(&format!("{LINE} --format {format}")).fine();
        assert!(text.starts_with(start), "{format}: {text}");
        assert!(text.contains(&shown), "{shown} in {format}: {text}");
    }
    let beside = place.run(&format!("{LINE} --format latex --json=out.json")).fine();
    assert!(beside.starts_with('%') && place.has("out.json"));
    for (flags, told) in [
        ("--format pdf", "unknown format: expected text, markdown, csv, latex, json, html"),
        ("--format latex --json", "both want stdout"),
    ] {
        let message = place.run(&format!("{LINE} {flags}")).refused();
        assert!(message.contains(told), "{flags}: {message}");
    }
}

#[test]
fn studies_print_their_table_too() {
    let place = Place::new();
    place.small_pack("pack", 300, 100);
    for (format, file) in
        [("markdown", "md"), ("csv", "csv"), ("latex", "tex"), ("json", "json"), ("html", "html")]
    {
        let ran =
            place.run(&format!("study sampling pack -o out --landmarks 32 --format {format}"));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stderr.contains("sampling.html"), "{ran:?}");
        assert_eq!(ran.stdout.as_bytes(), place.read(&format!("out/sampling.{file}")), "{format}");
    }
}

/// Whether LaTeX is there; if not, says so, and the test proves nothing.
fn has_latex() -> bool {
    let found =
        Command::new("pdflatex").arg("--version").output().is_ok_and(|ran| ran.status.success());
    if !found {
        eprintln!("skipped: pdflatex is not installed (Debian: texlive-latex-recommended)");
    }
    found
}

#[test]
fn latex_tables_compile() {
    let place = Place::new();
    place.small_pack("a_b", 300, 100);
    let tables = [
        place.run(&format!("{LINE} --format latex")).fine(),
        place.run("eval PACK --method pca,kpca-rff:features=64 --seeds 2 --compare pca,kpca-rff:features=64 --format latex").fine(),
        place.run("eval PACK --method pca,msp --ci delong --metrics fpr95,auroc,aupr-in,aupr-out,oscr --format latex").fine(),
        place.run("study sampling a_b -o out --landmarks 32").stdout.replace('\n', ""),
        place.run("rank PACK a_b --method pca,msp,energy,max-logit --format latex").fine(),
    ];
    let study = String::from_utf8(place.read("out/sampling.tex")).unwrap();
    if !has_latex() {
        return;
    }
    // More rows than a page has, and more columns than a line has: cut into several tables.
    let every = "fpr95,fpr95-authors,auroc,aupr-in,aupr-out,detection-error,aurc,oscr";
    let all = "eval a_b --method all --landmarks 32 --features 64 --format latex";
    let long = "\\newpage\n".to_owned() + &place.run(&format!("{all} --metrics {every}")).stdout;
    assert!(long.matches("\\begin{longtable}").count() > 1, "{long}");
    // With few rows it is scaled.
    let wide = place.run(&format!("{LINE} --format latex --metrics {every}")).fine();
    assert!(wide.contains("\\resizebox"), "{wide}");
    let packages = ["booktabs", "longtable", "graphicx", "array"]
        .map(|name| format!("\\usepackage{{{name}}}"))
        .concat();
    let body = [&tables[0], &tables[1], &tables[2], &tables[4], &study, &wide, &long]
        .map(String::as_str)
        .join("\n");
    place.write(
        "paper.tex",
        format!("\\documentclass{{article}}\n{packages}\n\\begin{{document}}\n{body}\n\\end{{document}}\n"),
    );
    let ran = Command::new("pdflatex")
        .args(["-interaction=nonstopmode", "-halt-on-error", "paper.tex"])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && place.has("paper.pdf"), "{log}");
    assert!(!log.contains("LaTeX Warning: Float too large"), "{log}");
    // `Overfull \hbox (12.3pt too wide) in alignment at lines 1--9`
    let too_wide = log.lines().filter_map(|line| {
        let points = line.strip_prefix("Overfull \\hbox (")?.split_once("pt too wide")?.0;
        points.parse::<f64>().ok().filter(|points| *points > 3.0).map(|_| line)
    });
    assert_eq!(too_wide.collect::<Vec<_>>(), [""; 0]);
}
