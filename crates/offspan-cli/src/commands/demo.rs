//! `offspan demo`: the whole way on embedded data.

use std::path::Path;
use std::process::ExitCode;

use offspan::io::{Dataset, Head, Pack, write_bytes};
use offspan::metrics::EvalOptions;
use offspan::{MethodOptions, MethodSpec};

use offspan_report::table::Format;
use offspan_study::evaluation::{Evaluator, Sets, TableView, document};
use offspan_study::report;

use super::eval::{Subject, report_intervals};
use crate::Outcome;
use crate::args::DemoArgs;
use crate::output::Failure;
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
    let json = args.json.target();
    let guard = Guard::new(args.force);
    let writes = args.write_pack.is_some() || args.report.is_some() || json.is_file();
    guard.expects_output(writes, "--write-pack, --report or --json=FILE")?;
    json.check(&guard)?;
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
    let methods = LINES
        .iter()
        .map(|line| Ok((line.label.to_owned(), line.spec()?)))
        .collect::<Result<_, Failure>>()?;
    let mut subject = Subject::new(args.report.as_deref(), true);
    let progress = Progress::default();
    let mut evaluator = Evaluator::new(sets, options)?;
    evaluator.library(methods, &|_| true, &progress, |result, scored| {
        subject.consider(result, scored);
    })?;
    drop(progress);
    let evaluations = evaluator.finish();
    if let Some(left_out) = evaluations.without.first() {
        return Err(Failure::Usage(left_out.to_string()));
    }
    let document = document(&pack.name, &evaluations, &options);
    let page = subject.report(&pack.name, &sets, &evaluations, &options, &document)?;
    let view = TableView { costs: true, ..TableView::default() };
    let table = evaluations.render(&pack.name, &options, &view, Format::Text)?;
    let words = || {
        format!(
            "A small network was trained to tell ten kinds of clothing apart (Fashion-MNIST). Can its\n\
             features also tell clothing from handwritten digits (two sets) and textures, which it has\n\
             never seen? {} training rows of width {}.\n\n{}\n{}\n{NEXT}",
            pack.train.rows(),
            pack.train.width(),
            table,
            how_to_read()
        )
    };
    let json = args.json.target();
    json.tell(|| &document, words)?;
    if let Some(page) = page {
        let apart = if json.is_stdout() { "" } else { "\n" };
        json.mention(&format!("{apart}report: {}", page.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the numbers mean, and the commands behind names that are no method's.
fn how_to_read() -> String {
    let mut text = "\
How to read it: a threshold that keeps 95 % of unseen clothing lets FPR95 % of the OoD rows (digits,
textures) pass; AUROC is the chance that a piece of clothing scores higher than an OoD row. A method's
name alone means its defaults; the others, with `offspan eval demo-pack` before:
"
    .to_owned();
    for line in LINES.iter().filter(|line| !line.flags.is_empty()) {
        text += &format!("  {}: {}\n", line.label, line.command());
    }
    text
}

const NEXT: &str = "\
Next, with these files or your own:
  offspan demo --write-pack demo-pack
  offspan fit demo-pack -o demo.offspan
  offspan score demo.offspan demo-pack/ood/mnist.safetensors | head
  offspan eval demo-pack --method auto,knn,energy --report demo-report
  offspan methods
";

/// One line of the table.
struct Line {
    /// The method's name where it has its defaults; otherwise what differs from them, too.
    label: &'static str,
    method: &'static str,
    /// Flags with their values; a flag without one has an empty value.
    flags: &'static [(&'static str, &'static str)],
}

impl Line {
    const fn plain(method: &'static str) -> Self {
        Line { label: method, method, flags: &[] }
    }

    fn spec(&self) -> offspan::Result<MethodSpec> {
        let mut options = MethodOptions::default();
        for (flag, value) in self.flags {
            options.set(flag, if value.is_empty() { "true" } else { value })?;
        }
        options.method(self.method)
    }

    /// What to give to `offspan eval PACK` to get the same numbers.
    fn command(&self) -> String {
        let flags: String =
            self.flags.iter().map(|(flag, value)| format!(" {flag} {value}")).collect();
        format!("--method {}{}", self.method, flags.trim_end())
    }
}

const LINES: &[Line] = &[
    Line::plain("auto"),
    Line::plain("energy"),
    Line::plain("knn"),
    Line { label: "pca, no cosine", method: "pca", flags: &[("--no-cosine", "")] },
    Line::plain("pca"),
    Line { label: "kpca-rff, 1024 features", method: "kpca-rff", flags: &[("--features", "1024")] },
    Line { label: "kpca-nys, 512 landmarks", method: "kpca-nys", flags: &[("--landmarks", "512")] },
    Line {
        label: "kpca-nys, 512 uniform, complete",
        method: "kpca-nys",
        flags: &[("--landmarks", "512"), ("--sampling", "uniform"), ("--residual", "complete")],
    },
    Line {
        label: "kpca-nys, 512 uniform, complete, fused",
        method: "kpca-nys",
        flags: &[
            ("--landmarks", "512"),
            ("--sampling", "uniform"),
            ("--residual", "complete"),
            ("--fuse", "energy-ratio"),
        ],
    },
];

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
