//! `offspan methods`: the catalogue.

use std::fmt::Write;
use std::process::ExitCode;

use offspan::{CATALOGUE, PRESETS};

use crate::Outcome;
use crate::args::MethodsArgs;
use crate::output_guard::Guard;

pub(crate) fn run(args: &MethodsArgs) -> Outcome {
    args.json.target().check(&Guard::default())?;
    args.json.target().tell(|| &*CATALOGUE, in_words)?;
    Ok(ExitCode::SUCCESS)
}

fn in_words() -> String {
    let mut text = String::new();
    for method in CATALOGUE.iter() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}\n  {}", method.name, method.summary);
        let _ = writeln!(text, "  needs    {}", method.needs);
        for (index, parameter) in method.parameters.iter().enumerate() {
            let label = if index == 0 { "takes" } else { "" };
            let _ = writeln!(text, "  {label:<8} {:<25} [{}]", parameter.flag, parameter.default);
        }
        let _ = writeln!(text, "  source   {}", method.source);
        let _ = writeln!(text, "  checked  {}", method.parity);
        let export = method
            .not_exportable
            .map_or_else(|| "ONNX, PyTorch".to_owned(), |reason| format!("not possible: {reason}"));
        let _ = writeln!(text, "  export   {export}\n");
    }
    text += "Every kernel PCA method also takes --precision f32|f64 and --weights full|f16|bf16.\n";
    text += "\n--preset NETWORK takes the settings of the paper's authors:\n";
    for preset in PRESETS {
        let methods: Vec<&str> = preset.settings.iter().map(|setting| setting.method).collect();
        let _ = writeln!(text, "  {:<25} {}: {}", preset.name, preset.network, methods.join(", "));
    }
    text
}
