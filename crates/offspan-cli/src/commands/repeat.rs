//! `offspan eval --repeat`: do the figures of a document come out again?

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use offspan::io::Pack;
use offspan_study::evaluation::{Document, Provenance, Repetition, Sets, pseudo_labelled, repeat};

use crate::Outcome;
use crate::eval_args::EvalArgs;
use crate::output::{Failure, Json, Table};
use crate::output_guard::Guard;
use crate::progress::Progress;

pub(crate) fn run(args: &EvalArgs, result: &Path) -> Outcome {
    if !args.method_args.read()?.is_empty() {
        return Err(Failure::Usage(
            "--repeat takes methods with their parameters from the document; expected no flags of methods"
                .to_owned(),
        ));
    }
    let text = std::fs::read_to_string(result)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", result.display())))?;
    let document = Document::read(&text, &result.display().to_string())?;
    let folder = pack_folder(args, &document)?;
    let json = Json::of(args.json.as_deref());
    let guard = Guard::new(args.force).reads([&folder]).reads([result]);
    guard.expects_output(json.is_file(), "--json=FILE")?;
    json.check(&guard)?;
    let progress = Progress::default();
    // What the document tells of reading serves where nothing else was said.
    let reading = match &document.provenance {
        Some(told) if args.judge.read.is_default() => {
            told.read.reading()?.observer(Arc::new(Progress::default()))
        }
        _ => args.judge.read.reading()?,
    };
    let pack = Pack::open_with(&folder, reading)?;
    let seed = document.metrics.seed;
    let pack = pseudo_labelled(pack, document.pseudo_labels, seed, &progress)?;
    let sets = match document.full_spectrum.is_empty() {
        true => Sets::of(&pack)?,
        false => Sets::full_spectrum(&pack)?,
    };
    let repetition = repeat(&document, sets, &progress)?;
    drop(progress);
    json.tell(|| repetition.document(), || words(&repetition, &folder))?;
    Ok(ExitCode::from(u8::from(!repetition.agrees)))
}

/// The pack that was given, or the one that the document tells.
fn pack_folder(args: &EvalArgs, document: &Document) -> Result<PathBuf, Failure> {
    if let Some(pack) = &args.pack {
        return Ok(pack.clone());
    }
    let told = document.provenance.as_ref().and_then(|told| told.path.as_ref()).map(PathBuf::from);
    told.filter(|path| path.is_dir()).ok_or_else(|| {
        Failure::Usage(format!(
            "pack {} is not where the document says: give its folder, offspan eval PACK --repeat RESULT",
            document.pack
        ))
    })
}

fn words(repetition: &Repetition, folder: &Path) -> String {
    let made =
        |by: &Provenance| format!("offspan {} ({}, {})", by.offspan, by.instructions, by.platform);
    let mut text = match &repetition.then {
        Some(then) => format!("made by {}, repeated by {}\n", made(then), made(&repetition.now)),
        None => format!("repeated by {}\n", made(&repetition.now)),
    };
    if !repetition.other_rows.is_empty() {
        return text
            + &format!(
                "NOT REPEATED: {} has other rows than the document tells of in {}\n",
                folder.display(),
                repetition.other_rows.join(", ")
            );
    }
    text += match repetition.rows_known {
        true => "rows: the same, by their hashes\n",
        false => "rows: unknown, the document has no hashes of them\n",
    };
    let mut table = Table::new(["method", "figures", "largest difference", "at"]);
    for one in repetition.methods.iter().chain(&repetition.comparisons) {
        let points = |value: f64| format!("{:.4} points", 100.0 * value);
        table.row(match &one.reason {
            Some(reason) => [one.method.clone(), "-".to_owned(), "-".to_owned(), reason.clone()],
            None => [
                one.method.clone(),
                one.figures.to_string(),
                if one.largest == 0.0 { "none".to_owned() } else { points(one.largest) },
                one.largest_at.clone(),
            ],
        });
    }
    let verdict = match (repetition.identical, repetition.agrees) {
        (true, _) => "All figures are identical.",
        (false, true) => "All figures agree within 0.05 points.",
        (false, false) => "NOT all figures agree.",
    };
    text + &format!("\n{table}\n{verdict}\n")
}
