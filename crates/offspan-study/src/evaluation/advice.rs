//! What to do about missing inputs where rows come from a pack.

use offspan::Error;

/// The same error with advice that serves where rows come from a pack: an evaluation takes no files
/// beside it.
#[must_use]
pub fn in_a_pack(error: Error) -> Error {
    match error {
        Error::MissingInput { who, what, hint } => {
            let hint = match advice(what) {
                Some(advice) => advice.to_owned() + way_around(&hint),
                None => hint,
            };
            Error::MissingInput { who, what, hint }
        }
        other => other,
    }
}

/// How a pack stores this input, if it is one that single files could also give.
fn advice(what: &str) -> Option<&'static str> {
    match what {
        "logits" => Some(
            "store them as `logits` beside `features` in each split of the pack, or as NAME-logits.npy \
             beside NAME.npy; or store the last layer's `weight` and `bias` in its head.safetensors, or \
             as head-weight.npy and head-bias.npy",
        ),
        "labels" => Some(
            "store each row's class as whole numbers `labels` beside `features` in the pack's \
             train.safetensors, or as train-labels.npy beside train.npy",
        ),
        "the network's last layer" => Some(
            "store its `weight` and `bias` in head.safetensors of the pack, or as head-weight.npy and \
             head-bias.npy; stored logits do not serve here",
        ),
        _ => None,
    }
}

/// What the advice says of doing without, which holds for a pack as well.
fn way_around(hint: &str) -> &str {
    hint.find("; to do without").map_or("", |at| &hint[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_what_a_pack_stores_and_keeps_the_rest() {
        let error = |what, hint: &str| {
            let hint = hint.to_owned();
            in_a_pack(Error::MissingInput { who: "x on train".to_owned(), what, hint }).to_string()
        };
        let text = error("logits", "give --logits FILE; to do without, use --sampling uniform");
        assert!(
            !text.contains("--logits") && text.ends_with("; to do without, use --sampling uniform")
        );
        let labels = error("labels", "give --labels FILE");
        assert!(!labels.contains("--labels") && labels.contains("train-labels.npy"), "{labels}");
        assert!(error("maps", "store them as `maps`").contains("store them as `maps`"));
    }
}
