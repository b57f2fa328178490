//! Tensors of requests, and rows of several of them as one source for the library.

use std::sync::Arc;

use ndarray::ArrayViewMut2;
use offspan::io::FeatureSource;

use super::element::Element;
use super::pieces::Pieces;

/// A tensor whose first axis are rows.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) element: Element,
    /// Sizes, the rows first.
    pub(crate) shape: Vec<usize>,
    /// As many bytes as the shape says, checked where it is made.
    pub(crate) data: Pieces,
}

impl Tensor {
    pub(crate) fn rows(&self) -> usize {
        self.shape[0]
    }

    /// Numbers in one row.
    pub(crate) fn width(&self) -> usize {
        self.shape[1..].iter().product()
    }

    fn read_row(&self, row: usize, out: &mut [u8]) {
        self.data.read(row * self.width() * self.element.size(), out);
    }

    /// Some rows in single precision, one after another.
    pub(crate) fn singles(&self, start: usize, rows: usize) -> Vec<f32> {
        let width = self.width();
        let mut numbers = vec![0.0; rows * width];
        let mut scratch = Vec::new();
        for (k, row) in numbers.chunks_exact_mut(width.max(1)).enumerate() {
            self.element.singles(row, &mut scratch, |out| self.read_row(start + k, out));
        }
        numbers
    }
}

/// Rows of one tensor that belong to a batch.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) tensor: Arc<Tensor>,
    /// The first of them in the tensor.
    pub(crate) start: usize,
    pub(crate) rows: usize,
}

/// Rows of several requests, in their order. They go from the bodies to the block that is scored, with no stop between.
pub(crate) struct BatchRows {
    name: &'static str,
    parts: Vec<Part>,
    /// Where each part ends in the batch.
    ends: Vec<usize>,
    width: usize,
}

impl BatchRows {
    pub(crate) fn new(name: &'static str, parts: Vec<Part>, width: usize) -> Self {
        let sum = |sum: &mut usize, part: &Part| {
            *sum += part.rows;
            Some(*sum)
        };
        let ends = parts.iter().scan(0, sum).collect();
        BatchRows { name, parts, ends, width }
    }

    /// The tensor that has a row of the batch, and which of its rows that is.
    fn find(&self, row: usize) -> (&Tensor, usize) {
        let index = self.ends.partition_point(|&end| end <= row);
        let part = &self.parts[index];
        (&part.tensor, part.start + row + part.rows - self.ends[index])
    }
}

impl FeatureSource for BatchRows {
    fn rows(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn width(&self) -> usize {
        self.width
    }

    fn name(&self) -> &str {
        self.name
    }

    fn read_f32(&self, start: usize, mut out: ArrayViewMut2<'_, f32>) -> offspan::Result<()> {
        let mut scratch = Vec::new();
        let mut own = Vec::new();
        for (k, mut row) in out.outer_iter_mut().enumerate() {
            let (tensor, index) = self.find(start + k);
            let fetch = |out: &mut [u8]| tensor.read_row(index, out);
            match row.as_slice_mut() {
                Some(row) => tensor.element.singles(row, &mut scratch, fetch),
                None => {
                    own.resize(self.width, 0.0);
                    tensor.element.singles(&mut own, &mut scratch, fetch);
                    row.iter_mut().zip(&own).for_each(|(to, from)| *to = *from);
                }
            }
        }
        Ok(())
    }

    fn read_f64(&self, start: usize, mut out: ArrayViewMut2<'_, f64>) -> offspan::Result<()> {
        let mut scratch = Vec::new();
        let mut own = vec![0.0; self.width];
        for (k, mut row) in out.outer_iter_mut().enumerate() {
            let (tensor, index) = self.find(start + k);
            tensor.element.doubles(&mut own, &mut scratch, |out| tensor.read_row(index, out));
            row.iter_mut().zip(&own).for_each(|(to, from)| *to = *from);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;

    fn tensor(element: Element, rows: usize, first: f64) -> Arc<Tensor> {
        let numbers: Vec<f64> = (0..rows * 2).map(|k| first + k as f64).collect();
        let data = Pieces::from(element.encode(&numbers));
        Arc::new(Tensor { element, shape: vec![rows, 2], data })
    }

    #[test]
    fn rows_of_several_tensors_of_several_types_follow_each_other() {
        let parts = vec![
            Part { tensor: tensor(Element::F32, 3, 0.0), start: 1, rows: 2 },
            Part { tensor: tensor(Element::F64, 1, 100.0), start: 0, rows: 1 },
            Part { tensor: tensor(Element::F16, 2, 200.0), start: 0, rows: 2 },
        ];
        let batch = BatchRows::new("features", parts, 2);
        assert_eq!(batch.rows(), 5);
        let expected = [2.0, 3.0, 4.0, 5.0, 100.0, 101.0, 200.0, 201.0, 202.0, 203.0];
        for start in 0..5 {
            let mut single = Array2::<f32>::zeros((5 - start, 2));
            let mut double = Array2::<f64>::zeros((5 - start, 2));
            batch.read_f32(start, single.view_mut()).unwrap();
            batch.read_f64(start, double.view_mut()).unwrap();
            let wanted = &expected[2 * start..];
            assert!(single.iter().zip(wanted).all(|(a, b)| f64::from(*a) == *b), "{single}");
            assert!(double.iter().zip(wanted).all(|(a, b)| a == b), "{double}");
        }
    }
}
