//! Plots, pictures of feature space and self-contained HTML reports.

pub mod embed;
pub mod page;
pub mod plot;
pub mod table;
