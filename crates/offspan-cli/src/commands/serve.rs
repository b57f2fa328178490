//! `offspan serve`: detectors behind a port.

use std::process::ExitCode;

use crate::Outcome;
use crate::output::Failure;
use crate::serve_args::ServeArgs;

pub(crate) fn run(args: &ServeArgs, threads: Option<usize>) -> Outcome {
    let wrong = |error: offspan_server::ServeError| Failure::Usage(error.to_string());
    if let Some(address) = &args.check {
        let ready = offspan_server::is_ready(address).map_err(wrong)?;
        return Ok(if ready { ExitCode::SUCCESS } else { ExitCode::from(1) });
    }
    let config = args.config(threads).map_err(wrong)?;
    offspan_server::run(config).map_err(wrong)?;
    // A server that was asked to end, and did, did what it should.
    Ok(ExitCode::SUCCESS)
}
