//! The fit: percentile, landmarks and moments as passes over the rows, then the subspace.

use std::ops::Range;
use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use crate::error::in_order;
use crate::error::wording::WithoutCosine;
use crate::io::Dataset;
use crate::io::observer::check_interrupt;
use crate::numeric::fixed_update::FixedRows;
use crate::numeric::rank_update::PackedRows;
use crate::span::map::{FeatureMap, Fourier, RawMap, TensorSketch};
use crate::span::moments::Moments;
use crate::span::preprocess::Preprocess;
use crate::span::subspace::{Components, Subspace};
use crate::training::landmarks;
use crate::training::logits::{LogitSource, Need};
use crate::training::part::{Field, Part, check_part_width};
use crate::training::quantiles;
use crate::training::{BLOCK, Fitted, Training, chunk_rows, joined, read_rows};
use crate::{Error, Precision, Real, Result, WeightType};

use super::checkpoint::{FitIdentity, Progress};
use super::exact;
use super::model::{AnyPlan, Found, KpcaModel, largest_change, residuals};
use super::params::{Clip, MapParams, Residual, ValidKpca};
use super::plan::{Plan, kept_suffice};
use super::projection::SMALLEST_FIXED_REMAINDER;

/// Fails, before any work, unless the training set has all that a fit needs.
pub(crate) fn check_inputs(params: &ValidKpca, training: &Training<'_>) -> Result<()> {
    let rows = training.rows()?;
    if rows < 2 {
        return Err(Error::TooFewRows { what: training.data.name.clone(), expected: 2, got: rows });
    }
    if matches!(params.map, MapParams::Exact { .. }) && rows > exact::MOST_ROWS {
        return Err(Error::Parameter {
            name: "kpca-exact",
            expected: format!(
                "at most {} rows, because it takes an N×N matrix (use kpca-nys, or fewer rows)",
                exact::MOST_ROWS
            ),
            got: format!("{rows} rows"),
        });
    }
    if params.fusion.is_some() || params.needs_energy_to_fit() {
        let who = match &params.map {
            MapParams::Nystrom { sampling, .. } if sampling.needs_energy() => {
                format!("{} sampling of landmarks", sampling.name())
            }
            _ => "fusion with the energy score".to_owned(),
        };
        // Any clip value asks for the same inputs.
        LogitSource::of(training.data, training.head, params.react.map(|_| 0.0), Need::Fit(&who))?;
    }
    Ok(())
}

/// Fits a detector to inputs that [`check_inputs`] has seen.
pub(crate) fn fit(params: &ValidKpca, training: &Training<'_>) -> Result<Fitted<KpcaModel>> {
    match (&params.map, params.precision) {
        (MapParams::Exact { .. }, _) => fit_exact(params, training),
        (_, Precision::F32) => fit_approximate::<f32>(params, training, AnyPlan::F32),
        (_, Precision::F64) => fit_approximate::<f64>(params, training, AnyPlan::F64),
    }
}

fn fit_approximate<T: Real>(
    params: &ValidKpca,
    training: &Training<'_>,
    any: fn(Plan<T>) -> AnyPlan,
) -> Result<Fitted<KpcaModel>> {
    let checkpoint = match training.checkpoint {
        Some(checkpoint) => Some((checkpoint, FitIdentity::new(params, training)?)),
        None => None,
    };
    let resumed = match &checkpoint {
        Some((checkpoint, identity)) => checkpoint.load(identity)?,
        None => None,
    };
    let clip = match &resumed {
        Some(progress) => progress.clip,
        None => resolve_clip(params, training)?,
    };
    let preprocess = Preprocess { clip, cosine: params.cosine };
    let landmark_rows = match (&resumed, &params.map) {
        (Some(progress), _) => progress.landmark_rows.clone(),
        (None, MapParams::Nystrom { .. }) => choose_landmarks(params, training, clip)?,
        _ => Vec::new(),
    };
    let map = build_map::<T>(params, training, preprocess, &landmark_rows)?;
    let progress = resumed.unwrap_or_else(|| Progress {
        clip,
        landmark_rows,
        ..Progress::new(Moments::new(map.raw.output()), training.at_hand().start, 0)
    });
    let mut saved_rows = None;
    let mut part = training.pass(MOMENTS, || {
        let identity = checkpoint.as_ref().map(|(_, identity)| identity);
        let progress = accumulate(params, &map, preprocess, progress, training, identity)?;
        saved_rows = progress.saved_rows;
        Ok(Part::default()
            .with("moments", Field::Moments(progress.moments))
            .with("fingerprint", Field::Hash(progress.fingerprint)))
    })?;
    let (moments, fingerprint): (Moments, u64) = (part.take("moments")?, part.take("fingerprint")?);
    check_part_width(moments.width(), map.raw.output())?;

    training.observer.begin("eigenvectors", 0);
    let (rows, centre) = (moments.count(), moments.mean().clone());
    let subspace = training.worked_out(|| decompose(params, &map, moments, &training.data.name))?;
    let subspace = Arc::unwrap_or_clone(subspace);
    if let (true, Some(checkpoint)) = (training.observer.interrupted(), training.checkpoint) {
        // The moments were saved when they were complete, unless that failed.
        return Err(checkpoint.interrupted(saved_rows));
    }
    check_interrupt(training.observer)?;
    let (mut plan, found) = compile(params, preprocess, map, &centre, &subspace)?;
    // Landmarks were rounded before anything was learnt from them. A projection behind kernel values
    // undoes their likeness by large numbers of both signs, and stays as it is.
    if !params.weights.is_full() && !plan.raw.is_kernel() {
        store_weights(&mut plan, params.weights, training)?;
    }
    let model =
        KpcaModel::new(params.clone(), any(plan), subspace.eigenvalues, found, training.head);
    Ok(Fitted { model, rows, fingerprint })
}

/// The principal subspace of rows of which a map made these moments.
pub(super) fn decompose<T: Real>(
    params: &ValidKpca,
    map: &FeatureMap<T>,
    moments: Moments,
    name: &str,
) -> Result<Subspace> {
    let suffice = |kept, explained| kept_suffice(params, map, kept, explained);
    Subspace::new(map, moments, params.components, suffice, name)
}

/// What scores rows by their residual, and what to tell of it. `centre` is the mean of the raw
/// coordinates.
pub(super) fn compile<T: Real>(
    params: &ValidKpca,
    preprocess: Preprocess,
    map: FeatureMap<T>,
    centre: &Array1<f64>,
    subspace: &Subspace,
) -> Result<(Plan<T>, Found)> {
    if params.residual == Residual::Plain && subspace.kept == subspace.dimensions {
        let ask = params.components.to_string();
        return Err(Error::NoResidual { ask, dimensions: subspace.kept });
    }
    let found = Found {
        clip: preprocess.clip,
        dimensions: subspace.dimensions,
        components: subspace.kept,
        explained_variance: subspace.explained,
        rank: map.rank_report().cloned(),
    };
    Ok((Plan::compile(preprocess, params, map, centre, subspace), found))
}

fn fit_exact(params: &ValidKpca, training: &Training<'_>) -> Result<Fitted<KpcaModel>> {
    let MapParams::Exact { form } = params.map else { unreachable!("called for exact maps") };
    let clip = resolve_clip(params, training)?;
    let preprocess = Preprocess { clip, cosine: params.cosine };
    let chosen = training.kept();
    check_interrupt(training.observer)?;
    let mut x = Array2::<f64>::zeros((chosen.len(), training.data.width()));
    let hashes = x
        .axis_chunks_iter_mut(Axis(0), BLOCK)
        .into_par_iter()
        .zip(chosen.par_chunks(BLOCK))
        .map(|(block, rows)| read_block(training.data, rows, preprocess, block))
        .collect();
    let hashes = in_order(hashes)?;
    check_interrupt(training.observer)?;
    training.observer.begin("kernel matrix and its eigenvectors", 0);
    let fit =
        exact::fit(preprocess, params.kernel, x, form, params.components, &training.data.name)?;
    let found = Found {
        clip,
        dimensions: fit.eigenvalues.len(),
        components: fit.kept,
        explained_variance: fit.explained,
        rank: None,
    };
    let model = KpcaModel::new(
        params.clone(),
        AnyPlan::F64(fit.plan),
        fit.eigenvalues,
        found,
        training.head,
    );
    Ok(Fitted { model, rows: chosen.len() as u64, fingerprint: joined(hashes) })
}

/// Rows on which two plans are compared, spread evenly.
const ROWS_COMPARED: usize = 2000;
/// The largest relative change of a residual that stored weights may cause.
const LARGEST_CHANGE: f64 = 1e-3;

/// Rounds the weights to the type that they will be kept in, unless scores would feel it.
fn store_weights<T: Real>(
    plan: &mut Plan<T>,
    weights: WeightType,
    training: &Training<'_>,
) -> Result<()> {
    let rows = training.spread(ROWS_COMPARED)?;
    let brought = training.bring(&rows)?;
    let rounded = Plan { projection: plan.projection.stored_as(weights), ..plan.clone() };
    let mut worst = 0.0f64;
    for &row in &rows {
        let (mut before, mut after) = ([0.0], [0.0]);
        residuals(plan, brought.data(), row, &mut before)?;
        residuals(&rounded, brought.data(), row, &mut after)?;
        worst = worst.max(largest_change(&before, &after));
    }
    if worst > LARGEST_CHANGE {
        return Err(Error::parameter(
            "weights",
            format!(
                "full: in {weights} a residual of the training rows would change by {worst:.1e} \
                     of itself, and at most {LARGEST_CHANGE} is allowed"
            ),
            weights,
        ));
    }
    *plan = rounded;
    Ok(())
}

/// ReAct's c, if clipping was asked for.
pub(crate) fn resolve_clip(params: &ValidKpca, training: &Training<'_>) -> Result<Option<f64>> {
    match params.react {
        None => Ok(None),
        Some(Clip::Value(value)) => Ok(Some(value)),
        Some(Clip::Percentile(percent)) => quantiles::percentile(training, percent).map(Some),
    }
}

pub(super) fn choose_landmarks(
    params: &ValidKpca,
    training: &Training<'_>,
    clip: Option<f64>,
) -> Result<Vec<usize>> {
    let MapParams::Nystrom { landmarks, sampling, .. } = &params.map else {
        unreachable!("called for Nyström maps")
    };
    let energies = if sampling.needs_energy() {
        let who = format!("{} sampling of landmarks", sampling.name());
        Some(LogitSource::of(training.data, training.head, clip, Need::Fit(&who))?)
    } else {
        None
    };
    landmarks::choose(sampling, *landmarks, training, energies.as_ref(), params.seed)
}

pub(super) fn build_map<T: Real>(
    params: &ValidKpca,
    training: &Training<'_>,
    preprocess: Preprocess,
    landmark_rows: &[usize],
) -> Result<FeatureMap<T>> {
    let width = training.data.width();
    match &params.map {
        MapParams::Identity | MapParams::Exact { .. } => Ok(FeatureMap::identity(width)),
        MapParams::Fourier { parts: Some(parts), .. } => {
            if parts.frequencies.ncols() != width {
                return Err(Error::shape(
                    "the given frequencies",
                    format!("{width} columns, the width of the features"),
                    format!("{} columns", parts.frequencies.ncols()),
                ));
            }
            let frequencies = parts.frequencies.mapv(T::from_double);
            let phases = parts.phases.mapv(T::from_double);
            let map = Fourier::from_parts(frequencies, phases)?;
            Ok(FeatureMap::fourier(match &parts.amplitudes {
                Some(amplitudes) => map.with_amplitudes(amplitudes.mapv(T::from_double))?,
                None => map,
            }))
        }
        MapParams::Fourier { features, draw, parts: None } => Ok(FeatureMap::fourier(
            Fourier::seeded(params.kernel, *draw, width, *features, params.seed)?,
        )),
        MapParams::TensorSketch { features } => Ok(FeatureMap::tensor_sketch(
            TensorSketch::seeded(params.kernel, width, *features, params.seed)?,
        )),
        MapParams::Nystrom { floor, .. } => {
            training.observer.begin("landmark kernel", 0);
            let mut rows = training.gather::<T>(landmark_rows)?;
            if let Some(&zero) = preprocess.apply(rows.view_mut()).first() {
                return Err(zero_row(training.data, landmark_rows[zero], preprocess));
            }
            let map = training.worked_out(|| {
                FeatureMap::nystrom_stored(params.kernel, rows, *floor, params.weights)
            })?;
            Ok(Arc::unwrap_or_clone(map))
        }
    }
}

fn zero_row(data: &Dataset<'_>, row: usize, preprocess: Preprocess) -> Error {
    let mut error = data.zero_row(row);
    if let Error::ZeroRow { after, hint, .. } = &mut error {
        *hint = format!(", or fit with {WithoutCosine}");
        if preprocess.clip.is_some() {
            *after = " after clipping";
        }
    }
    error
}

const MOMENTS: &str = "moments of the training rows";

/// The moments of the raw coordinates of the rows at hand, chunk by chunk.
///
/// Chunks depend on the shapes alone, so a resumed pass does the same additions in the same order.
/// With an identity, it saves where the training set says.
pub(super) fn accumulate<T: Real>(
    params: &ValidKpca,
    map: &FeatureMap<T>,
    preprocess: Preprocess,
    mut progress: Progress,
    training: &Training<'_>,
    identity: Option<&FitIdentity>,
) -> Result<Progress> {
    let (data, observer) = (training.data, training.observer);
    let rows = training.at_hand().end;
    let chunk = chunk_rows(data.width().max(map.raw.output()));
    let hash_of = |range: Range<usize>| {
        let mut buffers = Buffers::<T>::new(range.len(), data.width(), 0);
        process_chunk(preprocess, training, range, &mut buffers, None).map(|hash| hash.0)
    };
    if let Some(checkpoint) = training.checkpoint {
        checkpoint.verify(&progress, map.raw.output(), hash_of)?;
    }
    let first = training.at_hand().start;
    observer.begin(MOMENTS, (rows - first) as u64);
    observer.advance((progress.next_row - first) as u64);
    let mut saver =
        training.checkpoint.zip(identity).map(|(c, identity)| c.saver(identity, observer));
    let mut buffers = Buffers::new(chunk, data.width(), map.raw.output());
    let (mut own, mut wide) = (PackedRows::<T>::default(), PackedRows::<f64>::default());
    let mut fixed = fixed_point_bound(params, map).map(FixedRows::new);
    while progress.next_row < rows {
        if let Err(error) = check_interrupt(observer) {
            return Err(match &mut saver {
                Some(saver) => saver.interrupted(&mut progress),
                None => error,
            });
        }
        let range = progress.next_row..(progress.next_row + chunk).min(rows);
        data.features.prefetch(range.end..(range.end + chunk).min(rows));
        let (hash, kept) =
            process_chunk(preprocess, training, range.clone(), &mut buffers, Some(&map.raw))?;
        let new = buffers.coordinates.slice(s![..kept, ..]);
        if let Some(fixed) = &mut fixed {
            progress.moments.update_in(new, fixed)?;
        } else if matches!(map.raw, RawMap::Fourier(_) | RawMap::TensorSketch(_)) {
            progress.moments.update_in(new, &mut own)?;
        } else {
            // The whitening of landmarks divides by small eigenvalues, and the last directions of rows as
            // they are have small ones: f32 products would not survive it.
            progress.moments.update_in(new, &mut wide)?;
        }
        progress.advance(range.clone(), hash);
        observer.advance(range.len() as u64);
        if let Some(saver) = &mut saver {
            saver.save_if_due(&mut progress);
        }
    }
    if !progress.moments.is_finite() {
        return Err(Error::TooLarge {
            what: data.name.clone(),
            single: T::PRECISION == Precision::F32,
        });
    }
    if let Some(saver) = &mut saver {
        saver.save(&mut progress);
    }
    Ok(progress)
}

/// The bound of coordinates whose moments may be summed in 16-bit fixed point: random features of which so
/// little is kept that no small eigenvalue matters. It is the share from which on their projection is in
/// fixed point, too.
fn fixed_point_bound<T: Real>(params: &ValidKpca, map: &FeatureMap<T>) -> Option<f64> {
    let kept = match params.components {
        Components::ExplainedVariance(share)
        | Components::UpTo { explained_variance: share, .. } => share,
        Components::Fixed(_) => return None,
    };
    match &map.raw {
        RawMap::Fourier(fourier)
            if T::PRECISION == Precision::F32 && 1.0 - kept >= SMALLEST_FIXED_REMAINDER =>
        {
            fourier.amplitude().map(Real::to_double)
        }
        _ => None,
    }
}

/// Memory for a chunk of rows, used again for every chunk.
struct Buffers<T> {
    rows: Array2<T>,
    coordinates: Array2<T>,
}

impl<T: Real> Buffers<T> {
    fn new(chunk: usize, width: usize, coordinates: usize) -> Self {
        let zeros = |columns| Array2::from_elem((chunk, columns), T::default());
        Buffers { rows: zeros(width), coordinates: zeros(coordinates) }
    }
}

/// Reads the kept rows of a range and, with a map, writes their raw coordinates; returns the rows'
/// hash and number.
fn process_chunk<T: Real>(
    preprocess: Preprocess,
    training: &Training<'_>,
    range: Range<usize>,
    buffers: &mut Buffers<T>,
    map: Option<&RawMap<T>>,
) -> Result<(u64, usize)> {
    let kept: Vec<usize> = range.filter(|&row| training.hold_out.keeps(row)).collect();
    let hashes = buffers
        .rows
        .slice_mut(s![..kept.len(), ..])
        .axis_chunks_iter_mut(Axis(0), BLOCK)
        .into_par_iter()
        .zip(
            buffers
                .coordinates
                .slice_mut(s![..kept.len(), ..])
                .axis_chunks_iter_mut(Axis(0), BLOCK),
        )
        .zip(kept.par_chunks(BLOCK))
        .map(|((mut x, out), rows)| {
            let hash = read_block(training.data, rows, preprocess, x.view_mut())?;
            if let Some(map) = map {
                map.apply(x.view(), out);
            }
            Ok(hash)
        })
        .collect();
    Ok((joined(in_order(hashes)?), kept.len()))
}

/// Reads and preprocesses rows; returns the hash of what was read.
pub(crate) fn read_block<T: Real>(
    data: &Dataset<'_>,
    rows: &[usize],
    preprocess: Preprocess,
    mut out: ArrayViewMut2<'_, T>,
) -> Result<u64> {
    let hash = read_rows(data, rows, out.view_mut())?;
    if let Some(&zero) = preprocess.apply(out).first() {
        return Err(zero_row(data, rows[zero], preprocess));
    }
    Ok(hash)
}
