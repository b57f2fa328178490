//! Ctrl-C and termination: the first asks running work to stop cleanly, the second ends the program.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// The exit code of the signal that came.
static EXIT_CODE: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

pub(crate) fn install() {
    for signal in [SIGINT, SIGTERM] {
        let (flag, code) = (&*INTERRUPTED, &*EXIT_CODE);
        // As shells report a program that a signal ended: 130 and 143.
        let exit_code = 128 + signal;
        // The order matters: the shutdown only acts if an earlier signal has set the flag. Without
        // a handler signals still work, only less gently.
        let _ = flag::register_conditional_shutdown(signal, exit_code, Arc::clone(flag));
        let _ = flag::register_usize(signal, Arc::clone(code), exit_code.unsigned_abs() as usize);
        let _ = flag::register(signal, Arc::clone(flag));
    }
}

pub(crate) fn requested() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Exit code of a program that was interrupted.
pub(crate) fn exit_code() -> u8 {
    match EXIT_CODE.load(Ordering::SeqCst).try_into() {
        Ok(0) | Err(_) => 130,
        Ok(code) => code,
    }
}
