//! Rows that are looked at and forgotten, block after block.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use ndarray::Array2;

use super::{FeatureSource, read_finite};
use crate::Result;

/// Blocks whose memory a thread keeps: a score looks at two at once at most.
const KEPT: usize = 2;

thread_local! {
    /// Memory of blocks that this thread is done with.
    static SPARE: RefCell<Vec<Vec<f64>>> = const { RefCell::new(Vec::new()) };
}

/// Some rows in double precision. A thread that reads one block after the other uses the same memory
/// again: new memory has to be cleared first, which takes about as long as reading the rows.
#[derive(Debug)]
pub(crate) struct Block(Array2<f64>);

impl Block {
    /// Reads rows from `start` on and makes sure that every value is finite.
    pub(crate) fn read(source: &dyn FeatureSource, start: usize, count: usize) -> Result<Self> {
        let mut memory = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        memory.resize(count * source.width(), 0.0);
        let rows = Array2::from_shape_vec((count, source.width()), memory)
            .unwrap_or_else(|_| unreachable!("as many numbers as the rows have"));
        let mut block = Block(rows);
        read_finite(source, start, block.view_mut())?;
        Ok(block)
    }
}

impl Deref for Block {
    type Target = Array2<f64>;

    fn deref(&self) -> &Array2<f64> {
        &self.0
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut Array2<f64> {
        &mut self.0
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.0).into_raw_vec_and_offset().0;
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < KEPT {
                spare.push(memory);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_leaves_nothing_of_earlier_rows() {
        let large = Array2::from_elem((6, 4), 7.0);
        let small = Array2::from_shape_fn((3, 2), |(i, j)| (2 * i + j) as f64);
        let place = |block: &Block| block.as_ptr();
        let first = place(&Block::read(&large.view(), 0, 6).unwrap());
        let block = Block::read(&small.view(), 1, 2).unwrap();
        assert_eq!(*block, ndarray::array![[2.0, 3.0], [4.0, 5.0]]);
        assert_eq!(place(&block), first);
        let beside = Block::read(&large.view(), 0, 6).unwrap();
        assert_eq!(beside.view(), large);
        assert_ne!(place(&beside), first);
    }
}
