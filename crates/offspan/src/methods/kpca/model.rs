//! A fitted kernel PCA scorer, in either precision.

use ndarray::{Array1, Array2, s};
use serde::{Deserialize, Serialize};

use crate::io::{Dataset, Head, TensorFile, TensorWriter, read_finite};
use crate::span::map::{Fourier, KernelVector, RankReport, RawMap, TensorSketch, kernel_matrix};
use crate::span::preprocess::Preprocess;
use crate::training::logits::{LogitSource, Need};
use crate::{Error, Kernel, Precision, Real, Result, WeightType};

use super::params::{MapParams, ValidKpca};
use super::plan::{Form, Plan, Workspace};
use super::projection::Projection;
use crate::methods::model::Stored;

/// A compiled plan in the precision it was fitted in.
#[derive(Debug, Clone)]
pub(super) enum AnyPlan {
    F32(Plan<f32>),
    F64(Plan<f64>),
}

/// What the fit found, for reports and files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KpcaSummary {
    /// ReAct's c, if clipping was asked for.
    pub clip: Option<f64>,
    /// Dimensions of Φ.
    pub dimensions: usize,
    /// Directions kept, q.
    pub components: usize,
    /// Share of the variance that they hold.
    pub explained_variance: f64,
    /// Nyström: what happened to the eigenvalues of the landmark kernel.
    pub rank: Option<RankReport>,
    form: FormName,
    /// ‖μ‖² of the complete form.
    constant: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FormName {
    Projected,
    Remainder,
    Complete,
}

/// A fitted kernel PCA scorer.
#[derive(Debug, Clone)]
pub(crate) struct KpcaModel {
    pub(super) params: ValidKpca,
    pub(super) summary: KpcaSummary,
    pub(super) eigenvalues: Array1<f64>,
    pub(super) plan: AnyPlan,
    pub(super) head: Option<Head>,
}

impl AnyPlan {
    fn form(&self) -> (FormName, f64) {
        fn of<T>(form: &Form<T>) -> (FormName, f64) {
            match form {
                Form::Projected => (FormName::Projected, 0.0),
                Form::Remainder => (FormName::Remainder, 0.0),
                Form::Complete { constant, .. } => (FormName::Complete, *constant),
            }
        }
        match self {
            AnyPlan::F32(plan) => of(&plan.form),
            AnyPlan::F64(plan) => of(&plan.form),
        }
    }
}

impl KpcaModel {
    pub(super) fn new(
        params: ValidKpca,
        plan: AnyPlan,
        eigenvalues: Vec<f64>,
        found: Found,
        head: Option<&Head>,
    ) -> Self {
        let (form, constant) = plan.form();
        let summary = KpcaSummary {
            clip: found.clip,
            dimensions: found.dimensions,
            components: found.components,
            explained_variance: found.explained_variance,
            rank: found.rank,
            form,
            constant,
        };
        // The last layer travels with the detector only where a score cannot do without.
        let head = params.fusion.and(head).cloned();
        KpcaModel { params, summary, eigenvalues: eigenvalues.into(), plan, head }
    }

    pub(crate) fn summary(&self) -> &KpcaSummary {
        &self.summary
    }

    pub(crate) fn eigenvalues(&self) -> &Array1<f64> {
        &self.eigenvalues
    }

    /// The same with all products in 16-bit fixed point; none where that cannot be. Files keep the
    /// numbers as they are.
    pub(crate) fn in_fixed_point(&self) -> Option<Self> {
        let plan = match &self.plan {
            AnyPlan::F32(plan) => AnyPlan::F32(plan.in_fixed_point()?),
            AnyPlan::F64(_) => return None,
        };
        Some(KpcaModel {
            params: self.params.clone(),
            summary: self.summary.clone(),
            eigenvalues: self.eigenvalues.clone(),
            plan,
            head: self.head.clone(),
        })
    }

    /// Squared distances between rows in the feature space of the kernel. A row without direction has
    /// none from any other.
    pub(crate) fn squared_distances(&self, mut rows: Array2<f64>) -> Array2<f64> {
        let preprocess = Preprocess { clip: self.summary.clip, cosine: self.params.cosine };
        preprocess.apply(rows.view_mut());
        let kernel = self.params.kernel;
        let gram = kernel_matrix(&KernelVector::new(kernel, rows)) + kernel.offset();
        Array2::from_shape_fn(gram.dim(), |(i, j)| {
            // Both halves alike to the bit.
            let between = f64::midpoint(gram[[i, j]], gram[[j, i]]);
            if i == j { 0.0 } else { (gram[[i, i]] + gram[[j, j]] - 2.0 * between).max(0.0) }
        })
    }

    /// Fails unless everything that scoring needs is there.
    pub(crate) fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        if self.params.fusion.is_some() {
            self.energies(data)?;
        }
        Ok(())
    }

    fn energies<'a>(&'a self, data: &'a Dataset<'_>) -> Result<LogitSource<'a>> {
        LogitSource::of(
            data,
            self.head.as_ref(),
            self.summary.clip,
            Need::Score("fusion with the energy score"),
        )
    }

    /// Scores of rows from `start` on, on the calling thread.
    pub(crate) fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        match &self.plan {
            AnyPlan::F32(plan) => residuals(plan, data, start, out)?,
            AnyPlan::F64(plan) => residuals(plan, data, start, out)?,
        }
        match self.params.fusion {
            None => out.iter_mut().for_each(|e| *e = -*e),
            Some(fusion) => {
                let mut energies = vec![0.0; out.len()];
                self.energies(data)?.read(start, &mut energies)?;
                for (e, energy) in out.iter_mut().zip(energies) {
                    *e = if e.is_finite() { fusion.score(*e, energy) } else { f64::NEG_INFINITY };
                }
            }
        }
        Ok(())
    }

    pub(crate) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}eigenvalues"), &self.eigenvalues);
        if let Some(head) = &self.head {
            head.write(prefix, writer);
        }
        match &self.plan {
            AnyPlan::F32(plan) => write_plan(plan, prefix, self.params.weights, writer),
            AnyPlan::F64(plan) => write_plan(plan, prefix, WeightType::Full, writer),
        }
    }

    pub(crate) fn read(
        params: &ValidKpca,
        summary: &KpcaSummary,
        stored: Stored<'_>,
    ) -> Result<Self> {
        let Stored { file, prefix, width, .. } = stored;
        let plan = match params.precision {
            Precision::F32 => AnyPlan::F32(read_plan(file, prefix, params, summary, width)?),
            Precision::F64 => AnyPlan::F64(read_plan(file, prefix, params, summary, width)?),
        };
        let head = Head::read_optional(file, prefix, width)?;
        let eigenvalues = file.array1(&format!("{prefix}eigenvalues"))?;
        // All of them, or those of the kept directions.
        let lengths = [summary.dimensions, summary.components];
        if !lengths.contains(&eigenvalues.len()) || summary.components > summary.dimensions {
            return Err(Error::shape(
                format!("`{prefix}eigenvalues` of the detector"),
                format!("[{}] with {} components", summary.dimensions, summary.components),
                format!("[{}]", eigenvalues.len()),
            ));
        }
        let (params, summary) = (params.clone(), summary.clone());
        Ok(KpcaModel { params, summary, eigenvalues, plan, head })
    }
}

/// What a fit hands to [`KpcaModel::new`].
pub(super) struct Found {
    pub(super) clip: Option<f64>,
    pub(super) dimensions: usize,
    pub(super) components: usize,
    pub(super) explained_variance: f64,
    pub(super) rank: Option<RankReport>,
}

pub(super) fn residuals<T: Real>(
    plan: &Plan<T>,
    data: &Dataset<'_>,
    start: usize,
    out: &mut [f64],
) -> Result<()> {
    let at_once = plan.rows_at_once();
    let mut work = Workspace::new(plan, out.len().min(at_once), data.width());
    for (block, out) in out.chunks_mut(at_once).enumerate() {
        let rows = work.rows.slice_mut(s![..out.len(), ..]);
        read_finite(&*data.features, start + block * at_once, rows)?;
        plan.residuals(&mut work, out);
    }
    Ok(())
}

/// The largest change of residuals, as a share of themselves.
pub(crate) fn largest_change<'a>(
    before: impl IntoIterator<Item = &'a f64>,
    after: impl IntoIterator<Item = &'a f64>,
) -> f64 {
    let changes = before.into_iter().zip(after).map(|(before, after)| {
        let change = (after / before - 1.0).abs();
        // 0 / 0 and ∞ / ∞ are no change; what is no number otherwise is the largest.
        if before == after {
            0.0
        } else if change.is_nan() {
            f64::INFINITY
        } else {
            change
        }
    });
    changes.fold(0.0, f64::max)
}

fn write_plan<'a, T: Real>(
    plan: &'a Plan<T>,
    prefix: &str,
    kept_as: WeightType,
    writer: &mut TensorWriter<'a>,
) {
    writer.array1(format!("{prefix}centre"), &plan.centre);
    let projection_kept_as = if plan.raw.is_kernel() { WeightType::Full } else { kept_as };
    plan.projection.write(prefix, projection_kept_as, writer);
    writer.array1(format!("{prefix}bias"), &plan.bias);
    if let Form::Complete { weight, .. } = &plan.form {
        writer.array1(format!("{prefix}weight"), weight);
    }
    match &plan.raw {
        RawMap::Kernel(map) => {
            let (rows, origin) = map.parts();
            writer.weights(format!("{prefix}landmarks"), rows, kept_as);
            if let Some(origin) = origin {
                writer.array1(format!("{prefix}origin"), origin);
            }
        }
        RawMap::Fourier(map) => {
            if let Some((frequencies, phases)) = map.given_parts() {
                writer.array2(format!("{prefix}frequencies"), frequencies);
                writer.array1(format!("{prefix}phases"), phases);
            }
            if let Some(amplitudes) = map.amplitudes() {
                writer.array1(format!("{prefix}amplitudes"), amplitudes);
            }
        }
        RawMap::Identity { .. } | RawMap::TensorSketch(_) => {}
    }
}

fn read_plan<T: Real>(
    file: &TensorFile,
    prefix: &str,
    params: &ValidKpca,
    summary: &KpcaSummary,
    width: usize,
) -> Result<Plan<T>> {
    let name = |tensor: &str| format!("{prefix}{tensor}");
    let expect = |what: &str, expected: Vec<usize>, got: &[usize]| {
        if expected == got {
            return Ok(());
        }
        let what = format!("`{prefix}{what}` of the detector");
        Err(Error::shape(what, format!("{expected:?}"), format!("{got:?}")))
    };
    let kernel = params.kernel;
    let centre: Array1<T> = file.array1(&name("centre"))?;
    // Checked before random features are drawn: a damaged number must not allocate.
    let drawn = |features: usize| expect("centre", vec![features], centre.shape());
    let raw = match &params.map {
        MapParams::Identity => RawMap::Identity { width },
        MapParams::Fourier { .. } if file.has(&name("frequencies")) => {
            let frequencies = file.array2(&name("frequencies"))?;
            let map = Fourier::from_parts(frequencies, file.array1(&name("phases"))?)?;
            RawMap::Fourier(if file.has(&name("amplitudes")) {
                map.with_amplitudes(file.array1(&name("amplitudes"))?)?
            } else {
                map
            })
        }
        MapParams::Fourier { features, draw, .. } => {
            drawn(*features)?;
            RawMap::Fourier(Fourier::seeded(kernel, *draw, width, *features, params.seed)?)
        }
        MapParams::TensorSketch { features } => {
            drawn(*features)?;
            RawMap::TensorSketch(TensorSketch::seeded(kernel, width, *features, params.seed)?)
        }
        // See `map::nystrom`: with the linear kernel the map acts on the row itself.
        MapParams::Nystrom { .. } if kernel == Kernel::Linear => RawMap::Identity { width },
        MapParams::Nystrom { .. } | MapParams::Exact { .. } => {
            let rows = file.array2(&name("landmarks"))?;
            let origin = match kernel {
                Kernel::Gaussian { .. } => Some(file.array1(&name("origin"))?),
                _ => None,
            };
            if let Some(origin) = &origin {
                expect("origin", vec![width], origin.shape())?;
            }
            expect("landmarks", vec![rows.nrows(), width], rows.shape())?;
            RawMap::Kernel(KernelVector::from_parts(kernel, rows, origin))
        }
    };
    let bias = file.array1(&name("bias"))?;
    let coordinates = raw.output();
    expect("frequencies", vec![coordinates, width], &[coordinates, raw.input()])?;
    expect("centre", vec![coordinates], centre.shape())?;
    let directions = match summary.form {
        FormName::Projected => summary.dimensions.saturating_sub(summary.components),
        FormName::Remainder | FormName::Complete => summary.components,
    };
    let projection = Projection::read(file, prefix, &raw, &centre, directions)?;
    expect("bias", vec![directions], bias.shape())?;
    let form = match summary.form {
        FormName::Projected => Form::Projected,
        FormName::Remainder => Form::Remainder,
        FormName::Complete => {
            let weight: Array1<T> = file.array1(&name("weight"))?;
            expect("weight", vec![coordinates], weight.shape())?;
            Form::Complete { kernel, constant: summary.constant, weight }
        }
    };
    let preprocess = Preprocess { clip: summary.clip, cosine: params.cosine };
    Ok(Plan { preprocess, raw, centre, projection, bias, form })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_change_is_relative_and_hides_nothing() {
        assert_eq!(largest_change(&[1.0, 2.0, 0.0], &[1.0, 3.0, 0.0]), 0.5);
        assert_eq!(largest_change(&[f64::INFINITY], &[f64::INFINITY]), 0.0);
        assert_eq!(largest_change(&[0.0, 1.0], &[1e-9, 1.0]), f64::INFINITY);
        assert_eq!(largest_change(&[f64::INFINITY, 1.0], &[1.0; 2]), 1.0);
        assert_eq!(largest_change(&[1.0; 2], &[f64::NAN, 1.0]), f64::INFINITY);
    }
}
