//! What a call came to, and the last message of each thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a call came to.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "C has one space for all names")]
pub enum Status {
    /// Done.
    OffspanOk = 0,
    /// A pointer is NULL or not aligned, or sizes cannot be.
    OffspanInvalidArgument = 1,
    /// The data do not fit the detector, or it lacks what was asked for.
    OffspanFailed = 2,
    /// A fault of the library. Please report it with the message.
    OffspanInternal = 3,
}

/// A status other than `OffspanOk`, in words.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Failure { status: Status::OffspanInvalidArgument, message: message.into() }
    }
}

impl From<offspan::Error> for Failure {
    fn from(error: offspan::Error) -> Self {
        Failure { status: Status::OffspanFailed, message: error.to_string() }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The message of the last call that failed in this thread, UTF-8; empty if none did. It is valid until the next call
/// in this thread fails, or the thread ends.
#[unsafe(no_mangle)]
pub extern "C" fn offspan_last_error() -> *const c_char {
    // While the thread ends there is no message to be had any more.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Does the work; an error or a panic becomes a message, and what `otherwise` makes of the status.
pub(crate) fn guarded<T>(
    otherwise: impl FnOnce(Status) -> T,
    work: impl FnOnce() -> Result<T, Failure>,
) -> T {
    // What a panic leaves half done is local to the work: detectors do not change.
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(panic) => of_panic(panic),
    };
    remember(&failure.message);
    otherwise(failure.status)
}

fn of_panic(panic: Box<dyn Any + Send>) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    // Its destructor might panic again, with nobody to catch it.
    std::mem::forget(panic);
    let message = format!("a fault of offspan, please report it: {text}");
    Failure { status: Status::OffspanInternal, message }
}

fn remember(message: &str) {
    let text = CString::new(message.replace('\0', "␀")).unwrap_or_default();
    // A thread that ends has no place for it, and nobody to read it.
    let _ = LAST.try_with(|last| last.replace(text));
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn last() -> String {
        // SAFETY: the pointer is this thread's own message, and nothing fails before it is copied.
        unsafe { CStr::from_ptr(offspan_last_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_becomes_a_status_and_a_message() {
        let status =
            guarded(|status| status, || -> Result<Status, Failure> { panic!("row {} is odd", 3) });
        assert_eq!(status, Status::OffspanInternal);
        assert_eq!(last(), "a fault of offspan, please report it: row 3 is odd");
    }

    #[test]
    fn a_message_is_seen_by_its_own_thread_only() {
        let fail = |text: &str| guarded(|status| status, || Err(Failure::argument(text)));
        assert_eq!(fail("mine\0"), Status::OffspanInvalidArgument);
        std::thread::spawn(move || {
            assert_eq!(last(), "");
            fail("theirs");
            assert_eq!(last(), "theirs");
        })
        .join()
        .unwrap();
        assert_eq!(last(), "mine␀");
    }
}
