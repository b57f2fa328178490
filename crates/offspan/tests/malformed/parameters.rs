//! Parameters out of range, or that do not go together.

use offspan::map::{Draw, EigenFloor};
use offspan::{Clip, Components, Kernel, KpcaParams, MapParams, Residual, Sampling};

use crate::common::{fourier, nystrom, pca};
use crate::{Case, GAUSSIAN, Told, check, told};

/// Checks parameters that differ from others in one thing.
fn checked(params: KpcaParams) -> Told {
    told(params.check())
}

fn kernel(kernel: Kernel) -> Told {
    checked(KpcaParams { kernel, ..KpcaParams::default() })
}

fn components(components: Components) -> Told {
    checked(KpcaParams { components, ..KpcaParams::default() })
}

fn react(clip: Clip) -> Told {
    checked(KpcaParams { react: Some(clip), ..KpcaParams::default() })
}

#[test]
fn values_and_combinations() {
    let cases: &[Case] = &[
        (
            "gamma 0",
            |_| kernel(Kernel::Gaussian { gamma: 0.0 }),
            "gamma: expected a number above 0, got 0",
        ),
        (
            "gamma NaN",
            |_| kernel(Kernel::Laplacian { gamma: f64::NAN }),
            "gamma: expected a number above 0, got NaN",
        ),
        (
            "gamma infinite",
            |_| kernel(Kernel::Gaussian { gamma: f64::INFINITY }),
            "gamma: expected a number above 0, got inf",
        ),
        (
            "degree 0",
            |_| kernel(Kernel::Polynomial { degree: 0, coef0: 1.0 }),
            "degree: expected a whole number from 1 to 16, got 0",
        ),
        (
            "degree 17",
            |_| kernel(Kernel::Polynomial { degree: 17, coef0: 1.0 }),
            "degree: expected a whole number from 1 to 16, got 17",
        ),
        (
            "coef0 negative",
            |_| kernel(Kernel::Polynomial { degree: 2, coef0: -0.5 }),
            "coef0: expected a number of at least 0, got -0.5",
        ),
        (
            "coef0 NaN",
            |_| kernel(Kernel::Polynomial { degree: 2, coef0: f64::NAN }),
            "coef0: expected a number of at least 0, got NaN",
        ),
        (
            "ratio 0",
            |_| components(Components::ExplainedVariance(0.0)),
            "explained_variance: expected a share in (0, 1], got 0",
        ),
        (
            "ratio 1.5",
            |_| components(Components::ExplainedVariance(1.5)),
            "explained_variance: expected a share in (0, 1], got 1.5",
        ),
        (
            "ratio NaN",
            |_| components(Components::ExplainedVariance(f64::NAN)),
            "explained_variance: expected a share in (0, 1], got NaN",
        ),
        (
            "0 components",
            |_| components(Components::Fixed(0)),
            "components: expected at least 1, got 0",
        ),
        (
            "clip at NaN",
            |_| react(Clip::Value(f64::NAN)),
            "react: expected a finite value, got NaN",
        ),
        (
            "clip at a percentile above 100",
            |_| react(Clip::Percentile(101.0)),
            "react: expected a percentile from p0 to p100, got 101",
        ),
        (
            "clip at a NaN percentile",
            |_| react(Clip::Percentile(f64::NAN)),
            "react: expected a percentile from p0 to p100, got NaN",
        ),
        (
            "clip in words",
            |_| told("most".parse::<Clip>()),
            "expected a value such as 1.0 or a percentile such as p90, got `most`",
        ),
        (
            "pca with the gaussian kernel",
            |_| checked(KpcaParams { kernel: GAUSSIAN, ..pca() }),
            "kernel: expected linear for pca (other kernels: kpca-nys, kpca-rff, kpca-sketch, \
             kpca-exact), got gaussian",
        ),
        (
            "random features of the polynomial kernel",
            |_| checked(fourier(Kernel::Polynomial { degree: 2, coef0: 1.0 }, 8, Draw::Iid)),
            "kernel: expected gaussian or laplacian for kpca-rff (polynomial: kpca-sketch; linear: \
             pca), got polynomial",
        ),
        (
            "orthogonal features of the laplacian kernel",
            |_| checked(fourier(Kernel::Laplacian { gamma: 1.0 }, 8, Draw::Orthogonal)),
            "draw: expected iid for the laplacian kernel (its frequencies are Cauchy per \
             coordinate, which no rotation preserves), got orthogonal",
        ),
        (
            "no random features",
            |_| checked(fourier(GAUSSIAN, 0, Draw::Iid)),
            "features: expected at least 1, got 0",
        ),
        (
            "tensor sketch of the gaussian kernel",
            |_| {
                let map = MapParams::TensorSketch { features: 8 };
                checked(KpcaParams { map, ..KpcaParams::default() })
            },
            "kernel: expected polynomial for kpca-sketch (gaussian and laplacian: kpca-rff), got \
             gaussian",
        ),
        (
            "complete residual of random features",
            |_| {
                let residual = Residual::Complete;
                checked(KpcaParams { residual, ..fourier(GAUSSIAN, 8, Draw::Iid) })
            },
            "residual: expected plain for random features (they meet k(z,z) only on average, so \
             what they miss of it is noise), got complete",
        ),
        (
            "no landmarks",
            |_| checked(nystrom(GAUSSIAN, 0, Residual::Plain)),
            "landmarks: expected at least 1, got 0",
        ),
        (
            "rank floor NaN",
            |_| {
                let floor = EigenFloor { relative: f64::NAN, ..EigenFloor::default() };
                let sampling = Sampling::Uniform;
                let map = MapParams::Nystrom { landmarks: 8, sampling, floor };
                checked(KpcaParams { map, ..KpcaParams::default() })
            },
            "rank_floor: expected a number in [0, 1), got NaN",
        ),
    ];
    check(cases);
}
