//! What is refused: exit code 2, a sentence on stderr, nothing on stdout, no file made.

use ndarray::{Array2, s};

use crate::util::{Place, f32_bytes, npy, npy_f32, write_safetensors};

/// Runs each line: exit code 2, these words on stderr, nothing on stdout, no file made.
fn check_refusals(place: &Place, cases: &[(&str, &str)]) {
    let before = place.files();
    let mut wrong = Vec::new();
    for (line, expected) in cases {
        let ran = place.run(line);
        let told = ran.stderr.starts_with("error: ") && ran.stderr.contains(expected);
        if ran.code != Some(2) || !ran.stdout.is_empty() || !told {
            wrong.push(format!("expected `{expected}`, got {ran:?}"));
        }
        for name in place.files() {
            if !before.contains(&name) {
                wrong.push(format!("`{line}` made {name}"));
                std::fs::remove_file(place.path(&name)).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Files that fuzzing found: one gave a NaN, one a panic, and one ran for ever.
#[test]
fn numbers_of_a_hostile_detector_are_refused_in_words() {
    let place = Place::new();
    place.run("synth --rows 300 --width 8 -o rows.npy").fine();
    let found =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/detector");
    for (name, file) in [
        ("centre", "class-mean-pca-with-a-centre-of-1e308"),
        ("clipped", "mme-clipped-at-ends-that-cross"),
        ("smoothed", "weiper-kld-smoothed-over-10-to-the-12-bins"),
    ] {
        std::fs::copy(found.join(file), place.path(name)).unwrap();
    }
    check_refusals(
        &place,
        &[
            ("score centre rows.npy", "class-mean-pca: the score of row 0 is not a number"),
            ("score clipped rows.npy", "a number `high` of at least"),
            ("score smoothed rows.npy", "two whole numbers from 1 to"),
            (
                "fit rows.npy --method weiper-kld --smoothing 4,1000000000000 -o net",
                "two whole numbers from 1 to 100, the number of bins, got 4,1000000000000",
            ),
        ],
    );
}

#[test]
fn bad_parameters_are_refused_in_words() {
    let place = Place::new();
    place.write("rows.txt", "1 2 3");
    place.write("far.txt", "1 2 500000");
    place.write("words.txt", "1 two");
    place.write("none.txt", "");
    let few: Vec<f32> = vec![0.5; 8 * 4];
    let arrays: [(&str, &[usize], Vec<f32>); 2] =
        [("omega", &[8, 4], few), ("u", &[8], vec![0.1; 8])];
    write_safetensors(&place.path("narrow.safetensors"), &arrays);
    check_refusals(
        &place,
        &[
            (
                "fit PACK --method foo -o out",
                "unknown method `foo`; expected all, one of auto, pca,",
            ),
            ("eval PACK --method pca,foo", "unknown method `foo`"),
            ("fit PACK --method pca --gamma 1 -o out", "--gamma has no meaning for pca"),
            ("fit PACK --method knn --landmarks 5 -o out", "--landmarks has no meaning for knn"),
            ("fit PACK --method energy --react 1 -o out", "--react has no meaning for energy"),
            ("eval PACK --method pca,knn --temperature 2", "--temperature has no meaning"),
            ("fit PACK --method kpca-rff --residual complete -o out", "--residual has no meaning"),
            ("fit PACK --unknown -o out", "unexpected argument '--unknown'"),
            (
                "fit PACK -m kpca-nys --react x -o out",
                "expected a value such as 1.0 or a percentile",
            ),
            ("fit PACK -m kpca-nys --react p101 -o out", "a percentile from p0 to p100"),
            ("fit PACK -m kpca-nys --react pnan -o out", "a percentile from p0 to p100"),
            ("fit PACK -m kpca-nys --react inf -o out", "a finite value"),
            ("fit PACK --react 0 --method pca -o out", "is all zeros after clipping"),
            (
                "fit PACK -m pca --explained-variance 0.5 --components 3 -o out",
                "--components: it cannot be given together with --explained-variance",
            ),
            (
                "fit PACK -m kpca-nys --landmark-rows rows.txt --landmarks 3 -o out",
                "--landmark-rows: it cannot be given together with --landmarks",
            ),
            (
                "fit PACK -m kpca-nys --landmark-rows rows.txt --sampling uniform -o out",
                "--landmark-rows: it cannot be given together with --sampling",
            ),
            (
                "fit PACK -m kpca-rff --frequencies narrow.safetensors --draw iid -o out",
                "--frequencies: it cannot be given together with --draw",
            ),
            (
                "fit PACK -m kpca-rff --frequencies narrow.safetensors --features 9 -o out",
                "--frequencies: it cannot be given together with --features",
            ),
            ("fit PACK --explained-variance 0 -o out", "a share in (0, 1]"),
            ("fit PACK --explained-variance 1.5 -o out", "a share in (0, 1]"),
            ("fit PACK --method pca --components 0 -o out", "components: expected at least 1"),
            ("fit PACK --method pca --components 500 -o out", "at most 128"),
            ("fit PACK --method pca --components 128 -o out", "keeps all 128 directions"),
            ("fit PACK --landmarks 0 -o out", "landmarks: expected at least 1"),
            (
                "fit PACK --landmarks 999999 -o out",
                "the training rows used for the fit, got 999999",
            ),
            (
                "fit PACK -m kpca-nys --landmark-rows far.txt -o out",
                "row numbers from 0 to 4999, got 500000",
            ),
            ("fit PACK -m kpca-nys --landmark-rows words.txt -o out", "it has `two`"),
            (
                "fit PACK -m kpca-nys --landmark-rows none.txt -o out",
                "landmarks: expected at least 1",
            ),
            ("fit PACK -m kpca-nys --landmark-rows missing.txt -o out", "missing.txt"),
            ("fit PACK --method kpca-rff --features 0 -o out", "features: expected at least 1"),
            ("fit PACK --method kpca-rff --kernel polynomial -o out", "gaussian or laplacian"),
            (
                "fit PACK --method kpca-rff --kernel laplacian --draw orthogonal -o out",
                "draw: expected iid",
            ),
            ("fit PACK --method kpca-rff --frequencies narrow.safetensors -o out", "128 columns"),
            ("fit PACK --gamma 0 -o out", "gamma"),
            ("fit PACK --gamma nan -o out", "gamma"),
            ("fit PACK -m kpca-nys --no-cosine -o out", "--no-cosine needs --gamma"),
            ("fit PACK -m kpca-nys --kernel polynomial --degree 0 -o out", "degree"),
            ("fit PACK -m kpca-nys --rank-floor 2 -o out", "rank-floor"),
            ("fit PACK --method knn -k 0 -o out", "neighbours: expected from 1"),
            ("fit PACK --method knn -k 5001 -o out", "neighbours: expected from 1"),
            ("fit PACK --method energy --temperature 0 -o out", "temperature"),
            ("fit PACK --hold-out 1 -o out", "hold-out: expected a share in [0, 1), got 1"),
            ("fit PACK --keep 0 -o out", "keep: expected a number between 0 and 1"),
            ("fit PACK --checkpoint c --checkpoint-every=-1 -o out", "--checkpoint-every"),
            ("fit PACK --method knn --checkpoint c -o out", "checkpoint"),
            ("fit PACK --method energy --checkpoint c -o out", "checkpoint"),
            ("fit PACK --threads 0 -o out", "--threads"),
            ("eval PACK --method pca --tpr 0", "true positive rate"),
            ("eval PACK --method pca --tpr 95 --json out.json", "true positive rate"),
            ("eval PACK --method pca --ci wald", "expected `delong`, `bootstrap` or `bootstrap:N`"),
            ("eval PACK --method pca --ci bootstrap:0", "resamples"),
            ("eval PACK --method pca --fpr-rule best", "unknown FPR rule"),
            ("synth --rows 0 --width 3 -o out.npy", "at least 1"),
            ("synth --rows 3 --width 0 -o out.npy", "at least 1"),
            ("synth --rows 3 --width 3 --type bf16 -o out.npy", "NumPy has no bfloat16"),
            ("synth --rows 3 --width 3 --type int -o out.npy", "f16"),
            ("completions basic", "invalid value 'basic'"),
        ],
    );
}

#[test]
fn bad_files_are_refused_in_words() {
    let place = Place::new();
    let mut test = place.npy_of("rows.npy", "test.safetensors", "features");
    place.write("few.npy", npy_f32(&test.slice(s![..10, ..]).to_owned()));
    place.write("narrow.npy", npy_f32(&test.slice(s![.., ..7]).to_owned()));
    test[[3, 2]] = f32::NAN;
    place.write("nan.npy", npy_f32(&test));
    test[[3, 2]] = f32::INFINITY;
    place.write("infinite.npy", npy_f32(&test));
    place.write("text.npy", "row,score\n");
    place.write("text.offspan", "not a detector");
    place.write("empty.npy", "");
    place.write("raw.bin", [0; 100]);
    place.write("vector.npy", npy("<f4", &[3], &f32_bytes(&[1.0, 2.0, 3.0])));
    place.write("cut.npy", &npy("<f4", &[9, 9], &[0; 9 * 9 * 4])[..200]);
    let narrow_head: [(&str, &[usize], Vec<f32>); 2] =
        [("weight", &[2, 3], vec![0.1; 6]), ("bias", &[2], vec![0.1; 2])];
    write_safetensors(&place.path("head.safetensors"), &narrow_head);
    place.small_pack("no-test", 300, 50);
    std::fs::remove_file(place.path("no-test/test.safetensors")).unwrap();
    place.small_pack("no-ood", 300, 50);
    std::fs::remove_dir_all(place.path("no-ood/ood")).unwrap();
    std::fs::create_dir(place.path("empty")).unwrap();
    place.small_pack("nan-pack", 300, 50);
    std::fs::copy(place.path("nan.npy"), place.path("nan-pack/ood/zzz.npy")).unwrap();
    place.run("fit PACK --method pca -o net").fine();
    place.run("synth --rows 20001 --width 2 -o long.npy").fine();
    place.run("synth --rows 50 --width 3 -o thin.npy").fine();
    check_refusals(
        &place,
        &[
            ("fit missing.npy -o out", "cannot open missing.npy"),
            ("fit missing -o out", "cannot open missing"),
            ("fit empty -o out", "neither train.safetensors nor train.npy"),
            ("fit net -o out", "net: not a feature file"),
            ("fit text.npy -o out", "text.npy: not a .npy file"),
            ("fit empty.npy -o out", "truncated"),
            ("fit cut.npy -o out", "truncated"),
            ("fit vector.npy -o out", "expected shape [rows, columns], got [3]"),
            (
                "fit nan.npy --method pca -o out",
                "row 3, column 2 is NaN; every value must be finite",
            ),
            ("fit nan.npy --method knn -o out", "row 3, column 2 is NaN"),
            ("fit infinite.npy --method pca -o out", "row 3, column 2 is inf"),
            ("fit raw.bin --raw f64:0 -o out", "a width of at least 1"),
            ("fit raw.bin --raw f9:3 -o out", "f16, bf16, f32 or f64"),
            ("fit raw.bin --raw f64 -o out", "expected TYPE:WIDTH"),
            ("fit raw.bin --raw f64:3 -o out", "is no multiple of 24"),
            ("fit rows.npy --logits few.npy -o out", "1500 rows, as many as the features"),
            ("fit rows.npy --head head.safetensors -o out", "[classes, 128]"),
            ("fit rows.npy --head rows.npy,missing.npy -o out", "missing.npy"),
            ("fit PACK --method pca --calibrate few.npy -o out", "at least 59 rows, got 10"),
            ("fit PACK --method pca --calibrate narrow.npy -o out", "128 columns"),
            ("fit PACK --method pca --calibrate missing.npy -o out", "missing.npy"),
            ("fit long.npy --method kpca-exact --hold-out 0 -o out", "at most 20000 rows"),
            ("fit PACK --method pca --checkpoint text.npy -o out", "text.npy"),
            ("score net missing.npy", "cannot open missing.npy"),
            ("score missing.offspan rows.npy", "missing.offspan"),
            (
                "score net narrow.npy",
                "expected shape 128 columns, as in the detector's training rows, got 7",
            ),
            ("score net nan.npy", "nan.npy: row 3, column 2 is NaN"),
            ("score net nan.npy -o out.npy", "row 3, column 2 is NaN"),
            ("score net rows.npy --logits few.npy", "1500 rows"),
            ("score net rows.npy -o out.txt", "expected a name that ends in .npy or .csv"),
            ("score net rows.npy --json -o out.npy", "cannot be used with"),
            ("score rows.npy rows.npy", "rows.npy: not"),
            ("score text.offspan rows.npy", "text.offspan: not"),
            (
                "score PACK/train.safetensors rows.npy",
                "not an offspan detector: it has no offspan.detector header",
            ),
            ("eval no-test --method pca", "pack no-test has no test.safetensors"),
            ("eval no-ood --method pca", "pack no-ood has no ood/NAME.safetensors"),
            ("eval empty --method pca", "neither train.safetensors nor train.npy"),
            ("eval rows.npy --method pca", "rows.npy"),
            ("eval nan-pack --method pca --json out.json", "is NaN"),
            ("eval PACK --detector rows.npy --json out.json", "rows.npy: not"),
            ("eval PACK --detector missing", "missing"),
            ("eval PACK --method kpca-nys --landmark-rows rows.npy", "whole-number type"),
            ("inspect missing.npy", "cannot open missing.npy"),
            ("inspect nan.npy", "row 3, column 2 is NaN"),
            ("inspect empty", "neither train.safetensors nor train.npy"),
            ("inspect raw.bin", "--raw f64:WIDTH"),
        ],
    );
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_work() {
    let place = Place::new();
    place.write("file", "");
    place.run("fit PACK --method pca -o net").fine();
    // The input does not exist either: what is complained about first is what was looked at first.
    check_refusals(
        &place,
        &[
            ("fit missing.npy --method pca -o missing/out", "missing/out: No such file"),
            ("fit missing.npy --method pca -o .", "cannot write .: is a directory"),
            ("fit missing.npy --method pca -o file/out", "file/out"),
            ("fit missing.npy --method pca --checkpoint missing/c -o out", "missing/c"),
            ("score net missing.npy -o missing/out.npy", "missing/out.npy"),
            ("eval missing --method pca --json missing/out.json", "missing/out.json"),
            ("synth --rows 100000000 --width 64 -o missing/out.npy", "missing/out.npy"),
            ("demo --write-pack file", "file"),
            ("man file", "file"),
        ],
    );
}

#[test]
fn errors_speak_of_the_users_files_not_of_ours() {
    let place = Place::new();
    let message = place.run("fit PACK --method pca -o missing/out").refused();
    assert!(!message.contains(".offspan-probe"), "{message}");
    let message = place.run("synth --rows 3 --width 3 -o missing/out.npy").refused();
    assert!(!message.contains(".partial"), "{message}");
}

#[test]
fn parameters_beside_a_saved_detector_are_refused_in_a_whole_sentence() {
    let place = Place::new();
    place.run("fit PACK --method pca -o net").fine();
    let message = place.run("eval PACK --detector net --gamma 1").refused();
    assert!(message.contains("--gamma") && !message.contains("for ;"), "{message}");
}

#[test]
fn an_error_keeps_the_old_output() {
    let place = Place::new();
    for (line, file) in [
        ("fit PACK --method pca --components 500 -o old", "old"),
        ("score old PACK/test.safetensors -o old.npy", "old.npy"),
        ("eval PACK --detector old --json old.json", "old.json"),
        ("synth --rows 3 --width 3 --type bf16 -o old.npy", "old.npy"),
    ] {
        place.write("old", "old");
        place.write(file, "old");
        place.run(line).refused();
        assert_eq!(place.read(file), b"old", "{line}");
    }
}

#[test]
fn messages_of_the_library_name_flags_here() {
    let place = Place::new();
    let few = Array2::from_shape_fn((50, 6), |(row, column)| ((row * 7 + column * 3) % 11) as f32);
    place.write("few.npy", npy_f32(&few));
    check_refusals(
        &place,
        &[
            (
                "fit few.npy -m knn --gamma 1 -o out",
                "--gamma has no meaning for knn; `offspan methods` tells which method takes what",
            ),
            ("fit few.npy -m kpca-rff --no-cosine -o out", "--no-cosine needs --gamma"),
            ("fit few.npy -m vim --hold-out 0 -o out", "or with --head FILE"),
            ("fit few.npy -m energy --hold-out 0 -o out", "give them with --logits FILE, or give"),
            ("fit few.npy -m mahalanobis --hold-out 0 -o out", "or give them with --labels FILE"),
            ("fit few.npy -m knn --neighbors 3 -o out", "'--neighbours'"),
            (
                "fit few.npy -m pca --explained-variance 1 --hold-out 0 -o out",
                "or use --residual complete",
            ),
        ],
    );
    let ran = place.run("fit few.npy -m pca --keep 0.99 -o out");
    let told = "give --calibrate FILE, a larger --hold-out, or a smaller --keep or --confidence";
    assert!(ran.stderr.contains(told), "{ran:?}");
}
