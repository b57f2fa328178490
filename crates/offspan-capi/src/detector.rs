//! A detector in C's hands: made, asked, and given back.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;

use crate::failure::{Failure, Status, guarded};
use crate::rows::check_pointer;

/// A fitted detector. It does not change, so any number of threads may use it at once.
pub struct Detector {
    pub(crate) inner: offspan::Detector,
    method: CString,
}

impl Detector {
    fn handed_over(inner: offspan::Detector) -> *mut Detector {
        let method = CString::new(inner.info().method.as_str()).unwrap_or_default();
        Box::into_raw(Box::new(Detector { inner, method }))
    }

    /// The detector behind a pointer.
    ///
    /// # Safety
    /// The pointer is NULL or came from a load and was not freed for as long as `'a`.
    pub(crate) unsafe fn behind<'a>(detector: *const Detector) -> Result<&'a Detector, Failure> {
        // SAFETY: the caller's promise.
        unsafe { detector.as_ref() }
            .ok_or_else(|| Failure::argument("detector: expected one from offspan_load, got NULL"))
    }
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn offspan_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no NUL"),
        };
    VERSION.as_ptr()
}

/// Load a detector file. NULL if that fails; offspan_last_error tells why.
///
/// # Safety
/// `path` is NULL or a text that ends with NUL (UTF-8 on Windows).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn offspan_load(path: *const c_char) -> *mut Detector {
    guarded(
        |_| std::ptr::null_mut(),
        || {
            check_pointer("path", path)?;
            // SAFETY: not NULL, and ends with NUL by the caller's promise.
            let path = path_of(unsafe { CStr::from_ptr(path) })?;
            Ok(Detector::handed_over(offspan::Detector::load(path)?))
        },
    )
}

#[cfg(unix)]
fn path_of(text: &CStr) -> Result<&Path, Failure> {
    use std::os::unix::ffi::OsStrExt;
    Ok(Path::new(std::ffi::OsStr::from_bytes(text.to_bytes())))
}

#[cfg(not(unix))]
fn path_of(text: &CStr) -> Result<&Path, Failure> {
    text.to_str().map(Path::new).map_err(|error| Failure::argument(format!("path: {error}")))
}

/// Make a detector of the bytes of a detector file, which may go afterwards. NULL if that fails; offspan_last_error
/// tells why.
///
/// # Safety
/// `bytes` is NULL or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn offspan_load_bytes(bytes: *const u8, size: usize) -> *mut Detector {
    guarded(
        |_| std::ptr::null_mut(),
        || {
            check_pointer("bytes", bytes)?;
            if size > isize::MAX as usize {
                let message = format!("size: expected at most {} bytes, got {size}", isize::MAX);
                return Err(Failure::argument(message));
            }
            // SAFETY: not NULL, `size` bytes by the caller's promise, and no longer than `isize::MAX`.
            let bytes = unsafe { std::slice::from_raw_parts(bytes, size) };
            Ok(Detector::handed_over(offspan::Detector::from_bytes(bytes)?))
        },
    )
}

/// Give a detector back. NULL is fine; a detector that was given back already is not.
///
/// # Safety
/// `detector` is NULL or came from a load, and no other call uses it, now or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn offspan_free(detector: *mut Detector) {
    guarded(
        |_| (),
        || {
            if !detector.is_null() {
                // SAFETY: it came from `Box::into_raw`, and is given back once, by the caller's promise.
                drop(unsafe { Box::from_raw(detector) });
            }
            Ok(())
        },
    );
}

/// The width of the features. 0 if `detector` is NULL.
///
/// # Safety
/// `detector` is NULL or came from a load and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn offspan_width(detector: *const Detector) -> usize {
    // SAFETY: the caller's promise.
    guarded(|_| 0, || Ok(unsafe { Detector::behind(detector) }?.inner.info().training.width))
}

/// Whether rows must bring logits: 1 or 0. -1 if `detector` is NULL.
///
/// # Safety
/// `detector` is NULL or came from a load and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn offspan_needs_logits(detector: *const Detector) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|_| -1, || Ok(c_int::from(unsafe { Detector::behind(detector) }?.inner.needs_logits())))
}

/// The method's name, such as "auto"; valid until the detector is freed. NULL if `detector` is NULL.
///
/// # Safety
/// `detector` is NULL or came from a load and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn offspan_method(detector: *const Detector) -> *const c_char {
    // SAFETY: the caller's promise.
    guarded(|_| std::ptr::null(), || Ok(unsafe { Detector::behind(detector) }?.method.as_ptr()))
}

/// The threshold: scores at or above it are in-distribution. OFFSPAN_FAILED if the detector has none.
///
/// # Safety
/// `detector` is NULL or came from a load and was not freed; `threshold` is NULL or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn offspan_threshold(
    detector: *const Detector,
    threshold: *mut f64,
) -> Status {
    guarded(
        |status| status,
        || {
            // SAFETY: the caller's promise.
            let detector = unsafe { Detector::behind(detector) }?;
            check_pointer("threshold", threshold.cast_const())?;
            let value = detector.inner.calibration_for("this call")?.threshold().value;
            // SAFETY: neither NULL nor misaligned, and writable by the caller's promise.
            unsafe { threshold.write(value) };
            Ok(Status::OffspanOk)
        },
    )
}
