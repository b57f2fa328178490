//! The fit: percentile, landmarks and moments as passes over the rows, then the subspace.

use std::ops::Range;

use ndarray::{Array2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use crate::error::in_order;
use crate::io::Dataset;
use crate::landmarks;
use crate::logits::{LogitSource, Need};
use crate::map::{FeatureMap, Fourier, TensorSketch};
use crate::moments::Moments;
use crate::observer::check_interrupt;
use crate::preprocess::Preprocess;
use crate::subspace::{Subspace, explained};
use crate::training::{BLOCK, Fitted, Training, chain, chunk_rows, read_rows};
use crate::{Error, Precision, Real, Result, quantile};

use super::checkpoint::{FitIdentity, Progress};
use super::exact;
use super::model::{AnyPlan, Found, KpcaModel};
use super::params::{Clip, KpcaParams, MapParams, Residual, ValidKpca};
use super::plan::Plan;

/// Fails, before any work, unless the training set has all that a fit needs.
pub(crate) fn check_inputs(params: &KpcaParams, training: &Training<'_>) -> Result<()> {
    let rows = training.rows();
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
    let params = params.params();
    match (&params.map, params.precision) {
        (MapParams::Exact { .. }, _) => fit_exact(params, training),
        (_, Precision::F32) => fit_approximate::<f32>(params, training, AnyPlan::F32),
        (_, Precision::F64) => fit_approximate::<f64>(params, training, AnyPlan::F64),
    }
}

fn fit_approximate<T: Real>(
    params: &KpcaParams,
    training: &Training<'_>,
    any: fn(Plan<T>) -> AnyPlan,
) -> Result<Fitted<KpcaModel>> {
    let identity = FitIdentity::new(params, training);
    let resumed = training.checkpoint.map(|c| c.load(&identity)).transpose()?.flatten();
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
        moments: Moments::new(map.raw.output()),
        next_row: 0,
        fingerprint: 0,
        seams: Vec::new(),
        clip,
        landmark_rows,
    });
    let progress = accumulate(&map, preprocess, progress, training, &identity)?;

    training.observer.begin("eigenvectors", 0);
    let subspace = Subspace::new(&map, &progress.moments, params.components, &training.data.name)?;
    if let (true, Some(checkpoint)) = (training.observer.interrupted(), training.checkpoint) {
        return Err(checkpoint.saver(&identity).interrupted(&progress));
    }
    check_interrupt(training.observer)?;
    let found = Found {
        clip,
        components: subspace.kept,
        explained_variance: explained(&subspace.eigenvalues, subspace.kept),
        rank: map.rank_report().cloned(),
    };
    if params.residual == Residual::Plain && subspace.kept == subspace.eigenvalues.len() {
        let ask = params.components.to_string();
        return Err(Error::NoResidual { ask, dimensions: subspace.kept });
    }
    let plan = Plan::compile(preprocess, params, map, &progress.moments, &subspace);
    let model =
        KpcaModel::new(params.clone(), any(plan), subspace.eigenvalues, found, training.head);
    Ok(Fitted { model, rows: progress.moments.count(), fingerprint: progress.fingerprint })
}

fn fit_exact(params: &KpcaParams, training: &Training<'_>) -> Result<Fitted<KpcaModel>> {
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
    let found = Found { clip, components: fit.kept, explained_variance: fit.explained, rank: None };
    let model = KpcaModel::new(
        params.clone(),
        AnyPlan::F64(fit.plan),
        fit.eigenvalues,
        found,
        training.head,
    );
    Ok(Fitted { model, rows: chosen.len() as u64, fingerprint: chain(0, &hashes) })
}

/// ReAct's c, if clipping was asked for.
pub(crate) fn resolve_clip(params: &KpcaParams, training: &Training<'_>) -> Result<Option<f64>> {
    let keep = |row| training.hold_out.keeps(row);
    match params.react {
        None => Ok(None),
        Some(Clip::Value(value)) => Ok(Some(value)),
        Some(Clip::Percentile(percent)) => {
            quantile::percentile(&*training.data.features, &keep, percent, training.observer)
                .map(Some)
        }
    }
}

fn choose_landmarks(
    params: &KpcaParams,
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
    landmarks::choose(
        sampling,
        *landmarks,
        training.data.rows(),
        &|row| training.hold_out.keeps(row),
        energies.as_ref(),
        params.seed,
        training.observer,
    )
}

fn build_map<T: Real>(
    params: &KpcaParams,
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
            let mut rows = landmarks::gather::<T>(&*training.data.features, landmark_rows)?;
            if let Some(&zero) = preprocess.apply(rows.view_mut()).first() {
                return Err(zero_row(training.data, landmark_rows[zero], preprocess));
            }
            FeatureMap::nystrom(params.kernel, rows, *floor)
        }
    }
}

fn zero_row(data: &Dataset<'_>, row: usize, preprocess: Preprocess) -> Error {
    let mut error = data.zero_row(row);
    if let Error::ZeroRow { after, hint, .. } = &mut error {
        *hint = ", or fit with --no-cosine";
        if preprocess.clip.is_some() {
            *after = " after clipping";
        }
    }
    error
}

/// The moments of the raw coordinates of all rows, chunk by chunk.
///
/// Chunks depend on the shapes alone, so a resumed pass does the same additions in the same order.
fn accumulate<T: Real>(
    map: &FeatureMap<T>,
    preprocess: Preprocess,
    mut progress: Progress,
    training: &Training<'_>,
    identity: &FitIdentity,
) -> Result<Progress> {
    let (data, observer) = (training.data, training.observer);
    let rows = data.rows();
    let chunk = chunk_rows(data.width().max(map.raw.output()));
    let hash_of = |range: Range<usize>| {
        let mut unused = Array2::from_elem((0, 0), T::default());
        process_chunk(map, preprocess, training, range, &mut unused, false).map(|hash| hash.0)
    };
    if let Some(checkpoint) = training.checkpoint {
        checkpoint.verify(&progress, map.raw.output(), hash_of)?;
    }
    observer.begin("moments of the training rows", rows as u64);
    observer.advance(progress.next_row as u64);
    let mut saver = training.checkpoint.map(|c| c.saver(identity));
    let mut coordinates = Array2::from_elem((chunk, map.raw.output()), T::default());
    while progress.next_row < rows {
        check_interrupt(observer).map_err(|error| match &saver {
            Some(saver) => saver.interrupted(&progress),
            None => error,
        })?;
        let range = progress.next_row..(progress.next_row + chunk).min(rows);
        let (hash, kept) =
            process_chunk(map, preprocess, training, range.clone(), &mut coordinates, true)?;
        let new = coordinates.slice(s![..kept, ..]);
        if map.is_isometric() {
            progress.moments.update(new)?;
        } else {
            // The whitening divides by small eigenvalues: f32 products would not survive it.
            progress.moments.update_in::<T, f64>(new)?;
        }
        progress.advance(range.clone(), hash);
        data.features.release(range.clone());
        observer.advance(range.len() as u64);
        if let Some(saver) = &mut saver {
            saver.save_if_due(&progress)?;
        }
    }
    if !progress.moments.is_finite() {
        return Err(Error::TooLarge { what: data.name.clone(), precision: T::PRECISION });
    }
    if let Some(saver) = &mut saver {
        saver.save(&progress)?;
    }
    Ok(progress)
}

/// Reads the kept rows of a range and, with `map_rows`, writes their raw coordinates; returns the
/// rows' hash and number.
fn process_chunk<T: Real>(
    map: &FeatureMap<T>,
    preprocess: Preprocess,
    training: &Training<'_>,
    range: Range<usize>,
    coordinates: &mut Array2<T>,
    map_rows: bool,
) -> Result<(u64, usize)> {
    let kept: Vec<usize> = range.filter(|&row| training.hold_out.keeps(row)).collect();
    let width = training.data.width();
    let work = |rows: &[usize], out: Option<ArrayViewMut2<'_, T>>| -> Result<u64> {
        let mut x = Array2::from_elem((rows.len(), width), T::default());
        let hash = read_block(training.data, rows, preprocess, x.view_mut())?;
        if let Some(out) = out {
            map.raw.apply(x.view(), out);
        }
        Ok(hash)
    };
    let hashes = if map_rows {
        coordinates
            .slice_mut(s![..kept.len(), ..])
            .axis_chunks_iter_mut(Axis(0), BLOCK)
            .into_par_iter()
            .zip(kept.par_chunks(BLOCK))
            .map(|(out, rows)| work(rows, Some(out)))
            .collect()
    } else {
        kept.par_chunks(BLOCK).map(|rows| work(rows, None)).collect()
    };
    Ok((chain(0, &in_order(hashes)?), kept.len()))
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
