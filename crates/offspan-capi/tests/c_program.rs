//! C programs that are compiled here: one that uses all of the interface, and the one of `docs/deploy.md`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ndarray::{Array1, Array2};
use offspan::io::{Dataset, Head};
use offspan::{Detector, FitOptions, KpcaParams, MethodSpec, Residual, Silent};

const WIDTH: usize = 6;
const CLASSES: usize = 3;

fn rows(count: usize, shift: f32) -> Array2<f32> {
    Array2::from_shape_fn((count, WIDTH), |(i, j)| {
        ((i * 7 + j * j * 3 + i * j) % 13) as f32 + shift
    })
}

fn head() -> Head {
    let weight =
        Array2::from_shape_fn((CLASSES, WIDTH), |(c, j)| ((c * 5 + j * 3) % 7) as f64 - 3.0);
    Head::new(weight, Array1::zeros(CLASSES)).unwrap()
}

fn logits(rows: &Array2<f32>) -> Array2<f32> {
    let weight =
        Array2::from_shape_fn((WIDTH, CLASSES), |(j, c)| ((c * 5 + j * 3) % 7) as f32 - 3.0);
    rows.dot(&weight)
}

/// Where cargo has put the library that these tests were built with.
fn library_folder() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Runs a program with these words; none if it is not installed.
fn run(program: &str, words: &[&str], input: &[u8]) -> Option<Output> {
    run_in(Path::new(env!("CARGO_MANIFEST_DIR")), program, words, input)
}

fn run_in(folder: &Path, program: &str, words: &[&str], input: &[u8]) -> Option<Output> {
    let child = Command::new(program)
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("{program}: {error}"),
    };
    // Inputs here are smaller than a pipe holds, so nobody waits for anybody.
    child.stdin.take().unwrap().write_all(input).unwrap();
    Some(child.wait_with_output().unwrap())
}

fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", output.status, text(&output.stderr));
    text(&output.stdout)
}

/// Compiles a C program against the library; none where there is no compiler.
fn compile(source: &Path, folder: &Path) -> Option<PathBuf> {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let (program, libraries) = (folder.join("program"), library_folder());
    let found = run(
        "cc",
        &[
            "-std=c99",
            "-D_POSIX_C_SOURCE=200112L",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-pthread",
            source.to_str().unwrap(),
            &format!("-I{}", include.display()),
            &format!("-L{}", libraries.display()),
            &format!("-Wl,-rpath,{}", libraries.display()),
            "-loffspan_capi",
            "-o",
            program.to_str().unwrap(),
        ],
        &[],
    );
    let Some(output) = found else {
        println!("left out: there is no C compiler `cc` here");
        return None;
    };
    said(&output);
    Some(program)
}

/// A detector of kernel PCA, which wants features only, and one of energies, which wants logits.
fn detectors() -> [Detector; 2] {
    let train = rows(600, 1.0);
    let logits = logits(&train);
    let fit = |spec: MethodSpec| {
        let data = Dataset::new("train", train.view()).with_logits(logits.view()).unwrap();
        Detector::fit(&spec, &data, None, &FitOptions::default()).unwrap()
    };
    // What lies outside the span of all landmarks counts, too.
    let kpca = KpcaParams { residual: Residual::Complete, ..KpcaParams::nystrom_uniform(32) };
    [fit(MethodSpec::Kpca(kpca)), fit(MethodSpec::ENERGY)]
}

fn bytes_of(numbers: &Array2<f32>) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

#[test]
fn a_c_program_gets_the_numbers_of_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("program.c");
    let Some(program) = compile(&source, folder.path()) else { return };
    let mut new = rows(40, 1.0);
    // A row that no method likes.
    new.row_mut(7).fill(-90.0);
    let mut outputs = logits(&new);
    outputs.row_mut(7).fill(-90.0);
    for (detector, classes) in detectors().into_iter().zip([0, CLASSES]) {
        let file = folder.path().join("net.offspan");
        detector.save(&file).unwrap();
        let mut data = Dataset::new("new", new.view());
        let mut input = bytes_of(&new);
        if classes > 0 {
            data = data.with_logits(outputs.view()).unwrap();
            input.extend(bytes_of(&outputs));
        }
        assert_eq!(detector.needs_logits(), classes > 0);
        let words = ["40", &WIDTH.to_string(), &classes.to_string()].map(str::to_owned);
        let words: Vec<&str> = std::iter::once(file.to_str().unwrap())
            .chain(words.iter().map(String::as_str))
            .collect();
        let output = said(&run(program.to_str().unwrap(), &words, &input).unwrap());
        let mut lines = output.lines();

        let threshold = detector.threshold().unwrap().value;
        let expected = format!(
            "{} {} {} {threshold:.17e}",
            env!("CARGO_PKG_VERSION"),
            detector.info().method,
            u8::from(classes > 0)
        );
        let (told, number) = lines.next().unwrap().rsplit_once(' ').unwrap();
        assert_eq!(Some(told), expected.rsplit_once(' ').map(|(words, _)| words));
        assert_eq!(number.parse::<f64>().unwrap(), threshold);

        let decisions = detector.decide(&[data], None, &Silent).unwrap();
        assert!(decisions.out() > 0);
        for row in 0..40 {
            let line: Vec<&str> = lines.next().unwrap().split(' ').collect();
            let numbers = [line[0], line[1]].map(|text| text.parse::<f64>().unwrap());
            assert_eq!(numbers, [decisions.scores[row], decisions.p_values[row]], "row {row}");
            assert_eq!(line[2] == "1", decisions.is_out[row], "row {row}");
        }
        assert_eq!(lines.next(), None);
        check_memory(program.to_str().unwrap(), &words, &input);
    }
}

/// The same under valgrind, where there is one: nothing is read that is not ours, and nothing is left behind.
fn check_memory(program: &str, words: &[&str], input: &[u8]) {
    let all = [
        "-q",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
        program,
    ];
    match run("valgrind", &[&all[..], words].concat(), input) {
        Some(output) => drop(said(&output)),
        None => println!("left out: there is no valgrind here, so leaks were not looked for"),
    }
}

#[test]
fn the_program_of_the_page_decides_as_the_library_does() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/deploy.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, program) = page.split_once("```c\n").unwrap();
    let (program, _) = program.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("program.c");
    std::fs::write(&source, program).unwrap();
    let Some(program) = compile(&source, folder.path()) else { return };
    let [detector, _] = detectors();
    let mut new = rows(20, 1.0);
    new.row_mut(7).fill(-90.0);

    let output = run_in(folder.path(), program.to_str().unwrap(), &[], &[]).unwrap();
    assert!(!output.status.success(), "there is no detector file yet");
    assert!(String::from_utf8_lossy(&output.stderr).contains("net.offspan"));

    detector.save(folder.path().join("net.offspan")).unwrap();
    let output = run_in(folder.path(), program.to_str().unwrap(), &[], &bytes_of(&new)).unwrap();
    let decisions = detector.decide(&[Dataset::new("new", new.view())], None, &Silent).unwrap();
    let expected: Vec<(f64, f64, bool)> = (0..20)
        .map(|row| (decisions.scores[row], decisions.p_values[row], decisions.is_out[row]))
        .collect();
    let told: Vec<(f64, f64, bool)> = said(&output)
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0].parse().unwrap(), words[1].parse().unwrap(), words[2] == "out")
        })
        .collect();
    assert_eq!(told, expected);
    assert!(decisions.out() > 0 && decisions.out() < 20);
}

#[test]
fn the_header_is_cpp_too() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("empty.cpp");
    std::fs::write(
        &source,
        "#include \"offspan.h\"\nint main() { return offspan_version() == nullptr; }\n",
    )
    .unwrap();
    let include = format!("-I{}/include", env!("CARGO_MANIFEST_DIR"));
    let words = [
        "-std=c++11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        &include,
        source.to_str().unwrap(),
    ];
    match run("c++", &words, &[]) {
        Some(output) => drop(said(&output)),
        None => println!("left out: there is no C++ compiler `c++` here"),
    }
}

#[test]
fn logits_are_needed_unless_the_detector_keeps_the_last_layer() {
    let train = rows(600, 1.0);
    let data = Dataset::new("train", train.view());
    let spec = MethodSpec::ENERGY;
    let detector = Detector::fit(&spec, &data, Some(&head()), &FitOptions::default()).unwrap();
    assert!(!detector.needs_logits());
    assert!(detectors()[1].needs_logits());
}
