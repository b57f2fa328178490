//! Ctrl-C and termination: the first asks running work to stop cleanly, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Exit code of a program that was interrupted.
pub(crate) const EXIT_CODE: u8 = 130;

pub(crate) fn install() {
    for signal in [SIGINT, SIGTERM] {
        let flag = &*INTERRUPTED;
        // The order matters: the shutdown only acts if an earlier signal has set the flag. Without
        // a handler signals still work, only less gently.
        let _ = flag::register_conditional_shutdown(signal, EXIT_CODE.into(), Arc::clone(flag));
        let _ = flag::register(signal, Arc::clone(flag));
    }
}

pub(crate) fn requested() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}
