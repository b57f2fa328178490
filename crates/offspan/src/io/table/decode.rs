//! Tables decoded into temporary files, from which rows are then read in any order.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use offspan_arrow::choice::{self, Numbers};
use offspan_arrow::{Element, Field, Problem, TableFile, Target, Wanted};

use super::files_of;
use crate::error::wording::as_flags;
use crate::io::labels::Integer;
use crate::io::matrix::{ElementType, Order};
use crate::io::observer::Observer;
use crate::io::spill::Spill;
use crate::io::{Dataset, Labels, Matrix, Reading};
use crate::{Error, Result};

/// Opens a table with the logits and labels that it carries.
pub(crate) fn open_dataset(path: &Path, reading: &Reading) -> Result<Dataset<'static>> {
    open_dataset_of(path, files_of(path)?, reading)
}

/// The same of given files, whose rows follow one another; `path` is what to call them together.
pub(crate) fn open_dataset_of(
    path: &Path,
    files: Vec<PathBuf>,
    reading: &Reading,
) -> Result<Dataset<'static>> {
    let chosen = &reading.columns;
    let choose = |fields: &[Field]| {
        let (features, logits) = (chosen.features.as_deref(), chosen.logits.as_deref());
        let found = choice::all(fields, features, logits, chosen.labels.as_deref())?;
        let labels = found.labels.map(Wanted::Integers);
        Ok([floats(found.features), found.logits.and_then(floats), labels])
    };
    let [features, logits, labels] = decode(path, files, reading.watcher(), choose)?;
    let mut dataset = Dataset::new(path.display().to_string(), required(path, features)?.matrix()?);
    if let Some(logits) = logits {
        dataset = dataset.with_logits(logits.matrix()?)?;
    }
    if let Some(labels) = labels {
        dataset = dataset.with_labels(labels.labels()?)?;
    }
    Ok(dataset)
}

/// Opens a table of features or of logits only.
pub(crate) fn open_matrix(path: &Path, role: &str) -> Result<Matrix> {
    let choose = |fields: &[Field]| {
        let numbers = match role {
            "logits" => choice::only_logits(fields)?,
            "features" => choice::features(fields)?,
            other => choice::named(fields, other)?,
        };
        Ok([floats(numbers)])
    };
    let [found] = decode(path, files_of(path)?, Reading::default().watcher(), choose)?;
    required(path, found)?.matrix()
}

/// Opens the labels in a table.
pub(crate) fn open_labels(path: &Path) -> Result<Labels> {
    let choose = |fields: &[Field]| Ok([Some(Wanted::Integers(choice::only_labels(fields)?))]);
    let [found] = decode(path, files_of(path)?, Reading::default().watcher(), choose)?;
    required(path, found)?.labels()
}

fn floats(numbers: Numbers) -> Option<Wanted> {
    let element = numbers.element();
    Some(Wanted::Floats(numbers, element))
}

fn required<T>(path: &Path, found: Option<T>) -> Result<T> {
    found.ok_or_else(|| Error::TooFewRows { what: path.display().to_string(), expected: 1, got: 0 })
}

/// Numbers of all rows in a temporary file.
struct Decoded {
    name: String,
    spill: Spill,
    element: Option<Element>,
    /// Whether the rows are looked at here, where a message can still name the part that has a bad one. Features
    /// are; what no method may ask for is not.
    finite: bool,
    rows: usize,
    width: usize,
}

impl Decoded {
    fn matrix(self) -> Result<Matrix> {
        let element = match self.element {
            Some(Element::F16) => ElementType::F16,
            Some(Element::F32) => ElementType::F32,
            Some(Element::F64) | None => ElementType::F64,
        };
        let length = self.rows * self.width * element.size();
        Ok(Matrix {
            bytes: self.spill.finish()?,
            data: 0..length,
            element,
            rows: self.rows,
            width: self.width,
            order: Order::RowMajor,
            name: self.name,
        })
    }

    fn labels(self) -> Result<Labels> {
        let length = self.rows * Integer::I64.size();
        let bytes = self.spill.finish()?;
        Ok(Labels { bytes, data: 0..length, integer: Integer::I64, name: self.name, placed: None })
    }
}

/// Reads all files of a table, each with the columns that `choose` finds in it. None where columns are absent, and
/// where there are no rows.
fn decode<const N: usize>(
    path: &Path,
    files: Vec<PathBuf>,
    observer: &dyn Observer,
    choose: impl Fn(&[Field]) -> Result<[Option<Wanted>; N], Problem>,
) -> Result<[Option<Decoded>; N]> {
    let mut plan: Vec<(PathBuf, [Option<Wanted>; N])> = Vec::new();
    let mut decoded: [Option<Decoded>; N] = std::array::from_fn(|_| None);
    let mut rows = Some(0);
    for file in files {
        let table = open(&file)?;
        rows = rows.zip(table.rows()).map(|(sum, more)| sum + more);
        let found = choose(table.fields()).map_err(|problem| error(&file, problem))?;
        for (index, (place, wanted)) in decoded.iter_mut().zip(&found).enumerate() {
            match (place.as_mut(), wanted) {
                (Some(known), Some(wanted)) => {
                    known.element = known.element.max(element_of(wanted));
                }
                (None, Some(wanted)) if plan.is_empty() => {
                    let name = format!("{} `{}`", path.display(), name_of(wanted, table.fields()));
                    let (spill, element) = (Spill::new()?, element_of(wanted));
                    let finite = index == 0 && N > 1;
                    *place = Some(Decoded { name, spill, element, finite, rows: 0, width: 0 });
                }
                (None, None) => {}
                (known, wanted) => {
                    return Err(unlike(&file, known, wanted.as_ref(), table.fields()));
                }
            }
        }
        plan.push((file, found));
    }
    observer.begin(&format!("rows of {}", path.display()), rows.unwrap_or(0));
    let mut widths: [Option<usize>; N] = [None; N];
    let mut total = 0;
    for (file, found) in plan {
        let mut parts: Vec<(&mut Decoded, &mut Option<usize>, Wanted)> = Vec::new();
        for ((place, width), wanted) in decoded.iter_mut().zip(&mut widths).zip(found) {
            if let (Some(place), Some(wanted)) = (place, wanted) {
                let wanted = place.as_widest(wanted);
                parts.push((place, width, wanted));
            }
        }
        total += read(&file, &mut parts, observer)?;
    }
    if total == 0 {
        return Ok(std::array::from_fn(|_| None));
    }
    for (place, width) in decoded.iter_mut().zip(widths) {
        if let Some(place) = place {
            (place.rows, place.width) = (total, width.unwrap_or(1));
        }
    }
    Ok(decoded)
}

impl Decoded {
    /// What is wanted, in the type that holds the numbers of all files.
    fn as_widest(&self, wanted: Wanted) -> Wanted {
        match (wanted, self.element) {
            (Wanted::Floats(numbers, _), Some(widest)) => Wanted::Floats(numbers, widest),
            (wanted, _) => wanted,
        }
    }
}

fn name_of(wanted: &Wanted, fields: &[Field]) -> String {
    match wanted.positions() {
        [only] => fields[*only].name.clone(),
        [first, .., last] => format!("{}..{}", fields[*first].name, fields[*last].name),
        [] => String::new(),
    }
}

fn element_of(wanted: &Wanted) -> Option<Element> {
    match wanted {
        Wanted::Floats(_, element) => Some(*element),
        Wanted::Integers(_) => None,
    }
}

/// The error for a file that has columns which those before it do not have, or the other way round.
fn unlike(
    file: &Path,
    known: Option<&mut Decoded>,
    wanted: Option<&Wanted>,
    fields: &[Field],
) -> Error {
    let reason = match (known, wanted) {
        (Some(known), _) => format!("it has no column for {}, as files before it do", known.name),
        (None, Some(wanted)) => {
            format!("it has `{}`, which files before it do not have", name_of(wanted, fields))
        }
        (None, None) => "it is unlike the files before it".to_owned(),
    };
    Error::malformed(file, "a part of one dataset", reason)
}

fn open(file: &Path) -> Result<TableFile> {
    let opened = File::open(file).map_err(Error::io("open", file))?;
    TableFile::open(opened).map_err(|problem| error(file, problem))
}

/// Appends the rows of a file and counts them.
fn read(
    file: &Path,
    parts: &mut [(&mut Decoded, &mut Option<usize>, Wanted)],
    observer: &dyn Observer,
) -> Result<usize> {
    let table = open(file)?;
    let mut targets: Vec<Target<'_>> = Vec::new();
    let mut known: Vec<&mut Option<usize>> = Vec::new();
    for (place, width, wanted) in parts.iter_mut() {
        let numbers = match wanted {
            Wanted::Floats(numbers, _) => numbers.width(),
            Wanted::Integers(_) => Some(1),
        };
        if let (Some(expected), Some(got)) = (**width, numbers)
            && expected != got
        {
            let (expected, got) = (format!("{expected} columns"), format!("{got} columns"));
            return Err(Error::shape(file.display().to_string(), expected, got));
        }
        targets.push(Target {
            wanted: wanted.clone(),
            width: width.or(numbers),
            finite: place.finite,
            out: &mut place.spill as &mut dyn Write,
        });
        known.push(&mut **width);
    }
    let mut proceed = |rows| {
        observer.advance(rows);
        !observer.interrupted()
    };
    let rows = table.read(&mut targets, &mut proceed);
    for (known, target) in known.into_iter().zip(&targets) {
        *known = target.width;
    }
    drop(targets);
    match rows {
        Ok(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
        Err(Problem::Write(failed)) => Err(match parts.first() {
            Some((place, ..)) => place.spill.error(failed),
            None => Error::io("read", file)(failed),
        }),
        Err(problem) => Err(error(file, problem)),
    }
}

/// A problem of a file as a sentence that names it.
fn error(file: &Path, problem: Problem) -> Error {
    match problem {
        Problem::Read(failed) | Problem::Write(failed) => Error::io("read", file)(failed),
        Problem::Malformed { expected, reason } => Error::malformed(file, expected, reason),
        Problem::Type { column, expected, got } => Error::ElementType {
            path: file.to_owned(),
            what: format!("column `{column}`"),
            expected,
            got,
        },
        Problem::Choice(reason) => {
            let hint = if as_flags() { " (--columns chooses them)" } else { "" };
            Error::malformed(file, "a table of features", reason + hint)
        }
        Problem::Stopped => Error::Interrupted { hint: String::new() },
        problem => Error::malformed(file, "a table of numbers", problem),
    }
}
