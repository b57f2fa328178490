//! Whether logits belong to the features beside them, which can be told where the last layer is known.

use std::fmt::{Display, Formatter};

use ndarray::{Array2, ArrayView1, s};

use super::logits::head_logits;
use crate::Result;
use crate::io::{Dataset, Head, read_finite};

/// Rows that are looked at, spread over all.
const ROWS: usize = 64;
/// A network in 16-bit floats is off by a hundredth of the spread of its logits; more than this is no rounding.
const MOST_OFF: f64 = 0.1;

/// Logits that the last layer does not give for the features of their rows.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Disagreement {
    /// There are more or fewer of them than the last layer has classes.
    Classes {
        /// What to call the rows.
        name: String,
        /// Logits of each row.
        logits: usize,
        /// Classes of the last layer.
        classes: usize,
    },
    /// Their numbers are others.
    Numbers {
        /// What to call the rows.
        name: String,
        /// Rows that were looked at.
        rows: usize,
        /// Those of them whose largest logit is another one than the largest that the last layer gives.
        other_class: usize,
        /// Root of the mean squared difference of the two.
        difference: f64,
        /// Root of the mean squared deviation of the given logits from the mean of their row.
        spread: f64,
    },
}

impl Display for Disagreement {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Disagreement::Classes { name, logits, classes } => write!(
                f,
                "{name}: its logits do not belong to its features: there are {logits} for each row, and the last layer \
                 has {classes} classes"
            ),
            Disagreement::Numbers { name, rows, other_class, difference, spread } => write!(
                f,
                "{name}: its logits do not belong to its features: in {rows} rows that were looked at, what the last \
                 layer gives differs from them by {difference:.3} (root mean square), while they spread by \
                 {spread:.3}, and for {other_class} of these rows another class is the largest; do both come from the \
                 same rows and the same network?"
            ),
        }
    }
}

impl Disagreement {
    /// Looks at some rows; none if their logits are those of the last layer, or if there is nothing to compare.
    ///
    /// # Errors
    /// If a row cannot be read.
    pub fn of(data: &Dataset<'_>, head: &Head) -> Result<Option<Self>> {
        let Some(logits) = &data.logits else { return Ok(None) };
        if head.weight().ncols() != data.width() {
            return Ok(None);
        }
        if logits.width() != head.classes() {
            let (logits, classes) = (logits.width(), head.classes());
            return Ok(Some(Disagreement::Classes { name: data.name.clone(), logits, classes }));
        }
        let count = ROWS.min(data.rows());
        let (mut z, mut given) =
            (Array2::zeros((count, data.width())), Array2::zeros((count, logits.width())));
        for i in 0..count {
            let row = i * data.rows() / count;
            read_finite(&*data.features, row, z.slice_mut(s![i..=i, ..]))?;
            read_finite(&**logits, row, given.slice_mut(s![i..=i, ..]))?;
        }
        Ok(Self::between(&data.name, &given, &head_logits(head, z.view())))
    }

    fn between(name: &str, given: &Array2<f64>, expected: &Array2<f64>) -> Option<Self> {
        let root_mean = |squares: f64| (squares / given.len().max(1) as f64).sqrt();
        let difference = root_mean((given - expected).iter().map(|x| x * x).sum());
        let deviations = given.rows().into_iter().map(|row| {
            let mean = row.sum() / row.len() as f64;
            row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>()
        });
        let spread = root_mean(deviations.sum());
        // Not `>`: numbers too large for squares are no disagreement that could be told in figures.
        if !difference.is_finite() || !spread.is_finite() || difference <= MOST_OFF * spread {
            return None;
        }
        let largest = |row: ArrayView1<'_, f64>| {
            (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a)))
        };
        let pairs = given.rows().into_iter().zip(expected.rows());
        let other_class = pairs.filter(|(a, b)| largest(*a) != largest(*b)).count();
        // With a single class there is no spread to compare with.
        if given.ncols() < 2 {
            return None;
        }
        let rows = given.nrows();
        let name = name.to_owned();
        Some(Disagreement::Numbers { name, rows, other_class, difference, spread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array1, Axis};

    fn rows_and_head() -> (Array2<f64>, Head) {
        let z = Array2::from_shape_fn((200, 6), |(i, j)| ((i * 31 + j * 17) % 23) as f64 / 23.0);
        let weight = Array2::from_shape_fn((4, 6), |(c, j)| ((c * 7 + j * 5) % 11) as f64 - 5.0);
        (z, Head::new(weight, Array1::from(vec![0.1, 0.2, 0.3, 0.4])).unwrap())
    }

    fn found(z: &Array2<f64>, logits: &Array2<f64>, head: &Head) -> Option<Disagreement> {
        let data = Dataset::new("train", z.view()).with_logits(logits.view()).unwrap();
        Disagreement::of(&data, head).unwrap()
    }

    #[test]
    fn logits_of_the_same_rows_agree_also_in_16_bit_floats() {
        let (z, head) = rows_and_head();
        let logits = head_logits(&head, z.view());
        assert_eq!(found(&z, &logits, &head), None);
        let halves = logits.mapv(|x| f64::from(half::bf16::from_f64(x)));
        assert_eq!(found(&z, &halves, &head), None);
    }

    #[test]
    fn logits_of_other_rows_are_told_with_figures() {
        let (z, head) = rows_and_head();
        let logits = head_logits(&head, z.view());
        let order: Vec<usize> = (0..200).map(|i| (i * 7 + 3) % 200).collect();
        let shuffled = logits.select(Axis(0), &order);
        let told = found(&z, &shuffled, &head).unwrap();
        let &Disagreement::Numbers { rows, other_class, difference, spread, .. } = &told else {
            panic!("{told}")
        };
        assert_eq!(rows, 64);
        assert!(difference > 0.5 * spread && other_class > 10, "{told:?}");
        assert!(told.to_string().contains("in 64 rows"), "{told}");
        // Another network's last layer.
        let other = Head::new(head.weight().mapv(|w| -w), head.bias().clone()).unwrap();
        assert!(found(&z, &logits, &other).is_some());
    }

    #[test]
    fn another_number_of_classes_is_told() {
        let (z, head) = rows_and_head();
        let told = found(&z, &z, &head).unwrap().to_string();
        assert!(told.contains("6 for each row, and the last layer has 4 classes"), "{told}");
    }
}
