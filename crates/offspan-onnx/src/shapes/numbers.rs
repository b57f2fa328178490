//! Numbers that are known before a model runs: sizes and the like, which models compute from one another.

use crate::graph_search;
use crate::nodes::attribute;
use crate::proto::{DataType, NodeProto, TensorProto};
use crate::tensors::{elements, whole_numbers};

/// Longer lists are no sizes.
const LONGEST: usize = 64;

/// A short list of numbers, none where one is not known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Numbers {
    is_whole: bool,
    values: Vec<Option<f64>>,
}

impl Numbers {
    pub(super) fn whole(values: impl IntoIterator<Item = Option<u64>>) -> Self {
        let values = values.into_iter().map(|value| value.map(|value| value as f64)).collect();
        Numbers { is_whole: true, values }
    }

    /// One whole number.
    pub(crate) fn one(value: u64) -> Self {
        Self::whole([Some(value)])
    }

    pub(super) fn of_tensor(tensor: &TensorProto) -> Option<Self> {
        if elements(tensor).ok()? > LONGEST as u64 {
            return None;
        }
        if let Some(values) = whole_numbers(tensor) {
            let values = values.into_iter().map(|value| Some(value as f64)).collect();
            return Some(Numbers { is_whole: true, values });
        }
        let values = graph_search::numbers(tensor).ok()?;
        let values = values.into_iter().map(|value| Some(f64::from(value))).collect();
        Some(Numbers { is_whole: false, values })
    }

    /// What a `Constant` says without a tensor.
    pub(super) fn of_constant(node: &NodeProto) -> Option<Self> {
        let said = |name: &str| attribute(node, name);
        let (is_whole, values): (bool, Vec<f64>) = if let Some(said) = said("value_int") {
            (true, vec![said.i? as f64])
        } else if let Some(said) = said("value_ints") {
            (true, said.ints.iter().map(|&value| value as f64).collect())
        } else if let Some(said) = said("value_float") {
            (false, vec![f64::from(said.f?)])
        } else {
            let said = said("value_floats")?;
            (false, said.floats.iter().map(|&value| f64::from(value)).collect())
        };
        let values = values.into_iter().map(Some).collect::<Vec<_>>();
        (values.len() <= LONGEST).then_some(Numbers { is_whole, values })
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// All of them, if they are known. Reals are cut to whole numbers.
    pub(super) fn known(&self) -> Option<Vec<i64>> {
        // Rust's conversion stops at the largest number.
        self.values.iter().map(|value| value.map(|value| value as i64)).collect()
    }

    pub(super) fn reals(&self) -> Option<Vec<f64>> {
        self.values.iter().copied().collect()
    }

    /// The only one.
    pub(crate) fn single(&self) -> Option<f64> {
        match self.values[..] {
            [value] => value,
            _ => None,
        }
    }

    /// As sizes, none where a number is not known or negative.
    pub(super) fn sizes(&self) -> Vec<Option<u64>> {
        let size = |value: f64| (value >= 0.0).then_some(value as u64);
        self.values.iter().map(|value| value.and_then(size)).collect()
    }

    pub(super) fn cast(mut self, to: i64) -> Self {
        self.is_whole = [DataType::Int64, DataType::Int32].iter().any(|&kind| to == kind as i64);
        if self.is_whole {
            self.values.iter_mut().flatten().for_each(|value| *value = value.trunc());
        }
        self
    }

    pub(super) fn each(mut self, of: fn(f64) -> f64) -> Self {
        self.values.iter_mut().flatten().for_each(|value| *value = of(*value));
        self
    }

    /// Two lists of one length, or a list and a number for all of it.
    pub(super) fn both(&self, other: &Self, op: &str) -> Option<Self> {
        let count = self.len().max(other.len());
        if (self.len() != count && self.len() != 1) || (other.len() != count && other.len() != 1) {
            return None;
        }
        let is_whole = self.is_whole && other.is_whole;
        let of = |a: f64, b: f64| match op {
            "Add" => Some(a + b),
            "Sub" => Some(a - b),
            "Mul" => Some(a * b),
            "Div" if is_whole && b == 0.0 => None,
            "Div" if is_whole => Some((a / b).trunc()),
            "Div" => Some(a / b),
            "Pow" => Some(a.powf(b)),
            "Max" => Some(a.max(b)),
            "Min" => Some(a.min(b)),
            _ => None,
        };
        let at = |numbers: &Self, index: usize| {
            numbers.values.get(index).copied().unwrap_or_else(|| numbers.values[0])
        };
        let values = (0..count)
            .map(|index| at(self, index).zip(at(other, index)).and_then(|(a, b)| of(a, b)))
            .collect();
        Some(Numbers { is_whole, values })
    }

    pub(super) fn product(&self) -> Self {
        let product = self.values.iter().try_fold(1.0, |product, value| Some(product * (*value)?));
        Numbers { is_whole: self.is_whole, values: vec![product] }
    }

    /// The numbers at these places, of which negative ones count from the end.
    pub(super) fn at(&self, places: &Self) -> Option<Self> {
        let length = self.len() as i64;
        let place = |place: i64| if place < 0 { place + length } else { place };
        let values = places
            .known()?
            .into_iter()
            .map(|at| usize::try_from(place(at)).ok().and_then(|at| self.values.get(at).copied()));
        Some(Numbers { is_whole: self.is_whole, values: values.collect::<Option<_>>()? })
    }

    pub(super) fn joined(parts: &[&Self]) -> Option<Self> {
        let values: Vec<_> = parts.iter().flat_map(|part| part.values.iter().copied()).collect();
        let is_whole = parts.iter().all(|part| part.is_whole);
        (values.len() <= LONGEST).then_some(Numbers { is_whole, values })
    }

    /// From one place on, up to another.
    pub(super) fn part(&self, start: i64, end: i64) -> Self {
        let length = self.len() as i64;
        let place =
            |at: i64| (if at < 0 { at.saturating_add(length) } else { at }).clamp(0, length);
        let (start, end) = (place(start) as usize, place(end) as usize);
        let values = self.values.get(start..end.max(start)).unwrap_or_default().to_vec();
        Numbers { is_whole: self.is_whole, values }
    }

    /// One number so many times.
    pub(super) fn repeated(&self, count: u64) -> Option<Self> {
        let count = usize::try_from(count).ok().filter(|&count| count <= LONGEST)?;
        let [value] = self.values[..] else { return None };
        Some(Numbers { is_whole: self.is_whole, values: vec![value; count] })
    }

    /// How many steps there are between two numbers.
    pub(super) fn count_between(start: &Self, limit: &Self, step: &Self) -> Option<u64> {
        let (start, limit, step) = (start.single()?, limit.single()?, step.single()?);
        let count = ((limit - start) / step).ceil();
        // Of a step of zero, and where nothing lies between, engines say what is wrong.
        if count.is_nan() { None } else { Some(count.max(0.0) as u64) }
    }

    /// What `ConstantOfShape` gives where it says nothing.
    pub(super) fn zero() -> Self {
        Numbers { is_whole: false, values: vec![Some(0.0)] }
    }
}
