//! Options that are one of a few names.

use std::str::FromStr;

use crate::span::map::Draw;

/// A choice among names.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
        pub enum $name {
            $($(#[$about])* $variant,)*
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $($name::$variant => $text,)*
                })
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok($name::$variant),)*
                    _ => Err(format!("expected {}, got `{text}`", [$($text),*].join(" or "))),
                }
            }
        }
    };
}

choice!(
    /// Kernels by name.
    KernelName {
        /// x·y
        Linear "linear",
        /// exp(−γ‖x − y‖²)
        Gaussian "gaussian",
        /// exp(−γ‖x − y‖₁)
        Laplacian "laplacian",
        /// (x·y + c)ᵈ
        Polynomial "polynomial",
    }
);
choice!(
    /// Choices of landmarks by name.
    SamplingName {
        /// The rows of lowest energy
        LowEnergy "low-energy",
        /// The rows of highest energy
        HighEnergy "high-energy",
        /// Any rows
        Uniform "uniform",
    }
);
choice!(
    /// Draws of random frequencies by name.
    DrawName {
        /// Independent frequencies
        Iid "iid",
        /// Orthogonal blocks of frequencies
        Orthogonal "orthogonal",
        /// Products of sign flips and Walsh–Hadamard transforms
        Structured "structured",
    }
);
choice!(
    /// Residuals by name.
    ResidualName {
        /// Inside the span of the feature map
        Plain "plain",
        /// Also what the map cannot represent
        Complete "complete",
    }
);
choice!(
    /// Treatments of tiny eigenvalues by name.
    RankRuleName {
        /// They are left out
        Drop "drop",
        /// They are raised to the floor
        Clamp "clamp",
    }
);
choice!(
    /// Combinations with the energy by name.
    FuseName {
        /// The paper's form for the map: product for random features, ratio otherwise
        Energy "energy",
        /// (1 − e)·E
        EnergyProduct "energy-product",
        /// E / e
        EnergyRatio "energy-ratio",
    }
);

/// Two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair(pub f64, pub f64);

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair = text
            .split_once(',')
            .and_then(|(a, b)| Some(Pair(a.trim().parse().ok()?, b.trim().parse().ok()?)));
        pair.ok_or_else(|| format!("expected two numbers such as 20,90, got `{text}`"))
    }
}

impl From<DrawName> for Draw {
    fn from(name: DrawName) -> Self {
        match name {
            DrawName::Iid => Draw::Iid,
            DrawName::Orthogonal => Draw::Orthogonal,
            DrawName::Structured => Draw::Structured,
        }
    }
}
