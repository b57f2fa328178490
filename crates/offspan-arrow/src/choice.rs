//! Which columns hold features, logits and labels.
//!
//! Numbers of a row are either a list in one column, or one number in each of several columns, which are called
//! by a common prefix and consecutive numbers: `f0, f1, …`.

use std::collections::BTreeMap;

use crate::{Element, Field, Kind, Problem};

/// Where the numbers of a row lie, as positions of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Numbers {
    /// In a list.
    List(usize, Element),
    /// One in each of these columns; the widest type of them.
    Columns(Vec<usize>, Element),
}

impl Numbers {
    /// The type that holds all of them.
    #[must_use]
    pub fn element(&self) -> Element {
        match self {
            Numbers::List(_, element) | Numbers::Columns(_, element) => *element,
        }
    }

    /// How many there are in a row, where the columns tell.
    #[must_use]
    pub fn width(&self) -> Option<usize> {
        match self {
            Numbers::List(..) => None,
            Numbers::Columns(columns, _) => Some(columns.len()),
        }
    }

    /// The columns.
    #[must_use]
    pub fn positions(&self) -> &[usize] {
        match self {
            Numbers::List(position, _) => std::slice::from_ref(position),
            Numbers::Columns(positions, _) => positions,
        }
    }
}

/// The columns of features, logits and labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Features.
    pub features: Numbers,
    /// Logits, where there are any.
    pub logits: Option<Numbers>,
    /// Labels, where there are any.
    pub labels: Option<usize>,
}

/// The columns that are asked for, and for the rest those that names tell.
///
/// # Errors
/// If columns are not there, hold something else, or could be several.
pub fn all(
    fields: &[Field],
    features_as: Option<&str>,
    logits_as: Option<&str>,
    labels_as: Option<&str>,
) -> Result<Chosen, Problem> {
    let features = features_as.map_or_else(|| features(fields), |text| named(fields, text))?;
    let logits = match logits_as {
        Some(text) => Some(named(fields, text)?),
        // Chosen features may be called logits; they are not both.
        None => logits(fields)?.filter(|logits| *logits != features),
    };
    let labels = match labels_as {
        Some(name) => Some(named_labels(fields, name)?),
        None => labels(fields)?,
    };
    Ok(Chosen { features, logits, labels })
}

/// The columns that `text` asks for: the name of a column, a prefix of numbered columns, a range of them such as
/// `f0..f511`, or names and ranges separated by commas.
///
/// # Errors
/// If they are not there, or hold something else.
pub fn named(fields: &[Field], text: &str) -> Result<Numbers, Problem> {
    if let Some(position) = position_of(fields, text) {
        return match fields[position].kind {
            Kind::List(element) => Ok(Numbers::List(position, element)),
            _ => columns(fields, vec![position]),
        };
    }
    let numbered = Numbered::all(fields).remove(text);
    if let Some(numbered) = numbered {
        return columns(fields, numbered.consecutive(text)?);
    }
    let mut positions = Vec::new();
    for part in text.split(',').map(str::trim) {
        match (position_of(fields, part), range(part)) {
            (Some(position), _) => positions.push(position),
            (None, Some((prefix, first, last))) => {
                let mut all = Numbered::all(fields);
                let group = all.remove(prefix).unwrap_or_default();
                positions.extend(group.between(prefix, first, last)?);
            }
            (None, None) => return Err(missing(fields, part)),
        }
    }
    let mut seen = positions.clone();
    seen.sort_unstable();
    if let Some(twice) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
        let name = &fields[twice[0]].name;
        return Err(Problem::Choice(format!(
            "`{text}` has column `{name}` twice; expected every column once"
        )));
    }
    columns(fields, positions)
}

/// The columns of features: `features`, or else the only list of floats or the only numbered floats that are not
/// logits.
///
/// # Errors
/// If there are none, or several.
pub fn features(fields: &[Field]) -> Result<Numbers, Problem> {
    only(fields, "features", |name| !is_logits(name))
}

/// The columns of logits in a file of their own: `logits`, or else the only ones that could be.
///
/// # Errors
/// If there are none, or several.
pub fn only_logits(fields: &[Field]) -> Result<Numbers, Problem> {
    match logits(fields)? {
        Some(found) => Ok(found),
        None => only(fields, "logits", |_| true),
    }
}

/// The columns of logits beside features: `logits`, or numbered ones such as `logits0` or `logit_0`.
///
/// # Errors
/// If they hold something else, or numbers are missing.
pub fn logits(fields: &[Field]) -> Result<Option<Numbers>, Problem> {
    if position_of(fields, "logits").is_some() {
        return named(fields, "logits").map(Some);
    }
    let mut groups = Numbered::all(fields).into_iter().filter(|(prefix, _)| is_logits(prefix));
    groups.next().map(|(prefix, group)| columns(fields, group.consecutive(&prefix)?)).transpose()
}

/// The column of labels beside features: `labels`, or `label` where it holds whole numbers.
///
/// # Errors
/// If `labels` holds something else.
pub fn labels(fields: &[Field]) -> Result<Option<usize>, Problem> {
    if position_of(fields, "labels").is_some() {
        return named_labels(fields, "labels").map(Some);
    }
    let is_integer = |position: &usize| fields[*position].kind == Kind::Integer;
    Ok(position_of(fields, "label").filter(is_integer))
}

/// The column of labels in a file of their own: as beside features, or else the only whole numbers.
///
/// # Errors
/// If there are none, or several.
pub fn only_labels(fields: &[Field]) -> Result<usize, Problem> {
    if let Some(position) = labels(fields)? {
        return Ok(position);
    }
    let mut all = fields.iter().enumerate().filter(|(_, field)| field.kind == Kind::Integer);
    match (all.next(), all.next()) {
        (Some((position, _)), None) => Ok(position),
        _ => Err(missing(fields, "labels")),
    }
}

/// A column of whole numbers by its name.
///
/// # Errors
/// If it is not there, or holds something else.
pub fn named_labels(fields: &[Field], name: &str) -> Result<usize, Problem> {
    let position = position_of(fields, name).ok_or_else(|| missing(fields, name))?;
    match fields[position].kind {
        Kind::Integer => Ok(position),
        _ => Err(Problem::Type {
            column: name.to_owned(),
            expected: "whole numbers (int8 to int64, uint8 to uint64)",
            got: fields[position].shown.clone(),
        }),
    }
}

fn position_of(fields: &[Field], name: &str) -> Option<usize> {
    fields.iter().position(|field| field.name == name)
}

fn missing(fields: &[Field], name: &str) -> Problem {
    Problem::Choice(format!("no column `{name}`; it has {}", listing(fields)))
}

/// The columns in words, without those that only repeat.
fn listing(fields: &[Field]) -> String {
    const MOST: usize = 8;
    if fields.is_empty() {
        return "no columns".to_owned();
    }
    let first: Vec<String> = fields.iter().take(MOST).map(Field::to_string).collect();
    match fields.len().saturating_sub(MOST) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn is_logits(name: &str) -> bool {
    let name = name.trim_end_matches(['_', '-', '.', ' ']);
    ["logits", "logit"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// One number in each of these columns.
fn columns(fields: &[Field], positions: Vec<usize>) -> Result<Numbers, Problem> {
    let mut widest = Element::F16;
    for field in positions.iter().map(|&position| &fields[position]) {
        let Kind::Float(element) = field.kind else {
            return Err(Problem::Type {
                column: field.name.clone(),
                expected: Problem::FLOATS,
                got: field.shown.clone(),
            });
        };
        widest = widest.max(element);
    }
    Ok(Numbers::Columns(positions, widest))
}

/// The column called `name`, or else the only candidate.
fn only(fields: &[Field], name: &str, may_be: impl Fn(&str) -> bool) -> Result<Numbers, Problem> {
    if position_of(fields, name).is_some() {
        return named(fields, name);
    }
    let lists = fields.iter().filter(|f| matches!(f.kind, Kind::List(_)) && may_be(&f.name));
    let mut found: Vec<(String, String)> =
        lists.map(|field| (field.name.clone(), format!("`{}`", field.name))).collect();
    for (prefix, group) in Numbered::all(fields) {
        // A single number behind a name says nothing.
        if group.0.len() > 1 && may_be(&prefix) {
            let numbers: Vec<&u64> = group.0.keys().collect();
            let shown = format!("`{prefix}{}`, `{prefix}{}`, …", numbers[0], numbers[1]);
            found.push((prefix, shown));
        }
    }
    match found.as_slice() {
        [(only, _)] => named(fields, only),
        [] => Err(Problem::Choice(format!(
            "expected {name} in a column `{name}`, a list of floats or numbered columns such as f0, f1; it has {}",
            listing(fields)
        ))),
        several => {
            let shown: Vec<&str> = several.iter().map(|(_, shown)| shown.as_str()).collect();
            Err(Problem::Choice(format!(
                "{name} could be {}; say which columns hold them",
                shown.join(" or ")
            )))
        }
    }
}

/// Columns with a common prefix, by the number behind it.
#[derive(Debug, Default)]
struct Numbered(BTreeMap<u64, usize>, Option<String>);

impl Numbered {
    /// All numbered floats by their prefix.
    fn all(fields: &[Field]) -> BTreeMap<String, Numbered> {
        let mut groups: BTreeMap<String, Numbered> = BTreeMap::new();
        for (position, field) in fields.iter().enumerate() {
            let Some((prefix, number)) = split(&field.name) else { continue };
            if !matches!(field.kind, Kind::Float(_)) {
                continue;
            }
            let group = groups.entry(prefix.to_owned()).or_default();
            if group.0.insert(number, position).is_some() {
                group.1 = Some(field.name.clone());
            }
        }
        groups
    }

    /// The columns in the order of their numbers, none of which may be missing.
    fn consecutive(&self, prefix: &str) -> Result<Vec<usize>, Problem> {
        match (self.0.first_key_value(), self.0.last_key_value()) {
            (Some((&first, _)), Some((&last, _))) => self.between(prefix, first, last),
            _ => Ok(Vec::new()),
        }
    }

    fn between(&self, prefix: &str, first: u64, last: u64) -> Result<Vec<usize>, Problem> {
        if let Some(twice) = &self.1 {
            return Err(Problem::Choice(format!(
                "column `{twice}` has a number that another column of `{prefix}` has, too"
            )));
        }
        let mut positions = Vec::new();
        for (expected, (&number, &position)) in (first..).zip(self.0.range(first..=last.max(first)))
        {
            if number != expected {
                return Err(Problem::Choice(format!(
                    "no column of floats `{prefix}{expected}`, between `{prefix}{first}` and `{prefix}{last}`"
                )));
            }
            positions.push(position);
        }
        match (first..=last).nth(positions.len()) {
            None if first <= last => Ok(positions),
            None => Err(Problem::Choice(format!(
                "`{prefix}{first}..{prefix}{last}` ends before it begins"
            ))),
            Some(absent) => Err(Problem::Choice(format!("no column of floats `{prefix}{absent}`"))),
        }
    }
}

/// A name's prefix and the number behind it.
fn split(name: &str) -> Option<(&str, u64)> {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    Some((prefix, name[prefix.len()..].parse().ok()?))
}

/// Prefix, first and last number of a range such as `f0..f511`.
fn range(text: &str) -> Option<(&str, u64, u64)> {
    let (first, last) = text.split_once("..")?;
    let ((prefix, first), (other, last)) = (split(first)?, split(last)?);
    (prefix == other).then_some((prefix, first, last))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn field(name: &str, kind: Kind) -> Field {
        Field { name: name.to_owned(), shown: format!("{kind:?}"), kind }
    }

    fn floats(names: &[&str]) -> Vec<Field> {
        names.iter().map(|name| field(name, Kind::Float(Element::F32))).collect()
    }

    fn told<T: std::fmt::Debug>(result: Result<T, Problem>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn numbered_columns_are_in_the_order_of_their_numbers() {
        let fields = floats(&["f10", "f9", "x", "f011"]);
        let expected = Numbers::Columns(vec![1, 0, 3], Element::F32);
        assert_eq!(features(&fields).unwrap(), expected);
        assert_eq!(named(&fields, "f").unwrap(), expected);
        assert_eq!(named(&fields, "f9..f11").unwrap(), expected);
        assert_eq!(named(&fields, "f9, f10, f011").unwrap(), expected);
        assert_eq!(named(&fields, "x,f9..f10").unwrap().positions(), [2, 1, 0]);
        assert_eq!(features(&floats(&["0", "1", "2"])).unwrap().width(), Some(3));
    }

    #[test]
    fn lists_and_types() {
        let fields = [
            field("id", Kind::Integer),
            field("embedding", Kind::List(Element::F16)),
            field("logits", Kind::List(Element::F64)),
            field("label", Kind::Integer),
        ];
        assert_eq!(features(&fields).unwrap(), Numbers::List(1, Element::F16));
        assert_eq!(logits(&fields).unwrap(), Some(Numbers::List(2, Element::F64)));
        assert_eq!(labels(&fields).unwrap(), Some(3));
        let chosen = all(&fields, Some("logits"), None, Some("id")).unwrap();
        assert_eq!(chosen.features, Numbers::List(2, Element::F64));
        assert_eq!((chosen.logits, chosen.labels), (None, Some(0)));
        assert_eq!(named(&fields, "logits").unwrap(), Numbers::List(2, Element::F64));
        let mixed =
            [field("f0", Kind::Float(Element::F16)), field("f1", Kind::Float(Element::F64))];
        assert_eq!(features(&mixed).unwrap().element(), Element::F64);
        let fields = floats(&["f0", "f1", "logit_0", "logit_1"]);
        assert_eq!(features(&fields).unwrap().positions(), [0, 1]);
        assert_eq!(logits(&fields).unwrap().unwrap().positions(), [2, 3]);
        assert_eq!(only_logits(&floats(&["c0", "c1"])).unwrap().positions(), [0, 1]);
        let text = [field("label", Kind::Other)];
        assert_eq!(labels(&text).unwrap(), None, "a column of names is not ours");
        assert_eq!(only_labels(&[field("y", Kind::Integer)]).unwrap(), 0);
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let fields = floats(&["f0", "f1", "f3"]);
        assert!(told(features(&fields)).contains("no column of floats `f2`"));
        assert!(told(named(&fields, "f0..f7")).contains("no column of floats `f2`"));
        assert!(told(named(&fields, "f0..f1,f5..f6")).contains("no column of floats `f5`"));
        assert!(told(named(&fields, "f1..f0")).contains("ends before it begins"));
        assert!(told(named(&fields, "f1,f1")).contains("`f1` twice"));
        assert!(told(named(&fields, "g")).contains("no column `g`; it has `f0`"));
        assert!(told(features(&floats(&["f0", "f1", "f01"]))).contains("another column of `f`"));
        assert!(
            told(features(&floats(&["a0", "a1", "b0", "b1"]))).contains("`a0`, `a1`, … or `b0`")
        );
        assert!(told(features(&[field("x", Kind::Integer)])).contains("it has `x` (Integer)"));
        assert!(told(named(&[field("x", Kind::Integer)], "x")).contains("`x` is Integer"));
        let many: Vec<String> = (0..20).map(|i| format!("c{i}x")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(told(features(&floats(&many))).ends_with("and 12 more"));
    }
}
