//! Scores and decisions of rows.

use ndarray::ArrayView2;
use offspan::Silent;
use offspan::io::FeatureSource;

use crate::detector::Detector;
use crate::failure::{Failure, Status, guarded};
use crate::rows::{Given, check_pointer};

/// Score rows of float: one score per row, higher is more in-distribution.
///
/// `features` are `rows` × `width` numbers, row after row; `width` must be offspan_width. `logits` are `rows` × `classes`
/// numbers, or NULL with `classes` 0 where offspan_needs_logits says 0. `scores` gets `rows` numbers; where the call
/// fails, nothing is written.
///
/// # Safety
/// `detector` is NULL or came from a load and was not freed. Other pointers are NULL or have as many numbers as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn offspan_score_f32(
    detector: *const Detector,
    features: *const f32,
    rows: usize,
    width: usize,
    logits: *const f32,
    classes: usize,
    scores: *mut f64,
) -> Status {
    let given = Given { features, rows, width, logits, classes };
    // SAFETY: the caller's promise.
    unsafe { score(detector, &given, scores) }
}

/// Score rows of double. See offspan_score_f32.
///
/// # Safety
/// As for offspan_score_f32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn offspan_score_f64(
    detector: *const Detector,
    features: *const f64,
    rows: usize,
    width: usize,
    logits: *const f64,
    classes: usize,
    scores: *mut f64,
) -> Status {
    let given = Given { features, rows, width, logits, classes };
    // SAFETY: the caller's promise.
    unsafe { score(detector, &given, scores) }
}

/// Score rows of float and decide on each by the threshold.
///
/// `scores`, `p_values` (how probable a score as low is for an in-distribution row) and `is_ood` (1 where the row is
/// taken for out-of-distribution, else 0) get `rows` entries each; any of them may be NULL. Rows are given as for
/// offspan_score_f32. OFFSPAN_FAILED if the detector has no threshold.
///
/// # Safety
/// As for offspan_score_f32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn offspan_decide_f32(
    detector: *const Detector,
    features: *const f32,
    rows: usize,
    width: usize,
    logits: *const f32,
    classes: usize,
    scores: *mut f64,
    p_values: *mut f64,
    is_ood: *mut u8,
) -> Status {
    let given = Given { features, rows, width, logits, classes };
    // SAFETY: the caller's promise.
    unsafe { decide(detector, &given, scores, p_values, is_ood) }
}

/// Score rows of double and decide on each by the threshold. See offspan_decide_f32.
///
/// # Safety
/// As for offspan_score_f32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn offspan_decide_f64(
    detector: *const Detector,
    features: *const f64,
    rows: usize,
    width: usize,
    logits: *const f64,
    classes: usize,
    scores: *mut f64,
    p_values: *mut f64,
    is_ood: *mut u8,
) -> Status {
    let given = Given { features, rows, width, logits, classes };
    // SAFETY: the caller's promise.
    unsafe { decide(detector, &given, scores, p_values, is_ood) }
}

/// # Safety
/// As for [`offspan_score_f32`].
unsafe fn score<T>(detector: *const Detector, given: &Given<T>, scores: *mut f64) -> Status
where
    for<'a> ArrayView2<'a, T>: FeatureSource,
{
    guarded(
        |status| status,
        || {
            // SAFETY: the caller's promise.
            let (detector, data) = unsafe { (Detector::behind(detector)?, given.dataset()?) };
            if given.rows > 0 {
                check_pointer("scores", scores.cast_const())?;
            }
            let found = detector.inner.score_dataset(&data, &Silent)?;
            // SAFETY: as many as there are rows, by the caller's promise.
            unsafe { hand_over("scores", &found, scores) }?;
            Ok(Status::OffspanOk)
        },
    )
}

/// # Safety
/// As for [`offspan_score_f32`].
unsafe fn decide<T>(
    detector: *const Detector,
    given: &Given<T>,
    scores: *mut f64,
    p_values: *mut f64,
    is_ood: *mut u8,
) -> Status
where
    for<'a> ArrayView2<'a, T>: FeatureSource,
{
    guarded(
        |status| status,
        || {
            // SAFETY: the caller's promise.
            let (detector, data) = unsafe { (Detector::behind(detector)?, given.dataset()?) };
            let found = detector.inner.decide(&[data], None, &Silent)?;
            let is_out: Vec<u8> = found.is_out.iter().copied().map(u8::from).collect();
            // All are looked at before the first is written.
            for (what, place) in [("scores", scores), ("p_values", p_values)] {
                if !place.is_null() {
                    check_pointer(what, place.cast_const())?;
                }
            }
            // SAFETY: NULL, or as many as there are rows, by the caller's promise.
            unsafe {
                if !scores.is_null() {
                    hand_over("scores", &found.scores, scores)?;
                }
                if !p_values.is_null() {
                    hand_over("p_values", &found.p_values, p_values)?;
                }
                if !is_ood.is_null() {
                    hand_over("is_ood", &is_out, is_ood)?;
                }
            }
            Ok(Status::OffspanOk)
        },
    )
}

/// Copies results into the caller's memory, which need not have been written before.
///
/// # Safety
/// `place` is NULL or has room for as many numbers as there are.
unsafe fn hand_over<T: Copy>(what: &str, numbers: &[T], place: *mut T) -> Result<(), Failure> {
    if numbers.is_empty() {
        return Ok(());
    }
    check_pointer(what, place.cast_const())?;
    // SAFETY: neither NULL nor misaligned, room by the caller's promise, and our numbers lie elsewhere.
    unsafe { place.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len()) };
    Ok(())
}
