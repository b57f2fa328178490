//! An observer that hears when each of several methods begins.

use offspan::Observer;

/// Passes everything on to another observer, except which method begins: that is for `on_method`,
/// which gets the other observer, the method's name, its number from 1, and how many there are.
pub(crate) struct Hook<'a, F> {
    pub(crate) observer: &'a dyn Observer,
    pub(crate) on_method: F,
}

impl<F: Fn(&dyn Observer, &str, usize, usize) + Sync> Observer for Hook<'_, F> {
    fn method(&self, name: &str, number: usize, of: usize) {
        (self.on_method)(self.observer, name, number, of);
    }

    fn begin(&self, stage: &str, steps: u64) {
        self.observer.begin(stage, steps);
    }

    fn advance(&self, steps: u64) {
        self.observer.advance(steps);
    }

    fn note(&self, text: &str) {
        self.observer.note(text);
    }

    fn interrupted(&self) -> bool {
        self.observer.interrupted()
    }
}
