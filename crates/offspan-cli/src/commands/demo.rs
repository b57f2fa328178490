//! `offspan demo`: the whole way on embedded data.

use std::path::Path;
use std::process::ExitCode;

use offspan::io::{Dataset, Head, Pack, write_bytes};
use offspan::metrics::EvalOptions;
use offspan::{FuseName, MethodOptions, ResidualName, SamplingName};

use offspan_study::evaluation::{Sets, document, fit_and_evaluate_all};
use offspan_study::report;

use super::eval::{Subject, report_intervals, table};
use crate::Outcome;
use crate::args::DemoArgs;
use crate::output::{Failure, print, print_json};
use crate::output_guard::Guard;
use crate::progress::Progress;

/// Name and bytes of each file of the embedded pack.
const FILES: &[(&str, &[u8])] = &[
    ("train.safetensors", include_bytes!("../../../../demo/pack/train.safetensors")),
    ("test.safetensors", include_bytes!("../../../../demo/pack/test.safetensors")),
    ("head.safetensors", include_bytes!("../../../../demo/pack/head.safetensors")),
    ("ood/digits.safetensors", include_bytes!("../../../../demo/pack/ood/digits.safetensors")),
    ("ood/mnist.safetensors", include_bytes!("../../../../demo/pack/ood/mnist.safetensors")),
    ("ood/textures.safetensors", include_bytes!("../../../../demo/pack/ood/textures.safetensors")),
];

pub(crate) fn run(args: &DemoArgs) -> Outcome {
    if args.force && args.write_pack.is_none() && args.report.is_none() {
        return Err(Failure::Usage(
            "--force: nothing is written without --write-pack or --report".to_owned(),
        ));
    }
    let guard = Guard::new(args.force);
    if let Some(folder) = &args.report {
        guard.folder(folder, &report::files())?;
    }
    if let Some(folder) = &args.write_pack {
        write_pack(folder, &guard)?;
    }
    if let Some(folder) = &args.report {
        report::prepare(folder)?;
    }
    let pack = embedded_pack()?;
    let sets = Sets::of(&pack)?;
    let interval = args.report.as_ref().and_then(|_| report_intervals(&sets));
    let options = EvalOptions { interval, ..EvalOptions::default() };
    let methods = variants()
        .into_iter()
        .map(|(label, method, flags)| Ok((label.to_owned(), flags.method(method)?)))
        .collect::<Result<_, Failure>>()?;
    let mut subject = Subject::new(args.report.as_deref(), true);
    let progress = Progress::default();
    let evaluations =
        fit_and_evaluate_all(methods, &|_| true, &sets, &options, &progress, |result, scored| {
            subject.consider(result, scored);
        })?;
    drop(progress);
    if let Some(left_out) = evaluations.without.first() {
        return Err(Failure::Usage(left_out.to_string()));
    }
    let document = document(&pack.name, &evaluations, &options);
    let page = subject.report(&pack.name, &sets, &evaluations, &options, &document)?;
    if args.json {
        print_json(&document)?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&format!(
        "A small network was trained to tell ten kinds of clothing apart (Fashion-MNIST). Can its\n\
         features also tell clothing from handwritten digits (two sets) and textures, which it has\n\
         never seen? {} training rows of width {}.\n\n{}\n{NEXT}",
        pack.train.rows(),
        pack.train.width(),
        table(&evaluations, &options, false)
    ))?;
    if let Some(page) = page {
        print(&format!("\nreport: {}\n", page.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

const NEXT: &str = "\
How to read it: a threshold that keeps 95 % of unseen clothing lets FPR95 % of the strangers pass;
AUROC is the chance that a piece of clothing scores higher than a stranger.

Next, with these files or your own:
  offspan demo --write-pack demo-pack
  offspan fit demo-pack -o demo.offspan
  offspan score demo.offspan demo-pack/ood/mnist.safetensors | head
  offspan eval demo-pack --method auto,knn,energy --report demo-report
  offspan methods
";

/// Label, method and flags of each line.
fn variants() -> Vec<(&'static str, &'static str, MethodOptions)> {
    let base = || MethodOptions { landmarks: Some(512), ..MethodOptions::default() };
    let flags = MethodOptions::default;
    let complete = || MethodOptions {
        sampling: Some(SamplingName::Uniform),
        residual: Some(ResidualName::Complete),
        ..base()
    };
    vec![
        ("auto", "auto", flags()),
        ("energy", "energy", flags()),
        ("knn", "knn", flags()),
        ("pca, no cosine", "pca", MethodOptions { no_cosine: true, ..flags() }),
        ("pca", "pca", flags()),
        ("kpca-rff", "kpca-rff", MethodOptions { features: Some(1024), ..flags() }),
        ("kpca-nys, low-energy", "kpca-nys", base()),
        ("kpca-nys, uniform complete", "kpca-nys", complete()),
        (
            "kpca-nys, uniform complete, fused",
            "kpca-nys",
            MethodOptions { fuse: Some(FuseName::EnergyRatio), ..complete() },
        ),
    ]
}

fn embedded_pack() -> Result<Pack, Failure> {
    let (mut train, mut test, mut head, mut ood) = (None, None, None, Vec::new());
    for &(file, bytes) in FILES {
        let name = file.trim_end_matches(".safetensors");
        match name {
            "head" => head = Some(Head::from_static(file, bytes)?),
            "train" => train = Some(Dataset::from_static(name, bytes)?),
            "test" => test = Some(Dataset::from_static(name, bytes)?),
            _ => ood.push(Dataset::from_static(name.trim_start_matches("ood/"), bytes)?),
        }
    }
    let train = train.ok_or_else(|| Failure::Usage("the demo has no training rows".to_owned()))?;
    Ok(Pack::new("demo".to_owned(), train, test, ood, head)?)
}

fn write_pack(folder: &Path, guard: &Guard) -> Result<(), Failure> {
    for &(file, bytes) in FILES {
        guard.same_bytes(&folder.join(file), bytes)?;
    }
    for &(file, bytes) in FILES {
        let path = folder.join(file);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|error| Failure::Usage(format!("{}: {error}", parent.display())))?;
        }
        write_bytes(&path, bytes)?;
    }
    Ok(())
}
