//! Rows from several files, folders and stdin; what a pack may consist of; advice that works.

use std::collections::BTreeSet;

use offspan::CATALOGUE;
use safetensors::SafeTensors;
use serde_json::Value;

use crate::util::{Place, demo_pack, matrix, npy, npy_f32, write_safetensors};
use crate::{check_document, keys, parse_csv};

/// Lines of a CSV without its header.
fn body(csv: &str) -> Vec<&str> {
    csv.lines().skip(1).collect()
}

#[test]
fn score_takes_several_files_and_tells_which_row_is_of_which() {
    let place = Place::new();
    place.small_pack("pack", 400, 30);
    place.run("fit pack -m pca -o net").fine();
    std::fs::copy(place.path("pack/test.safetensors"), place.path("b,c.safetensors")).unwrap();
    let digits = place.run("score net pack/ood/digits.safetensors").fine();
    let test = place.run("score net b,c.safetensors").fine();
    let both = place.run("score net pack/ood/digits.safetensors b,c.safetensors").fine();
    assert!(both.starts_with("file,row,score,p_value,decision\n"), "{both}");
    let named = |file: &str, csv: &str| -> Vec<String> {
        body(csv).iter().map(|line| format!("{file},{line}")).collect()
    };
    let mut expected = named("pack/ood/digits.safetensors", &digits);
    expected.extend(named("\"b,c.safetensors\"", &test));
    assert_eq!(body(&both), expected);

    let line = "score net pack/ood/digits.safetensors b,c.safetensors";
    let json = place.run(&format!("{line} --json")).json();
    let files = json["files"].as_array().unwrap();
    assert_eq!(files[0]["file"], "pack/ood/digits.safetensors");
    assert_eq!((&files[1]["file"], &files[1]["rows"]), (&"b,c.safetensors".into(), &30.into()));
    let scores: Vec<f64> = [&digits, &test].into_iter().flat_map(|csv| parse_csv(csv).0).collect();
    assert_eq!(json["scores"], Value::from(scores.clone()));
    let single = place.run("score net b,c.safetensors --json").json();
    assert!(!keys(&single).contains(&"files"), "a single file is as it was");
    place.run(&format!("{line} -o all.npy")).fine();
    assert_eq!(crate::util::read_scores(&place.read("all.npy")), scores);
    assert_eq!(place.run(&format!("{line} --check")).code, Some(1));
    let message = place.run("score net b,c.safetensors missing.npy").refused();
    assert!(message.contains("missing.npy"), "{message}");
}

#[test]
fn score_takes_a_folder_with_the_logits_beside_its_files() {
    let place = Place::new();
    place.run("fit PACK/train.safetensors -m energy -o net").fine();
    std::fs::create_dir_all(place.path("rows/near")).unwrap();
    for (name, set) in [("b", "mnist"), ("a", "digits"), ("near/c", "textures")] {
        let set = format!("ood/{set}.safetensors");
        place.npy_of(&format!("rows/{name}.npy"), &set, "features");
        place.npy_of(&format!("rows/{name}-logits.npy"), &set, "logits");
    }
    place.write("rows/notes.txt", "not a feature file");
    let csv = place.run("score net rows").fine();
    let mut files: Vec<&str> = body(&csv).iter().map(|l| l.split(',').next().unwrap()).collect();
    files.dedup();
    assert_eq!(files, ["rows/a.npy", "rows/b.npy", "rows/near/c.npy"]);
    let scores: Vec<&str> = body(&csv).iter().map(|line| line.split(',').nth(2).unwrap()).collect();
    let single = |set: &str| {
        parse_csv(&place.run(&format!("score net PACK/ood/{set}.safetensors")).fine()).0
    };
    let expected: Vec<String> = ["digits", "mnist", "textures"]
        .iter()
        .flat_map(|set| single(set))
        .map(|s| s.to_string())
        .collect();
    assert_eq!(scores, expected);

    // A folder of one file is still a folder.
    assert!(place.run("score net rows/near").fine().starts_with("file,row,score"));
    std::fs::create_dir_all(place.path("empty")).unwrap();
    assert!(place.run("score net empty").refused().contains("found none"));
    let message = place.run("score net PACK").refused();
    assert!(message.contains("head.safetensors: by its name the last layer"), "{message}");
    std::fs::remove_file(place.path("rows/a.npy")).unwrap();
    let message = place.run("score net rows").refused();
    assert!(
        message.contains("a-logits.npy") && message.contains("a.npy is not beside it"),
        "{message}"
    );
}

#[test]
fn logits_are_given_one_file_for_each() {
    let place = Place::new();
    place.run("fit PACK/train.safetensors -m energy -o net").fine();
    for set in ["mnist", "digits"] {
        let file = format!("ood/{set}.safetensors");
        place.npy_of(&format!("{set}.npy"), &file, "features");
        place.npy_of(&format!("{set}-logits.npy"), &file, "logits");
    }
    let with = "score net mnist.npy digits.npy --logits mnist-logits.npy";
    let csv = place.run(&format!("{with} --logits digits-logits.npy")).fine();
    let whole =
        place.run("score net PACK/ood/mnist.safetensors PACK/ood/digits.safetensors").fine();
    let numbers = |csv: &str| -> Vec<String> {
        body(csv).iter().map(|line| line.split_once(',').unwrap().1.to_owned()).collect()
    };
    assert_eq!(numbers(&csv), numbers(&whole));
    let message = place.run(with).refused();
    assert!(
        message.contains("expected one file for each of the 2 files of rows, got 1"),
        "{message}"
    );
}

#[test]
fn score_reads_csv_and_npy_from_stdin() {
    let place = Place::new();
    place.small_pack("pack", 400, 20);
    place.run("fit pack -m pca -o net").fine();
    let rows = matrix(&place.path("pack/test.safetensors"), "features");
    place.write("rows.npy", npy_f32(&rows));
    let expected = place.run("score net rows.npy").fine();
    assert_eq!(place.run_with("score net -", &npy_f32(&rows)).fine(), expected);
    let lines: Vec<String> = rows
        .rows()
        .into_iter()
        .map(|row| row.iter().map(f32::to_string).collect::<Vec<_>>().join(","))
        .collect();
    let names: Vec<String> = (0..rows.ncols()).map(|column| format!("\"z, {column}\"")).collect();
    let plain = lines.join("\n");
    let named = format!("{}\r\n{}\r\n", names.join(","), lines.join("\r\n"));
    for csv in [plain, named] {
        assert_eq!(place.run_with("score net -", csv.as_bytes()).fine(), expected);
    }
    let both = place.run_with("score net rows.npy -", &npy_f32(&rows)).fine();
    assert!(body(&both)[20].starts_with("stdin,0,"), "{both}");
    for (stdin, expected) in [
        ("1,2\n3,4\n", "stdin: expected shape 128 columns"),
        ("a,b\n1,x\n", "row 0, column 1 (line 2): expected a number, got `x`"),
        ("", "stdin"),
    ] {
        let message = place.run_with("score net -", stdin.as_bytes()).refused();
        assert!(message.contains(expected), "{message}");
    }
    assert!(place.run("score net - -").refused().contains("stdin and was given 2 times"));
    assert!(place.run("score net - --raw f64:128").refused().contains("--raw"));
}

#[test]
fn scores_with_quoted_names_and_cells_are_read() {
    let place = Place::new();
    place.run("fit PACK -m pca -o net").fine();
    let plain = place.run("score net PACK/test.safetensors").fine();
    let quoted: String = plain
        .lines()
        .map(|line| {
            line.split(',').map(|cell| format!("\"{cell}\"")).collect::<Vec<_>>().join(",") + "\n"
        })
        .collect();
    place.write("plain.csv", &plain);
    place.write("quoted.csv", &quoted);
    let told = |file: &str| {
        let mut json = place.run(&format!("monitor net {file} --json --false-alarm 1e-300")).json();
        json["batches"][0]["report"].take()
    };
    assert_eq!(told("quoted.csv"), told("plain.csv"));
}

/// The demo pack as `.npy` files: features, logits, labels and the last layer.
fn npy_pack(place: &Place, name: &str) {
    std::fs::create_dir_all(place.path(name).join("ood")).unwrap();
    for split in ["train", "test", "ood/digits", "ood/mnist", "ood/textures"] {
        let file = format!("{split}.safetensors");
        place.npy_of(&format!("{name}/{split}.npy"), &file, "features");
        place.npy_of(&format!("{name}/{split}-logits.npy"), &file, "logits");
        let bytes = std::fs::read(demo_pack().join(&file)).unwrap();
        if let Ok(labels) = SafeTensors::deserialize(&bytes).unwrap().tensor("labels") {
            place.write(
                &format!("{name}/{split}-labels.npy"),
                npy("<i8", labels.shape(), labels.data()),
            );
        }
    }
    place.npy_head();
    for part in ["weight", "bias"] {
        let from = place.path(&format!("{part}.npy"));
        std::fs::rename(from, place.path(&format!("{name}/head-{part}.npy"))).unwrap();
    }
}

#[test]
fn a_pack_of_npy_files_carries_logits_labels_and_the_last_layer() {
    let place = Place::new();
    npy_pack(&place, "pack");
    let methods = "--method energy,mahalanobis,vim,she,kpca-nys --landmarks 64 --json";
    let names = ["energy", "mahalanobis", "vim", "she", "kpca-nys"];
    let ours = place.run(&format!("eval pack {methods}")).json();
    check_document(&ours, "pack", &names, "fpr95");
    let theirs = place.run(&format!("eval PACK {methods}")).json();
    for index in 0..names.len() {
        assert_eq!(ours["results"][index]["sets"], theirs["results"][index]["sets"]);
    }
    let splits = place.run("inspect pack --json").json();
    assert_eq!(
        keys(&splits["splits"]),
        ["ood/digits", "ood/mnist", "ood/textures", "test", "train"]
    );
    assert_eq!(splits["splits"]["train"]["classes"], 10);
    assert_eq!(
        (&splits["splits"]["ood/mnist"]["logits"], &splits["head"]["classes"]),
        (&10.into(), &10.into())
    );
    place.run("fit pack -m she -o net").fine();

    let refused = |expected: &str| {
        let message = place.run("eval pack -m pca").refused();
        assert!(message.contains(expected), "{message}");
    };
    std::fs::rename(place.path("pack/head-bias.npy"), place.path("bias.npy")).unwrap();
    refused("it has head-weight.npy but no head-bias.npy");
    std::fs::rename(place.path("bias.npy"), place.path("pack/head-bias.npy")).unwrap();
    std::fs::copy(demo_pack().join("head.safetensors"), place.path("pack/head.safetensors"))
        .unwrap();
    refused("expected one of the two forms");
    std::fs::remove_file(place.path("pack/head.safetensors")).unwrap();
    place.npy_of("pack/test-logits.npy", "train.safetensors", "logits");
    refused("expected shape 1500 rows");
    std::fs::copy(demo_pack().join("test.safetensors"), place.path("pack/test.safetensors"))
        .unwrap();
    refused("test-logits.npy: not needed: ");
}

#[test]
fn sets_in_folders_of_ood_carry_the_folder_in_their_names() {
    let place = Place::new();
    place.small_pack("pack", 400, 100);
    for (from, to) in [("digits", "near"), ("textures", "far")] {
        std::fs::create_dir(place.path(&format!("pack/ood/{to}"))).unwrap();
        let file = |name: &str| place.path(&format!("pack/ood/{name}.safetensors"));
        std::fs::rename(file(from), file(&format!("{to}/{from}"))).unwrap();
    }
    let document = place.run("eval pack -m pca --json").json();
    assert_eq!(keys(&document["results"][0]["sets"]), ["far/textures", "near/digits"]);
    assert!(place.run("inspect pack").fine().contains("ood/near/digits"));
    place.run("eval pack -m pca --report out").fine();
    assert!(place.has("out/plots/scores-near-digits.svg"));
    std::fs::create_dir(place.path("pack/ood/odd")).unwrap();
    let message = place.run("eval pack -m pca").refused();
    assert!(message.contains("odd: not a folder of feature files"), "{message}");
    std::fs::create_dir(place.path("pack/ood/odd/deep")).unwrap();
    let message = place.run("eval pack -m pca").refused();
    assert!(message.contains("it has the folder") && message.contains("deep"), "{message}");
}

#[cfg(unix)]
#[test]
fn parts_of_a_pack_that_lead_nowhere_are_told_and_not_taken_for_absent() {
    let place = Place::new();
    place.small_pack("pack", 60, 20);
    for file in ["head.safetensors", "val.npy", "ood/more.npy"] {
        let path = place.path(&format!("pack/{file}"));
        let kept = std::fs::read(&path).ok();
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        let message = place.run("eval pack -m pca").refused();
        assert!(message.contains(&format!("{file}: No such file")), "{message}");
        std::fs::remove_file(&path).unwrap();
        kept.into_iter().for_each(|bytes| std::fs::write(&path, bytes).unwrap());
    }
    place.run("eval pack -m pca").fine();
}

/// The long flags in a text.
fn flags(text: &str) -> BTreeSet<String> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words = text.split(|c: char| !letters(c)).filter(|word| word.starts_with("--"));
    words.map(str::to_owned).filter(|word| word.len() > 2).collect()
}

#[test]
fn what_a_command_advises_it_takes() {
    let place = Place::new();
    place.small_pack("pack", 300, 60);
    std::fs::remove_file(place.path("pack/head.safetensors")).unwrap();
    for file in ["train", "test", "ood/digits", "ood/textures"] {
        let path = place.path(&format!("pack/{file}.safetensors"));
        let features = matrix(&path, "features");
        let values: Vec<f32> = features.iter().copied().collect();
        write_safetensors(&path, &[("features", features.shape(), values)]);
    }
    let takes = |command: &str| flags(&place.run(&format!("{command} --help")).fine());
    let (of_eval, of_fit) = (takes("eval"), takes("fit"));
    let mut without_labels = 0;
    for name in CATALOGUE.iter().map(|method| method.name).chain(["knn+react", "kpca-nys+react"]) {
        let eval = place.run(&format!("eval pack --method {name}"));
        if eval.code != Some(2) {
            continue;
        }
        let unknown: Vec<_> = flags(&eval.stderr).difference(&of_eval).cloned().collect();
        assert!(unknown.is_empty(), "eval does not have {unknown:?}: {}", eval.stderr);
        let fit =
            place.run(&format!("fit pack/train.safetensors --method {name} -o net")).refused();
        let unknown: Vec<_> = flags(&fit).difference(&of_fit).cloned().collect();
        assert!(unknown.is_empty(), "fit does not have {unknown:?}: {fit}");
        if fit.contains("needs labels") {
            assert!(fit.contains("--labels FILE"), "{fit}");
            assert!(eval.stderr.contains("train-labels.npy"), "{eval:?}");
            without_labels += 1;
        }
    }
    assert!(without_labels > 4, "{without_labels} methods without labels");
    let message = place.run("eval pack --method kpca-nys").refused();
    assert!(
        message.contains("NAME-logits.npy") && message.contains("--sampling uniform"),
        "{message}"
    );
    place.run("fit PACK/train.safetensors -m energy -o energy").fine();
    let message = place.run("eval pack --detector energy").refused();
    assert!(message.contains("NAME-logits.npy") && !message.contains("--logits"), "{message}");
}
