//! The time of day, as machines write it.

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn unix_seconds() -> f64 {
    seconds_of(SystemTime::now())
}

/// Seconds since 1970.
pub(crate) fn seconds_of(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
