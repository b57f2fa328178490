//! The sizes of values as far as a model's constants tell them. What cannot be told is left open.

mod known;
mod numbers;

pub(crate) use known::{About, Known};
pub(crate) use numbers::Numbers;

/// The sizes of a value, none where they are not known.
pub(crate) type Shape = Vec<Option<u64>>;

/// Sizes in a message, `?` where they are open. A damaged file may have many.
pub(crate) fn in_words(shape: &Shape) -> String {
    let size = |size: &Option<u64>| size.map_or_else(|| "?".to_owned(), |size| size.to_string());
    format!("[{}]", shape.iter().take(8).map(size).collect::<Vec<_>>().join(", "))
}

/// The shape of two values together, sizes of 1 stretched. None if they do not go together, which is for
/// others to say.
fn broadcast(one: &[Option<u64>], other: &[Option<u64>]) -> Option<Shape> {
    let length = one.len().max(other.len());
    let size = |shape: &[Option<u64>], axis: usize| match (axis + shape.len()).checked_sub(length) {
        Some(at) => shape[at],
        None => Some(1),
    };
    (0..length)
        .map(|axis| match (size(one, axis), size(other, axis)) {
            (Some(1), other) => Some(other),
            (one, Some(1)) => Some(one),
            (Some(a), Some(b)) if a != b => None,
            (a, b) => Some(a.or(b)),
        })
        .collect()
}

fn product(left: &Shape, right: &Shape) -> Option<Shape> {
    let (&[.., rows, _], &[.., columns]) = (&left[..], &right[..]) else { return None };
    if right.len() < 2 {
        return None;
    }
    let outer = broadcast(&left[..left.len() - 2], &right[..right.len() - 2])?;
    Some(outer.into_iter().chain([rows, columns]).collect())
}

/// All sizes multiplied.
fn total(sizes: &[Option<u64>]) -> Option<u64> {
    sizes.iter().try_fold(1_u64, |total, size| size.map(|size| total.saturating_mul(size)))
}

fn times(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(a, b)| a.saturating_mul(b))
}

/// An axis that may be counted from the end.
fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis <= rank)
}
