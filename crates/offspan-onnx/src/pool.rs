//! What may be done to a feature map so that it becomes a vector.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// How a vector is made of a feature map or of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pool {
    /// The mean over positions.
    #[default]
    Avg,
    /// The largest number of each channel.
    Max,
    /// The first token.
    Cls,
    /// All numbers, one after another.
    None,
}

impl Display for Pool {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Pool::Avg => "avg",
            Pool::Max => "max",
            Pool::Cls => "cls",
            Pool::None => "none",
        })
    }
}

impl FromStr for Pool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "avg" => Ok(Pool::Avg),
            "max" => Ok(Pool::Max),
            "cls" => Ok(Pool::Cls),
            "none" => Ok(Pool::None),
            _ => Err(format!("expected avg, max, cls or none, got `{text}`")),
        }
    }
}

/// A value's name and how it is pooled, from NAME or NAME:POOL. Names of values may have colons of their own.
pub(crate) fn name_and_pool(text: &str) -> (&str, Option<Pool>) {
    match text.rsplit_once(':') {
        Some((name, pool)) if pool.parse::<Pool>().is_ok() => (name, pool.parse().ok()),
        _ => (text, None),
    }
}
