//! `offspan completions` and `offspan man`.

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::Outcome;
use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::output::Failure;

pub(crate) fn completions(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "offspan", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs) -> Outcome {
    match &args.folder {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            std::io::stdout().write_all(&page)?;
        }
        Some(folder) => {
            let failed = |error| Failure::Usage(format!("{}: {error}", folder.display()));
            std::fs::create_dir_all(folder).map_err(failed)?;
            clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
