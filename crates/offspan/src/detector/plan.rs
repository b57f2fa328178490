//! A fit whose rows lie on many machines: passes over them that anyone can carry out.
//!
//! A plan says what to look for; every machine looks at its own rows and answers with a part; parts are
//! merged in any order and tree; the plan takes what all of them found, and says what to look for next.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::{Detector, FitOptions, check_options, choose_hold_out};
use crate::calibrate::Promise;
use crate::error::wording::Data;
use crate::io::{AtHand, Bytes, Content, Dataset, Format, Head, TensorFile, TensorWriter};
use crate::methods::MethodSpec;
use crate::training::part::Part;
use crate::training::statistics::Statistics;
use crate::training::{Passes, Training, WorkedOut};
use crate::{Error, HoldOut, Instructions, Observer, Result};

const FORMAT: Format =
    Format { content: Content::FitPlan, version: 3, oldest: 3, if_older: "begin the fit again" };

/// Versions of offspan may differ in what a pass computes, with the same formats.
const MADE_BY: &str = env!("CARGO_PKG_VERSION");

/// What the rows of a fit are called.
const NAME: &str = "the rows";

/// How a plan sets the threshold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanOptions {
    /// Share of the rows to hold out for the threshold, 0 for none; if it is not given, 5 %, or more of few
    /// rows.
    pub hold_out: Option<f64>,
    /// What the threshold promises.
    pub promise: Promise,
    /// Seed of the choice of held-out rows.
    pub seed: u64,
}

/// A fit by passes over rows that may lie anywhere.
///
/// ```
/// use offspan::io::Dataset;
/// use offspan::ndarray::{Array2, s};
/// use offspan::{FitPlan, MethodSpec, PlanOptions, Silent};
///
/// # fn main() -> offspan::Result<()> {
/// let rows = Array2::from_shape_fn((900, 8), |(i, j)| ((i * 7 + j * j * 3) % 13) as f32);
/// let mut plan = FitPlan::new(&MethodSpec::named("pca").expect("a method"), None, PlanOptions::default())?;
/// while plan.stage().is_some() {
///     // On one machine and on another:
///     let first = Dataset::new("first", rows.slice(s![..500, ..]));
///     let second = Dataset::new("second", rows.slice(s![500.., ..]));
///     let mut found = plan.partial(&first, 0, &Silent)?;
///     found.merge(&plan.partial(&second, 500, &Silent)?)?;
///     plan.advance(&found, &Silent)?;
/// }
/// let detector = plan.finish()?;
/// assert!(detector.threshold().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FitPlan {
    spec: MethodSpec,
    head: Option<Head>,
    options: PlanOptions,
    /// Passes done.
    passes: usize,
    /// What the rows look like, after the first pass.
    shape: Option<Shape>,
    /// Which rows are held out. It depends on how many there are, and takes a look at the number of each: so
    /// it is decided once, and a part looks at its own rows only.
    hold_out: HoldOut,
    /// What the passes of this phase have found.
    known: Vec<Vec<u8>>,
    /// The detector without its threshold, once it is fitted.
    fitted: Option<Vec<u8>>,
    next: Next,
    /// What the observer was told already: a fit begins anew at every pass.
    told: BTreeSet<String>,
    /// What was worked out for this pass, for the next part of it.
    worked_out: Arc<WorkedOut>,
    /// What the parts of this pass carry.
    identity: Identity,
}

/// What the parts of a pass carry, so that no other plan and no other pass takes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    /// Version of offspan.
    made_by: String,
    /// Hash of method, options and last layer.
    plan: String,
    /// Passes done before.
    pass: usize,
    /// Hash of what these have found: it decides what the next pass sums up, and in which coordinates.
    found: String,
}

#[derive(Debug, Clone)]
enum Next {
    Pass(String),
    Done(Box<Detector>),
}

/// Width of the features, number of logits if there are any, whether there are labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Columns {
    width: usize,
    logits: Option<usize>,
    labels: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Shape {
    rows: usize,
    columns: Columns,
}

/// What a pass found on some of the rows. Parts of one pass are merged in any order.
#[derive(Debug, Clone)]
pub struct FitPart {
    about: About,
    part: Part,
}

/// Which rows of which pass a part is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct About {
    of: Identity,
    columns: Option<Columns>,
    /// Runs of rows, ascending and apart.
    rows: Vec<Range<usize>>,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    made_by: String,
    spec: MethodSpec,
    options: PlanOptions,
    passes: usize,
    shape: Option<Shape>,
    hold_out: HoldOut,
    known: usize,
    stage: Option<String>,
}

impl FitPlan {
    /// The plan of a fit. Rows, their width and what belongs to them are found out by the first pass.
    ///
    /// # Errors
    /// If the parameters are wrong.
    pub fn new(spec: &MethodSpec, head: Option<Head>, options: PlanOptions) -> Result<Self> {
        Instructions::in_use()?;
        let spec = spec.check()?.spec().clone();
        options.promise.check()?;
        let carried: Option<MethodSpec> = serde_json::from_value(serde_json::json!(spec)).ok();
        if carried.as_ref() != Some(&spec) {
            return Err(Error::Plan(format!(
                "{} with given frequencies cannot be fitted from parts: a plan carries parameters, and draws \
                 frequencies by a seed",
                spec.method()
            )));
        }
        let mut plan = FitPlan {
            spec,
            head,
            options,
            passes: 0,
            shape: None,
            hold_out: HoldOut::NONE,
            known: Vec::new(),
            fitted: None,
            next: Next::Pass("number and width of the rows".to_owned()),
            told: BTreeSet::new(),
            worked_out: Arc::default(),
            identity: Identity::default(),
        };
        plan.identify();
        Ok(plan)
    }

    /// What the next pass is for; none if the fit is done.
    #[must_use]
    pub fn stage(&self) -> Option<&str> {
        match &self.next {
            Next::Pass(stage) => Some(stage),
            Next::Done(_) => None,
        }
    }

    /// How many passes were carried out.
    #[must_use]
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// The method with its parameters.
    #[must_use]
    pub fn spec(&self) -> &MethodSpec {
        &self.spec
    }

    /// Carries out the next pass on some rows, of which the first has this number. Together, the parts of a
    /// pass must have every row once, and the same rows must have the same numbers in every pass.
    ///
    /// # Errors
    /// If the rows are bad, do not fit those of earlier passes, or lack what the method needs; or if there is
    /// no pass left.
    pub fn partial(
        &self,
        rows: &Dataset<'_>,
        first_row: usize,
        observer: &dyn Observer,
    ) -> Result<FitPart> {
        let Next::Pass(_) = &self.next else {
            return Err(Error::Plan("the fit is done: no pass is left".to_owned()));
        };
        let end = first_row
            .checked_add(rows.rows())
            .ok_or_else(|| Error::parameter("first-row", "a row number", first_row))?;
        let at_hand = first_row..end;
        let columns = (rows.rows() > 0).then(|| Columns {
            width: rows.width(),
            logits: rows.logits.as_ref().map(|logits| logits.width()),
            labels: rows.labels.is_some(),
        });
        let about = About {
            of: self.identity.clone(),
            columns,
            rows: if at_hand.is_empty() { Vec::new() } else { vec![at_hand.clone()] },
        };
        let Some(shape) = self.shape else {
            return Ok(FitPart { about, part: Part::default() });
        };
        if let Some(columns) = columns {
            shape.columns.check(columns, &at_hand)?;
        }
        if at_hand.end > shape.rows {
            return Err(Error::Plan(format!(
                "rows {} to {} are given, and the first pass has seen {} rows",
                at_hand.start,
                at_hand.end - 1,
                shape.rows
            )));
        }
        let part_of = AtHand::Run(at_hand.clone());
        let data = borrowed(rows).placed(&part_of, shape.rows);
        let data = if at_hand.is_empty() { shape.elsewhere() } else { data };
        let passes = Passes::new(self.known.clone(), true, self.worked_out.clone());
        match self.run(&data, at_hand, &passes, observer) {
            Err(Error::Paused { .. }) => {}
            Err(error) => return Err(self.explained(error)),
            Ok(_) => return Err(Error::Plan("the plan does not belong to its own parts".into())),
        }
        match passes.into_found() {
            Some(part) => Ok(FitPart { about, part }),
            None => Err(Error::Plan("the pass found nothing".to_owned())),
        }
    }

    /// Takes what a pass found on all rows, and finds out what to look for next.
    ///
    /// # Errors
    /// If rows are missing, the part belongs to another plan or pass, or the fit fails. The plan is then as it
    /// was.
    pub fn advance(&mut self, found: &FitPart, observer: &dyn Observer) -> Result<()> {
        let Next::Pass(_) = &self.next else {
            return Err(Error::Plan("the fit is done: no pass is left".to_owned()));
        };
        found.about.of.check(&self.identity)?;
        let rows = self.shape.map(|shape| shape.rows);
        let count = found.about.complete(rows)?;
        // A copy of this plan may go on with other rows, and so may this one if the step fails.
        let worked_out = Arc::new(self.worked_out.apart());
        let mut next = FitPlan { worked_out, passes: self.passes + 1, ..self.clone() };
        if next.shape.is_none() {
            let columns = found.about.columns.ok_or_else(|| Error::TooFewRows {
                what: NAME.to_owned(),
                expected: 1,
                got: 0,
            })?;
            next.begin(Shape { rows: count, columns }, observer)?;
        } else {
            next.known.push(found.part.to_bytes(serde_json::Value::Null));
        }
        next.go_on(observer)?;
        next.identify();
        *self = next;
        Ok(())
    }

    /// The detector.
    ///
    /// # Errors
    /// If a pass is left.
    pub fn finish(self) -> Result<Detector> {
        match self.next {
            Next::Done(detector) => Ok(*detector),
            Next::Pass(stage) => {
                Err(Error::Plan(format!("the fit is not done: it needs a pass for {stage}")))
            }
        }
    }

    /// Takes what the rows are like, and decides which of them are held out.
    fn begin(&mut self, shape: Shape, observer: &dyn Observer) -> Result<()> {
        let (data, options) = (shape.elsewhere(), self.fit_options(observer));
        check_options(&data, self.head.as_ref(), &options)?;
        self.hold_out = choose_hold_out(&data, &options, |chosen| {
            self.worked_out.held_out(chosen, shape.rows).len()
        })?;
        self.shape = Some(shape);
        Ok(())
    }

    fn fit_options<'a>(&self, observer: &'a dyn Observer) -> FitOptions<'a> {
        let PlanOptions { hold_out, promise, seed } = self.options;
        FitOptions { hold_out, promise, seed, observer, ..FitOptions::default() }
    }

    /// Runs the fit up to the next pass, or to its end.
    fn go_on(&mut self, observer: &dyn Observer) -> Result<()> {
        let shape = self.shape.unwrap_or_else(|| unreachable!("the first pass is done"));
        let told = Told { observer, told: Mutex::new(std::mem::take(&mut self.told)) };
        let data = shape.elsewhere();
        loop {
            let known = std::mem::take(&mut self.known);
            let passes = Passes::new(known, false, self.worked_out.clone());
            let result = self.run(&data, 0..0, &passes, &told);
            self.known = passes.into_known();
            match result {
                Ok(Run::Model(detector)) => {
                    // What led to the model is needed no more.
                    self.known.clear();
                    self.worked_out = Arc::new(self.worked_out.choices());
                    self.fitted = Some(detector.to_bytes());
                }
                Ok(Run::Whole(detector)) => {
                    self.next = Next::Done(detector);
                    break;
                }
                Err(Error::Paused { stage }) => {
                    self.next = Next::Pass(stage);
                    break;
                }
                Err(error) => return Err(self.explained(error)),
            }
        }
        self.told = told.told.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(())
    }

    /// The fit of the model, or, if there is one, of its threshold.
    fn run(
        &self,
        data: &Dataset<'_>,
        at_hand: Range<usize>,
        passes: &Passes,
        observer: &dyn Observer,
    ) -> Result<Run> {
        let training = Training::new(data, self.head.as_ref(), observer);
        let training = training.with_passes(at_hand, passes);
        let training = Training { hold_out: self.hold_out, ..training };
        let Some(fitted) = &self.fitted else {
            let spec = self.spec.check()?;
            spec.check_inputs(&training)?;
            let known = Statistics::gather(&training, &spec.needs())?;
            let detector = Detector::fit_model(&spec, &training, &known)?;
            return Ok(Run::Model(Box::new(detector)));
        };
        let mut detector = Detector::from_bytes(fitted)?;
        let options = self.fit_options(observer);
        if let Some(calibration) = detector.calibration_of(&training, &options)? {
            detector.set_calibration(calibration);
        }
        Ok(Run::Whole(Box::new(detector)))
    }

    /// Says that a method cannot be fitted in this way, where that is the reason.
    fn explained(&self, error: Error) -> Error {
        match error {
            Error::NotAtHand { .. } => Error::Plan(format!(
                "{} reads its training rows again and again, so it cannot be fitted from parts; fit it on \
                 one machine, or choose a method that sums up its rows, such as auto or kpca-rff",
                self.spec.method()
            )),
            Error::MissingInput { who, what: what @ ("logits" | "labels"), hint } => {
                let hint =
                    format!("{hint}; every part of the rows must have them ({})", Data(what));
                Error::MissingInput { who, what, hint }
            }
            other => other,
        }
    }

    /// Finds out what the parts of the next pass carry.
    fn identify(&mut self) {
        let mut plan = Xxh3::new();
        plan.update(serde_json::json!((&self.spec, self.options)).to_string().as_bytes());
        if let Some(head) = &self.head {
            plan.update(format!("{:?}", head.weight.dim()).as_bytes());
            let numbers: Vec<f64> = head.weight.iter().chain(&head.bias).copied().collect();
            plan.update(bytemuck::cast_slice(&numbers));
        }
        let mut found = Xxh3::new();
        let decided = serde_json::json!((self.shape, self.hold_out, self.stage()));
        found.update(decided.to_string().as_bytes());
        for bytes in self.known.iter().chain(&self.fitted) {
            found.update(&bytes.len().to_le_bytes());
            found.update(bytes);
        }
        self.identity = Identity {
            made_by: MADE_BY.to_owned(),
            plan: format!("{:016x}", plan.digest()),
            pass: self.passes,
            found: format!("{:016x}", found.digest()),
        };
    }

    /// The plan as bytes, for another machine.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = TensorWriter::default();
        for (number, known) in self.known.iter().enumerate() {
            writer.raw_bytes(format!("known.{number}"), known);
        }
        if let Some(head) = &self.head {
            head.write("", &mut writer);
        }
        let done = match &self.next {
            Next::Done(detector) => Some(detector.to_bytes()),
            Next::Pass(_) => None,
        };
        if let Some(done) = done.as_ref().or(self.fitted.as_ref()) {
            writer.raw_bytes("detector", done);
        }
        let document = Document {
            version: FORMAT.version,
            made_by: MADE_BY.to_owned(),
            spec: self.spec.clone(),
            options: self.options,
            passes: self.passes,
            shape: self.shape,
            hold_out: self.hold_out,
            known: self.known.len(),
            stage: self.stage().map(str::to_owned),
        };
        writer.to_bytes(&FORMAT, serde_json::json!(document))
    }

    /// The plan that [`FitPlan::to_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes are no such plan.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let path = Path::new("a plan of a fit");
        let file = TensorFile::from_bytes(path, Bytes::Memory(bytes.into()))?;
        let document: Document = file.document(&FORMAT)?;
        if document.made_by != MADE_BY {
            return Err(Error::Plan(format!(
                "the plan was made by offspan {}, and this is offspan {MADE_BY}: a fit needs the same version \
                 everywhere",
                document.made_by
            )));
        }
        let mut plan = FitPlan::new(&document.spec, None, document.options)?;
        if let Some(shape) = document.shape {
            plan.head = Head::read_optional(&file, "", shape.columns.width)?;
        } else if file.has("head.weight") {
            plan.head = Some(Head::new(file.array2("head.weight")?, file.array1("head.bias")?)?);
        }
        let known = (0..document.known).map(|number| file.raw_bytes(&format!("known.{number}")));
        plan.known = known.collect::<Result<_>>()?;
        plan.passes = document.passes;
        plan.shape = document.shape;
        plan.hold_out = document.hold_out;
        let detector = file.has("detector").then(|| file.raw_bytes("detector")).transpose()?;
        match (document.stage, detector) {
            (Some(stage), fitted) => {
                plan.fitted = fitted;
                plan.next = Next::Pass(stage);
            }
            (None, Some(done)) => plan.next = Next::Done(Box::new(Detector::from_bytes(&done)?)),
            (None, None) => {
                return Err(Error::malformed(path, FORMAT.content.name(), "it has no detector"));
            }
        }
        plan.identify();
        Ok(plan)
    }
}

/// How far a run of the fit came.
enum Run {
    Model(Box<Detector>),
    Whole(Box<Detector>),
}

/// The same rows, borrowed.
fn borrowed<'a>(rows: &'a Dataset<'_>) -> Dataset<'a> {
    let mut data = Dataset::new(NAME, &*rows.features);
    if let Some(logits) = &rows.logits {
        data.logits = Some(Box::new(&**logits));
    }
    data.labels.clone_from(&rows.labels);
    data
}

impl Shape {
    fn elsewhere(self) -> Dataset<'static> {
        let Columns { width, logits, labels } = self.columns;
        Dataset::elsewhere(NAME, (self.rows, width), logits, labels)
    }
}

impl Columns {
    /// Fails unless rows have the columns that others have.
    fn check(self, got: Columns, rows: &Range<usize>) -> Result<()> {
        if self == got {
            return Ok(());
        }
        let which = match rows.len() {
            1 => format!("row {}", rows.start),
            _ => format!("rows {} to {}", rows.start, rows.end - 1),
        };
        Err(Error::shape(which, format!("{self}, as in other parts"), got.to_string()))
    }
}

impl std::fmt::Display for Columns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} features", self.width)?;
        match self.logits {
            Some(logits) => write!(f, ", {logits} logits")?,
            None => f.write_str(", no logits")?,
        }
        f.write_str(if self.labels { ", labels" } else { ", no labels" })
    }
}

impl FitPart {
    /// Adds what the same pass found on other rows.
    ///
    /// # Errors
    /// If the other belongs to another plan or pass, has rows that this one has, or rows of other shapes. This
    /// part is then as it was.
    pub fn merge(&mut self, other: &FitPart) -> Result<()> {
        let mut about = self.about.clone();
        about.merge(&other.about)?;
        // Parts without rows may have been made before anything was known of the rows.
        if self.about.rows.is_empty() {
            self.part = other.part.clone();
        } else if !other.about.rows.is_empty() {
            self.part.merge(&other.part)?;
        }
        self.about = about;
        Ok(())
    }

    /// Number of rows that were looked at.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.about.rows.iter().map(Range::len).sum()
    }

    /// The part as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.part.to_bytes(serde_json::json!(self.about))
    }

    /// The part that [`FitPart::to_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes are no such part.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (part, about) = Part::from_bytes(bytes)?;
        let about: About = serde_json::from_value(about).map_err(|error| {
            Error::malformed(Path::new("a part of a fit"), Content::FitPart.name(), error)
        })?;
        let ascending = about.rows.is_sorted_by(|a, b| a.end < b.start)
            && about.rows.iter().all(|run| run.start < run.end);
        if !ascending {
            let reason = "its rows are in disorder";
            let path = Path::new("a part of a fit");
            return Err(Error::malformed(path, Content::FitPart.name(), reason));
        }
        Ok(FitPart { about, part })
    }
}

impl Identity {
    /// Fails unless parts that carry this belong to a plan that asks for that.
    fn check(&self, asked: &Identity) -> Result<()> {
        let Identity { made_by, plan, pass, found } = asked;
        if self.made_by != *made_by {
            return Err(Error::Plan(format!(
                "the part was made by offspan {}, and the fit is one of offspan {made_by}: a fit needs the same \
                 version everywhere",
                self.made_by
            )));
        }
        if self.plan != *plan {
            return Err(Error::Plan(
                "the part belongs to another plan: its method, options or last layer differ".into(),
            ));
        }
        if self.pass != *pass {
            return Err(Error::Plan(format!(
                "the part belongs to pass {}, and the plan is at pass {}",
                self.pass + 1,
                pass + 1
            )));
        }
        if self.found != *found {
            return Err(Error::Plan(format!(
                "the part belongs to another fit with the same method and options: what its first {pass} passes \
                 have found differs, so other rows or other parts were merged there"
            )));
        }
        Ok(())
    }
}

impl About {
    fn merge(&mut self, other: &About) -> Result<()> {
        other.of.check(&self.of)?;
        self.columns = match (self.columns, other.columns) {
            (Some(ours), Some(theirs)) => {
                let whose = other.rows.first().cloned().unwrap_or(0..0);
                ours.check(theirs, &whose)?;
                Some(ours)
            }
            (ours, theirs) => ours.or(theirs),
        };
        let mut runs: Vec<Range<usize>> = self.rows.iter().chain(&other.rows).cloned().collect();
        runs.sort_unstable_by_key(|run| run.start);
        let mut joined: Vec<Range<usize>> = Vec::with_capacity(runs.len());
        for run in runs {
            match joined.last_mut() {
                Some(last) if run.start < last.end => {
                    let end = last.end.min(run.end);
                    return Err(Error::Plan(format!(
                        "rows {} to {} are in two parts: every row must be in one part of a pass",
                        run.start,
                        end - 1
                    )));
                }
                Some(last) if run.start == last.end => last.end = run.end,
                _ => joined.push(run),
            }
        }
        self.rows = joined;
        Ok(())
    }

    /// The number of rows, if there are no gaps between them.
    fn complete(&self, expected: Option<usize>) -> Result<usize> {
        let (first_end, gap) = match &self.rows[..] {
            [] => (0, None),
            [only] if only.start == 0 => (only.end, None),
            [first, ..] if first.start > 0 => (0, Some(0..first.start)),
            [first, second, ..] => (first.end, Some(first.end..second.start)),
            [_] => unreachable!("a run that begins at 0 or later"),
        };
        let gap =
            gap.or_else(|| expected.filter(|&rows| first_end < rows).map(|rows| first_end..rows));
        match gap {
            None => Ok(first_end),
            Some(gap) => Err(Error::Plan(format!(
                "rows {} to {} are in no part: merge the parts of all rows before the plan goes on",
                gap.start,
                gap.end - 1
            ))),
        }
    }
}

/// Tells an observer every note once.
struct Told<'a> {
    observer: &'a dyn Observer,
    told: Mutex<BTreeSet<String>>,
}

impl Observer for Told<'_> {
    fn begin(&self, stage: &str, total: u64) {
        self.observer.begin(stage, total);
    }

    fn advance(&self, by: u64) {
        self.observer.advance(by);
    }

    fn interrupted(&self) -> bool {
        self.observer.interrupted()
    }

    fn note(&self, note: &str) {
        let new = self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(note.to_owned());
        if new {
            self.observer.note(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;
    use crate::methods::OTHER_SIGNS;
    use crate::numeric::random::mix;
    use crate::training::holdout::LOOKED_AT;
    use crate::{AutoParams, KpcaParams, Silent};

    /// What this does, and how many row numbers it hashed.
    fn looks<T>(work: impl FnOnce() -> T) -> (T, usize) {
        let before = LOOKED_AT.get();
        (work(), LOOKED_AT.get() - before)
    }

    /// The workers' processors give a direction the other sign, every second one's.
    #[test]
    fn parts_of_other_processors_sum_up_in_the_coordinates_of_the_driver() {
        let noise = |i: usize, j: usize| (mix((6 * i + j) as u64) >> 40) as f32 / (1 << 24) as f32;
        let rows = Array2::from_shape_fn((600, 6), |(i, j)| (i % 3) as f32 * 0.3 + noise(i, j));
        let some = |range: Range<usize>| {
            let labels: Vec<i64> = range.clone().map(|row| row as i64 % 3).collect();
            let data = Dataset::new("some", rows.slice(s![range, ..]));
            data.with_labels(crate::io::Labels::from(&labels[..])).unwrap()
        };
        let fitted = |other_signs: bool| {
            let mut plan =
                FitPlan::new(&MethodSpec::named("rmds").unwrap(), None, PlanOptions::default())
                    .unwrap();
            while plan.stage().is_some() {
                let worker = FitPlan::from_bytes(&plan.to_bytes()).unwrap();
                let mut found = worker.partial(&some(0..200), 0, &Silent).unwrap();
                let other = FitPlan::from_bytes(&plan.to_bytes()).unwrap();
                OTHER_SIGNS.set(other_signs);
                let part = other.partial(&some(200..600), 200, &Silent);
                OTHER_SIGNS.set(false);
                found.merge(&part.unwrap()).unwrap();
                plan.advance(&found, &Silent).unwrap();
            }
            plan.finish().unwrap()
        };
        let scores = |detector: &Detector| detector.score(rows.view(), None).unwrap();
        assert_eq!(scores(&fitted(false)), scores(&fitted(true)));
    }

    #[test]
    fn a_part_looks_at_its_own_rows_however_many_there_are() {
        const ROWS: usize = 6000;
        const PART: usize = 64;
        let noise = |i: usize, j: usize| (mix((6 * i + j) as u64) >> 40) as f32 / (1 << 24) as f32;
        let rows = Array2::from_shape_fn((ROWS, 6), |(i, j)| 1.0 + noise(i, j));
        let auto = AutoParams { landmarks: Some(16), ..AutoParams::default() };
        // With each, how many choices of rows it makes: `auto` sets some aside for itself.
        let specs = [
            (MethodSpec::named("pca").unwrap(), 1),
            (MethodSpec::Kpca(KpcaParams::nystrom_uniform(16)), 1),
            (MethodSpec::Auto(auto), 2),
        ];
        // Work is counted on the thread that does it.
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        one_thread.install(|| {
            for (spec, choices) in &specs {
                let name = spec.method();
                let mut plan = FitPlan::new(spec, None, PlanOptions::default()).unwrap();
                let mut on_the_driver = 0;
                while let Some(stage) = plan.stage().map(str::to_owned) {
                    // As a worker has it, which knows of the plan what is in its bytes.
                    let worker = FitPlan::from_bytes(&plan.to_bytes()).unwrap();
                    let few = Dataset::new("few", rows.slice(s![..PART, ..]));
                    let others = Dataset::new("others", rows.slice(s![PART.., ..]));
                    let (part, looked_at) = looks(|| worker.partial(&few, 0, &Silent));
                    assert!(looked_at <= 4 * PART, "{name}, {stage}: {looked_at} rows");
                    let mut found = part.unwrap();
                    found.merge(&worker.partial(&others, PART, &Silent).unwrap()).unwrap();
                    let (done, looked_at) = looks(|| plan.advance(&found, &Silent));
                    done.unwrap();
                    on_the_driver += looked_at;
                }
                // The driver looks at every row once for each choice, and at those that were chosen.
                let most = choices * ROWS + ROWS / 2;
                assert!((ROWS..=most).contains(&on_the_driver), "{name}: {on_the_driver} rows");
            }
        });
    }
}
