//! Ctrl-C: the first asks running work to stop cleanly, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Exit code of a program that was interrupted.
pub(crate) const EXIT_CODE: u8 = 130;

pub(crate) fn install() {
    let handler = || {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(EXIT_CODE.into());
        }
    };
    // Without a handler Ctrl-C still works, only less gently.
    let _ = ctrlc::set_handler(handler);
}

pub(crate) fn requested() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}
