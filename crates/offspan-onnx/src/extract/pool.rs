//! A vector per row from what a layer gives.

use crate::image::Layout;
use crate::pool::Pool;
use crate::run::Value;

/// How the numbers of one row lie: `outer` blocks of `positions` × `inner`, of which positions are pooled.
struct Places {
    outer: usize,
    positions: usize,
    inner: usize,
}

/// Rows of vectors. The layout says where maps have their channels: what the network's nodes told, or else that of its input.
pub(super) fn pool(
    value: Value,
    how: Pool,
    (told, of_input): (Option<Layout>, Layout),
) -> Result<Value, String> {
    let Some((&rows, row)) = value.shape.split_first() else {
        return Err("expected a value with rows, got a single number".to_owned());
    };
    let width: usize = row.iter().product();
    if row.len() <= 1 || how == Pool::None {
        return Ok(Value { shape: vec![rows, width], numbers: value.numbers });
    }
    // Tokens have their channels last, whatever images have; a first token is asked for of tokens only.
    let usual = if row.len() == 2 { Layout::Nhwc } else { of_input };
    let places = match (row, told.filter(|_| how != Pool::Cls).unwrap_or(usual)) {
        (&[channels, ref map @ ..], Layout::Nchw) => {
            Places { outer: channels, positions: map.iter().product(), inner: 1 }
        }
        (&[ref map @ .., channels], Layout::Nhwc) => {
            Places { outer: 1, positions: map.iter().product(), inner: channels }
        }
        _ => unreachable!("a row of several dimensions has a first and a last one"),
    };
    if how == Pool::Cls && row.len() != 2 {
        return Err(format!("expected tokens [rows, tokens, width] for cls, got maps of {row:?}"));
    }
    if places.positions == 0 {
        return Err(format!("expected maps of at least one position, got {row:?}"));
    }
    let channels = places.outer * places.inner;
    let mut numbers = Vec::with_capacity(rows * channels);
    for row in value.numbers.chunks_exact(width.max(1)) {
        for channel in 0..channels {
            let (outer, inner) = (channel / places.inner, channel % places.inner);
            let at =
                |position: usize| row[(outer * places.positions + position) * places.inner + inner];
            numbers.push(match how {
                Pool::Cls => at(0),
                Pool::Max => (0..places.positions).map(at).fold(f32::NEG_INFINITY, f32::max),
                Pool::Avg | Pool::None => {
                    let sum: f64 = (0..places.positions).map(|i| f64::from(at(i))).sum();
                    (sum / places.positions as f64) as f32
                }
            });
        }
    }
    Ok(Value { shape: vec![rows, channels], numbers })
}

/// Maps with their channels first, as `rank-feat` reads them.
pub(super) fn channels_first(value: Value, layout: Layout) -> Result<Value, String> {
    let &[rows, a, b, c] = &value.shape[..] else {
        return Err(format!("expected maps of four dimensions, got {:?}", value.shape));
    };
    if layout == Layout::Nchw {
        return Ok(value);
    }
    let (height, width, channels) = (a, b, c);
    let mut numbers = Vec::with_capacity(value.numbers.len());
    for row in value.numbers.chunks_exact((height * width * channels).max(1)) {
        for channel in 0..channels {
            numbers.extend(row.iter().skip(channel).step_by(channels));
        }
    }
    Ok(Value { shape: vec![rows, channels, height, width], numbers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(shape: &[usize], numbers: &[f32]) -> Value {
        Value { shape: shape.to_vec(), numbers: numbers.to_vec() }
    }

    #[test]
    fn maps_are_pooled_over_positions_in_both_layouts() {
        // Two channels of three positions.
        let first = || value(&[1, 2, 1, 3], &[1., 2., 6., -1., -2., -3.]);
        let last = || value(&[1, 1, 3, 2], &[1., -1., 2., -2., 6., -3.]);
        for (maps, layout) in [(first(), Layout::Nchw), (last(), Layout::Nhwc)] {
            assert_eq!(pool(maps, Pool::Avg, (None, layout)).unwrap().numbers, [3.0, -2.0]);
        }
        for (maps, layout) in [(first(), Layout::Nchw), (last(), Layout::Nhwc)] {
            assert_eq!(pool(maps, Pool::Max, (None, layout)).unwrap().numbers, [6.0, -1.0]);
        }
        // The nodes before the maps count more than the network's input.
        let told = (Some(Layout::Nchw), Layout::Nhwc);
        assert_eq!(pool(first(), Pool::Avg, told).unwrap().numbers, [3.0, -2.0]);
        let signal = value(&[1, 2, 3], &[1., 2., 6., -1., -2., -3.]);
        assert_eq!(pool(signal, Pool::Avg, told).unwrap().numbers, [3.0, -2.0]);
        let usual = (None, Layout::Nchw);
        assert_eq!(pool(first(), Pool::None, usual).unwrap().shape, [1, 6]);
        assert!(pool(first(), Pool::Cls, usual).is_err());
        let turned = channels_first(last(), Layout::Nhwc).unwrap();
        assert_eq!((turned.shape, turned.numbers), (first().shape, first().numbers));
    }

    #[test]
    fn tokens_are_pooled_over_tokens_and_vectors_stay() {
        let tokens = || value(&[1, 2, 2], &[1., 2., 3., 6.]);
        for layout in [Layout::Nchw, Layout::Nhwc] {
            assert_eq!(pool(tokens(), Pool::Avg, (None, layout)).unwrap().numbers, [2.0, 4.0]);
            assert_eq!(pool(tokens(), Pool::Cls, (None, layout)).unwrap().numbers, [1.0, 2.0]);
            let vectors = value(&[2, 2], &[1., 2., 3., 4.]);
            assert_eq!(pool(vectors, Pool::Max, (None, layout)).unwrap().numbers, [1., 2., 3., 4.]);
        }
        assert!(pool(value(&[], &[1.0]), Pool::Avg, (None, Layout::Nchw)).is_err());
    }
}
