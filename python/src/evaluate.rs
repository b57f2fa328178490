//! Methods compared on a pack, with the engine of the command line.

use std::path::PathBuf;

use offspan::io::Pack;
use offspan::{MethodOptions, Preset, Silent};
use offspan_report::table::Format;
use offspan_study::StudyError;
use offspan_study::evaluation::{
    Document, Evaluator, MethodResult, Metric, OutsideScores, OwnMethod, Provenance, ReadAs,
    Scored, Sets, TableView, document, repeat,
};
use offspan_study::portrait::Portrait;
use offspan_study::rank::{Case, Cases, rank, write};
use offspan_study::study::{Settings, Study, make};
use pyo3::prelude::*;

use crate::errors::{exception, input_error};
use crate::gate::work;
use crate::method::Method;
use crate::metrics::eval_options;
use crate::own::Own;
use crate::pack::AnyPack;

/// The document, the results in other formats by their names, and where the report is.
type Told = (String, Vec<(&'static str, String)>, Option<PathBuf>);

/// How a comparison is made.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct How {
    tpr: f64,
    rule: String,
    interval: Option<String>,
    level: f64,
    seed: u64,
    seeds: usize,
    compare: Vec<(String, String)>,
    metrics: Vec<String>,
    full_spectrum: bool,
    pseudo_labels: Option<usize>,
    report: Option<PathBuf>,
}

/// Every format of the results that is text.
const FORMATS: [(&str, Format); 5] = [
    ("text", Format::Text),
    ("markdown", Format::Markdown),
    ("latex", Format::Latex),
    ("csv", Format::Csv),
    ("html", Format::Html),
];

/// Fits and judges methods on a pack: the `offspan.eval/1` document as JSON, the results in every other format by its
/// name, and where the report is. Each method has a name and is a `Method`, the path of a folder of scores, or an object
/// of the caller's own; the name `all` alone stands for the whole catalogue.
#[pyfunction]
#[pyo3(signature = (pack, methods, how, progress=None))]
pub(crate) fn evaluate_pack(
    py: Python<'_>,
    pack: &Bound<'_, PyAny>,
    methods: Vec<(String, Bound<'_, PyAny>)>,
    how: How,
    progress: Option<Py<PyAny>>,
) -> PyResult<Told> {
    let told = |error: StudyError| study_exception(py, &error);
    let interval = how.interval.as_deref();
    let options = eval_options(py, how.tpr, &how.rule, interval, how.level, how.seed)?;
    let mut view = TableView::report();
    if !how.metrics.is_empty() {
        let metrics = how.metrics.iter().map(|name| Metric::named(name, &options));
        view.metrics = metrics
            .collect::<Result<_, _>>()
            .map_err(|error| input_error(py, format!("metrics: {error}")))?;
    }
    let given = AnyPack::new(pack)?;
    let pack = given.open(py)?.pseudo_labelled(py, how.pseudo_labels, how.seed)?;
    let sets = pack.sets(how.full_spectrum).map_err(told)?;
    let mut evaluator =
        Evaluator::new(sets, options).and_then(|one| one.seeds(how.seeds)).map_err(told)?;
    for (first, second) in &how.compare {
        evaluator = evaluator.compare(first, second);
    }
    if let Some(folder) = &how.report {
        offspan_study::report::prepare(folder).map_err(told)?;
    }
    let mut subject = Subject { wanted: how.report.is_some(), chosen: None };
    let asked = Asked::new(py, &methods, &sets)?;
    let preset = asked.preset();
    let Asked { library, own, named, .. } = asked;
    if !library.is_empty() {
        work(py, progress.as_ref(), |observer| {
            Ok(evaluator.library(
                library,
                &|name| named.iter().any(|one| one == name),
                observer,
                |result, scored| {
                    subject.consider(result, scored);
                },
            ))
        })?
        .map_err(told)?;
    }
    for method in &own {
        let scored = evaluator.own(method.as_method(), &Silent).map_err(told)?;
        if let Some(error) = method.raised() {
            return Err(error);
        }
        let name = method.as_method().name();
        if let (Some(scored), Some(result)) = (scored, evaluator.evaluations().result(&name)) {
            subject.consider(result, scored);
        }
    }
    let place = |name: &str| methods.iter().position(|(given, _)| given == name);
    evaluator.sort_by_key(|result| place(&result.method));
    let seeds = evaluator.seed_list().to_vec();
    let mut evaluations = evaluator.finish();
    evaluations.preset = preset;
    evaluations.pseudo_labels = how.pseudo_labels;
    let (path, read) = match &given {
        AnyPack::Folder(folder, read) => (Some(folder.display().to_string()), read.clone()),
        AnyPack::Arrays(_) => (None, ReadAs::default()),
    };
    let provenance = Provenance::of(&sets, path, &seeds).map_err(told)?;
    evaluations.provenance = Some(Provenance { read, ..provenance });
    let document = document(pack.name(), &evaluations, &options);
    let mut texts = Vec::new();
    for (name, format) in FORMATS {
        // CSV holds one table, and a comparison is another.
        if format != Format::Csv || evaluations.comparisons.is_empty() {
            texts.push((
                name,
                evaluations.render(pack.name(), &options, &view, format).map_err(told)?,
            ));
        }
    }
    let page = match (&how.report, &subject.chosen) {
        (Some(folder), Some((result, scored))) => {
            let page = work(py, progress.as_ref(), |observer| {
                let portrait = Portrait::of(pack.name(), &sets, result, scored, &options, observer);
                Ok(portrait.and_then(|portrait| {
                    offspan_study::report::write(
                        folder,
                        &portrait,
                        &evaluations,
                        &options,
                        &document,
                    )
                }))
            })?;
            Some(page.map_err(told)?)
        }
        _ => None,
    };
    Ok((document.to_string(), texts, page))
}

/// What was asked for, by kind.
struct Asked {
    library: Vec<(String, offspan::MethodSpec)>,
    own: Vec<OwnOrScores>,
    /// Methods of the library that must be tried whatever the rows.
    named: Vec<String>,
    /// The authors' settings that each method of the library was made with.
    presets: Vec<(String, Option<Preset>)>,
}

impl Asked {
    /// The settings of the authors, whose rows of the paper belong beside the results. With those of several networks, or
    /// where a method has other settings, a row would stand beside what does not reproduce it.
    fn preset(&self) -> Option<Preset> {
        let first = self.presets.iter().find_map(|(_, preset)| *preset)?;
        let fits = |(name, preset): &(String, Option<Preset>)| match preset {
            Some(preset) => *preset == first,
            None => first.settings.iter().all(|setting| setting.method != name),
        };
        self.presets.iter().all(fits).then_some(first)
    }

    fn new(
        py: Python<'_>,
        methods: &[(String, Bound<'_, PyAny>)],
        sets: &Sets<'_>,
    ) -> PyResult<Self> {
        let mut asked =
            Asked { library: Vec::new(), own: Vec::new(), named: Vec::new(), presets: Vec::new() };
        for (name, method) in methods {
            if let Ok(method) = method.cast::<Method>() {
                let method = method.get();
                // What is named comes before what `all` brings under that name.
                asked.library.retain(|(known, _)| known != name);
                asked.presets.retain(|(known, _)| known != name);
                asked.library.push((name.clone(), method.spec.clone()));
                asked.presets.push((name.clone(), method.preset));
                asked.named.push(name.clone());
            } else if method.is_none() {
                let all = MethodOptions::default().methods(&["all"]);
                let mut all = all.map_err(|error| exception(py, &error))?;
                all.retain(|(name, _)| asked.library.iter().all(|(known, _)| known != name));
                asked.presets.extend(all.iter().map(|(name, _)| (name.clone(), None)));
                asked.library.extend(all);
            } else if let Ok(folder) = method.extract::<PathBuf>() {
                let scores = OutsideScores::open(name, folder, sets);
                let scores = scores.map_err(|error| study_exception(py, &error))?;
                asked.own.push(OwnOrScores::Scores(scores));
            } else {
                asked.own.push(OwnOrScores::Own(Own::new(name, method)?));
            }
        }
        for own in &asked.own {
            let name = own.as_method().name();
            if asked.library.iter().any(|(known, _)| *known == name) {
                let text =
                    format!("methods: expected a name that the library does not have, got {name}");
                return Err(input_error(py, text));
            }
        }
        Ok(asked)
    }
}

/// A method that is not of the library.
enum OwnOrScores {
    Own(Own),
    Scores(OutsideScores),
}

impl OwnOrScores {
    fn as_method(&self) -> &dyn OwnMethod {
        match self {
            OwnOrScores::Own(own) => own,
            OwnOrScores::Scores(scores) => scores,
        }
    }

    fn raised(&self) -> Option<PyErr> {
        match self {
            OwnOrScores::Own(own) => own.raised(),
            OwnOrScores::Scores(_) => None,
        }
    }
}

/// The method that a report shows: the best one.
struct Subject {
    wanted: bool,
    chosen: Option<(MethodResult, Scored)>,
}

impl Subject {
    fn consider(&mut self, result: &MethodResult, scored: Scored) {
        let better = |(chosen, _): &(MethodResult, Scored)| result.average.fpr < chosen.average.fpr;
        if self.wanted && self.chosen.as_ref().is_none_or(better) {
            self.chosen = Some((result.clone(), scored));
        }
    }
}

/// Makes one of the paper's studies of pack folders, with methods of the caller's own in its comparison. Returns where
/// the page is.
#[pyfunction]
#[pyo3(signature = (study, packs, folder, own, flags, *, tpr, rule, seed, pseudo_labels=None, progress=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn make_study(
    py: Python<'_>,
    study: &str,
    packs: Vec<PathBuf>,
    folder: PathBuf,
    own: Vec<(String, Bound<'_, PyAny>)>,
    flags: Vec<(String, String)>,
    tpr: f64,
    rule: &str,
    seed: u64,
    pseudo_labels: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PathBuf> {
    let told = |error: StudyError| study_exception(py, &error);
    let study = Study::named(study).map_err(told)?;
    let options = eval_options(py, tpr, rule, None, 0.95, seed)?;
    let mut opened = Vec::new();
    for path in packs {
        let pack = Pack::open(&path).map_err(|error| exception(py, &error))?;
        opened.push(match pseudo_labels {
            Some(clusters) => work(py, progress.as_ref(), |observer| {
                pack.with_train(|train| {
                    offspan::with_pseudo_labels(train, clusters, seed, observer)
                })
            })?,
            None => pack,
        });
    }
    let own =
        own.iter().map(|(name, method)| Own::new(name, method)).collect::<PyResult<Vec<_>>>()?;
    let methods: Vec<&dyn OwnMethod> = own.iter().map(|method| method as &dyn OwnMethod).collect();
    // Methods in Python need the interpreter, which the threads of other work would have to wait for.
    let made = if methods.is_empty() {
        work(py, progress.as_ref(), |observer| {
            let settings = Settings { common: flags, options, published: None, own: &[], observer };
            Ok(make(study, &opened, &folder, &settings))
        })?
    } else {
        let settings =
            Settings { common: flags, options, published: None, own: &methods, observer: &Silent };
        make(study, &opened, &folder, &settings)
    };
    if let Some(error) = own.iter().find_map(Own::raised) {
        return Err(error);
    }
    made.map_err(told)
}

/// Does again what a document of an evaluation tells, on a pack or where the document says that it was: the
/// `offspan.repeat/1` document.
#[pyfunction]
#[pyo3(signature = (document, name, pack=None, progress=None))]
pub(crate) fn repeat_document(
    py: Python<'_>,
    document: &str,
    name: &str,
    pack: Option<&Bound<'_, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let told = |error: StudyError| study_exception(py, &error);
    let document = Document::read(document, name).map_err(told)?;
    let provenance = document.provenance.as_ref();
    let given = match pack {
        Some(pack) => AnyPack::new(pack)?,
        None => {
            let path = provenance.and_then(|told| told.path.as_ref()).map(PathBuf::from);
            let path = path.filter(|path| path.is_dir()).ok_or_else(|| {
                let text =
                    "the pack is not where the document says: expected its folder, or its arrays";
                input_error(py, format!("pack: {text}"))
            })?;
            AnyPack::Folder(path, ReadAs::default())
        }
    };
    // What the document tells of reading serves where nothing else was said.
    let given = match (given, provenance) {
        (AnyPack::Folder(folder, read), Some(told)) if read.is_default() => {
            AnyPack::Folder(folder, told.read.clone())
        }
        (given, _) => given,
    };
    let pack =
        given.open(py)?.pseudo_labelled(py, document.pseudo_labels, document.metrics.seed)?;
    let sets = pack.sets(!document.full_spectrum.is_empty()).map_err(told)?;
    let repetition = work(py, progress.as_ref(), |observer| Ok(repeat(&document, sets, observer)))?;
    Ok(repetition.map_err(told)?.document().to_string())
}

/// Methods ranked over documents of evaluations: the ranking as JSON, its table as Markdown and LaTeX, and where the page
/// is, if a folder for it was given.
#[pyfunction]
#[pyo3(signature = (documents, *, by, over_sets, folder=None, top))]
pub(crate) fn rank_documents(
    py: Python<'_>,
    documents: Vec<String>,
    by: &str,
    over_sets: bool,
    folder: Option<PathBuf>,
    top: usize,
) -> PyResult<(String, String, String, Option<PathBuf>)> {
    let told = |error: StudyError| study_exception(py, &error);
    let over = if over_sets { Cases::Sets } else { Cases::Packs };
    let mut cases: Vec<Case> = Vec::new();
    let mut judged = None;
    for (number, text) in documents.iter().enumerate() {
        let document = Document::read(text, &format!("evaluation {}", number + 1)).map_err(told)?;
        let options = *judged.get_or_insert(document.metrics);
        let metric =
            Metric::named(by, &options).map_err(|error| input_error(py, format!("by: {error}")))?;
        if (document.metrics.tpr, document.metrics.rule) != (options.tpr, options.rule) {
            let text =
                format!("{}: expected rates by the same rule as in the first", document.pack);
            return Err(input_error(py, text));
        }
        let name = match cases.iter().any(|case| case.name == document.pack) {
            true => format!("{} ({})", document.pack, number + 1),
            false => document.pack.clone(),
        };
        for mut case in over.of(&name, &document.results, metric) {
            let without = document.without.iter();
            case.without.extend(without.map(|one| (one.method.clone(), one.reason.clone())));
            cases.push(case);
        }
    }
    let options = judged.ok_or_else(|| input_error(py, "packs: expected some, got none"))?;
    let metric =
        Metric::named(by, &options).map_err(|error| input_error(py, format!("by: {error}")))?;
    let ranking =
        work(py, None, |_| Ok(rank(&cases, over, metric, metric.label(&options), options.seed)))?
            .map_err(told)?;
    let table = ranking.table();
    let page = folder.map(|folder| write(&folder, &ranking, top)).transpose().map_err(told)?;
    Ok((ranking.document().to_string(), table.markdown(), table.latex(), page))
}

pub(crate) fn study_exception(py: Python<'_>, error: &StudyError) -> PyErr {
    match error {
        StudyError::Library(error) => exception(py, error),
        other => input_error(py, other.to_string()),
    }
}
