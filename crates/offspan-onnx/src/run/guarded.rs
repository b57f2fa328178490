//! Calls of engines that must not take us down with them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, PoisonError};

/// One at a time: the hook is the program's.
static HOOK: Mutex<()> = Mutex::new(());

/// Calls `work`, and turns a panic into a sentence. rten asserts some of what a model must not do, such as shapes that
/// do not go together; a model that somebody else made is no reason to end the program, and the panic's own message
/// has places in rten's source, so it is not printed.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let _one = HOOK.lock().unwrap_or_else(PoisonError::into_inner);
    let before = take_hook();
    set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(work));
    set_hook(before);
    result.unwrap_or_else(|panic| Err(format!("the model does what it must not: {}", words(&*panic))))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no reason was given").lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::guarded;

    #[test]
    fn a_panic_becomes_a_sentence() {
        let result: Result<(), String> = guarded(|| panic!("sizes {} and {}", 2, 3));
        assert_eq!(result.unwrap_err(), "the model does what it must not: sizes 2 and 3");
        assert_eq!(guarded(|| Ok(7)), Ok(7));
    }
}
