//! Fits whose rows come bit by bit add up to the fit of all of them.

#![allow(clippy::unwrap_used)]

use ndarray::{Array2, ArrayView2, s};
use offspan::io::{Dataset, Head};
use offspan::map::Draw;
use offspan::{
    Clip, Components, Detector, FitOptions, KpcaParams, MapParams, MethodSpec, PartialFit,
    Precision, Promise, Sampling, Silent, ValidKpca, WeightType,
};

/// Rows around three means, no two alike.
fn rows() -> Array2<f32> {
    Array2::from_shape_fn((900, 10), |(i, j)| {
        let mixed = ((i * 10 + j) as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        1.0 + mixed as f32 / (1 << 24) as f32 + (i % 3 * j) as f32 / 10.0
    })
}

fn fourier() -> ValidKpca {
    let map = MapParams::Fourier { features: 64, draw: Draw::Structured, parts: None };
    let components = Components::ExplainedVariance(0.8);
    // Sums in another order differ in their last digits, which f32 has at the seventh.
    let precision = Precision::F64;
    KpcaParams { map, components, precision, ..KpcaParams::default() }.check().unwrap()
}

fn landmarks(rows: &Array2<f32>) -> Array2<f64> {
    rows.slice(s![..;10, ..]).mapv(f64::from)
}

fn nystrom() -> ValidKpca {
    KpcaParams { precision: Precision::F64, ..KpcaParams::nystrom_uniform(90) }.check().unwrap()
}

fn whole(params: &ValidKpca, rows: ArrayView2<'_, f32>) -> Detector {
    let options = FitOptions { hold_out: Some(0.0), ..FitOptions::default() };
    let data = Dataset::new("train", rows);
    Detector::fit(&MethodSpec::Kpca(params.params().clone()), &data, None, &options).unwrap()
}

fn update(partial: &mut PartialFit, rows: ArrayView2<'_, f32>) {
    partial.update(&Dataset::new("rows", rows), &Silent).unwrap();
}

fn assert_alike(a: &Detector, b: &Detector, rows: &Array2<f32>) {
    let (a, b) = (a.score(rows.view(), None).unwrap(), b.score(rows.view(), None).unwrap());
    let largest = a.iter().fold(0.0f64, |largest, score| largest.max(score.abs()));
    for (a, b) in a.iter().zip(&b) {
        assert!((a - b).abs() < 1e-9 * largest, "{a} {b}");
    }
}

#[test]
fn one_update_of_all_rows_is_the_whole_fit() {
    let rows = rows();
    let mut partial = PartialFit::new(&fourier(), 10).unwrap();
    update(&mut partial, rows.view());
    let (ours, theirs) =
        (Detector::from_partial(&partial, None).unwrap(), whole(&fourier(), rows.view()));
    assert_eq!(ours.to_bytes(), theirs.to_bytes());
}

#[test]
fn parts_add_up_in_any_order_and_through_bytes() {
    let rows = rows();
    let given = KpcaParams {
        map: match &nystrom().params().map {
            MapParams::Nystrom { landmarks, floor, .. } => MapParams::Nystrom {
                landmarks: *landmarks,
                sampling: Sampling::Given((0..900).step_by(10).collect()),
                floor: *floor,
            },
            _ => unreachable!(),
        },
        ..nystrom().params().clone()
    };
    let with_landmarks =
        || PartialFit::with_landmarks(&nystrom(), landmarks(&rows).view()).unwrap();
    let without = || PartialFit::new(&fourier(), 10).unwrap();
    let cases: [(&dyn Fn() -> PartialFit, Detector); 2] = [
        (&with_landmarks, whole(&given.check().unwrap(), rows.view())),
        (&without, whole(&fourier(), rows.view())),
    ];
    for (start, theirs) in cases {
        let mut parts: Vec<PartialFit> = [0..200, 200..201, 201..900]
            .into_iter()
            .map(|range| {
                let mut partial = start();
                update(&mut partial, rows.slice(s![range, ..]));
                PartialFit::from_bytes(&partial.to_bytes()).unwrap()
            })
            .collect();
        let mut last = parts.pop().unwrap();
        parts.iter().for_each(|part| last.merge(part).unwrap());
        assert_eq!((last.rows(), last.width()), (900, 10));
        let mut ours = Detector::from_partial(&last, None).unwrap();
        assert_alike(&ours, &theirs, &rows);
        assert!(ours.threshold().is_none());
        ours.calibrate(&Dataset::new("others", rows.view()), Promise::default(), &Silent).unwrap();
        assert_eq!(ours.threshold().unwrap().rows, 900);
        let again = Detector::from_bytes(&ours.to_bytes()).unwrap();
        assert_eq!(again.to_bytes(), ours.to_bytes());
    }
}

#[test]
fn landmarks_may_come_from_the_first_rows() {
    let rows = rows();
    let first = Dataset::new("first", rows.slice(s![..300, ..]));
    let mut partial = PartialFit::begin(&nystrom(), &first, None).unwrap();
    assert_eq!(partial.rows(), 0);
    update(&mut partial, rows.view());
    assert_eq!(Detector::from_partial(&partial, None).unwrap().info().training.rows, 900);
    let paper = KpcaParams::default().check().unwrap();
    let error = PartialFit::begin(&paper, &first, None).unwrap_err().to_string();
    assert!(error.starts_with("low-energy sampling of landmarks"), "{error}");
    let head = Head::new(Array2::ones((3, 10)), ndarray::Array1::zeros(3)).unwrap();
    let few = KpcaParams { map: nystrom_low_energy(40), ..KpcaParams::default() }.check().unwrap();
    PartialFit::begin(&few, &first, Some(&head)).unwrap();
}

fn nystrom_low_energy(landmarks: usize) -> MapParams {
    let MapParams::Nystrom { floor, .. } = KpcaParams::default().map else { unreachable!() };
    MapParams::Nystrom { landmarks, sampling: Sampling::LowEnergy, floor }
}

#[test]
fn what_cannot_be_summed_up_is_refused() {
    let rows = rows();
    let error = |result: offspan::Result<PartialFit>| result.unwrap_err().to_string();
    assert!(error(PartialFit::new(&nystrom(), 10)).contains("needs landmarks"));
    assert!(error(PartialFit::new(&fourier(), 0)).contains("at least one column"));
    let react = KpcaParams { react: Some(Clip::Percentile(90.0)), ..fourier().params().clone() };
    assert!(
        error(PartialFit::new(&react.check().unwrap(), 10)).contains("a value for a partial fit")
    );
    let (weights, precision) = (WeightType::F16, Precision::F32);
    let half = KpcaParams { weights, precision, ..fourier().params().clone() };
    assert!(error(PartialFit::new(&half.check().unwrap(), 10)).contains("full for a partial fit"));

    let mut partial = PartialFit::new(&fourier(), 10).unwrap();
    assert!(
        Detector::from_partial(&partial, None).unwrap_err().to_string().contains("at least 2 rows")
    );
    update(&mut partial, rows.view());
    let before = partial.to_bytes();
    let mut bad = rows.clone();
    bad[[5, 5]] = f32::NAN;
    for data in [bad.view(), rows.slice(s![.., ..4])] {
        assert!(partial.update(&Dataset::new("bad", data), &Silent).is_err());
        assert_eq!(partial.to_bytes(), before, "nothing has changed");
    }
    let other = PartialFit::new(&fourier(), 11).unwrap();
    assert!(partial.merge(&other).unwrap_err().to_string().contains("rows of another width"));
    assert!(PartialFit::from_bytes(&before[..before.len() - 8]).is_err());
    assert!(PartialFit::from_bytes(b"something else").is_err());
}
