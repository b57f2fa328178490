//! Flags of one method, seeds, comparisons, groups, full spectrum, and results that can be repeated.

use serde_json::Value;

use crate::util::Place;

fn methods(document: &Value) -> Vec<&str> {
    let results = document["results"].as_array().unwrap();
    results.iter().map(|result| result["method"].as_str().unwrap()).collect()
}

#[test]
fn flags_of_one_method_stand_behind_its_name() {
    let place = Place::new();
    place.small_pack("pack", 400, 100);
    let line = "eval pack --json --method knn:neighbours=10,knn:neighbours=30,kpca-nys:gamma=0.3:landmarks=32";
    let both = place.run(line).json();
    let named = ["knn:neighbours=10", "knn:neighbours=30", "kpca-nys:gamma=0.3:landmarks=32"];
    assert_eq!(methods(&both), named);
    let alone =
        ["knn --neighbours 10", "knn --neighbours 30", "kpca-nys --gamma 0.3 --landmarks 32"];
    for (result, flags) in both["results"].as_array().unwrap().iter().zip(alone) {
        let single = place.run(&format!("eval pack --json --method {flags}")).json();
        assert_eq!(result["sets"], single["results"][0]["sets"], "{flags}");
        assert_eq!(result["params"], single["results"][0]["params"], "{flags}");
    }
    let mixed = place.run("eval pack --json --neighbours 5 --method knn,knn:neighbours=10").json();
    assert_eq!(mixed["results"][0]["params"]["neighbours"], 5);
    assert_eq!(mixed["results"][1]["params"]["neighbours"], 10);
    for (list, told) in [
        ("knn:gamma=1", "--gamma has no meaning for knn"),
        ("knn:neighbours=many", "--neighbours: expected"),
        ("all:neighbours=3", "methods by their names"),
    ] {
        let message = place.run(&format!("eval pack --method {list}")).refused();
        assert!(message.contains(told), "{list}: {message}");
    }
}

#[test]
fn seeds_give_mean_and_deviation_where_something_is_drawn() {
    let place = Place::new();
    place.small_pack("pack", 400, 100);
    let random = "kpca-rff:features=32";
    let line = format!("eval pack --method {random},knn --seeds 3 --seed 4");
    let document = place.run(&format!("{line} --json")).json();
    let [drawn, fixed] = [0, 1].map(|at| &document["results"][at]);
    assert!(fixed.get("seeds").is_none(), "knn draws nothing");
    let runs = drawn["seeds"]["runs"].as_array().unwrap();
    let seeds: Vec<u64> = runs.iter().map(|run| run["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [4, 5, 6]);
    assert_eq!(document["provenance"]["seeds"], serde_json::json!([4, 5, 6]));
    let mut values = Vec::new();
    for (seed, run) in seeds.iter().zip(runs) {
        let single = place.run(&format!("eval pack --json --method {random} --seed {seed}")).json();
        assert_eq!(run["sets"], single["results"][0]["sets"], "seed {seed}");
        values.push(run["average"]["auroc"].as_f64().unwrap());
    }
    let mean = values.iter().sum::<f64>() / 3.0;
    let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    assert!((drawn["average"]["auroc"].as_f64().unwrap() - mean).abs() < 1e-12);
    assert!((drawn["seeds"]["sd"]["average"]["auroc"].as_f64().unwrap() - sd).abs() < 1e-12);
    assert!(sd > 0.0);
    let text = place.run(&line).fine();
    let shown = format!("{:.2} ± {:.2}", 100.0 * mean, 100.0 * sd);
    assert!(text.contains(&shown), "{shown} in {text}");
    assert!(text.contains("over 3 seeds; methods without ± draw nothing"), "{text}");
    for (flags, told) in [
        ("--seeds 0", "at least 1 seed"),
        ("--seeds 2 --ci delong", "those of one fit"),
        ("--seeds 2 --method kpca-rff:seed=3:features=32", "has a seed of its own"),
    ] {
        let message = place.run(&format!("eval pack {flags}")).refused();
        assert!(message.contains(told), "{flags}: {message}");
    }
}

#[test]
fn two_methods_are_compared_on_the_same_rows() {
    let place = Place::new();
    let document = place.run("eval PACK --compare knn,msp --json").json();
    assert_eq!(methods(&document), ["knn", "msp"], "those that are compared are evaluated");
    let compared = &document["comparisons"][0];
    assert_eq!((&compared["first"], &compared["second"]), (&"knn".into(), &"msp".into()));
    let differences = compared["differences"].as_array().unwrap();
    let over: Vec<&str> = differences.iter().map(|one| one["over"].as_str().unwrap()).collect();
    assert_eq!(over, ["average", "set", "set", "set"]);
    for one in differences {
        let name = one.get("name").and_then(Value::as_str);
        let figures = |at: usize| {
            let result = &document["results"][at];
            name.map_or(&result["average"], |name| &result["sets"][name]).clone()
        };
        for metric in ["fpr95", "auroc"] {
            let [first, second] = [0, 1].map(|at| figures(at)[metric].as_f64().unwrap());
            let found = &one[metric];
            let close =
                |key: &str, value: f64| (found[key].as_f64().unwrap() - value).abs() < 1e-12;
            assert!(close("first", first) && close("second", second), "{metric} {found}");
            assert!(close("difference", first - second), "{metric} {found}");
            let [low, high] = [0, 1].map(|end| found["interval"][end].as_f64().unwrap());
            assert!(low <= first - second && first - second <= high, "{metric} {found}");
            assert!((0.0..=1.0).contains(&found["p_value"].as_f64().unwrap()));
        }
    }
    let text = place.run("eval PACK --compare knn,msp").fine();
    assert!(text.contains("knn minus msp on the same rows"), "{text}");
    for (flags, told) in [
        ("--compare knn", "expected two methods"),
        ("--compare knn,knn", "expected two methods"),
        ("--compare knn,pca,msp", "expected two methods"),
        ("--compare knn,quokka", "unknown method `quokka`"),
        ("--compare knn,pca --format csv", "CSV holds one table"),
    ] {
        let message = place.run(&format!("eval PACK {flags}")).refused();
        assert!(message.contains(told), "{flags}: {message}");
    }
}

#[test]
fn a_lead_within_chance_is_marked() {
    let place = Place::new();
    // The same method under two names cannot be better than itself; a constant beside it is worse.
    let line = "eval PACK --method knn:neighbours=50,knn:neighbours=51,pca:components=1";
    let document = place.run(&format!("{line} --json")).json();
    let leads = document["leads"].as_array().unwrap();
    assert_eq!(leads.len(), 8, "two figures of three sets and their average");
    let average = leads.iter().find(|lead| lead["over"] == "average" && lead["metric"] == "auroc");
    assert_eq!(average.unwrap()["by_chance"], true, "{average:?}");
    let text = place.run(line).fine();
    assert!(text.contains('†') && text.contains("Not better than the second by more than chance"));
    let clear = place.run("eval PACK --method knn,pca:components=1").fine();
    assert!(!clear.contains('†'), "{clear}");
}

#[test]
fn near_and_far_sets_have_averages_of_their_own() {
    let place = Place::new();
    place.small_pack("pack", 400, 100);
    let flags = "--method pca,knn --json";
    let plain = place.run(&format!("eval pack {flags}")).json();
    assert!(plain.get("groups").is_none());
    place
        .write("pack/pack.toml", "name = \"clothes\"\nnear = [\"textures\"]\nfar = [\"digits\"]\n");
    let described = place.run(&format!("eval pack {flags}")).json();
    assert_eq!(described["pack"], "clothes");
    let names: Vec<&Value> =
        described["groups"].as_array().unwrap().iter().map(|group| &group["name"]).collect();
    assert_eq!(names, ["near", "far"]);
    for (before, after) in
        plain["results"].as_array().unwrap().iter().zip(described["results"].as_array().unwrap())
    {
        assert_eq!(before["sets"], after["sets"]);
        for (group, set) in [("near", "textures"), ("far", "digits")] {
            assert_eq!(after["groups"][group]["auroc"], after["sets"][set]["auroc"]);
        }
    }
    let table = place.run("eval pack --method pca,knn --format csv").fine();
    assert!(
        table.starts_with("method,q,average FPR95,average AUROC,near FPR95,near AUROC,far FPR95,"),
        "{table}"
    );
    // The same by folders.
    std::fs::remove_file(place.path("pack/pack.toml")).unwrap();
    std::fs::create_dir(place.path("pack/ood/near")).unwrap();
    let moved = place.path("pack/ood/near/textures.safetensors");
    std::fs::rename(place.path("pack/ood/textures.safetensors"), moved).unwrap();
    let folders = place.run(&format!("eval pack {flags}")).json();
    let groups = serde_json::json!([{"name": "near", "sets": ["near/textures"]}]);
    assert_eq!(folders["groups"], groups);
    assert_eq!(folders["results"][0]["groups"]["near"], described["results"][0]["groups"]["near"]);
    for (text, told) in [
        ("near = [\"svhn\"]", "`near` names svhn; expected sets of ood/: digits, near/textures"),
        ("near = \"digits\"", "expected a list of names"),
        ("near = [", "not TOML"),
        ("groups = 3", "expected a table of lists"),
        ("name = 3", "`name`: expected a text"),
    ] {
        place.write("pack/pack.toml", text);
        let message = place.run("eval pack --method pca").refused();
        assert!(message.contains(told), "{text}: {message}");
    }
}

#[test]
fn shifted_rows_count_as_in_distribution_when_asked() {
    let place = Place::new();
    place.small_pack("pack", 400, 100);
    let line = "eval pack --method pca";
    let plain = place.run(&format!("{line} --json")).json();
    assert!(
        place.run(&format!("{line} --full-spectrum")).refused().contains("has no shifted rows")
    );
    // Test rows again: twice the same rows leave every rate and area as it is.
    std::fs::create_dir(place.path("pack/shifted")).unwrap();
    std::fs::copy(
        place.path("pack/test.safetensors"),
        place.path("pack/shifted/again.safetensors"),
    )
    .unwrap();
    let ran = place.run(&format!("{line} --json"));
    assert!(ran.stderr.contains("not counted: shifted rows (again)"), "{ran:?}");
    let unasked: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(unasked["results"][0]["sets"], plain["results"][0]["sets"]);
    let full = place.run(&format!("{line} --full-spectrum --json")).json();
    assert_eq!(full["full_spectrum"], serde_json::json!(["again"]));
    let [before, after] = [&plain, &full].map(|document| &document["results"][0]);
    assert_eq!(after["score"]["rows"], before["score"]["rows"].as_u64().unwrap() + 100);
    for set in ["digits", "textures"] {
        assert_eq!(after["sets"][set]["auroc"], before["sets"][set]["auroc"]);
        assert_eq!(after["sets"][set]["fpr95"], before["sets"][set]["fpr95"]);
    }
    // A set of ood/ that pack.toml calls shifted is no OoD set any more.
    place.write("pack/pack.toml", "shifted = [\"digits\"]");
    let moved = place.run(&format!("{line} --full-spectrum --json")).json();
    assert_eq!(moved["full_spectrum"], serde_json::json!(["again", "digits"]));
    assert!(moved["results"][0]["sets"].get("digits").is_none());
}

#[test]
fn every_metric_has_a_name() {
    let place = Place::new();
    let names = "fpr95-at-least,fpr95-authors,fpr95-ood-positive,auroc,aupr-in,aupr-out,detection-error,aurc,augrc,oscr";
    let table =
        place.run(&format!("eval PACK --method pca,msp --metrics {names} --format csv")).fine();
    for column in
        ["average FPR95 authors", "mnist AURC", "mnist AUGRC", "mnist OSCR", "digits AUPR-out"]
    {
        assert!(table.lines().next().unwrap().contains(column), "{column} in {table}");
    }
    let document = place.run("eval PACK --method pca,msp --json").json();
    let accuracy = document["accuracy"].as_f64().unwrap();
    assert!((0.5..1.0).contains(&accuracy));
    for result in document["results"].as_array().unwrap() {
        for set in result["sets"].as_object().unwrap().values() {
            assert_eq!(set["fpr95"], set["fpr95_by_rule"]["at-least"]);
            // No threshold accepts more right answers than there are, and more AUROC than OSCR is accuracy.
            let oscr = set["oscr"].as_f64().unwrap();
            assert!(oscr <= accuracy && oscr <= set["auroc"].as_f64().unwrap());
            assert!(set["augrc"].as_f64().unwrap() <= set["aurc"].as_f64().unwrap());
        }
        assert!(result["ind"]["aurc"].as_f64().unwrap() < 1.0 - accuracy);
    }
    let strict = "eval PACK --method pca --tpr 0.99 --metrics";
    assert!(place.run(&format!("{strict} fpr99")).fine().starts_with("FPR99 in percent; lower"));
    assert!(
        place.run(&format!("{strict} fpr95")).refused().contains("expected fpr99, fpr99-at-least")
    );
    place.small_pack("pack", 400, 100);
    place.npy_of("pack/rows.npy", "test.safetensors", "features");
    std::fs::remove_file(place.path("pack/test.safetensors")).unwrap();
    std::fs::rename(place.path("pack/rows.npy"), place.path("pack/test.npy")).unwrap();
    let message = place.run("eval pack --method pca --metrics oscr").refused();
    assert!(message.contains("oscr needs to know which predictions are right"), "{message}");
}

#[test]
fn a_result_can_be_repeated_and_says_when_it_cannot() {
    let place = Place::new();
    place.small_pack("pack", 400, 100);
    place.run("fit pack -m pca -o net.offspan").fine();
    let line = "eval pack --method kpca-rff:features=32,knn:neighbours=7,msp --seeds 2 --tpr 0.9 \
                --fpr-rule authors --detector net.offspan --compare net,msp --json=result.json";
    place.run(line).fine();
    let told = place.json("result.json")["provenance"].clone();
    assert_eq!(told["path"], "pack");
    assert_eq!(told["rows"]["train"]["rows"], 400);
    assert!(told["rows"]["ood/digits"]["hash"].as_str().unwrap().starts_with("xxh3-128:"));
    assert!(told["instructions"].is_string() && told["offspan"].is_string());
    let words = place.run("eval --repeat result.json").fine();
    assert!(
        words.contains("All figures are identical.") && words.contains("rows: the same"),
        "{words}"
    );
    let document = place.run("eval --repeat result.json --json").json();
    assert_eq!((&document["identical"], &document["agrees"]), (&true.into(), &true.into()));
    assert_eq!(document["methods"].as_array().unwrap().len(), 4);
    assert_eq!(document["comparisons"][0]["method"], "net − msp");
    assert_eq!(document["comparisons"][0]["largest"], 0.0);

    // A figure that was changed.
    let mut forged = place.json("result.json");
    let figure = &mut forged["results"][1]["sets"]["digits"]["auroc"];
    *figure = (figure.as_f64().unwrap() - 0.01).into();
    place.write("forged.json", forged.to_string());
    let ran = place.run("eval --repeat forged.json");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("NOT all figures agree"), "{}", ran.stdout);
    assert!(ran.stdout.contains("sets.digits.auroc"), "{}", ran.stdout);

    let mut forged = place.json("result.json");
    let difference = &mut forged["comparisons"][0]["differences"][0]["auroc"]["interval"][0];
    *difference = (difference.as_f64().unwrap() - 0.01).into();
    place.write("forged.json", forged.to_string());
    let ran = place.run("eval --repeat forged.json");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("average.auroc.2.0"), "{}", ran.stdout);

    // Another detector under the same name, then other rows.
    place.run("fit pack -m pca --components 3 -o net.offspan").fine();
    let ran = place.run("eval --repeat result.json");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("net.offspan is another file than it was"), "{}", ran.stdout);
    place.small_pack("pack", 399, 100);
    let ran = place.run("eval --repeat result.json");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("NOT REPEATED") && ran.stdout.contains("train"), "{}", ran.stdout);

    std::fs::rename(place.path("pack"), place.path("elsewhere")).unwrap();
    let message = place.run("eval --repeat result.json").refused();
    assert!(message.contains("give its folder"), "{message}");
    place.write("other.json", "{}");
    for (line, told) in [
        ("eval --repeat missing.json", "missing.json"),
        ("eval --repeat other.json", "expected the schema offspan.eval/1"),
        ("eval elsewhere --repeat result.json --method knn", "cannot be used with"),
        ("eval elsewhere --repeat result.json --gamma 2", "from the document"),
    ] {
        let message = place.run(line).refused();
        assert!(message.contains(told), "{line}: {message}");
    }
}

#[test]
fn what_fails_beside_the_methods_does_not_cost_their_figures() {
    let place = Place::new();
    place.small_pack("pack", 300, 60);
    place.small_pack("other", 300, 60);
    // A method without a result, in a comparison: the others are told all the same.
    std::fs::remove_file(place.path("pack/head.safetensors")).unwrap();
    let ran = place.run("eval pack --method knn --compare knn,fdbd --json=result.json");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("knn and fdbd are not compared: fdbd has no result"), "{ran:?}");
    assert!(ran.stdout.contains("knn"), "{ran:?}");
    let document = place.json("result.json");
    assert_eq!(methods(&document), ["knn"]);
    assert_eq!(document["not_compared"][0]["second"], "fdbd");
    // A detector of other rows.
    place.run("synth --rows 300 --width 20 -o wide.npy").fine();
    place.run("fit wide.npy -m pca --hold-out 0 -o wide.offspan").fine();
    let ran = place.run("eval pack --method knn --detector wide.offspan");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stdout.contains("knn") && ran.stderr.contains("wide"), "{ran:?}");
}

#[test]
fn a_name_in_a_table_stands_for_one_method() {
    let place = Place::new();
    place.small_pack("pack", 300, 60);
    place.run("fit pack -m pca --hold-out 0 -o knn.offspan").fine();
    std::fs::create_dir(place.path("scores")).unwrap();
    for (flags, told) in [
        (
            "--method knn --detector knn.offspan",
            "--detector: expected a name that no other method has, got knn",
        ),
        (
            "--detector knn.offspan --scores knn=scores",
            "--scores: expected a name that no other method has, got knn",
        ),
        ("--method knn --scores knn=scores", "--scores: expected a name"),
        ("--method all --scores knn=scores", "--scores: expected a name"),
    ] {
        let message = place.run(&format!("eval pack {flags}")).refused();
        assert!(message.contains(told), "{flags}: {message}");
    }
    let twice = place.run("eval pack --method knn,msp,knn --json").json();
    assert_eq!(methods(&twice), ["knn", "msp"]);
}

#[test]
fn a_group_and_a_set_of_one_name_are_both_compared_again() {
    let place = Place::new();
    place.small_pack("pack", 200, 50);
    place.write("pack/pack.toml", "[groups]\ndigits = [\"digits\", \"textures\"]\n");
    place.run("eval pack --compare knn,pca --json=result.json").fine();
    let again = place.run("eval --repeat result.json --json").json();
    // The average, a group and two sets; of each two figures, by four numbers.
    assert_eq!(again["comparisons"][0]["figures"], 4 * 2 * 4);
    let mut forged = place.json("result.json");
    let differences = forged["comparisons"][0]["differences"].as_array_mut().unwrap();
    let group = differences.iter_mut().find(|one| one["over"] == "group").unwrap();
    group["auroc"]["first"] = 0.0.into();
    place.write("forged.json", forged.to_string());
    let ran = place.run("eval --repeat forged.json");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("groups.digits.auroc.0"), "{}", ran.stdout);
    forged["results"] = serde_json::json!([]);
    place.write("forged.json", forged.to_string());
    let message = place.run("eval --repeat forged.json").refused();
    assert!(message.contains("the document has no results"), "{message}");
}

#[test]
fn a_rate_by_another_rule_carries_it_wherever_it_is_shown() {
    let place = Place::new();
    place.small_pack("pack", 200, 50);
    for format in ["text", "markdown", "csv", "latex", "html"] {
        let line = format!("eval pack --method knn,pca --fpr-rule ood-positive --format {format}");
        let text = place.run(&line).fine();
        assert!(text.contains("FPR95 ood-positive"), "{format}: {text}");
        let usual = place.run(&format!("eval pack --method knn,pca --format {format}")).fine();
        assert!(usual.contains("FPR95") && !usual.contains("at-least"), "{format}: {usual}");
    }
    let page = place.run("eval pack --method knn,pca --fpr-rule ood-positive --format html").fine();
    assert!(page.contains("the share of in-distribution rows that are refused"), "{page}");
    let ran = place.run("eval pack --method all --format markdown --seed 1");
    assert!(
        ran.stderr.contains("not in the table: ") && ran.stderr.contains("godin"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_report_has_the_comparison_that_was_asked_for() {
    let place = Place::new();
    place.small_pack("pack", 200, 50);
    place.run("eval pack --compare knn,pca --report out").fine();
    for file in ["report.html", "results.md", "results.tex"] {
        let text = String::from_utf8(place.read(&format!("out/{file}"))).unwrap();
        assert!(text.contains("knn minus pca on the same rows"), "{file}");
    }
}
