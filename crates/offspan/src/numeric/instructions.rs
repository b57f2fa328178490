//! Which instructions the inner loops use: the best that the processor has, found at run time, or fewer
//! where the environment says so.
//!
//! All sets give the same bits. The switch is for tests, and for whoever hunts a difference.

use std::sync::OnceLock;

use crate::error::names::names;
use crate::{Error, Result};

/// The environment variable that asks for a lower set.
const VARIABLE: &str = "OFFSPAN_INSTRUCTIONS";

/// A set of vector instructions; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instructions {
    /// What every processor of its kind has (NEON on ARM).
    Portable,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX-512 F, BW, CD, DQ and VL.
    Avx512,
    /// The same with VNNI, which multiplies and adds pairs of 16-bit numbers in one instruction.
    Avx512Vnni,
}

names!(Instructions {
    Portable "portable",
    Avx2 "avx2",
    Avx512 "avx512",
    Avx512Vnni "avx512-vnni",
});

impl Instructions {
    const ALL: [Instructions; 4] = [
        Instructions::Portable,
        Instructions::Avx2,
        Instructions::Avx512,
        Instructions::Avx512Vnni,
    ];

    /// Those that this processor has, the best last.
    #[must_use]
    pub fn available() -> Vec<Instructions> {
        Self::ALL.into_iter().filter(|set| Leave::to_use(*set).is_some()).collect()
    }

    /// Those that the inner loops use: the best, or what `OFFSPAN_INSTRUCTIONS` names.
    ///
    /// # Errors
    /// If the variable names a set that does not exist or that this processor does not have.
    pub fn in_use() -> Result<Instructions> {
        match choice() {
            Choice::Good(set, _) => Ok(*set),
            Choice::Bad(got) => {
                let names: Vec<_> = Self::available().iter().map(ToString::to_string).collect();
                Err(Error::Environment {
                    name: VARIABLE,
                    expected: format!("one of {} on this processor", names.join(", ")),
                    got: got.clone(),
                })
            }
        }
    }
}

/// Proof that the processor has a set of instructions.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Leave {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(pulp::x86::V4, super::vnni::Vnni),
}

impl Leave {
    /// None if the processor does not have them.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn to_use(set: Instructions) -> Option<Self> {
        use pulp::x86::{V3, V4};
        match set {
            Instructions::Portable => Some(Leave::Portable),
            Instructions::Avx2 => V3::try_new().map(Leave::Avx2),
            Instructions::Avx512 => V4::try_new().map(Leave::Avx512),
            Instructions::Avx512Vnni => {
                Some(Leave::Avx512Vnni(V4::try_new()?, super::vnni::Vnni::try_new()?))
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn to_use(set: Instructions) -> Option<Self> {
        (set == Instructions::Portable).then_some(Leave::Portable)
    }

    /// For the set in use. A choice that cannot be is an error where work begins
    /// ([`Instructions::in_use`]); arithmetic itself cannot fail.
    #[inline]
    pub(crate) fn chosen() -> Self {
        match choice() {
            Choice::Good(_, leave) => *leave,
            Choice::Bad(_) => Leave::Portable,
        }
    }
}

enum Choice {
    Good(Instructions, Leave),
    Bad(String),
}

#[inline]
fn choice() -> &'static Choice {
    static CHOICE: OnceLock<Choice> = OnceLock::new();
    CHOICE.get_or_init(|| match std::env::var_os(VARIABLE) {
        None => best(),
        Some(asked) => {
            let asked = asked.to_string_lossy().into_owned();
            let set = asked.parse().ok();
            match set.and_then(|set| Some((set, Leave::to_use(set)?))) {
                Some((set, leave)) => Choice::Good(set, leave),
                None => Choice::Bad(asked),
            }
        }
    })
}

fn best() -> Choice {
    let sets = Instructions::ALL.into_iter().rev();
    let found = sets.filter_map(|set| Some((set, Leave::to_use(set)?))).next();
    let (set, leave) = found.unwrap_or((Instructions::Portable, Leave::Portable));
    Choice::Good(set, leave)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_code_is_always_there_and_the_best_comes_last() {
        let available = Instructions::available();
        assert_eq!(available[0], Instructions::Portable);
        assert!(available.is_sorted());
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for set in Instructions::ALL {
            assert_eq!(set.to_string().parse::<Instructions>().unwrap(), set);
        }
        assert!("sse9".parse::<Instructions>().is_err());
    }
}
