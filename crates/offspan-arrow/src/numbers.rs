//! The numbers of a batch, row by row.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use bytemuck::Pod;
use half::f16;

use crate::choice::Numbers;
use crate::{Element, Problem};

/// What is wanted of the rows.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// These numbers, as this type.
    Floats(Numbers, Element),
    /// The whole numbers in a column, as `i64`.
    Integers(usize),
}

impl Wanted {
    /// The columns that hold it.
    #[must_use]
    pub fn positions(&self) -> &[usize] {
        match self {
            Wanted::Floats(numbers, _) => numbers.positions(),
            Wanted::Integers(position) => std::slice::from_ref(position),
        }
    }
}

/// Where numbers go: all rows one after the other, little-endian.
pub struct Target<'a> {
    /// What is wanted.
    pub wanted: Wanted,
    /// Numbers in a row; found with the first one where it is not known.
    pub width: Option<usize>,
    /// Whether every number must be finite.
    pub finite: bool,
    /// What they are written to.
    pub out: &'a mut dyn Write,
}

impl Target<'_> {
    /// Appends the rows of a batch, whose columns are those at `positions` of the file; `start` rows came before.
    pub(crate) fn append(
        &mut self,
        batch: &RecordBatch,
        positions: &[usize],
        start: u64,
    ) -> Result<(), Problem> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let column = |position: &usize| {
            let at = positions.iter().position(|known| known == position).unwrap_or_default();
            Column { array: batch.column(at), name: batch.schema_ref().field(at).name(), start }
        };
        match &self.wanted {
            Wanted::Integers(position) => {
                self.out.write_all(bytes_of(&column(position).integers()?))
            }
            Wanted::Floats(Numbers::List(position, _), element) => {
                let column = column(position);
                let (values, width) = column.list(self.width)?;
                self.width = Some(width);
                if self.finite {
                    column.check_finite(&values, width)?;
                }
                write_floats(&values, *element, self.out)
            }
            Wanted::Floats(Numbers::Columns(columns, _), element) => {
                let columns: Vec<Column<'_>> = columns.iter().map(column).collect();
                for column in &columns {
                    column.check_no_nulls()?;
                    if self.finite {
                        column.check_finite(column.array, 1)?;
                    }
                }
                match element {
                    Element::F16 => {
                        self.out.write_all(bytes_of(&together(&columns, f16::from_f64)))
                    }
                    Element::F32 => self.out.write_all(bytes_of(&together(&columns, |x| x as f32))),
                    Element::F64 => self.out.write_all(bytes_of(&together(&columns, |x| x))),
                }
            }
        }
        .map_err(Problem::Write)
    }
}

/// A column of a batch.
struct Column<'a> {
    array: &'a ArrayRef,
    name: &'a str,
    /// Rows of the file before this batch.
    start: u64,
}

impl Column<'_> {
    fn wrong(&self, row: usize, reason: impl Into<String>) -> Problem {
        let row = self.start + row as u64;
        Problem::Row { column: self.name.to_owned(), row, reason: reason.into() }
    }

    fn wrong_type(&self, expected: &'static str) -> Problem {
        let got = self.array.data_type().to_string();
        Problem::Type { column: self.name.to_owned(), expected, got }
    }

    fn check_no_nulls(&self) -> Result<(), Problem> {
        match first_null(self.array) {
            None => Ok(()),
            Some(row) => Err(self.wrong(row, "it is null; expected numbers in every row")),
        }
    }

    fn check_finite(&self, values: &ArrayRef, width: usize) -> Result<(), Problem> {
        let Some((at, value)) = first_infinite(values) else { return Ok(()) };
        let place = if width == 1 { String::new() } else { format!("number {} ", at % width) };
        Err(self.wrong(at / width, format!("{place}is {value}; every value must be finite")))
    }

    /// The numbers of all lists, which have one length.
    fn list(&self, width: Option<usize>) -> Result<(ArrayRef, usize), Problem> {
        self.check_no_nulls()?;
        let (values, width) = match self.array.data_type() {
            DataType::List(_) => {
                let list = self.array.as_list::<i32>();
                let ends: Vec<usize> =
                    list.value_offsets().iter().map(|&end| end as usize).collect();
                (self.between(list.values(), &ends, width)?, ends[1] - ends[0])
            }
            DataType::LargeList(_) => {
                let list = self.array.as_list::<i64>();
                let ends: Vec<usize> =
                    list.value_offsets().iter().map(|&end| end as usize).collect();
                (self.between(list.values(), &ends, width)?, ends[1] - ends[0])
            }
            DataType::FixedSizeList(_, size) => {
                let list = self.array.as_fixed_size_list();
                let size = usize::try_from(*size).unwrap_or_default();
                let ends: Vec<usize> =
                    (0..=list.len()).map(|row| (list.offset() + row) * size).collect();
                // The values of a slice are those of its rows already.
                let first = ends[0];
                let ends: Vec<usize> = ends.iter().map(|end| end - first).collect();
                (self.between(list.values(), &ends, width)?, size)
            }
            _ => return Err(self.wrong_type(Problem::FLOATS)),
        };
        if let Some(at) = first_null(&values) {
            let reason = format!("number {} of its list is null", at % width);
            return Err(self.wrong(at / width, reason));
        }
        Ok((values, width))
    }

    /// The values of lists that end where `ends` says, all of the same length.
    fn between(
        &self,
        values: &ArrayRef,
        ends: &[usize],
        width: Option<usize>,
    ) -> Result<ArrayRef, Problem> {
        let expected = width.unwrap_or(ends[1] - ends[0]);
        if expected == 0 {
            return Err(self.wrong(0, "its list is empty; expected at least one number"));
        }
        if let Some(row) = ends.windows(2).position(|pair| pair[1] - pair[0] != expected) {
            let got = ends[row + 1] - ends[row];
            let others = if width.is_some() || row > 0 { ", as in the rows before" } else { "" };
            return Err(self.wrong(row, format!("expected {expected} numbers{others}, got {got}")));
        }
        Ok(values.slice(ends[0], ends[ends.len() - 1] - ends[0]))
    }

    fn integers(&self) -> Result<Vec<i64>, Problem> {
        self.check_no_nulls()?;
        let array = self.array;
        Ok(match array.data_type() {
            DataType::Int8 => widened::<Int8Type>(array),
            DataType::Int16 => widened::<Int16Type>(array),
            DataType::Int32 => widened::<Int32Type>(array),
            DataType::Int64 => widened::<Int64Type>(array),
            DataType::UInt8 => widened::<UInt8Type>(array),
            DataType::UInt16 => widened::<UInt16Type>(array),
            DataType::UInt32 => widened::<UInt32Type>(array),
            DataType::UInt64 => {
                let values = array.as_primitive::<UInt64Type>().values();
                let whole = |(row, &value): (usize, &u64)| {
                    i64::try_from(value).map_err(|_| {
                        self.wrong(row, format!("expected less than 2^63, got {value}"))
                    })
                };
                values.iter().enumerate().map(whole).collect::<Result<_, _>>()?
            }
            _ => return Err(self.wrong_type("whole numbers")),
        })
    }
}

fn widened<T: ArrowPrimitiveType>(array: &ArrayRef) -> Vec<i64>
where
    T::Native: Into<i64>,
{
    array.as_primitive::<T>().values().iter().map(|&value| value.into()).collect()
}

fn first_null(array: &ArrayRef) -> Option<usize> {
    if array.null_count() == 0 {
        return None;
    }
    (0..array.len()).find(|&row| array.is_null(row))
}

fn first_infinite(array: &ArrayRef) -> Option<(usize, f64)> {
    fn find<T: Copy>(values: &[T], number: impl Fn(T) -> f64) -> Option<(usize, f64)> {
        let mut numbers = values.iter().map(|&value| number(value)).enumerate();
        numbers.find(|(_, value)| !value.is_finite())
    }
    match array.data_type() {
        DataType::Float16 => find(array.as_primitive::<Float16Type>().values(), f16::to_f64),
        DataType::Float32 => find(array.as_primitive::<Float32Type>().values(), f64::from),
        DataType::Float64 => find(array.as_primitive::<Float64Type>().values(), |x| x),
        _ => None,
    }
}

/// One number of every column after the other, row by row.
fn together<T: Copy + Default>(columns: &[Column<'_>], convert: impl Fn(f64) -> T) -> Vec<T> {
    /// Numbers of a row that are written together.
    const RUN: usize = 16;
    fn fill<A: Copy, T>(values: &[A], out: &mut [T], at: usize, width: usize, to: impl Fn(A) -> T) {
        for (row, &value) in out.chunks_exact_mut(width).zip(values) {
            row[at] = to(value);
        }
    }
    let (rows, width) = (columns[0].array.len(), columns.len());
    let mut out = vec![T::default(); rows * width];
    // Few rows at a time, so that what is written stays in the cache until its neighbours are.
    for start in (0..rows).step_by(RUN) {
        let count = RUN.min(rows - start);
        let part = &mut out[start * width..(start + count) * width];
        for (at, column) in columns.iter().enumerate() {
            let array = column.array;
            match array.data_type() {
                DataType::Float16 => {
                    let values =
                        &array.as_primitive::<Float16Type>().values()[start..start + count];
                    fill(values, part, at, width, |x| convert(x.to_f64()));
                }
                DataType::Float32 => {
                    let values =
                        &array.as_primitive::<Float32Type>().values()[start..start + count];
                    fill(values, part, at, width, |x| convert(f64::from(x)));
                }
                _ => {
                    let values =
                        &array.as_primitive::<Float64Type>().values()[start..start + count];
                    fill(values, part, at, width, &convert);
                }
            }
        }
    }
    out
}

/// Writes floats as `element`, which holds every one of them.
fn write_floats(values: &ArrayRef, element: Element, out: &mut dyn Write) -> std::io::Result<()> {
    match (values.data_type(), element) {
        (DataType::Float16, Element::F16) => {
            out.write_all(bytes_of(values.as_primitive::<Float16Type>().values()))
        }
        (DataType::Float32, Element::F32) => {
            out.write_all(bytes_of(values.as_primitive::<Float32Type>().values()))
        }
        (DataType::Float64, _) => {
            out.write_all(bytes_of(values.as_primitive::<Float64Type>().values()))
        }
        (DataType::Float16, Element::F32) => {
            let values = values.as_primitive::<Float16Type>().values();
            out.write_all(bytes_of(&values.iter().map(|x| x.to_f32()).collect::<Vec<f32>>()))
        }
        (DataType::Float16, _) => {
            let values = values.as_primitive::<Float16Type>().values();
            out.write_all(bytes_of(&values.iter().map(|x| x.to_f64()).collect::<Vec<f64>>()))
        }
        _ => {
            let values = values.as_primitive::<Float32Type>().values();
            out.write_all(bytes_of(&values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>()))
        }
    }
}

/// Numbers as they lie in memory, which is little-endian: see the crate's root.
fn bytes_of<T: Pod>(numbers: &[T]) -> &[u8] {
    bytemuck::cast_slice(numbers)
}
