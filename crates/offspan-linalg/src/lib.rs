//! Dense linear algebra; the only crate that names faer. It is a crate of its own because eigensolvers take
//! long to compile and seldom change.
//!
//! Everything here gives the same bits whatever the number of threads: products run on one thread
//! over blocks whose sizes depend on the shapes alone, and the eigensolver splits its work into a
//! fixed number of parts.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::{cholesky::llt, evd, matmul, qr, svd, triangular_inverse};
use faer::{Accum, Conj, Mat, MatMut, MatRef, Par};
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

/// A decomposition that did not come to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} did not converge on a {size}×{size} matrix")]
pub struct DecompositionError {
    /// The decomposition.
    pub what: &'static str,
    /// Rows and columns of the matrix.
    pub size: usize,
}

type Result<T> = std::result::Result<T, DecompositionError>;

/// Parts that faer's own parallel loops split into. The split decides the order of rounding, so
/// it is a constant and not the number of threads.
const PARTS: usize = 4;

/// Rows of the result that one task computes in [`product`].
const ROWS_PER_TASK: usize = 128;

#[allow(unsafe_code)]
fn view<T>(a: ArrayView2<'_, T>) -> MatRef<'_, T> {
    let (rows, columns) = a.dim();
    let strides = a.strides();
    // SAFETY: pointer, shape and strides come from a live ndarray view with the same lifetime.
    unsafe { MatRef::from_raw_parts(a.as_ptr(), rows, columns, strides[0], strides[1]) }
}

#[allow(unsafe_code)]
fn view_mut<T>(mut a: ArrayViewMut2<'_, T>) -> MatMut<'_, T> {
    let (rows, columns) = a.dim();
    let (row_stride, column_stride) = (a.strides()[0], a.strides()[1]);
    // SAFETY: as in `view`; the view is exclusive and consumed here.
    unsafe { MatMut::from_raw_parts_mut(a.as_mut_ptr(), rows, columns, row_stride, column_stride) }
}

/// Numbers with products: `f32` and `f64`.
pub trait Number: Sized {
    /// See [`product`].
    fn product(a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>) -> Array2<Self>;
}

macro_rules! number {
    ($type:ident) => {
        impl Number for $type {
            fn product(a: ArrayView2<'_, $type>, b: ArrayView2<'_, $type>) -> Array2<$type> {
                let mut c = Array2::zeros((a.nrows(), b.ncols()));
                c.axis_chunks_iter_mut(Axis(0), ROWS_PER_TASK)
                    .into_par_iter()
                    .zip(a.axis_chunks_iter(Axis(0), ROWS_PER_TASK))
                    .for_each(|(c, a)| {
                        // Rows of a triangle end in zeros, which would add nothing.
                        let zeros =
                            |column: &ArrayView1<'_, $type>| column.iter().all(|x| *x == 0.0);
                        let terms =
                            a.ncols() - a.columns().into_iter().rev().take_while(zeros).count();
                        let (a, b) = (a.slice(s![.., ..terms]), b.slice(s![..terms, ..]));
                        let (c, a, b) = (view_mut(c), view(a), view(b));
                        matmul::matmul(c, Accum::Replace, a, b, 1.0, Par::Seq);
                    });
                c
            }
        }
    };
}

number!(f32);
number!(f64);

/// `a·b`, in parallel over fixed blocks of rows. The bits of a row may depend on how many rows there are.
pub fn product<T: Number>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<T> {
    T::product(a, b)
}

/// Eigenvalues, largest first, and eigenvectors of a symmetric matrix.
pub struct SymmetricEigen {
    /// Eigenvalues in descending order.
    pub values: Vec<f64>,
    /// Row i is the unit eigenvector of value i.
    pub vectors: Array2<f64>,
}

/// Decomposes a symmetric matrix of which the lower triangle is read.
pub fn symmetric_eigen(a: ArrayView2<'_, f64>) -> Result<SymmetricEigen> {
    let n = a.nrows();
    debug_assert_eq!(n, a.ncols());
    if a.iter().all(|&x| x == 0.0) {
        // The solver divides by the size of the matrix.
        return Ok(SymmetricEigen { values: vec![0.0; n], vectors: Array2::eye(n) });
    }
    let mut values = faer::diag::Diag::<f64>::zeros(n);
    let mut vectors = Array2::<f64>::zeros((n, n));
    let par = Par::rayon(PARTS);
    let params = Default::default();
    let need = evd::self_adjoint_evd_scratch::<f64>(n, evd::ComputeEigenvectors::Yes, par, params);
    // faer writes eigenvectors as columns; the transposed view makes them rows of ours.
    evd::self_adjoint_evd(
        view(a),
        values.as_mut(),
        Some(view_mut(vectors.view_mut().reversed_axes())),
        par,
        MemStack::new(&mut MemBuffer::new(need)),
        params,
    )
    .map_err(|_| DecompositionError { what: "the symmetric eigensolver", size: n })?;
    vectors.invert_axis(Axis(0));
    let values = values.column_vector().iter().rev().copied().collect();
    Ok(SymmetricEigen { values, vectors })
}

/// Q·a for an orthogonal Q that leaves zeros below the diagonal; the length of a·x stays what it is
/// for every x. For matrices with at most as many rows as columns; others stay as they are.
pub fn trapezoid(a: Array2<f64>) -> Array2<f64> {
    let (rows, columns) = a.dim();
    if rows > columns || rows < 2 {
        return a;
    }
    let (factor, _) = householder_factor(a.view());
    let mut trapezoid = a;
    for ((i, j), x) in trapezoid.indexed_iter_mut() {
        *x = if j < i { 0.0 } else { factor[(i, j)] };
    }
    trapezoid
}

/// R above the diagonal, and what Q is made of.
fn householder_factor(a: ArrayView2<'_, f64>) -> (Mat<f64>, Mat<f64>) {
    let (rows, columns) = a.dim();
    let par = Par::rayon(PARTS);
    let block = qr::no_pivoting::factor::recommended_block_size::<f64>(rows, columns);
    let mut factor = view(a).to_owned();
    let mut householder = Mat::<f64>::zeros(block, rows.min(columns));
    let params = Default::default();
    let need =
        qr::no_pivoting::factor::qr_in_place_scratch::<f64>(rows, columns, block, par, params);
    qr::no_pivoting::factor::qr_in_place(
        factor.as_mut(),
        householder.as_mut(),
        par,
        MemStack::new(&mut MemBuffer::new(need)),
        params,
    );
    (factor, householder)
}

/// The singular value decomposition without what belongs to the null space.
struct ThinSvd {
    /// Singular values in descending order.
    values: Vec<f64>,
    /// One column per value.
    left: Mat<f64>,
    /// One column per value.
    right: Mat<f64>,
}

fn thin_svd(a: ArrayView2<'_, f64>) -> Result<ThinSvd> {
    let (rows, columns) = a.dim();
    let size = rows.min(columns);
    let par = Par::rayon(PARTS);
    let params = Default::default();
    let mut values = faer::diag::Diag::<f64>::zeros(size);
    let (mut left, mut right) = (Mat::zeros(rows, size), Mat::zeros(columns, size));
    let thin = svd::ComputeSvdVectors::Thin;
    let need = svd::svd_scratch::<f64>(rows, columns, thin, thin, par, params);
    svd::svd(
        view(a),
        values.as_mut(),
        Some(left.as_mut()),
        Some(right.as_mut()),
        par,
        MemStack::new(&mut MemBuffer::new(need)),
        params,
    )
    .map_err(|_| DecompositionError { what: "the singular value decomposition", size })?;
    let values = values.column_vector().iter().copied().collect();
    Ok(ThinSvd { values, left, right })
}

/// a⁺·b, the shortest of the best solutions of a·x = b; singular values of at most
/// max(rows, columns)·`precision`·largest count as zero.
pub fn least_squares(
    a: ArrayView2<'_, f64>,
    b: &Array1<f64>,
    precision: f64,
) -> Result<Array1<f64>> {
    let (rows, columns) = a.dim();
    let ThinSvd { values, left, right } = thin_svd(a)?;
    let floor = rows.max(columns) as f64 * precision * values.first().copied().unwrap_or(0.0);
    let mut x = Array1::zeros(columns);
    for (i, &value) in values.iter().enumerate().filter(|(_, value)| **value > floor) {
        let along: f64 = (0..rows).map(|row| left[(row, i)] * b[row]).sum::<f64>() / value;
        (0..columns).for_each(|column| x[column] += along * right[(column, i)]);
    }
    Ok(x)
}

/// Singular values of a matrix, largest first, and the directions of its rows that belong to them.
pub struct RightSingular {
    /// Singular values in descending order.
    pub values: Vec<f64>,
    /// Row i is the unit right singular vector of value i.
    pub vectors: Array2<f64>,
}

/// Decomposes the rows of a matrix.
pub fn right_singular(a: ArrayView2<'_, f64>) -> Result<RightSingular> {
    let size = a.nrows().min(a.ncols());
    if a.iter().all(|&x| x == 0.0) {
        let vectors = Array2::eye(a.ncols()).slice(s![..size, ..]).to_owned();
        return Ok(RightSingular { values: vec![0.0; size], vectors });
    }
    let ThinSvd { values, right, .. } = thin_svd(a)?;
    let vectors = Array2::from_shape_fn((size, a.ncols()), |(i, j)| right[(j, i)]);
    Ok(RightSingular { values, vectors })
}

/// The lower triangle L with L·Lᵀ = a, of a positive definite matrix whose lower triangle is read.
pub fn cholesky(a: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
    let n = a.nrows();
    debug_assert_eq!(n, a.ncols());
    let mut lower = a.as_standard_layout().into_owned();
    let params = Default::default();
    let par = Par::rayon(PARTS);
    let need = llt::factor::cholesky_in_place_scratch::<f64>(n, par, params);
    llt::factor::cholesky_in_place(
        view_mut(lower.view_mut()),
        Default::default(),
        par,
        MemStack::new(&mut MemBuffer::new(need)),
        params,
    )
    .map_err(|_| DecompositionError { what: "the Cholesky decomposition", size: n })?;
    for i in 0..n {
        lower.slice_mut(s![i, i + 1..]).fill(0.0);
    }
    Ok(lower)
}

/// The inverse of a lower triangle, itself one.
pub fn lower_inverse(lower: ArrayView2<'_, f64>) -> Array2<f64> {
    let mut inverse = Array2::zeros(lower.raw_dim());
    triangular_inverse::invert_lower_triangular(
        view_mut(inverse.view_mut()),
        view(lower),
        Par::rayon(PARTS),
    );
    inverse
}

/// The orthogonal factor of a square matrix with the signs that make R's diagonal positive, so
/// that a Gaussian matrix gives a uniformly distributed (Haar) rotation. Row i of the result is
/// orthonormal to the others.
pub fn haar_rotation(gaussian: ArrayView2<'_, f64>) -> Array2<f64> {
    let n = gaussian.nrows();
    let par = Par::rayon(PARTS);
    let (factor, householder) = householder_factor(gaussian);
    let block = householder.nrows();
    let mut q = Array2::<f64>::eye(n);
    let apply =
        faer::linalg::householder::apply_block_householder_sequence_on_the_left_in_place_scratch::<
            f64,
        >(n, block, n);
    faer::linalg::householder::apply_block_householder_sequence_on_the_left_in_place_with_conj(
        factor.as_ref(),
        householder.as_ref(),
        Conj::No,
        view_mut(q.view_mut()),
        par,
        MemStack::new(&mut MemBuffer::new(apply)),
    );
    for j in 0..n {
        if factor[(j, j)] < 0.0 {
            q.slice_mut(s![.., j]).mapv_inplace(|x| -x);
        }
    }
    q
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(rows: usize, columns: usize) -> Array2<f64> {
        Array2::from_shape_fn((rows, columns), |(i, j)| {
            ((i * 7 + j * 13 + i * j) % 23) as f64 / 23.0 - 0.4
        })
    }

    /// Small, so that Miri can follow it (`make sanitise`): it is all that is unsafe here.
    #[test]
    fn views_show_the_numbers_of_arrays_in_any_layout() {
        let a = wave(5, 7);
        let reversed = a.slice(s![..;-1, 1..;2]);
        let empty = a.slice(s![2..2, ..]);
        for array in [a.view(), a.t(), reversed, reversed.reversed_axes(), empty] {
            let shown = view(array);
            assert_eq!((shown.nrows(), shown.ncols()), array.dim());
            array.indexed_iter().for_each(|((i, j), x)| assert_eq!(shown[(i, j)], *x));
        }
        let mut b = a.clone();
        let mut written = view_mut(b.slice_mut(s![..;2, ..;-3]));
        for i in 0..written.nrows() {
            for j in 0..written.ncols() {
                written[(i, j)] = (10 * i + j) as f64;
            }
        }
        let expected = Array2::from_shape_fn((3, 3), |(i, j)| (10 * i + j) as f64);
        assert_eq!(b.slice(s![..;2, ..;-3]), expected);
        assert_eq!(b.row(1), a.row(1), "what is beside them stays");
    }

    #[test]
    fn product_equals_the_definition_on_odd_sizes() {
        for (n, k, m) in [(1, 1, 1), (3, 5, 7), (130, 17, 129), (257, 33, 64)] {
            let (a, b) = (wave(n, k), wave(k, m));
            let worst = (&product(a.view(), b.view()) - &a.dot(&b))
                .iter()
                .fold(0.0f64, |w, x| w.max(x.abs()));
            assert!(worst <= 1e-14 * k as f64, "{worst}");
        }
    }

    #[test]
    fn eigen_of_zeros_identity_and_a_gram_matrix() {
        for n in [1, 2, 33, 100] {
            let zero = symmetric_eigen(Array2::zeros((n, n)).view()).unwrap();
            assert!(zero.values.iter().all(|&x| x == 0.0));
            let one = symmetric_eigen(Array2::eye(n).view()).unwrap();
            assert!(one.values.iter().all(|&x| (x - 1.0).abs() < 1e-13));

            let x = wave(n, 5);
            let gram = x.dot(&x.t());
            let eigen = symmetric_eigen(gram.view()).unwrap();
            assert!(eigen.values.windows(2).all(|w| w[0] >= w[1]));
            let scaled = &eigen.vectors.t() * &Array1::from(eigen.values.clone());
            let worst =
                (&scaled.dot(&eigen.vectors) - &gram).iter().fold(0.0f64, |w, x| w.max(x.abs()));
            assert!(worst <= f64::EPSILON * 50.0 * n as f64, "n {n}: {worst}");
        }
    }

    #[test]
    fn right_singular_vectors_are_orthonormal_and_make_the_rows() {
        for (rows, columns) in [(1, 4), (4, 1), (3, 9), (9, 3), (20, 20)] {
            let mut a = wave(rows, columns);
            a.diag_mut().mapv_inplace(|x| x + 1.0);
            let RightSingular { values, vectors } = right_singular(a.view()).unwrap();
            assert!(values.windows(2).all(|w| w[0] >= w[1]));
            let worst = |a: &Array2<f64>| a.iter().fold(0.0f64, |w, x| w.max(x.abs()));
            let eye = Array2::<f64>::eye(values.len());
            assert!(worst(&(&vectors.dot(&vectors.t()) - &eye)) < 1e-13);
            // AᵀA = V·S²·Vᵀ
            let squares = Array1::from_iter(values.iter().map(|s| s * s));
            let gram = (&vectors.t() * &squares).dot(&vectors);
            assert!(worst(&(&gram - &a.t().dot(&a))) < 1e-12 * rows as f64);
        }
        let zero = right_singular(Array2::zeros((2, 3)).view()).unwrap();
        assert_eq!(zero.values, [0.0; 2]);
    }

    #[test]
    fn cholesky_and_its_inverse_give_the_matrix_and_the_identity() {
        for n in [1, 2, 33, 150] {
            let x = wave(n, n + 3);
            let gram = x.dot(&x.t()) + Array2::<f64>::eye(n);
            let lower = cholesky(gram.view()).unwrap();
            let inverse = lower_inverse(lower.view());
            let worst = |a: &Array2<f64>| a.iter().fold(0.0f64, |w, x| w.max(x.abs()));
            let scale = worst(&gram) * f64::EPSILON * 10.0 * n as f64;
            assert!(worst(&(&lower.dot(&lower.t()) - &gram)) <= scale);
            assert!(worst(&(&inverse.dot(&lower) - &Array2::<f64>::eye(n))) <= scale);
            for i in 0..n {
                assert!(lower.row(i).iter().chain(inverse.row(i)).all(|x| x.is_finite()));
                assert!(lower.slice(s![i, i + 1..]).iter().all(|&x| x == 0.0));
                assert!(inverse.slice(s![i, i + 1..]).iter().all(|&x| x == 0.0));
            }
        }
    }

    #[test]
    fn cholesky_refuses_an_indefinite_matrix() {
        let error = cholesky(ndarray::array![[1.0, 2.0], [2.0, 1.0]].view()).unwrap_err();
        assert!(matches!(error, DecompositionError { .. }));
    }

    #[test]
    fn a_trapezoid_has_zeros_and_keeps_every_length() {
        for (rows, columns) in [(1, 1), (1, 5), (5, 5), (40, 90), (200, 300), (9, 4)] {
            let mut a = wave(rows, columns);
            a.diag_mut().mapv_inplace(|x| x + 1.0);
            let lengths = |a: &Array2<f64>| a.t().dot(a);
            let trapezoid = trapezoid(a.clone());
            let worst =
                (&lengths(&trapezoid) - &lengths(&a)).iter().fold(0.0f64, |w, x| w.max(x.abs()));
            assert!(worst < 1e-12 * rows as f64, "{rows} {columns}: {worst}");
            if rows <= columns {
                assert!(trapezoid.indexed_iter().all(|((i, j), x)| j >= i || *x == 0.0));
            }
        }
    }

    #[test]
    fn factors_do_not_depend_on_the_number_of_threads() {
        let a = wave(300, 400);
        let gram = a.dot(&a.t()) + Array2::<f64>::eye(300);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let lower = cholesky(gram.view()).unwrap();
                (trapezoid(a.clone()), lower_inverse(lower.view()), lower)
            })
        };
        assert!(with(1) == with(2));
        assert!(with(1) == with(3));
    }

    #[test]
    fn a_product_with_a_triangle_equals_the_definition() {
        let mut a = wave(300, 300);
        a.indexed_iter_mut().for_each(|((i, j), x)| *x = if j > i { 0.0 } else { *x });
        let b = wave(300, 50);
        let worst =
            (&product(a.view(), b.view()) - &a.dot(&b)).iter().fold(0.0f64, |w, x| w.max(x.abs()));
        assert!(worst <= 1e-12, "{worst}");
        assert_eq!(
            product(Array2::zeros((3, 4)).view(), b.slice(s![..4, ..])),
            Array2::zeros((3, 50))
        );
    }

    #[test]
    fn eigenvectors_do_not_depend_on_the_number_of_threads() {
        let x = wave(300, 200);
        let gram = x.dot(&x.t());
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| symmetric_eigen(gram.view()).unwrap().vectors)
        };
        assert_eq!(with(1), with(2));
        assert_eq!(with(1), with(3));
    }

    #[test]
    fn least_squares_solves_and_leaves_out_directions_of_noise() {
        let a = wave(7, 12);
        let b = Array1::from_iter((0..7).map(|i| f64::from(i) - 2.0));
        let x = least_squares(a.view(), &b, f64::EPSILON).unwrap();
        assert!((a.dot(&x) - &b).iter().all(|d| d.abs() < 1e-11));
        // Two equal rows with different right sides: the mean is the best answer, and it is short.
        let a = ndarray::array![[1.0, 0.0], [1.0 + 1e-12, 0.0]];
        let x = least_squares(a.view(), &ndarray::array![1.0, 3.0], 1e-7).unwrap();
        assert!((x[0] - 2.0).abs() < 1e-9 && x[1] == 0.0, "{x}");
    }

    #[test]
    fn rotation_has_orthonormal_rows_and_positive_r() {
        let a = wave(40, 40) + Array2::<f64>::eye(40);
        let q = haar_rotation(a.view());
        let worst =
            (&q.dot(&q.t()) - &Array2::<f64>::eye(40)).iter().fold(0.0f64, |w, x| w.max(x.abs()));
        assert!(worst < 1e-13, "{worst}");
        let r = q.t().dot(&a);
        assert!((0..40).all(|i| r[[i, i]] > 0.0));
        assert!((1..40).all(|i| r[[i, 0]].abs() < 1e-13));
    }
}
