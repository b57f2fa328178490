//! Micro-benchmarks of the inner loops, at the sizes of real detectors and on one thread.

use std::f64::consts::TAU;
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use ndarray::Array2;
use offspan::Moments;
use offspan::internals::{
    FixedPointWeights, PackedWeights, exp_minus_one_f32, exp_minus_one_f64, scaled_cosines_f32,
    scaled_cosines_f64, walsh_hadamard_f32,
};

/// Width of the features, and of the packed weights.
const WIDTH: usize = 2048;
/// Random features of a map.
const FEATURES: usize = 4096;

fn main() {
    // The calling thread is the whole pool: no wake-up of another one is measured.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
    pool.build_global().expect("nothing has used the pool yet");
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let mut group = criterion.benchmark_group("kernels");
    transform(&mut group);
    cosines(&mut group);
    exponentials(&mut group);
    products(&mut group);
    moments(&mut group);
    group.finish();
    criterion.final_summary();
}

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// Elements: points of a transform.
fn transform(group: &mut Group<'_>) {
    // Zeros stay zeros, where other numbers would overflow after some transforms; the time does not
    // depend on them.
    let mut x = vec![0.0; WIDTH];
    group.throughput(Throughput::Elements(WIDTH as u64));
    group.bench_function(format!("walsh-hadamard f32 {WIDTH}"), |bencher| {
        bencher.iter(|| walsh_hadamard_f32(black_box(&mut x)));
    });
}

/// Elements: cosines.
fn cosines(group: &mut Group<'_>) {
    let phases: Vec<f64> = wave(FEATURES).map(|x| TAU * x).collect();
    let angles: Vec<f64> = wave(FEATURES).map(|x| 20.0 * x - 10.0).collect();
    let scale = (2.0 / FEATURES as f64).sqrt();
    group.throughput(Throughput::Elements(FEATURES as u64));

    let (phases_single, angles_single) = (single(&phases), single(&angles));
    in_place(group, format!("scaled-cosines f32 {FEATURES}"), &angles_single, |x| {
        scaled_cosines_f32(x, &phases_single, scale as f32);
    });
    in_place(group, format!("scaled-cosines f64 {FEATURES}"), &angles, |x| {
        scaled_cosines_f64(x, &phases, scale);
    });
}

/// Elements: exponentials.
fn exponentials(group: &mut Group<'_>) {
    // −γ times the squared distance of unit vectors, for γ = 1.
    let exponents: Vec<f64> = wave(WIDTH).map(|x| -4.0 * x).collect();
    group.throughput(Throughput::Elements(WIDTH as u64));
    let name = |precision| format!("exp-minus-one {precision} {WIDTH}");
    in_place(group, name("f32"), &single(&exponents), exp_minus_one_f32);
    in_place(group, name("f64"), &exponents, exp_minus_one_f64);
}

/// Elements: multiply-adds.
fn products(group: &mut Group<'_>) {
    let weights = PackedWeights::new(matrix(WIDTH, WIDTH));
    let fixed = FixedPointWeights::new(&matrix(WIDTH, WIDTH));
    for rows in [48, 1] {
        let x = matrix(rows, WIDTH);
        let mut out = Array2::zeros((rows, WIDTH));
        group.throughput(Throughput::Elements((rows * WIDTH * WIDTH) as u64));
        group.bench_function(format!("packed product {rows} x {WIDTH} x {WIDTH}"), |bencher| {
            bencher.iter(|| weights.product(black_box(x.view()), out.view_mut()));
        });
        let (x, out) = (x.as_slice().expect("row-major"), out.as_slice_mut().expect("row-major"));
        group.bench_function(format!("fixed product {rows} x {WIDTH} x {WIDTH}"), |bencher| {
            bencher.iter(|| fixed.product(black_box(x), out));
        });
    }
}

/// Elements: multiply-adds of the lower triangle.
fn moments(group: &mut Group<'_>) {
    const ROWS: usize = 512;
    const MAPPED: usize = 1024;
    let rows = matrix(ROWS, MAPPED);
    let mut moments = Moments::new(MAPPED);
    group.throughput(Throughput::Elements((ROWS * MAPPED * (MAPPED + 1) / 2) as u64));
    group.bench_function(format!("moments update f32 {ROWS} x {MAPPED}"), |bencher| {
        bencher.iter(|| moments.update(black_box(rows.view())).expect("the declared width"));
    });
}

/// Times a loop that overwrites its input. Each call gets the same numbers again; that copy within
/// the first cache counts, and is a few percent at most.
fn in_place<T: Copy>(group: &mut Group<'_>, name: String, input: &[T], work: impl Fn(&mut [T])) {
    let mut x = input.to_vec();
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            x.copy_from_slice(input);
            work(black_box(&mut x));
        });
    });
}

/// Numbers in [0, 1) without order.
fn wave(count: usize) -> impl Iterator<Item = f64> {
    (0..count).map(|i| ((i * 7919) % 4093) as f64 / 4093.0)
}

fn single(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|&x| x as f32).collect()
}

fn matrix(rows: usize, columns: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(i, j)| {
        ((i * 7919 + j * 104_729) % 4093) as f32 / 4093.0 - 0.5
    })
}
