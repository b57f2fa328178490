//! The kinds of evidence that `auto` joins.

use std::fmt;

/// One kind of evidence. Its value is larger for rows that are more in-distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Term {
    /// Minus the residual of kernel PCA: how far the row's direction lies off the span of all.
    Span,
    /// The energy of the clipped row: how sure the network is.
    Energy,
    /// Distance to the nearest class, less that to all classes together.
    Class(Rows),
    /// Minus the length of what lies outside the directions in which classes differ.
    OffClasses(Rows),
    /// Minus the distance to the nearest plane, with the directions inside classes counting alike.
    WhitePlane(Rows),
    /// Minus the distance to the nearest plane.
    Plane(Rows),
}

/// The rows that a term looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rows {
    AsTheyAre,
    Unit,
}

impl Term {
    /// The terms of a space, in the order of its columns.
    pub(super) fn of_space(rows: Rows) -> [Term; super::space::TERMS] {
        [Term::Class(rows), Term::OffClasses(rows), Term::WhitePlane(rows), Term::Plane(rows)]
    }

    pub(super) const ALL: [Term; 10] = [
        Term::Span,
        Term::Energy,
        Term::Class(Rows::AsTheyAre),
        Term::OffClasses(Rows::AsTheyAre),
        Term::WhitePlane(Rows::AsTheyAre),
        Term::Plane(Rows::AsTheyAre),
        Term::Class(Rows::Unit),
        Term::OffClasses(Rows::Unit),
        Term::WhitePlane(Rows::Unit),
        Term::Plane(Rows::Unit),
    ];
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Term::Span => "span",
            Term::Energy => "energy",
            Term::Class(Rows::AsTheyAre) => "class",
            Term::OffClasses(Rows::AsTheyAre) => "off the classes",
            Term::WhitePlane(Rows::AsTheyAre) => "white plane",
            Term::Plane(Rows::AsTheyAre) => "plane",
            Term::Class(Rows::Unit) => "class of unit rows",
            Term::OffClasses(Rows::Unit) => "off the classes of unit rows",
            Term::WhitePlane(Rows::Unit) => "white plane of unit rows",
            Term::Plane(Rows::Unit) => "plane of unit rows",
        })
    }
}
