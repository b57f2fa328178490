//! `offspan study`: the studies of the paper on the user's own packs.

use std::path::Path;
use std::process::ExitCode;

use offspan::io::Pack;
use offspan::metrics::EvalOptions;
use offspan_study::evaluation::pseudo_labelled;
use offspan_study::study::{Settings, Study, make, published_table};

use crate::Outcome;
use crate::args::{StudyCommand, StudyOptions};
use crate::output::{Failure, print, remark};
use crate::output_guard::Guard;
use crate::progress::Progress;

pub(crate) fn run(command: &StudyCommand) -> Outcome {
    let (study, packs, options) = match command {
        StudyCommand::Kernels(args) => (Study::Kernels, vec![&args.pack], &args.options),
        StudyCommand::Sampling(args) => (Study::Sampling, vec![&args.pack], &args.options),
        StudyCommand::Sensitivity(args) => (Study::Sensitivity, vec![&args.pack], &args.options),
        StudyCommand::Approximation(args) => {
            (Study::Approximation, vec![&args.pack], &args.options)
        }
        StudyCommand::Cost(args) => (Study::Cost, vec![&args.pack], &args.options),
        StudyCommand::Learned(args) => (Study::Learned, vec![&args.pack], &args.options),
        StudyCommand::Layers(args) => (Study::Layers, args.packs.iter().collect(), &args.options),
        StudyCommand::Paper(args) => (Study::Paper, args.packs.iter().collect(), &args.options),
    };
    let published = match command {
        StudyCommand::Paper(args) => args.published.as_deref(),
        _ => None,
    };
    Guard::new(options.force)
        .reads(packs.iter().copied())
        .reads(published.map(Path::to_owned).as_ref())
        .folder(&options.output, &study.files())?;
    let published = published
        .map(|path| {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::Usage(format!("cannot read {}: {error}", path.display()))
            })?;
            published_table(&text)
                .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
        })
        .transpose()?;
    let packs = packs
        .into_iter()
        .map(|path| {
            let pack = Pack::open_with(path, options.judge.read.reading()?)?;
            let progress = Progress::default();
            Ok(pseudo_labelled(pack, options.pseudo_labels, options.seed, &progress)?)
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let progress = Progress::default();
    let settings = Settings {
        common: options.common(),
        options: EvalOptions {
            tpr: options.judge.tpr,
            rule: options.judge.fpr_rule,
            seed: options.seed,
            ..EvalOptions::default()
        },
        published,
        own: &[],
        observer: &progress,
    };
    settings.options.check().map_err(offspan::Error::from)?;
    let page = make(study, &packs, &options.output, &settings)?;
    drop(progress);
    match study.file(options.format) {
        None => print(&format!("{}\n", page.display()))?,
        Some(name) => {
            let path = options.output.join(name);
            let text = std::fs::read_to_string(&path).map_err(|error| {
                Failure::Usage(format!("cannot read {}: {error}", path.display()))
            })?;
            print(&text)?;
            remark(&page.display().to_string());
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl StudyOptions {
    /// The flags of the methods that were given.
    fn common(&self) -> Vec<(String, String)> {
        let text = |value: &Option<f64>| value.map(|value| value.to_string());
        let size = |value: &Option<usize>| value.map(|value| value.to_string());
        let given = [
            ("--gamma", text(&self.gamma)),
            ("--explained-variance", text(&self.explained_variance)),
            ("--features", size(&self.features)),
            ("--landmarks", size(&self.landmarks)),
            ("--sampling", self.sampling.as_ref().map(|value| value.name().to_owned())),
            ("--residual", self.residual.map(|value| value.to_string())),
            ("--preset", self.preset.map(|preset| preset.name.to_owned())),
            ("--seed", (self.seed != 0).then(|| self.seed.to_string())),
        ];
        let kept = given.into_iter().filter_map(|(flag, value)| Some((flag.to_owned(), value?)));
        kept.collect()
    }
}
