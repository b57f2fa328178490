//! The options of the methods as flags, from the library's list of them.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use offspan::io::read_index_list;
use offspan::{FourierParts, MethodOptions, OPTIONS, PRESETS, Parameter};

const PRESET: &str = "preset";
const LANDMARK_ROWS: &str = "landmark-rows";
const FREQUENCIES: &str = "frequencies";

/// Options of the methods, and files that some of them come in.
#[derive(Clone, Default)]
pub(crate) struct MethodArgs {
    options: MethodOptions,
    landmark_rows: Option<PathBuf>,
    frequencies: Option<PathBuf>,
}

impl MethodArgs {
    /// The files that were given.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.landmark_rows, &self.frequencies].into_iter().flatten()
    }

    /// The options, with what the files hold.
    pub(crate) fn read(&self) -> offspan::Result<MethodOptions> {
        let mut options = self.options.clone();
        if let Some(path) = &self.landmark_rows {
            options.set_landmark_rows(read_index_list(path)?);
        }
        if let Some(path) = &self.frequencies {
            options.set_frequencies(FourierParts::open(path)?);
        }
        Ok(options)
    }
}

impl Args for MethodArgs {
    fn augment_args(command: Command) -> Command {
        let preset = Arg::new(PRESET)
            .long(PRESET)
            .value_name("NETWORK")
            .value_parser(PossibleValuesParser::new(PRESETS.iter().map(|preset| preset.name)))
            .hide_possible_values(true)
            .help(
                "Settings of the paper's authors for a network, such as imagenet-resnet50, for pca, \
                 kpca-nys and kpca-rff; explicit flags override the preset",
            );
        command
            .next_help_heading("Method parameters")
            .arg(preset)
            .args(OPTIONS.iter().map(flag))
            .next_help_heading(None::<&str>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flag(option: &'static Parameter) -> Arg {
    let name = option.name();
    let arg =
        Arg::new(name).long(name).help(format!("{} [default: {}]", option.help, option.default));
    let arg = match name {
        "neighbours" => arg.short('k'),
        _ => arg,
    };
    if option.value.is_empty() {
        return arg.action(ArgAction::SetTrue).help(option.help);
    }
    let arg = arg.value_name(option.value).allow_negative_numbers(true);
    if is_file(name) {
        return arg.value_parser(ValueParser::path_buf());
    }
    if !option.choices.is_empty() {
        return arg.value_parser(PossibleValuesParser::new(option.choices));
    }
    arg.value_parser(move |text: &str| match MethodOptions::default().set(name, text) {
        Ok(()) => Ok(text.to_owned()),
        Err(offspan::Error::BadOption { reason, .. }) => Err(reason),
        Err(error) => Err(error.to_string()),
    })
}

/// Whether the option's value comes in a file.
fn is_file(name: &str) -> bool {
    [LANDMARK_ROWS, FREQUENCIES].contains(&name)
}

impl FromArgMatches for MethodArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = MethodArgs {
            landmark_rows: matches.get_one(LANDMARK_ROWS).cloned(),
            frequencies: matches.get_one(FREQUENCIES).cloned(),
            ..MethodArgs::default()
        };
        let names = OPTIONS.iter().filter(|option| !is_file(option.name()));
        for (name, is_switch) in
            names.map(|option| (option.name(), option.value.is_empty())).chain([(PRESET, false)])
        {
            let text = match is_switch {
                true => matches.get_flag(name).then(|| "true".to_owned()),
                false => matches.get_one::<String>(name).cloned(),
            };
            if let Some(text) = text {
                args.options
                    .set(name, &text)
                    .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, error))?;
            }
        }
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
