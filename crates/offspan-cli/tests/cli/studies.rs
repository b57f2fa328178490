//! Studies: what single evaluations give, kept and computed once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::Value;

use crate::util::{Place, of_unlabelled};

/// Small enough for a test, with a method's own sizes beyond the rows cut by hand.
const SIZES: &str = "--landmarks 48 --features 64";

/// The results of a study's lines by their flags.
fn lines(document: &Value) -> Vec<(&str, &Value)> {
    let results = document["results"].as_array().unwrap();
    results.iter().map(|line| (line["flags"].as_str().unwrap(), line)).collect()
}

/// Each kept result: when it was written, and what it says. Whatever is computed is written, and says
/// how many seconds that took: what has not changed was not computed again.
fn kept(place: &Place, folder: &str) -> BTreeMap<PathBuf, (SystemTime, String)> {
    let entries = std::fs::read_dir(place.path(folder).join("cache")).unwrap();
    let result = |path: PathBuf| {
        let written = path.metadata().unwrap().modified().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        (path, (written, text))
    };
    entries.map(|entry| result(entry.unwrap().path())).collect()
}

/// Each line of the study must be what `eval` says with the line's flags, to the last digit.
#[track_caller]
fn agrees_with_eval(place: &Place, study: &str, expected: usize) {
    place.run(&format!("study {study} pack {SIZES} -o out")).fine();
    let document = place.json(&format!("out/{study}.json"));
    let lines = lines(&document);
    assert_eq!(lines.len(), expected);
    for (flags, line) in lines {
        let single = place.run(&format!("eval pack {flags} --json -"));
        if let Some(reason) = line["reason"].as_str() {
            assert!(single.stderr.contains(reason), "{reason}: {single:?}");
            continue;
        }
        let single = single.json();
        for part in ["sets", "average", "params"] {
            // A study asks for no figures of labels.
            let single = of_unlabelled(single["results"][0][part].clone());
            assert_eq!(line["result"][part], single, "{part} with {flags}");
        }
    }
}

#[test]
fn the_kernel_study_agrees_with_single_evaluations() {
    let place = Place::new();
    place.small_pack("pack", 300, 100);
    agrees_with_eval(&place, "kernels", 16);
    for file in [
        "kernels.html",
        "kernels.md",
        "kernels.csv",
        "plots/kernels-fpr.svg",
        "plots/kernels-auroc.png",
    ] {
        assert!(place.has(&format!("out/{file}")), "{file}");
    }
}

#[test]
fn the_sampling_study_agrees_with_single_evaluations() {
    let place = Place::new();
    place.small_pack("pack", 300, 100);
    agrees_with_eval(&place, "sampling", 6);
}

#[test]
fn a_repeated_study_computes_nothing_and_a_changed_set_everything() {
    let place = Place::new();
    place.small_pack("pack", 300, 100);
    let line = format!("study sampling pack {SIZES} -o out");
    place.run(&line).fine();
    let (first, page) = (kept(&place, "out"), place.read("out/sampling.html"));
    assert_eq!(first.len(), 6);
    place.run(&line).fine();
    assert_eq!(kept(&place, "out"), first);
    assert!(place.read("out/sampling.html") == page);
    let numbers = place.json("out/sampling.json");
    std::fs::rename(
        place.path("pack/ood/digits.safetensors"),
        place.path("pack/ood/others.safetensors"),
    )
    .unwrap();
    place.run(&line).fine();
    assert_eq!(kept(&place, "out").len(), 12);
    assert_ne!(place.json("out/sampling.json"), numbers);
}

#[test]
fn a_stopped_study_goes_on_where_it_was() {
    let place = Place::new();
    place.small_pack("pack", 300, 100);
    let line = format!("study sampling pack {SIZES} -o out");
    place.run(&line).fine();
    let whole = place.read("out/sampling.csv");
    let all = kept(&place, "out");
    let lost = all.keys().next().unwrap();
    std::fs::remove_file(lost).unwrap();
    place.run(&line).fine();
    let after = kept(&place, "out");
    let unchanged = after.iter().filter(|(path, result)| all.get(*path) == Some(result)).count();
    assert_eq!((after.len(), unchanged), (6, 5), "only the missing one is computed");
    assert!(place.read("out/sampling.csv") == whole);
}

#[cfg(unix)]
#[test]
fn an_interrupted_study_exits_130_and_keeps_what_was_done() {
    use crate::util::{finish, signal, wait_until};
    let place = Place::new();
    place.small_pack("pack", 2000, 200);
    let line = "study sensitivity pack -o out";
    let mut child = place.start(line);
    let some = || std::fs::read_dir(place.path("out/cache")).is_ok_and(|cache| cache.count() > 1);
    assert!(wait_until(&mut child, some), "the study ended before it kept anything");
    signal(&child, "INT");
    let ran = finish(line, child);
    assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
    assert!(ran.stderr.contains("kept in out/cache, run the same command to go on"), "{ran:?}");
    assert!(!place.has("out/sensitivity.html"));
}

#[test]
fn the_paper_has_every_section_and_is_drawn_again_from_what_is_kept() {
    let place = Place::new();
    place.small_pack("pack", 400, 100);
    place.write("published.csv", "method,FPR95\nKNN of the paper,12.34\n");
    let line = format!("study paper pack {SIZES} --published published.csv -o out");
    assert_eq!(place.run(&line).fine(), "out/paper.html\n");
    let html = String::from_utf8(place.read("out/paper.html")).unwrap();
    for section in [
        "What was measured",
        "Comparison of methods",
        "Scores and the threshold",
        "Features",
        "Pictures of feature space",
        "Rows worth a look",
        "Kernels",
        "Landmarks and residuals",
        "Sensitivity",
        "Approximation",
        "Time and storage",
        "Learned kernels",
        "Layers",
        "The paper&#39;s own",
    ] {
        let start =
            html.find(&format!("<h2>{section}</h2>")).unwrap_or_else(|| panic!("{section}"));
        let rest = &html[start..];
        let body = &rest[..rest.find("</section>").unwrap()];
        assert!(
            body.contains("<table") || body.contains("<dl") || body.contains("<svg"),
            "{section} is empty"
        );
    }
    assert!(html.contains("KNN of the paper") && html.contains("12.34"));
    // The paper's own figures, marked as theirs: a comparison, a kernel, a sampling, a learned kernel, a time, an oddity.
    for figure in
        ["38.15 / 91.02", "54.99 / 87.74", "32.34 / 92.51", "15.59 ms", "As printed, and odd"]
    {
        assert!(html.contains(figure), "{figure}");
    }
    assert!(html.contains("theirs, ResNet50 on ImageNet-1K") && html.contains("ours, on pack"));
    for study in [
        "methods",
        "kernels",
        "sampling",
        "sensitivity",
        "approximation",
        "cost",
        "learned",
        "layers",
    ] {
        for ending in ["html", "md", "csv", "tex", "json"] {
            assert!(place.has(&format!("out/{study}.{ending}")), "{study}.{ending}");
        }
        assert_eq!(place.json(&format!("out/{study}.json"))["schema"], "offspan.study/1");
    }
    let results = kept(&place, "out");
    place.run(&line).fine();
    assert!(kept(&place, "out") == results, "something was computed again");
    assert!(String::from_utf8(place.read("out/paper.html")).unwrap() == html);
}

#[test]
fn a_pack_with_few_rows_has_fewer_landmarks_and_every_study() {
    let place = Place::new();
    place.small_pack("pack", 120, 40);
    place.run("study cost pack -o out").fine();
    let costs = place.json("out/cost.json");
    assert_eq!(costs["results"]["costs"].as_array().unwrap().len(), 3);
    place.run("study sampling pack -o out").fine();
    let document = place.json("out/sampling.json");
    assert!(
        lines(&document).iter().all(|(flags, line)| {
            flags.ends_with("--landmarks 60") && line["result"].is_object()
        })
    );
}

#[test]
fn layers_stand_side_by_side() {
    let place = Place::new();
    place.small_pack("late", 300, 100);
    place.small_pack("early", 200, 100);
    place.run(&format!("study layers late early {SIZES} -o out")).fine();
    let document = place.json("out/layers.json");
    let layers: Vec<&str> = lines(&document)
        .iter()
        .map(|(_, line)| line["labels"]["layer"].as_str().unwrap())
        .collect();
    assert_eq!(layers, ["late", "late", "late", "late", "early", "early", "early", "early"]);
    // The same name twice would be one layer to a reader.
    std::fs::create_dir(place.path("other")).unwrap();
    std::fs::rename(place.path("early"), place.path("other/late")).unwrap();
    place.run(&format!("study layers late other/late {SIZES} -o out")).fine();
    let text = String::from_utf8(place.read("out/layers.csv")).unwrap();
    assert!(text.contains("late (1),pca") && text.contains("late (2),pca"), "{text}");
}

#[test]
fn what_makes_no_study_is_refused_with_a_reason() {
    let place = Place::new();
    place.small_pack("pack", 100, 40);
    let refused = |line: &str| place.run(line).refused();
    std::fs::create_dir(place.path("bare")).unwrap();
    std::fs::copy(place.path("pack/train.safetensors"), place.path("bare/train.safetensors"))
        .unwrap();
    assert!(refused("study kernels bare -o out").contains("pack bare has no ood/NAME.safetensors"));
    assert!(
        refused("study sampling pack --tpr 2 -o out").contains("the true positive rate must be")
    );
    assert!(refused("study cost nowhere -o out").contains("cannot open nowhere"));
    place.write("bad.csv", "a,b\n1\n");
    let message = refused("study paper pack --published bad.csv -o out");
    assert!(message.contains("row 1 has 1 cells; expected 2"), "{message}");
    assert!(
        refused("study paper pack --published none.csv -o out").contains("cannot read none.csv")
    );
    let message = refused("study approximation pack --landmarks 64 -o out");
    assert!(message.contains("--landmarks has no meaning for this study"), "{message}");
    assert!(!place.has("out"), "nothing was begun");
    let message = refused("study sampling pack --gamma nan -o out");
    assert!(message.contains("no line of the study has a result; the first: --gamma"), "{message}");
}

#[test]
fn without_energies_landmarks_are_uniform() {
    let place = Place::new();
    place.small_pack("pack", 200, 60);
    std::fs::remove_file(place.path("pack/head.safetensors")).unwrap();
    for file in ["train", "test", "ood/digits", "ood/textures"] {
        let path = place.path(&format!("pack/{file}.safetensors"));
        let features = crate::util::matrix(&path, "features");
        let values: Vec<f32> = features.iter().copied().collect();
        crate::util::write_safetensors(&path, &[("features", features.shape(), values)]);
    }
    place.run(&format!("study kernels pack {SIZES} -o out")).fine();
    let document = place.json("out/kernels.json");
    for (flags, line) in lines(&document) {
        assert_eq!(flags.contains("kpca-nys"), flags.contains("--sampling uniform"), "{flags}");
        assert!(line["result"].is_object(), "{line}");
    }
}

/// Averages over groups are kept with a result, and must not outlive the groups.
#[test]
fn sets_that_are_grouped_anew_have_new_averages() {
    let place = Place::new();
    place.small_pack("pack", 200, 50);
    let header = |groups: &str| {
        place.write("pack/pack.toml", groups);
        place.run("study sampling pack --landmarks 32 -o out").fine();
        let table = String::from_utf8(place.read("out/sampling.csv")).unwrap();
        (table.contains("near FPR95"), table.contains("far FPR95"))
    };
    assert_eq!(header("near = [\"digits\"]"), (true, false));
    assert_eq!(header("near = [\"digits\"]\nfar = [\"textures\"]"), (true, true));
}
