//! `offspan fit --dry-run`: what a fit would take.

use std::process::ExitCode;

use offspan::FitEstimate;
use serde_json::json;

use crate::Outcome;
use crate::args::FitArgs;
use crate::output::size;

/// Tells the estimate; exit code 1 if the memory is more than there is.
pub(super) fn tell(args: &FitArgs, method: &str, estimate: &FitEstimate) -> Outcome {
    let document = || {
        let limit = estimate
            .limit
            .map(|limit| json!({ "available_bytes": limit.available, "set_by": limit.set_by }));
        json!({
            "schema": "offspan.fit-dry-run/1",
            "method": method,
            "rows": estimate.rows,
            "width": estimate.width,
            "memory_bytes": estimate.memory,
            "memory_limit": limit,
            "fits": estimate.fits(),
            "passes": measured(estimate, estimate.passes),
            "seconds": measured(estimate, estimate.seconds),
            "measured_rows": estimate.measured_rows,
        })
    };
    args.json.target().tell(document, || in_words(method, estimate))?;
    Ok(ExitCode::from(u8::from(!estimate.fits())))
}

/// What was found by small fits, if there were any.
fn measured(estimate: &FitEstimate, value: f64) -> Option<f64> {
    estimate.fits().then_some(value)
}

fn in_words(method: &str, estimate: &FitEstimate) -> String {
    let mut text = format!(
        "{method} on {} × {} features\nmemory: about {}",
        estimate.rows,
        estimate.width,
        size(estimate.memory)
    );
    text += &match estimate.limit {
        None => ", and the system does not tell what there is\n".to_owned(),
        Some(limit) => format!("; {} are left by {}\n", size(limit.available), limit.set_by),
    };
    if !estimate.fits() {
        return text + "that is not enough: the fit would be refused\n";
    }
    text += &format!(
        "passes over the rows: {:.0}\ntime: about {:.1} s, from fits to {} of the rows\n",
        estimate.passes, estimate.seconds, estimate.measured_rows
    );
    text + "nothing was written\n"
}
