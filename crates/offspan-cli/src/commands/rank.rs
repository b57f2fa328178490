//! `offspan rank`: methods over many packs, on one page.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use offspan::io::{Pack, write_text};
use offspan::metrics::EvalOptions;
use offspan_report::table::Format;
use offspan_study::evaluation::{
    Document, Evaluator, Metric, Provenance, Sets, document, pseudo_labelled,
};
use offspan_study::rank::{Case, Cases, Ranking, check_cases, files, rank, write};

use super::eval::{Out, without_labels};
use crate::Outcome;
use crate::eval_args::RankArgs;
use crate::output::{Failure, complain, print, remark};
use crate::output_guard::Guard;
use crate::progress::Progress;

pub(crate) fn run(args: &RankArgs) -> Outcome {
    let json = args.json.target();
    let out = Out::of(args.format, json)?;
    let options = args.method_args.read()?;
    let (folders, documents): (Vec<&PathBuf>, Vec<&PathBuf>) =
        args.packs.iter().partition(|path| path.is_dir());
    if folders.is_empty() && (args.has_evaluation() || !options.is_empty()) {
        return Err(Failure::Usage(
            "documents have their methods; --method, flags of methods, --seeds, --full-spectrum and \
             --pseudo-labels go with pack folders"
                .to_owned(),
        ));
    }
    let judged = EvalOptions {
        tpr: args.judge.tpr,
        rule: args.judge.fpr_rule,
        seed: options.seed(),
        ..EvalOptions::default()
    };
    judged.check().map_err(offspan::Error::from)?;
    let metric = Metric::named(args.by.trim(), &judged)
        .map_err(|error| Failure::Usage(format!("--by: {error}")))?;
    let over = if args.over == "sets" { Cases::Sets } else { Cases::Packs };
    let guard = Guard::new(args.force).reads(&args.packs).reads(args.method_args.files());
    guard.expects_output(args.output.is_some() || json.is_file(), "--json=FILE or --output")?;
    json.check(&guard)?;
    let names = file_names(&folders);
    if let Some(folder) = &args.output {
        let kept = names.iter().map(|name| format!("results/{name}.json"));
        guard.folder(folder, &files().into_iter().chain(kept).collect::<Vec<_>>())?;
    }
    let mut cases = Vec::new();
    for path in documents {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
        let document = Document::read(&text, &path.display().to_string())?;
        check_same_judgement(path, &document, &judged, metric)?;
        let mut more = over.of(&document.pack, &document.results, metric);
        for case in &mut more {
            let without = document.without.iter();
            case.without.extend(without.map(|one| (one.method.clone(), one.reason.clone())));
        }
        cases.extend(more);
    }
    check_packs(args, &folders, &judged, metric, (over, cases.len()))?;
    for (number, path) in folders.iter().enumerate() {
        let progress =
            Progress::new(format!("{} ({} of {}):", name_of(path), number + 1, folders.len()));
        cases.extend(evaluated(args, (path, &names[number]), &judged, (over, metric), &progress)?);
    }
    let ranking = rank(&distinct(cases), over, metric, metric.label(&judged), judged.seed)?;
    json.write(&ranking.document())?;
    print(&rendered(&ranking, out.format, args.show.get())?)?;
    if let Some(folder) = &args.output {
        let line = format!("page: {}", write(folder, &ranking, args.show.get())?.display());
        match out.format {
            Format::Text => print(&format!("\n{line}\n"))?,
            _ => remark(&line),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what keeps packs from being ranked before the first of them is fitted; documents have given so many
/// cases.
fn check_packs(
    args: &RankArgs,
    folders: &[&PathBuf],
    judged: &EvalOptions,
    metric: Metric,
    (over, mut cases): (Cases, usize),
) -> Result<(), Failure> {
    for path in folders {
        let pack = Pack::open_with(path, args.judge.read.reading()?)?;
        let sets = if args.full_spectrum { Sets::full_spectrum(&pack)? } else { Sets::of(&pack)? };
        cases += match over {
            Cases::Packs => 1,
            Cases::Sets => sets.ood.len(),
        };
        if metric.needs_labels() && Evaluator::new(sets, *judged)?.evaluations().accuracy.is_none()
        {
            return Err(without_labels("--by", metric, &pack.name));
        }
    }
    Ok(check_cases(cases)?)
}

/// What the documents of packs are called. Folders of one name get different ones.
fn file_names(folders: &[&PathBuf]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for folder in folders {
        let mut name = name_of(folder);
        while names.contains(&name) {
            name.push_str("-2");
        }
        names.push(name);
    }
    names
}

/// Fits and judges the methods on a pack.
fn evaluated(
    args: &RankArgs,
    (path, name): (&Path, &str),
    judged: &EvalOptions,
    (over, metric): (Cases, Metric),
    progress: &Progress,
) -> Result<Vec<Case>, Failure> {
    let names = args.methods();
    let asked = args.method_args.read()?.methods(&names)?;
    let pack = Pack::open_with(path, args.judge.read.reading()?)?;
    let pack = pseudo_labelled(pack, args.pseudo_labels, judged.seed, progress)?;
    let sets = if args.full_spectrum { Sets::full_spectrum(&pack)? } else { Sets::of(&pack)? };
    let mut evaluator = Evaluator::new(sets, *judged)?.seeds(args.seeds)?;
    let named = |name: &str| names.iter().any(|given| given == name);
    evaluator.library(asked, &named, progress, |_, _| {})?;
    let seeds = evaluator.seed_list().to_vec();
    let mut evaluations = evaluator.finish();
    evaluations.pseudo_labels = args.pseudo_labels;
    for failed in evaluations.without.iter().filter(|left| left.named) {
        complain(&format!("{}: {failed}", pack.name));
    }
    if let Some(folder) = &args.output {
        let provenance = Provenance::of(&sets, Some(path.display().to_string()), &seeds)?;
        evaluations.provenance = Some(Provenance { read: args.judge.read.told(), ..provenance });
        let document = document(&pack.name, &evaluations, judged);
        let folder = folder.join("results");
        std::fs::create_dir_all(&folder).map_err(|error| {
            Failure::Usage(format!("cannot make the folder {}: {error}", folder.display()))
        })?;
        let file = folder.join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| Failure::Usage(format!("cannot write JSON: {error}")))?;
        write_text(file, &(text + "\n"))?;
    }
    let mut cases = over.of(&pack.name, &evaluations.results, metric);
    for case in &mut cases {
        let without = evaluations.without.iter();
        case.without.extend(without.map(|one| (one.method.clone(), one.reason.clone())));
    }
    Ok(cases)
}

/// Rates at other thresholds are other figures.
fn check_same_judgement(
    path: &Path,
    document: &Document,
    judged: &EvalOptions,
    metric: Metric,
) -> Result<(), Failure> {
    let (then, now) = (&document.metrics, judged);
    let same = match metric {
        Metric::Fpr => then.tpr == now.tpr && then.rule == now.rule,
        Metric::FprBy(_) => then.tpr == now.tpr,
        _ => true,
    };
    if same {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{}: expected rates at --tpr {} by the rule {}, got those at {} by {}",
        path.display(),
        now.tpr,
        now.rule,
        then.tpr,
        then.rule
    )))
}

fn name_of(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    whole.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Cases of the same name get numbers.
fn distinct(mut cases: Vec<Case>) -> Vec<Case> {
    let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    for (at, case) in cases.iter_mut().enumerate() {
        if names.iter().filter(|name| **name == names[at]).count() > 1 {
            case.name = format!("{} ({})", names[at], at + 1);
        }
    }
    cases
}

fn rendered(ranking: &Ranking, format: Format, top: usize) -> Result<String, Failure> {
    let table = ranking.table();
    Ok(match format {
        Format::Text => {
            // Cases side by side need their names.
            let mut table = table;
            table.header.iter_mut().for_each(|heading| heading.group.clear());
            let notes: Vec<String> = table.notes.iter().map(|note| format!("\n{note}\n")).collect();
            format!("{}\n\n{}{}", table.caption, table.text(), notes.concat())
        }
        Format::Markdown => table.markdown(),
        Format::Csv => table.csv(),
        Format::Latex => table.latex(),
        Format::Html => ranking.page(top).html(),
        Format::Json => {
            serde_json::to_string_pretty(&ranking.document())
                .map_err(|error| Failure::Usage(format!("cannot write JSON: {error}")))?
                + "\n"
        }
    })
}
