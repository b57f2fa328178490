//! What a pass found on some of the rows: sums, counts and chosen rows that add up.
//!
//! Parts of disjoint rows can be merged in any order and tree. Whole numbers and chosen rows are then the
//! same for every partition; sums of floating-point numbers are, up to rounding in `f64`.

use std::collections::BTreeMap;
use std::path::Path;

use ndarray::{Array1, Array2, Axis, concatenate};
use serde::{Deserialize, Serialize};

use crate::io::{Bytes, Content, Format, TensorFile, TensorWriter};
use crate::span::moments::Moments;
use crate::training::sums::{ChannelSums, ClassSums};
use crate::{Error, Result};

const FORMAT: Format =
    Format { content: Content::FitPart, version: 2, oldest: 2, if_older: "fit again" };

/// Named results of a pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Part(BTreeMap<String, Field>);

/// One result, and with it the way in which two of its kind are merged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Field {
    Moments(Moments),
    /// Added entry by entry.
    Sum(Array2<f64>),
    /// Added entry by entry.
    Counts(Vec<u64>),
    /// A whole number of each of some rows, after the row's number; in the order of the rows.
    Pairs(Vec<u64>),
    /// Bits that are set in either.
    Bits(u64),
    /// A sum that wraps around, of hashes of rows.
    Hash(u64),
    Classes(ClassSums),
    Channels(ChannelSums),
    /// Numbers of each of some rows, in the order of the rows.
    Rows(ChosenRows),
    /// Rows with the smallest keys, at most so many.
    Smallest(Smallest),
}

/// Something of each of some rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChosenRows {
    /// Their numbers, ascending.
    pub(crate) numbers: Vec<usize>,
    /// One row of numbers each.
    pub(crate) values: Array2<f64>,
}

/// Row numbers with the smallest keys; of equal keys, the smaller row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Smallest {
    most: usize,
    entries: Vec<(f64, usize)>,
}

impl Smallest {
    pub(crate) fn new(most: usize) -> Self {
        Smallest { most, entries: Vec::new() }
    }

    pub(crate) fn add(&mut self, entries: impl IntoIterator<Item = (f64, usize)>) {
        self.entries.extend(entries);
        if self.entries.len() > self.most {
            let order =
                |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            if let Some(last) = self.most.checked_sub(1) {
                self.entries.select_nth_unstable_by(last, order);
            }
            self.entries.truncate(self.most);
        }
    }

    /// The keys, ascending.
    pub(crate) fn keys(&self) -> Vec<f64> {
        let mut keys: Vec<f64> = self.entries.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable_by(f64::total_cmp);
        keys
    }

    /// The rows, ascending.
    pub(crate) fn rows(self) -> Vec<usize> {
        let mut rows: Vec<usize> = self.entries.into_iter().map(|(_, row)| row).collect();
        rows.sort_unstable();
        rows
    }
}

impl ChosenRows {
    fn merge(&mut self, other: &ChosenRows) {
        let numbers: Vec<usize> = self.numbers.iter().chain(&other.numbers).copied().collect();
        let values = concatenate![Axis(0), self.values, other.values];
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        order.sort_unstable_by_key(|&place| numbers[place]);
        self.numbers = order.iter().map(|&place| numbers[place]).collect();
        self.values = values.select(Axis(0), &order);
    }
}

/// What the JSON document says of a field.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Described {
    Moments { count: u64 },
    Sum { rows: usize, columns: usize },
    Counts,
    Pairs,
    Bits { value: String },
    Hash { value: String },
    Classes { width: usize },
    Channels { count: u64 },
    Rows { width: usize },
    Smallest { most: usize },
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    fields: BTreeMap<String, Described>,
    /// What the owner of the part has to say.
    about: serde_json::Value,
}

impl Part {
    pub(crate) fn with(mut self, name: &str, field: Field) -> Self {
        self.0.insert(name.to_owned(), field);
        self
    }

    pub(crate) fn with_optional(self, name: &str, field: Option<Field>) -> Self {
        match field {
            Some(field) => self.with(name, field),
            None => self,
        }
    }

    /// Takes a field out. Its kind is the business of whoever put it in.
    pub(crate) fn take<F: FromField>(&mut self, name: &str) -> Result<F> {
        let found = self.0.remove(name).and_then(F::from_field);
        found.ok_or_else(|| wrong(format!("it has no `{name}` of the kind that the fit asks for")))
    }

    /// The same, where it may be missing.
    pub(crate) fn take_optional<F: FromField>(&mut self, name: &str) -> Result<Option<F>> {
        if self.0.contains_key(name) { self.take(name).map(Some) } else { Ok(None) }
    }

    /// Adds what another part of the same pass found on other rows.
    pub(crate) fn merge(&mut self, other: &Part) -> Result<()> {
        if !self.0.keys().eq(other.0.keys()) {
            return Err(wrong("two parts have different results"));
        }
        for (field, other) in self.0.values_mut().zip(other.0.values()) {
            field.merge(other)?;
        }
        Ok(())
    }

    /// The part as bytes, with what its owner has to say of it.
    pub(crate) fn to_bytes(&self, about: serde_json::Value) -> Vec<u8> {
        let mut writer = TensorWriter::default();
        let described =
            self.0.iter().map(|(name, field)| (name.clone(), field.write(name, &mut writer)));
        let document = Document { version: FORMAT.version, fields: described.collect(), about };
        writer.to_bytes(&FORMAT, serde_json::json!(document))
    }

    /// What [`Part::to_bytes`] wrote.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<(Self, serde_json::Value)> {
        let path = Path::new("a part of a fit");
        let file = TensorFile::from_bytes(path, Bytes::Memory(bytes.into()))?;
        let document: Document = file.document(&FORMAT)?;
        let fields = document.fields.into_iter();
        let read =
            fields.map(|(name, field)| Ok((name.clone(), Field::read(&name, field, &file)?)));
        Ok((Part(read.collect::<Result<_>>()?), document.about))
    }
}

impl Field {
    fn merge(&mut self, other: &Field) -> Result<()> {
        let add = |a: &mut [u64], b: &[u64]| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a = a.saturating_add(*b));
        };
        match (self, other) {
            (Field::Moments(a), Field::Moments(b)) => a.merge(b)?,
            (Field::Sum(a), Field::Sum(b)) if a.dim() == b.dim() => *a += b,
            (Field::Counts(a), Field::Counts(b)) if a.len() == b.len() => add(a, b),
            (Field::Pairs(a), Field::Pairs(b)) => {
                a.extend(b);
                a.as_chunks_mut::<2>().0.sort_unstable();
            }
            (Field::Bits(a), Field::Bits(b)) => *a |= b,
            (Field::Hash(a), Field::Hash(b)) => *a = a.wrapping_add(*b),
            (Field::Classes(a), Field::Classes(b)) => a.merge(b)?,
            (Field::Channels(a), Field::Channels(b)) => a.merge(b)?,
            (Field::Rows(a), Field::Rows(b)) if a.values.ncols() == b.values.ncols() => a.merge(b),
            (Field::Smallest(a), Field::Smallest(b)) if a.most == b.most => {
                a.add(b.entries.iter().copied());
            }
            _ => return Err(wrong("two parts have results of different kinds or sizes")),
        }
        Ok(())
    }

    fn write<'a>(&'a self, name: &str, writer: &mut TensorWriter<'a>) -> Described {
        let of = |part: &str| format!("{name}.{part}");
        match self {
            Field::Moments(moments) => {
                moments.write_packed(name, writer);
                Described::Moments { count: moments.count() }
            }
            Field::Sum(sum) => {
                writer.array2(name, sum);
                let (rows, columns) = sum.dim();
                Described::Sum { rows, columns }
            }
            Field::Counts(counts) => {
                writer.counts(name, counts);
                Described::Counts
            }
            Field::Pairs(pairs) => {
                writer.counts(name, pairs);
                Described::Pairs
            }
            Field::Bits(value) => Described::Bits { value: format!("{value:016x}") },
            Field::Hash(value) => Described::Hash { value: format!("{value:016x}") },
            Field::Classes(sums) => {
                writer.counts(of("labels"), &sums.labels());
                writer.counts(of("counts"), &sums.counts());
                writer.owned(of("sums"), sums.sums());
                Described::Classes { width: sums.width() }
            }
            Field::Channels(ChannelSums { count, mean, squares }) => {
                writer.array1(of("mean"), mean);
                writer.array1(of("squares"), squares);
                Described::Channels { count: *count }
            }
            Field::Rows(rows) => {
                let numbers: Vec<u64> = rows.numbers.iter().map(|&row| row as u64).collect();
                writer.counts(of("numbers"), &numbers);
                writer.shortest(of("values"), &rows.values);
                Described::Rows { width: rows.values.ncols() }
            }
            Field::Smallest(smallest) => {
                let rows: Vec<u64> = smallest.entries.iter().map(|(_, row)| *row as u64).collect();
                let keys = smallest.entries.iter().map(|(key, _)| *key).collect::<Array1<f64>>();
                writer.counts(of("rows"), &rows);
                writer.owned(of("keys"), keys.insert_axis(Axis(1)));
                Described::Smallest { most: smallest.most }
            }
        }
    }

    fn read(name: &str, described: Described, file: &TensorFile) -> Result<Self> {
        let of = |part: &str| format!("{name}.{part}");
        let rows_of = |part: &str| -> Result<Vec<usize>> {
            let numbers = file.counts(&of(part))?.into_iter();
            numbers.map(|row| usize::try_from(row).map_err(|_| too_large(row))).collect()
        };
        let hexadecimal = |text: &str| {
            u64::from_str_radix(text, 16).map_err(|_| wrong(format!("`{name}` is {text}")))
        };
        Ok(match described {
            Described::Moments { count } => {
                Field::Moments(Moments::read_packed(name, file, count)?)
            }
            Described::Sum { rows, columns } => {
                Field::Sum(file.table(name, (Some(rows), columns))?)
            }
            Described::Counts => Field::Counts(file.counts(name)?),
            Described::Pairs => Field::Pairs(file.counts(name)?),
            Described::Bits { value } => Field::Bits(hexadecimal(&value)?),
            Described::Hash { value } => Field::Hash(hexadecimal(&value)?),
            Described::Classes { width } => {
                let (labels, counts) = (file.counts(&of("labels"))?, file.counts(&of("counts"))?);
                let sums = file.table(&of("sums"), (Some(labels.len()), width))?;
                let classes = ClassSums::from_parts(&labels, &counts, &sums, width);
                Field::Classes(classes.ok_or_else(|| wrong(format!("`{name}` does not fit")))?)
            }
            Described::Channels { count } => {
                let (mean, squares) = (file.scores(&of("mean"))?, file.scores(&of("squares"))?);
                if mean.len() != squares.len() {
                    return Err(wrong(format!("`{name}` does not fit")));
                }
                Field::Channels(ChannelSums { count, mean: mean.into(), squares: squares.into() })
            }
            Described::Rows { width } => {
                let numbers = rows_of("numbers")?;
                let values = file.table(&of("values"), (Some(numbers.len()), width))?;
                if !numbers.is_sorted_by(|a, b| a < b) {
                    return Err(wrong(format!("the rows of `{name}` are in disorder")));
                }
                Field::Rows(ChosenRows { numbers, values })
            }
            Described::Smallest { most } => {
                let rows = rows_of("rows")?;
                let keys = file.table(&of("keys"), (Some(rows.len()), 1))?;
                let mut smallest = Smallest::new(most);
                smallest.add(keys.into_iter().zip(rows));
                Field::Smallest(smallest)
            }
        })
    }
}

fn wrong(reason: impl std::fmt::Display) -> Error {
    Error::malformed(Path::new("a part of a fit"), FORMAT.content.name(), reason)
}

fn too_large(row: u64) -> Error {
    wrong(format!("row {row} is more than this machine can count"))
}

/// What a field holds.
pub(crate) trait FromField: Sized {
    fn from_field(field: Field) -> Option<Self>;
}

macro_rules! from_field {
    ($($variant:ident => $type:ty),* $(,)?) => {$(
        impl FromField for $type {
            fn from_field(field: Field) -> Option<Self> {
                match field {
                    Field::$variant(found) => Some(found),
                    _ => None,
                }
            }
        }
    )*};
}

from_field!(
    Moments => Moments,
    Sum => Array2<f64>,
    Classes => ClassSums,
    Channels => ChannelSums,
    Rows => ChosenRows,
    Smallest => Smallest,
);

/// Counts or pairs.
impl FromField for Vec<u64> {
    fn from_field(field: Field) -> Option<Self> {
        match field {
            Field::Counts(found) | Field::Pairs(found) => Some(found),
            _ => None,
        }
    }
}

/// Bits or a hash.
impl FromField for u64 {
    fn from_field(field: Field) -> Option<Self> {
        match field {
            Field::Bits(found) | Field::Hash(found) => Some(found),
            _ => None,
        }
    }
}

/// A sum of one number.
impl FromField for f64 {
    fn from_field(field: Field) -> Option<Self> {
        match field {
            Field::Sum(sum) if sum.len() == 1 => sum.first().copied(),
            _ => None,
        }
    }
}

/// Fails unless a part has sums of the width that the fit asks for.
pub(crate) fn check_part_width(got: usize, expected: usize) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    Err(wrong(format!("its sums are {got} wide, and the fit has {expected} coordinates")))
}

/// A sum of one number.
pub(crate) fn number(value: f64) -> Field {
    Field::Sum(Array2::from_elem((1, 1), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(rows: std::ops::Range<usize>) -> Part {
        let x = Array2::from_shape_fn((rows.len(), 3), |(i, j)| {
            ((rows.start + i) * (j + 2) % 7) as f64 - 1.5
        });
        let mut moments = Moments::new(3);
        moments.update(x.view()).unwrap();
        let mut classes = ClassSums::new(3);
        let mut channels = ChannelSums::new(3);
        channels.add(x.view());
        for (row, z) in rows.clone().zip(x.rows()) {
            classes.add(row as i64 % 3 - 1, z.to_slice().unwrap()).unwrap();
        }
        let mut smallest = Smallest::new(4);
        smallest.add(rows.clone().map(|row| ((row * 5 % 11) as f64, row)));
        let counts = vec![rows.len() as u64, rows.start as u64];
        let chosen: Vec<usize> = rows.clone().filter(|row| row % 4 == 0).collect();
        let values =
            Array2::from_shape_fn((chosen.len(), 2), |(i, j)| (chosen[i] + j) as f64 / 3.0);
        Part::default()
            .with("moments", Field::Moments(moments))
            .with("sum", Field::Sum(x.sum_axis(Axis(0)).insert_axis(Axis(0))))
            .with("counts", Field::Counts(counts))
            .with(
                "pairs",
                Field::Pairs(rows.clone().flat_map(|row| [row as u64, 1 << 40]).collect()),
            )
            .with("bits", Field::Bits(1 << (rows.start % 60)))
            .with("hash", Field::Hash(u64::MAX - rows.start as u64))
            .with("classes", Field::Classes(classes))
            .with("channels", Field::Channels(channels))
            .with("rows", Field::Rows(ChosenRows { numbers: chosen, values }))
            .with("smallest", Field::Smallest(smallest))
    }

    #[test]
    fn bytes_bring_back_every_kind_of_field() {
        for rows in [0..0, 0..1, 3..20] {
            let part = part(rows);
            let bytes = part.to_bytes(serde_json::json!({"pass": 3}));
            let (read, about) = Part::from_bytes(&bytes).unwrap();
            assert_eq!(read, part);
            assert_eq!(about["pass"], 3);
            assert_eq!(bytes, read.to_bytes(about), "the same bytes again");
        }
    }

    #[test]
    fn merging_in_any_order_finds_the_same_rows_and_counts() {
        let merged = |ranges: &[std::ops::Range<usize>]| {
            let mut all = part(ranges[0].clone());
            ranges[1..].iter().for_each(|range| all.merge(&part(range.clone())).unwrap());
            all
        };
        let mut whole = part(0..40);
        let mut parts = merged(&[25..40, 7..7, 0..7, 7..25]);
        assert_eq!(parts.take::<ChosenRows>("rows").unwrap(), whole.take("rows").unwrap());
        assert_eq!(
            parts.take::<Vec<u64>>("pairs").unwrap(),
            whole.take::<Vec<u64>>("pairs").unwrap()
        );
        let rows = |part: &mut Part| part.take::<Smallest>("smallest").unwrap().rows();
        assert_eq!(rows(&mut parts), rows(&mut whole));
        let (a, b): (Moments, Moments) =
            (parts.take("moments").unwrap(), whole.take("moments").unwrap());
        assert_eq!(a.count(), b.count());
        assert!((&a.covariance() - &b.covariance()).iter().all(|x| x.abs() < 1e-13));
        let (a, b): (ClassSums, ClassSums) =
            (parts.take("classes").unwrap(), whole.take("classes").unwrap());
        assert_eq!(a.counts(), b.counts());
        assert_eq!(a.labels(), b.labels());
        let (a, b): (ChannelSums, ChannelSums) =
            (parts.take("channels").unwrap(), whole.take("channels").unwrap());
        assert_eq!(a.count, b.count);
        assert!((&a.squares - &b.squares).iter().all(|x| x.abs() < 1e-11));
    }

    #[test]
    fn parts_that_do_not_belong_together_are_refused() {
        let a = part(0..5);
        assert!(a.clone().merge(&Part::default()).is_err());
        let other = part(5..9).with("sum", Field::Sum(Array2::zeros((2, 3))));
        assert!(a.clone().merge(&other).is_err());
        let mut taken = a.clone();
        assert!(taken.take::<Moments>("sum").is_err());
        let mut bytes = a.to_bytes(serde_json::json!({}));
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert!(Part::from_bytes(&bytes).is_err());
        assert!(Part::from_bytes(&bytes[..100]).is_err());
    }
}
