//! The energy of a row whose far activations were cut, with a temperature that suits the logits.

use ndarray::{Array1, Array2, s};

use super::clip::CentredClip;
use super::cut_head::{CutHead, Cuts};
use super::scale::median;
use super::{in_blocks, recover, sample};
use crate::graph::{Builder, Value};
use crate::io::{Dataset, Head, TensorWriter, gather, read_finite};
use crate::methods::model::{Found, RowValues, Stored, logits_graph};
use crate::numeric::vector::{contiguous, contiguous_mut};
use crate::training::Training;
use crate::training::logits::{LogitSource, Need, energy, head_graph};
use crate::{Error, Precision, Real, Result};

/// Rows from which the cut is learnt.
const ROWS_FOR_CLIP: usize = 2000;
/// Logits should reach this many times ln C above their mean, or the sum over all classes drowns
/// the largest.
const REACH: f64 = 3.0;
/// Rows read together.
const ROWS_AT_ONCE: usize = 48;

/// What the network says of a row.
#[derive(Debug, Clone)]
pub(super) struct EnergyPart {
    cut: Option<Cut>,
    classes: usize,
    temperature: f64,
}

/// The last layer behind the cut.
#[derive(Debug, Clone)]
struct Cut {
    head: Head,
    clip: CentredClip,
    compiled: Compiled,
}

/// The same in the precision of scoring.
#[derive(Debug, Clone)]
enum Compiled {
    F32(CutHead<f32>),
    F64(CutHead<f64>),
}

/// What is made of the logits of a row.
#[derive(Debug, Clone, Copy)]
enum Reading {
    Energy,
    Confidence,
}

impl Reading {
    fn of<T: Real>(self, logits: &[T], temperature: f64) -> f64 {
        match self {
            Reading::Energy => energy(logits, temperature),
            Reading::Confidence => confidence(logits, temperature),
        }
    }
}

/// T times the log odds of the largest probability: its logit less the energy of all others. It ranks rows as the
/// probability does, which itself is 1 for all rows that the network is sure of.
fn confidence<T: Real>(logits: &[T], temperature: f64) -> f64 {
    let mut largest = f64::NEG_INFINITY;
    let mut others = Vec::with_capacity(logits.len());
    for logit in logits.iter().map(|logit| logit.to_double()) {
        others.push(logit.min(largest));
        largest = largest.max(logit);
    }
    largest - energy(&others[1.min(others.len())..], temperature)
}

impl Cut {
    fn new(head: Head, clip: CentredClip, precision: Precision) -> Self {
        let compiled = match precision {
            Precision::F32 => Compiled::F32(CutHead::new(&head, &clip)),
            Precision::F64 => Compiled::F64(CutHead::new(&head, &clip)),
        };
        Cut { head, clip, compiled }
    }
}

impl EnergyPart {
    /// Of rows with logits or a last layer; none without. `others` are rows that the fit does not see.
    pub(super) fn fit(
        training: &Training<'_>,
        kept: &[usize],
        others: &Dataset<'_>,
        (seed, precision): (u64, Precision),
    ) -> Result<Option<Self>> {
        let head = match (training.head, &training.data.logits) {
            (None, None) => return Ok(None),
            (Some(head), _) => {
                head.check_width(training.data.width())?;
                Some(head.without_block())
            }
            (None, Some(logits)) => {
                let head = recover::head(training, &LogitSource::Logits(&**logits), kept, seed)?;
                if head.is_none() {
                    training.observer.note(
                        "the last layer could not be found from the logits (they are not linear in the \
                         features, or rows are too few): activations are not clipped, and scoring needs \
                         logits; scores are better with the last layer itself (head.safetensors in a pack)",
                    );
                }
                head
            }
        };
        let classes = match (&head, &training.data.logits) {
            (Some(head), _) => head.classes(),
            (None, logits) => logits.as_ref().map_or(0, |logits| logits.width()),
        };
        let cut = head
            .map(|head| {
                let rows = sample(kept, ROWS_FOR_CLIP, seed)?;
                let rows = gather(&*training.data.features, &rows)?;
                Ok::<_, Error>(Cut::new(head, CentredClip::of(&rows), precision))
            })
            .transpose()?;
        let part = EnergyPart { cut, classes, temperature: 1.0 };
        let temperature = part.suitable_temperature(others)?;
        Ok(Some(EnergyPart { temperature, ..part }))
    }

    fn suitable_temperature(&self, others: &Dataset<'_>) -> Result<f64> {
        let classes = self.source(others)?.classes();
        if classes < 2 {
            return Ok(1.0);
        }
        let mut reaches = in_blocks(others, |data, start, out| {
            let logits = self.source(data)?.logits(start, out.len())?;
            for (reach, row) in out.iter_mut().zip(logits.rows()) {
                let largest = row.iter().fold(f64::NEG_INFINITY, |most, &l| most.max(l));
                *reach = largest - row.sum() / classes as f64;
            }
            Ok(())
        })?;
        let reach = median(contiguous_mut(&mut reaches));
        Ok((reach / (REACH * (classes as f64).ln())).clamp(1e-6, 1.0))
    }

    /// Logits of rows as they are.
    fn source<'a>(&'a self, data: &'a Dataset<'_>) -> Result<LogitSource<'a>> {
        let head = self.cut.as_ref().map(|cut| &cut.head);
        let source = LogitSource::of(data, head, None, Need::Score("auto"))?;
        if source.classes() == self.classes {
            return Ok(source);
        }
        Err(Error::shape(
            format!("the logits of {}", data.name),
            format!("[rows, {}], one for each class of the network", self.classes),
            format!("[rows, {}]", source.classes()),
        ))
    }

    /// The last layer, if it is known.
    pub(super) fn head(&self) -> Option<&Head> {
        self.cut.as_ref().map(|cut| &cut.head)
    }

    pub(super) fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        self.source(data).map(drop)
    }

    /// Energies of rows from `start` on.
    pub(super) fn read(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        self.read_as(Reading::Energy, data, start, out)
    }

    /// How sure the network is of one class against the others, of all rows.
    pub(super) fn confidences(&self, data: &Dataset<'_>) -> Result<Array1<f64>> {
        in_blocks(data, |data, start, out| self.read_as(Reading::Confidence, data, start, out))
    }

    fn read_as(
        &self,
        reading: Reading,
        data: &Dataset<'_>,
        start: usize,
        out: &mut [f64],
    ) -> Result<()> {
        match self.cut.as_ref().map(|cut| &cut.compiled) {
            None => {
                let logits = self.source(data)?.logits(start, out.len())?;
                for (out, row) in out.iter_mut().zip(logits.rows()) {
                    *out = reading.of(contiguous(&row), self.temperature);
                }
                Ok(())
            }
            Some(Compiled::F32(cut)) => self.read_cut(cut, reading, data, (start, out)),
            Some(Compiled::F64(cut)) => self.read_cut(cut, reading, data, (start, out)),
        }
    }

    fn read_cut<T: Real>(
        &self,
        cut: &CutHead<T>,
        reading: Reading,
        data: &Dataset<'_>,
        (start, out): (usize, &mut [f64]),
    ) -> Result<()> {
        let source = self.source(data)?;
        let mut rows = Array2::from_elem((out.len().min(ROWS_AT_ONCE), data.width()), T::default());
        let mut logits = Array2::from_elem((out.len(), cut.classes()), T::default());
        let mut cuts = Cuts::default();
        for first in (0..out.len()).step_by(ROWS_AT_ONCE) {
            let count = ROWS_AT_ONCE.min(out.len() - first);
            let mut rows = rows.slice_mut(s![..count, ..]);
            read_finite(&*data.features, start + first, rows.view_mut())?;
            match source {
                LogitSource::Logits(_) => cut.collect(rows.view(), &mut cuts),
                LogitSource::Head { .. } => {
                    cut.logits(rows, logits.slice_mut(s![first..first + count, ..]));
                }
            }
        }
        if let LogitSource::Logits(stored) = source {
            read_finite(stored, start, logits.view_mut())?;
            cut.correct(&cuts, logits.view_mut());
        }
        for (out, row) in out.iter_mut().zip(logits.rows()) {
            *out = reading.of(contiguous(&row), self.temperature);
        }
        Ok(())
    }

    /// Energies within a graph, [N].
    pub(super) fn graph(&self, rows: RowValues, builder: &mut Builder<'_>) -> Value {
        let logits = match &self.cut {
            None => logits_graph(rows, None, Some(self.classes), builder),
            Some(cut) => {
                let low = builder.vector("low", &(&cut.clip.centre - cut.clip.reach));
                let high = builder.vector("high", &(&cut.clip.centre + cut.clip.reach));
                let within = builder.larger(rows.features, low);
                let within = builder.smaller(within, high);
                match rows.logits {
                    None => head_graph(&cut.head, within, builder),
                    Some(logits) => {
                        let cut_off = builder.sub(rows.features, within);
                        let change = builder.linear("head_weight", cut_off, cut.head.weight.view());
                        builder.sub(logits, change)
                    }
                }
            }
        };
        builder.log_sum_exp(logits, self.temperature)
    }

    pub(super) fn tell(&self, found: &mut Found) {
        found.insert("classes".to_owned(), self.classes as f64);
        found.insert("temperature".to_owned(), self.temperature);
        if let Some(cut) = &self.cut {
            found.insert("clip reach".to_owned(), cut.clip.reach);
        }
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        if let Some(cut) = &self.cut {
            cut.head.write(prefix, writer);
            writer.array1(format!("{prefix}clip.centre"), &cut.clip.centre);
        }
    }

    pub(super) fn read_from(stored: Stored<'_>, precision: Precision) -> Result<Option<Self>> {
        if !stored.found.contains_key("temperature") {
            return Ok(None);
        }
        let cut = stored
            .head()?
            .map(|head| {
                let centre = stored.vector("clip.centre", stored.width)?;
                let reach = stored.number("clip reach")?;
                Ok::<_, Error>(Cut::new(head, CentredClip { centre, reach }, precision))
            })
            .transpose()?;
        let classes = stored.number("classes")? as usize;
        if let Some(cut) = &cut
            && cut.head.classes() != classes
        {
            let got = format!("{} rows", cut.head.classes());
            return Err(Error::shape("the head of the detector", format!("{classes} rows"), got));
        }
        Ok(Some(EnergyPart { cut, classes, temperature: stored.number("temperature")? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_is_the_log_odds_of_the_largest_probability() {
        let logits: [f64; 4] = [0.3, 2.5, -1.0, 2.0];
        let temperature = 0.7;
        let powers = logits.map(|logit| (logit / temperature).exp());
        let p = powers[1] / powers.iter().sum::<f64>();
        let expected = temperature * (p / (1.0 - p)).ln();
        assert!((confidence(&logits, temperature) - expected).abs() < 1e-12);
    }

    #[test]
    fn confidence_tells_rows_apart_that_all_have_a_probability_of_1() {
        let sure = confidence(&[90.0_f32, 0.0, 1.0], 1.0);
        assert!(confidence(&[95.0_f32, 0.0, 1.0], 1.0) > sure && sure > 80.0);
        assert_eq!(confidence(&[3.0_f64, 3.0], 1.0), 0.0);
        assert_eq!(confidence(&[3.0_f64], 1.0), f64::INFINITY);
    }
}
