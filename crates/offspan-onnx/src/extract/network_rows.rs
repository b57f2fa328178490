//! A network run over rows that are at hand, for programs that answer one request after the other.

use super::Extractor;
use super::rows::Rows;
use crate::input_error::{InputError, InputResult};
use crate::model::check_sizes;
use crate::run::Value;

/// What a network gave for some rows, each as numbers in row-major order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NetworkRows {
    /// Features, of this width.
    pub features: Vec<f32>,
    /// Numbers in a row of features.
    pub width: usize,
    /// Logits with the number of classes, where the detector's source has them.
    pub logits: Option<(Vec<f32>, usize)>,
    /// Maps with the shape of one row, likewise.
    pub maps: Option<(Vec<f32>, Vec<usize>)>,
}

impl Extractor {
    /// What the network wants to be given: a name, and sizes with none where they are open. The first are the rows.
    #[must_use]
    pub fn input(&self) -> (String, Vec<Option<usize>>) {
        (self.input.name.clone(), self.input.sizes.clone())
    }

    /// Runs the network over `count` rows of this shape, as they are: nothing is done to them before. A network that takes
    /// a fixed number of rows gets them in as many runs as it needs, the last filled with zeros.
    ///
    /// # Errors
    /// If the rows have another shape than the network wants, the network cannot be run over them, or gives numbers that are
    /// not finite.
    pub fn rows(
        &mut self,
        row: &[usize],
        count: usize,
        numbers: Vec<f32>,
    ) -> InputResult<NetworkRows> {
        let width: usize = row.iter().product();
        self.input.check_row(row).map_err(|reason| self.model.wrong(reason))?;
        if numbers.len() != count * width {
            let reason = format!(
                "expected {} numbers for {count} rows, got {}",
                count * width,
                numbers.len()
            );
            return Err(self.model.wrong(reason));
        }
        let at_a_time = self.input.fixed_rows().unwrap_or(count).max(1);
        let mut all: Option<NetworkRows> = None;
        for part in numbers.chunks((at_a_time * width).max(1)) {
            let rows = part.len() / width.max(1);
            let given = self.input.fixed_rows().unwrap_or(rows);
            let shape: Vec<usize> = std::iter::once(given).chain(row.iter().copied()).collect();
            let sizes: Vec<Option<usize>> = shape.iter().copied().map(Some).collect();
            check_sizes(&self.wanted, &self.input.name, &sizes)
                .map_err(|reason| self.model.wrong(reason))?;
            let mut filled = part.to_vec();
            filled.resize(given * width, 0.0);
            let outputs =
                self.runner.run(&shape, filled).map_err(|reason| self.model.wrong(reason))?;
            let rows = Rows::of(&self.plan, outputs, self.layout, (given, rows))
                .map_err(|reason| self.model.wrong(reason))?;
            let rows = NetworkRows::of(rows, part.len() / width.max(1))
                .map_err(|(row, value)| self.not_finite(row, value))?;
            match &mut all {
                Some(all) => all.append(rows),
                None => all = Some(rows),
            }
        }
        all.ok_or_else(|| self.model.wrong("expected at least one row, got none"))
    }

    fn not_finite(&self, row: usize, value: f32) -> InputError {
        self.model.wrong(format!("it gives {value} for row {row}; every feature must be finite"))
    }
}

impl NetworkRows {
    fn of(rows: Rows, count: usize) -> Result<Self, (usize, f32)> {
        if let Some(bad) = (0..count).find_map(|row| rows.not_finite(row).map(|value| (row, value)))
        {
            return Err(bad);
        }
        let row = |value: &Value| value.shape[1..].to_vec();
        let mut features = rows.features.into_iter();
        let features = features.next().unwrap_or_else(|| unreachable!("a plan has a layer"));
        Ok(NetworkRows {
            width: row(&features).iter().product(),
            features: features.numbers,
            logits: rows.logits.map(|value| (value.numbers.clone(), row(&value).iter().product())),
            maps: rows.maps.map(|value| (value.numbers.clone(), row(&value))),
        })
    }

    fn append(&mut self, later: NetworkRows) {
        self.features.extend(later.features);
        if let (Some((logits, _)), Some((more, _))) = (&mut self.logits, later.logits) {
            logits.extend(more);
        }
        if let (Some((maps, _)), Some((more, _))) = (&mut self.maps, later.maps) {
            maps.extend(more);
        }
    }
}
