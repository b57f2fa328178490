//! Watching: one monitor of drift for each version of a model, its state on disk, and who is told of an alarm.

mod alarm;
mod monitors;
mod state;

pub(crate) use alarm::Teller;
pub(crate) use monitors::{Monitors, WatchOptions, WatchView};
pub(crate) use state::StateFolder;
