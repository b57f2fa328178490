//! Names of the values of an enum, and text to values and back.

/// Gives an enum without data `NAMES`, `name`, `Display` and `FromStr`.
macro_rules! names {
    ($type:ident { $($variant:ident $name:literal,)* }) => {
        impl $type {
            /// Every name.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The name as users write it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> std::result::Result<Self, String> {
                match text {
                    $($name => Ok($type::$variant),)*
                    _ => Err($crate::error::names::no_such_name(Self::NAMES, text)),
                }
            }
        }
    };
}
pub(crate) use names;

/// What was expected and what was got.
pub(crate) fn no_such_name(names: &[&str], text: &str) -> String {
    format!("expected {}, got `{text}`", names.join(" or "))
}
