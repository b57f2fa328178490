//! The columns of a table, as far as numbers are concerned.

use std::fmt::{Display, Formatter};

#[cfg(feature = "files")]
use arrow_schema::DataType;

/// A type of floats, the narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// IEEE half precision.
    F16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Element {
    pub(crate) const NAMES: &'static str =
        "float16, float32 or float64, or lists of them of one length";

    /// Bytes of one number.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Element::F16 => 2,
            Element::F32 => 4,
            Element::F64 => 8,
        }
    }

    #[cfg(feature = "files")]
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Float16 => Some(Element::F16),
            DataType::Float32 => Some(Element::F32),
            DataType::Float64 => Some(Element::F64),
            _ => None,
        }
    }
}

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A list of floats in every row.
    List(Element),
    /// A float in every row.
    Float(Element),
    /// A whole number in every row.
    Integer,
    /// Anything else.
    Other,
}

/// A column.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// Its type as the format calls it.
    pub shown: String,
}

#[cfg(feature = "files")]
impl Field {
    pub(crate) fn of(field: &arrow_schema::Field) -> Self {
        let data_type = field.data_type();
        let kind = match data_type {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                Element::of(item.data_type()).map_or(Kind::Other, Kind::List)
            }
            _ if data_type.is_integer() => Kind::Integer,
            _ => Element::of(data_type).map_or(Kind::Other, Kind::Float),
        };
        Field { name: field.name().clone(), kind, shown: shown(data_type) }
    }
}

/// A type in few words.
#[cfg(feature = "files")]
fn shown(data_type: &DataType) -> String {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => {
            format!("list of {}", shown(item.data_type()))
        }
        DataType::FixedSizeList(item, size) => {
            format!("list of {size} {}", shown(item.data_type()))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}

impl Display for Field {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` ({})", self.name, self.shown)
    }
}
