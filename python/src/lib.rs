//! The native module of offspan's Python package, `offspan._internal`.
//!
//! Thin on purpose: arrays become views, one call goes to the library, results become arrays. What
//! is pleasant to use is written in Python, beside.

mod arrays;
mod calibrate;
mod detector;
mod errors;
mod evaluate;
mod feature_map;
mod files;
mod gate;
mod graph;
mod method;
mod metrics;
mod monitor;
mod own;
mod pack;
mod partial;
mod plan;
mod tables;

use pyo3::prelude::*;

/// Native part of offspan.
#[pymodule]
mod _internal {
    use offspan::Promise;

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use super::calibrate::{adjusted, benjamini_hochberg, rows_needed};
    #[pymodule_export]
    use super::detector::Detector;
    #[pymodule_export]
    use super::evaluate::{evaluate_pack, make_study, rank_documents, repeat_document};
    #[pymodule_export]
    use super::feature_map::{FeatureMap, uniform_rows};
    #[pymodule_export]
    use super::files::write_bytes;
    #[pymodule_export]
    use super::gate::{set_threads, threads};
    #[pymodule_export]
    use super::method::{Method, catalogue};
    #[pymodule_export]
    use super::metrics::evaluate;
    #[pymodule_export]
    use super::monitor::Monitor;
    #[pymodule_export]
    use super::pack::{convert_pack, cosine_head, open_pack, pseudo_labels, read_split};
    #[pymodule_export]
    use super::partial::PartialFit;
    #[pymodule_export]
    use super::plan::{FitPlan, merge_parts, rows_of_part};
    #[pymodule_export]
    use super::tables::{choose_columns, choose_labels, choose_logits, is_part_folder, part_files};

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// The promise of a threshold where none is asked for.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let Promise { keep, confidence } = Promise::default();
        module.add("KEEP", keep)?;
        module.add("CONFIDENCE", confidence)
    }
}
