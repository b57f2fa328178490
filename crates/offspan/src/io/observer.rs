//! How long work tells of itself and learns that it should stop.

use crate::{Error, Result};

/// Receives progress and may ask for a stop.
pub trait Observer: Sync {
    /// The fit of one of several methods begins; `number` counts from 1.
    fn method(&self, name: &str, number: usize, of: usize) {
        let _ = (name, number, of);
    }

    /// A stage with this many steps begins.
    fn begin(&self, stage: &str, steps: u64) {
        let _ = (stage, steps);
    }

    /// Steps of the current stage are done.
    fn advance(&self, steps: u64) {
        let _ = steps;
    }

    /// Something that the user should know and that is no error.
    fn note(&self, text: &str) {
        let _ = text;
    }

    /// Whether to stop as soon as possible.
    fn interrupted(&self) -> bool {
        false
    }
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}

/// Fails when the observer asks to stop.
pub(crate) fn check_interrupt(observer: &dyn Observer) -> Result<()> {
    if observer.interrupted() {
        return Err(Error::Interrupted { hint: String::new() });
    }
    Ok(())
}
