//! Scores of networks that were trained for the purpose, from what such a network gives: tensors
//! that the pack carries beside `features`.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, Method, OWN_FIXTURE, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored};
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, Extra, TensorWriter};
use crate::numeric::vector::{self, contiguous};
use crate::training::part::{Part as Sums, number};
use crate::training::statistics::Statistics;
use crate::training::{BLOCK, Fitted, Training};
use crate::{Error, Result};

/// MCF counts this many times in DML+.
const MCF_WEIGHT: f64 = 3.0;

const COSINES: &str = "focal_cosines";
const CENTRED: &str = "centre_features";
const GODIN: &str = "godin_h";

const COSINES_HINT: &str = "store the cosine logits of a network trained with the focal loss as \
                            `focal_cosines` [rows, classes] beside `features`";
const CENTRED_HINT: &str = "store the features of a network trained with the centre loss as \
                            `centre_features` [rows, width] beside `features`";
const GODIN_HINT: &str = "store the h head of a Generalized ODIN network, at the perturbed input, as \
                          `godin_h` [rows, classes] beside `features`";

/// A score of a specially trained network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "score", rename_all = "kebab-case")]
pub enum TrainedScore {
    /// The largest cosine logit of a network trained with the focal loss (Zhang & Xiang 2023).
    Mcf,
    /// The norm of the features of a network trained with the centre loss (Zhang & Xiang 2023).
    Mnc,
    /// 3·MCF/mean(MCF) + MNC/mean(MNC), means over the training rows.
    DmlPlus,
    /// The largest output of the h head of Generalized ODIN (Hsu et al. 2020).
    Godin,
}

impl Method for TrainedScore {
    fn entries() -> Vec<Entry<Self>> {
        let decoupling = "Zhang & Xiang, Decoupling MaxLogit, 2023";
        let entry = |default: TrainedScore, summary, needs, source| Entry {
            name: TrainedScore::name(default),
            summary,
            needs,
            source,
            parity: OWN_FIXTURE,
            default,
        };
        vec![
            entry(
                TrainedScore::Mcf,
                "largest cosine logit of a network trained with the focal loss",
                "`focal_cosines` [rows, classes]: its cosine logits",
                decoupling,
            ),
            entry(
                TrainedScore::Mnc,
                "feature norm of a network trained with the centre loss",
                "`centre_features` [rows, width]: its features",
                decoupling,
            ),
            entry(
                TrainedScore::DmlPlus,
                "3·MCF/mean(MCF) + MNC/mean(MNC), means over training rows",
                "`focal_cosines` and `centre_features`",
                decoupling,
            ),
            entry(
                TrainedScore::Godin,
                "largest output of the h head of a Generalized ODIN network",
                "`godin_h` [rows, classes]: its h head, at the perturbed input",
                "Hsu et al., Generalized ODIN, 2020",
            ),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        TrainedScore::name(*self).into()
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }

    fn follows_steps(&self) -> bool {
        false
    }
}

impl Fit for TrainedScore {
    fn check_inputs(&self, _: &str, training: &Training<'_>) -> Result<()> {
        self.check_tensors(training.data)
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let mut model = Trained { score: *self, mean_mcf: 1.0, mean_mnc: 1.0 };
        if *self == TrainedScore::DmlPlus {
            model.mean_mcf = training_mean(training, Part::Mcf)?;
            model.mean_mnc = training_mean(training, Part::Mnc)?;
        }
        Ok(from_known(self, known, model))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let (mean_mcf, mean_mnc) = (stored.number("mean mcf")?, stored.number("mean mnc")?);
        Ok(Arc::new(Trained { score: *self, mean_mcf, mean_mnc }))
    }
}

impl TrainedScore {
    fn name(self) -> &'static str {
        match self {
            TrainedScore::Mcf => "mcf",
            TrainedScore::Mnc => "mnc",
            TrainedScore::DmlPlus => "dml-plus",
            TrainedScore::Godin => "godin",
        }
    }

    fn parts(self) -> &'static [Part] {
        match self {
            TrainedScore::Mcf => &[Part::Mcf],
            TrainedScore::Mnc => &[Part::Mnc],
            TrainedScore::DmlPlus => &[Part::Mcf, Part::Mnc],
            TrainedScore::Godin => &[Part::Godin],
        }
    }

    /// Fails unless the rows carry what the score needs.
    fn check_tensors(self, data: &Dataset<'_>) -> Result<()> {
        self.parts().iter().try_for_each(|part| part.tensor(self, data).map(drop))
    }

    fn tensors(self) -> &'static [&'static str] {
        match self {
            TrainedScore::Mcf => &[COSINES],
            TrainedScore::Mnc => &[CENTRED],
            TrainedScore::DmlPlus => &[COSINES, CENTRED],
            TrainedScore::Godin => &[GODIN],
        }
    }
}

/// A score with the training means that DML+ divides by.
#[derive(Debug, Clone, Copy)]
struct Trained {
    score: TrainedScore,
    mean_mcf: f64,
    mean_mnc: f64,
}

/// The two parts of DML+, and GODIN's.
#[derive(Clone, Copy)]
enum Part {
    Mcf,
    Mnc,
    Godin,
}

impl Part {
    fn tensor<'a, 'b>(self, score: TrainedScore, data: &'a Dataset<'b>) -> Result<&'a Extra<'b>> {
        match self {
            Part::Mcf => data.extra(score.name(), COSINES, COSINES_HINT),
            Part::Mnc => data.extra(score.name(), CENTRED, CENTRED_HINT),
            Part::Godin => data.extra(score.name(), GODIN, GODIN_HINT),
        }
    }

    fn read(
        self,
        score: TrainedScore,
        data: &Dataset<'_>,
        start: usize,
        out: &mut [f64],
    ) -> Result<()> {
        let rows = Block::read(&*self.tensor(score, data)?.rows, start, out.len())?;
        for (out, row) in out.iter_mut().zip(rows.rows()) {
            *out = match self {
                Part::Mcf | Part::Godin => row.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x)),
                Part::Mnc => vector::sum_of_squares(contiguous(&row)).sqrt(),
            };
        }
        Ok(())
    }
}

fn training_mean(training: &Training<'_>, part: Part) -> Result<f64> {
    let mut found = training.pass("means of the training rows", || {
        let mut sum = 0.0;
        let at_hand = training.at_hand();
        let kept: Vec<usize> = at_hand.filter(|&row| training.hold_out.keeps(row)).collect();
        for rows in kept.chunk_by(|a, b| a + 1 == *b).flat_map(|run| run.chunks(BLOCK)) {
            crate::io::observer::check_interrupt(training.observer)?;
            let mut values = vec![0.0; rows.len()];
            part.read(TrainedScore::DmlPlus, training.data, rows[0], &mut values)?;
            sum += values.iter().sum::<f64>();
        }
        Ok(Sums::default().with("sum", number(sum)))
    })?;
    let mean = found.take::<f64>("sum")? / training.rows()?.max(1) as f64;
    if mean != 0.0 && mean.is_finite() {
        return Ok(mean);
    }
    Err(Error::NoVariance { what: training.data.name.clone() })
}

impl Scorer for Trained {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        self.score.check_tensors(data)
    }

    fn extras(&self) -> &'static [&'static str] {
        self.score.tensors()
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let [first, rest @ ..] = self.score.parts() else { return Ok(()) };
        first.read(self.score, data, start, out)?;
        for part in rest {
            let mut norms = vec![0.0; out.len()];
            part.read(self.score, data, start, &mut norms)?;
            for (out, norm) in out.iter_mut().zip(norms) {
                *out = MCF_WEIGHT * *out / self.mean_mcf + norm / self.mean_mnc;
            }
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let _ = rows;
        let mut part = |part: Part| match part {
            Part::Mcf => {
                let cosines = builder.input_of_any_width(COSINES, "C");
                builder.largest(cosines)
            }
            Part::Mnc => {
                let centred = builder.input_of_any_width(CENTRED, "M");
                builder.length(centred)
            }
            Part::Godin => {
                let h = builder.input_of_any_width(GODIN, "C");
                builder.largest(h)
            }
        };
        match self.score.parts() {
            [first, second] => {
                let (mcf, mnc) = (part(*first), part(*second));
                let mcf = builder.times(mcf, MCF_WEIGHT / self.mean_mcf);
                let mnc = builder.times(mnc, 1.0 / self.mean_mnc);
                Ok(builder.add(mcf, mnc))
            }
            parts => Ok(part(parts[0])),
        }
    }

    fn found(&self) -> Found {
        Found::from([
            ("mean mcf".to_owned(), self.mean_mcf),
            ("mean mnc".to_owned(), self.mean_mnc),
        ])
    }

    fn write<'a>(&'a self, _: &str, _: &mut TensorWriter<'a>) {}
}
