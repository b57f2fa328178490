//! Methods ranked over many packs.

use crate::util::{Place, matrix, npy_f32};

#[test]
fn packs_and_documents_give_the_same_ranking() {
    let place = Place::new();
    place.small_pack("one", 400, 100);
    place.small_pack("two", 250, 60);
    let methods = "pca,knn,msp,energy";
    let text = place.run(&format!("rank one two --method {methods} -o out")).fine();
    assert!(text.starts_with("4 methods ranked by AUROC over 2 packs"), "{text}");
    for file in ["rank.html", "rank.md", "rank.csv", "rank.tex", "rank.json", "results/one.json"] {
        assert!(place.has(&format!("out/{file}")), "{file}");
    }
    assert!(place.read("out/plots/critical-difference.png").starts_with(b"\x89PNG"));
    let ranking = place.json("out/rank.json");
    assert_eq!(ranking["schema"], "offspan.rank/1");
    let ranked = ranking["methods"].as_array().unwrap();
    let ranks: Vec<f64> = ranked.iter().map(|one| one["mean_rank"].as_f64().unwrap()).collect();
    assert!(ranks.is_sorted() && (ranks.iter().sum::<f64>() - 10.0).abs() < 1e-12, "{ranks:?}");
    let wins: u64 = ranked.iter().map(|one| one["wins"].as_u64().unwrap()).sum();
    assert!(wins >= 2);
    for one in ranked {
        let direct = place.json("out/results/one.json");
        let results = direct["results"].as_array().unwrap();
        let same = results.iter().find(|result| result["method"] == one["method"]).unwrap();
        assert_eq!(one["values"][0], same["average"]["auroc"]);
    }
    // Demšar: q for four methods is 2.569.
    let expected = 2.569 * (4.0 * 5.0 / (6.0 * 2.0_f64)).sqrt();
    assert!((ranking["critical_difference"].as_f64().unwrap() - expected).abs() < 0.001);
    let again = place.run("rank out/results/one.json out/results/two.json --json").json();
    assert_eq!(again, ranking);
    let mixed =
        place.run(&format!("rank out/results/one.json two --method {methods} --json")).json();
    assert_eq!(mixed, ranking);
}

#[test]
fn packs_are_evaluated_as_eval_does() {
    let place = Place::new();
    place.small_pack("one", 300, 60);
    place.small_pack("two", 200, 50);
    place.run("rank one two --method kpca-rff:features=32,msp --seeds 2 -o out").fine();
    let line = "eval one --method kpca-rff:features=32,msp --seeds 2 --json";
    let direct = place.run(line).json();
    let kept = place.json("out/results/one.json");
    let (ours, theirs) = (&kept["results"][0], &direct["results"][0]);
    assert_eq!((&ours["average"], &ours["seeds"]), (&theirs["average"], &theirs["seeds"]));
    assert_eq!(kept["provenance"]["seeds"], serde_json::json!([0, 1]));
    for (flags, told) in [
        ("one two --full-spectrum", "shifted"),
        ("one two --pseudo-labels 3", "labels of its own"),
        ("out/results/one.json out/results/two.json --seeds 2", "go with pack folders"),
        ("out/results/one.json out/results/two.json --pseudo-labels 2", "go with pack folders"),
    ] {
        let message = place.run(&format!("rank {flags}")).refused();
        assert!(message.contains(told), "{flags}: {message}");
    }
}

#[test]
fn methods_without_a_figure_everywhere_are_named() {
    let place = Place::new();
    place.small_pack("one", 400, 100);
    place.small_pack("two", 250, 60);
    std::fs::remove_file(place.path("two/head.safetensors")).unwrap();
    // The head is gone: only stored logits serve there, and scores of the weights have none.
    let ran = place.run("rank one two --method pca,knn,fdbd --by fpr95 --json");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("two: fdbd"), "{ran:?}");
    let ranking: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ranking["methods"].as_array().unwrap().len(), 2);
    assert_eq!(ranking["left_out"][0]["method"], "fdbd");
    assert!(ranking["left_out"][0]["reason"].as_str().unwrap().starts_with("two: "));
    let sets = place.run("rank one --over sets --method pca,knn --json").json();
    assert_eq!(sets["cases"], serde_json::json!(["one/digits", "one/textures"]));
    for (line, told) in [
        ("rank one --method pca,knn", "at least 2 cases, got 1"),
        ("rank one two --method pca", "at least 2 methods"),
        ("rank one two --by quokka", "unknown metric"),
        ("rank missing.json one", "missing.json"),
    ] {
        let message = place.run(line).refused();
        assert!(message.contains(told), "{line}: {message}");
    }
}

#[test]
fn what_keeps_packs_from_being_ranked_is_told_before_any_fit() {
    let place = Place::new();
    place.small_pack("one", 200, 50);
    std::fs::create_dir_all(place.path("bare/ood")).unwrap();
    for file in ["train", "test", "ood/digits"] {
        let rows = matrix(&place.path(&format!("one/{file}.safetensors")), "features");
        place.write(&format!("bare/{file}.npy"), npy_f32(&rows));
    }
    std::fs::create_dir(place.path("empty")).unwrap();
    for (flags, told) in [
        ("one empty", "empty"),
        ("one bare --by aurc", "--by: aurc needs to know which predictions are right"),
        ("one", "at least 2 cases, got 1"),
    ] {
        let message = place.run(&format!("rank {flags} --method pca,knn -o out")).refused();
        assert!(message.contains(told), "{flags}: {message}");
        assert!(!place.has("out/results"), "{flags}: a pack was fitted");
    }
    // Documents tell it, too.
    for pack in ["one", "bare"] {
        place.run(&format!("eval {pack} --method pca,knn --json={pack}.json")).fine();
    }
    let message = place.run("rank one.json bare.json --by aurc").refused();
    assert!(message.contains("bare: no aurc is known, which needs labels"), "{message}");
}

#[test]
fn packs_of_one_name_keep_documents_of_their_own() {
    let place = Place::new();
    place.small_pack("a/pack", 200, 50);
    place.small_pack("b/pack", 150, 40);
    place.run("rank a/pack b/pack --method pca,knn -o out").fine();
    let rows = |name: &str| {
        place.json(&format!("out/results/{name}.json"))["provenance"]["rows"]["train"]["rows"]
            .clone()
    };
    assert_eq!((rows("pack"), rows("pack-2")), (200.into(), 150.into()));
}
