//! The offspan command line: arguments → one library call → output.

mod allocator;
mod args;
mod commands;
mod eval_args;
mod interrupt;
mod method_args;
#[cfg(feature = "onnx")]
mod model_args;
mod output;
mod output_guard;
mod progress;
#[cfg(feature = "serve")]
mod serve_args;
mod state_lock;

#[cfg(feature = "serve")]
use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::output::Failure;

fn main() -> ExitCode {
    offspan::name_parameters_as_flags();
    let cli = Cli::parse();
    interrupt::install();
    if let Some(threads) = cli.threads
        && let Err(error) =
            rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build_global()
    {
        output::complain(&format!("cannot start {threads} threads: {error}"));
        return ExitCode::from(2);
    }
    let result = match cli.command {
        Command::Demo(args) => commands::demo::run(&args),
        #[cfg(feature = "onnx")]
        Command::Extract(args) => commands::extract::run(&args),
        Command::Fit(args) => commands::fit::run(&args),
        Command::Score(args) => commands::score::run(&args),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        #[cfg(feature = "onnx")]
        Command::Export(args) => commands::export::run(&args),
        Command::Monitor(args) => commands::monitor::run(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => commands::serve::run(&args, cli.threads.map(NonZeroUsize::get)),
        Command::Eval(args) => commands::eval::run(&args),
        Command::Rank(args) => commands::rank::run(&args),
        Command::Tune(args) => commands::tune::run(&args),
        Command::Study(command) => commands::study::run(&command),
        Command::Convert(args) => commands::convert::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Methods(args) => commands::methods::run(&args),
        Command::Synth(args) => commands::synth::run(&args),
        Command::Completions(args) => commands::shell::completions(&args),
        Command::Man(args) => commands::shell::man(&args),
    };
    match result {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// What a command returns.
type Outcome = Result<ExitCode, Failure>;
