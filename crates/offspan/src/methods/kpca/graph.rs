//! The arithmetic of a kernel PCA as a graph.

use super::model::{AnyPlan, KpcaModel};
use super::params::Fusion;
use super::plan::{Form, Plan};
use super::projection::Projection;
use crate::graph::{Builder, Op, Value, product};
use crate::methods::model::{RowValues, logits_graph};
use crate::training::logits::head_graph;
use crate::{Real, Result};

impl KpcaModel {
    /// The score, [N].
    pub(crate) fn score_graph(&self, rows: RowValues, builder: &mut Builder<'_>) -> Result<Value> {
        let (residual, is_zero) = match &self.plan {
            AnyPlan::F32(plan) => plan.graph(rows.features, builder),
            AnyPlan::F64(plan) => plan.graph(rows.features, builder),
        };
        let score = match self.params.fusion {
            None => builder.neg(residual),
            Some(fusion) => {
                let energy = self.energy_graph(rows, builder);
                match fusion {
                    Fusion::EnergyProduct => {
                        let negative = builder.neg(residual);
                        let rest = builder.plus(negative, 1.0);
                        builder.mul(rest, energy)
                    }
                    Fusion::EnergyRatio => {
                        let residual = builder.at_least(residual, Fusion::SMALLEST_RESIDUAL);
                        builder.div(energy, residual)
                    }
                }
            }
        };
        Ok(match is_zero {
            Some(is_zero) => builder.put_last(is_zero, score),
            None => score,
        })
    }

    /// As `LogitSource::of` chooses: clipped rows always go through the last layer.
    fn energy_graph(&self, rows: RowValues, builder: &mut Builder<'_>) -> Value {
        let logits = match (self.summary.clip, &self.head) {
            (Some(clip), Some(head)) => {
                let clipped = builder.at_most(rows.features, clip);
                head_graph(head, clipped, builder)
            }
            _ => logits_graph(rows, self.head.as_ref(), None, builder),
        };
        builder.log_sum_exp(logits, 1.0)
    }
}

impl<T: Real> Plan<T> {
    /// The residual, [N], and which rows, [N, 1], have no direction.
    fn graph(&self, features: Value, builder: &mut Builder<'_>) -> (Value, Option<Value>) {
        let (x, is_zero) = self.preprocess.graph(features, builder);
        let raw = self.raw.graph(x, builder);
        let centre = builder.vector("centre", &self.centre);
        let d = builder.sub(raw, centre);
        let squared = match &self.form {
            Form::Projected => {
                let t = self.projected_graph(d, builder);
                builder.squared_length(t)
            }
            Form::Remainder => {
                // ‖d‖² − ‖P d‖² cancels: d − Pᵀ P d has the same length and all its digits.
                let matrix = self.projection.dequantised();
                let matrix = builder.owned("directions", matrix);
                let across = builder.node(Op::Transpose { order: vec![1, 0] }, &[matrix]);
                let t = builder.matmul(d, across);
                let bias = builder.vector("bias", &self.bias);
                let t = builder.add(t, bias);
                let within = builder.matmul(t, matrix);
                let rest = builder.sub(d, within);
                builder.squared_length(rest)
            }
            Form::Complete { kernel, constant, weight } => {
                let t = self.projected_graph(d, builder);
                let inside = builder.squared_length(t);
                let weight = builder.vector("weight", weight);
                let along = builder.mul(d, weight);
                let along = builder.sum(along);
                let along = builder.times(along, 2.0);
                let diagonal = kernel.diagonal_graph(x, *constant, builder);
                let rest = builder.sub(diagonal, along);
                builder.sub(rest, inside)
            }
        };
        let squared = builder.at_least(squared, 0.0);
        (builder.sqrt(squared), is_zero)
    }

    /// P d.
    fn projected_graph(&self, d: Value, builder: &mut Builder<'_>) -> Value {
        let t = match &self.projection {
            Projection::General(weights) => product(builder, "projection", d, weights),
            Projection::Bounded(_) => {
                let matrix = self.projection.dequantised();
                builder.linear("projection", d, matrix.view())
            }
        };
        let bias = builder.vector("bias", &self.bias);
        builder.add(t, bias)
    }
}
