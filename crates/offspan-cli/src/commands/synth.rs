//! `offspan synth`: a feature file of any size.

use std::process::ExitCode;

use offspan::io::{Content, create_atomically};
use offspan::{Observer, SyntheticFeatures};

use crate::Outcome;
use crate::args::SynthArgs;
use crate::output::Failure;
use crate::output_guard::Guard;
use crate::progress::Progress;

pub(crate) fn run(args: &SynthArgs) -> Outcome {
    if args.width == 0 || args.rows == 0 {
        return Err(Failure::Usage("--rows and --width must be at least 1".to_owned()));
    }
    Guard::new(args.force).new_file(&args.output, Content::Array)?;
    let progress = Progress::default();
    progress.begin("synthetic features", args.rows);
    let mut features = SyntheticFeatures::new(args.width, args.classes, args.seed);
    let written = create_atomically(&args.output, |file| {
        features.write_npy(file, args.element, args.rows, |row| {
            if row % 4096 == 4095 {
                progress.advance(4096);
                if progress.interrupted() {
                    return Err(std::io::ErrorKind::Interrupted.into());
                }
            }
            Ok(())
        })
    });
    if progress.interrupted() {
        return Err(offspan::Error::Interrupted { hint: String::new() }.into());
    }
    written?;
    Ok(ExitCode::SUCCESS)
}
