//! What a run gave, as rows of the columns that a split has.

use half::f16;

use super::parts::{Column, Kept, Numbers};
use super::plan::{Layer, Plan};
use super::pool::{channels_first, pool};
use super::tensor_file::Part;
use crate::image::Layout;
use crate::run::Value;

/// Rows of everything that is kept of one batch.
pub(super) struct Rows {
    /// One entry per layer.
    pub(super) features: Vec<Value>,
    pub(super) logits: Option<Value>,
    pub(super) maps: Option<Value>,
}

impl Rows {
    /// Pools and reshapes the outputs of a run, of which the first `count` rows are real. Maps whose nodes do not tell where
    /// their channels are have them as `layout` says.
    pub(super) fn of(
        plan: &Plan,
        outputs: Vec<Value>,
        layout: Layout,
        (given, count): (usize, usize),
    ) -> Result<Self, String> {
        let names = plan.outputs();
        for (name, value) in names.iter().zip(&outputs) {
            if value.shape.first() != Some(&given) {
                return Err(format!(
                    "`{name}`: expected one row for each of the {given} inputs, got a value of shape {:?}",
                    value.shape
                ));
            }
            if value.shape.contains(&0) {
                return Err(format!(
                    "`{name}`: expected numbers, got none (shape {:?})",
                    value.shape
                ));
            }
        }
        let take = |name: &str| {
            let value = &outputs[plan.position(name)];
            let row: usize = value.shape[1..].iter().product();
            let mut shape = value.shape.clone();
            shape[0] = count;
            Value { shape, numbers: value.numbers[..count * row].to_vec() }
        };
        let named = |name: &str, reason: String| format!("`{name}`: {reason}");
        let features = plan
            .layers
            .iter()
            .map(|layer| {
                pool(take(&layer.tensor), layer.pool, (layer.layout, layout))
                    .map_err(|reason| named(&layer.tensor, reason))
            })
            .collect::<Result<_, String>>()?;
        let logits = plan.logits.as_ref().map(|name| match take(name) {
            value if value.shape.len() == 2 => Ok(value),
            value => {
                Err(named(name, format!("expected logits [rows, classes], got {:?}", value.shape)))
            }
        });
        let maps_layout = plan.maps_layout.unwrap_or(layout);
        let maps = plan.maps.as_ref().map(|name| {
            channels_first(take(name), maps_layout).map_err(|reason| named(name, reason))
        });
        Ok(Rows { features, logits: logits.transpose()?, maps: maps.transpose()? })
    }

    /// The values with their names.
    fn values(&self) -> impl Iterator<Item = &Value> {
        self.features.iter().chain(&self.logits).chain(&self.maps)
    }

    /// The first number of a row that is no number.
    pub(super) fn not_finite(&self, row: usize) -> Option<f32> {
        self.values().find_map(|value| row_of(value, row).iter().copied().find(|x| !x.is_finite()))
    }

    /// The first number of a row that half precision does not have, of those that may be kept in it.
    pub(super) fn beyond_half(&self, row: usize) -> Option<f32> {
        let values = self.features.iter().chain(&self.maps);
        let beyond = |x: &f32| x.is_finite() && f16::from_f32(*x).is_infinite();
        values.into_iter().find_map(|value| row_of(value, row).iter().copied().find(beyond))
    }

    /// The class with the largest logit.
    pub(super) fn decision(&self, row: usize) -> Option<usize> {
        let logits = row_of(self.logits.as_ref()?, row);
        (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]))
    }

    /// These rows as columns of the files.
    pub(super) fn columns(
        self,
        plan: &Plan,
        rows: &[usize],
        labels: Option<Vec<i64>>,
        half_precision: bool,
    ) -> Vec<(Column, Numbers)> {
        let kept = if half_precision { Kept::F16 } else { Kept::F32 };
        let column = |name: String, kept: Kept, value: &Value| {
            let numbers = rows.iter().flat_map(|&row| row_of(value, row)).copied().collect();
            let shape = value.shape[1..].to_vec();
            (Column { name, kept, shape }, Numbers::Reals(numbers))
        };
        let mut columns = Vec::new();
        for (layer, value) in plan.layers.iter().zip(&self.features) {
            columns.push(column(features_name(layer), kept, value));
        }
        columns.extend(self.logits.iter().map(|value| column("logits".into(), Kept::F32, value)));
        columns.extend(self.maps.iter().map(|value| column("maps".into(), kept, value)));
        if let Some(labels) = labels {
            let about = Column { name: "labels".to_owned(), kept: Kept::I64, shape: Vec::new() };
            columns.push((about, Numbers::Whole(labels)));
        }
        columns
    }
}

fn row_of(value: &Value, row: usize) -> &[f32] {
    let width: usize = value.shape[1..].iter().product();
    &value.numbers[row * width..(row + 1) * width]
}

/// What the features of a layer are called while they are with those of others.
fn features_name(layer: &Layer) -> String {
    format!("features of {}", layer.label)
}

/// The parts of a layer's own file.
pub(super) fn parts_of(layer: &Layer, parts: Vec<Part>) -> Vec<Part> {
    let own = features_name(layer);
    parts
        .into_iter()
        .filter_map(|part| match part.name.strip_prefix("features of ") {
            Some(_) if part.name == own => Some(Part { name: "features".to_owned(), ..part }),
            Some(_) => None,
            None => Some(part),
        })
        .collect()
}
