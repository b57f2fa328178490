//! One line of the paper's tables.

use std::collections::BTreeMap;

use offspan::Preset;
use serde_json::{Value, json};

use super::{FIGURES, Figure, network_in_words, network_of};

/// A method's figures on one network.
#[derive(Debug, Clone)]
pub struct PaperRow {
    /// The average, which every line has.
    pub average: Figure,
    /// By OoD set, where they are printed.
    pub sets: BTreeMap<&'static str, Figure>,
}

/// The line of this table, network, method and variant.
#[must_use]
pub fn paper_row(table: &str, network: &str, method: &str, variant: &str) -> Option<PaperRow> {
    let wanted = (table, network, method, variant);
    let line =
        |figure: &&Figure| (figure.table, figure.network, figure.method, figure.variant) == wanted;
    let (average, sets): (Vec<Figure>, Vec<Figure>) =
        FIGURES.iter().filter(line).partition(|figure| figure.set == "average");
    let sets = sets.into_iter().map(|figure| (figure.set, figure)).collect();
    average.first().map(|&average| PaperRow { average, sets })
}

impl PaperRow {
    /// The line of a method on a network, in whichever table compares it with others. Our `pca` is PCA behind the cosine
    /// map, which the paper lists among the kernels; its ensemble has a longer name here.
    pub(crate) fn compared(network: &str, method: &str) -> Option<Self> {
        let method = if method == "kpca-ensemble" { "ensemble" } else { method };
        let among = |table| paper_row(table, network, method, "");
        let kernel =
            || (method == "pca").then(|| paper_row("kernels", network, "cosine", "")).flatten();
        among("comparison").or_else(|| among("rectification")).or_else(kernel)
    }

    /// The line that a preset's settings for a method reproduce.
    #[must_use]
    pub fn of_preset(preset: &Preset, method: &str) -> Option<Self> {
        let has_settings = preset.settings.iter().any(|setting| setting.method == method);
        has_settings.then(|| Self::compared(network_of(preset), method)).flatten()
    }

    /// The network and its data in words.
    #[must_use]
    pub fn data(&self) -> &'static str {
        network_in_words(self.average.network)
    }

    /// For machines: fractions, as in every document.
    #[must_use]
    pub fn document(&self) -> Value {
        let fraction = |text: &str| {
            // Percent with two digits as a fraction with four, without the rounding of a division.
            let percent: f64 = text.parse().unwrap_or(f64::NAN);
            (percent * 100.0).round() / 1e4
        };
        let numbers = |figure: &Figure| json!({ "fpr95": fraction(figure.fpr95), "auroc": fraction(figure.auroc) });
        let sets: BTreeMap<&str, Value> =
            self.sets.iter().map(|(&set, figure)| (set, numbers(figure))).collect();
        json!({
            "method": self.average.method,
            "table": self.average.table,
            "data": self.data(),
            "sets": sets,
            "average": numbers(&self.average),
        })
    }
}

#[cfg(test)]
mod tests {
    use offspan::PRESETS;

    use super::*;

    #[test]
    fn presets_reproduce_rows_that_the_paper_has() {
        let mut rows = Vec::new();
        for preset in PRESETS {
            for setting in preset.settings {
                if let Some(row) = PaperRow::of_preset(preset, setting.method) {
                    rows.push(format!("{} {} {}", preset.name, setting.method, row.average.pair()));
                }
            }
        }
        assert!(rows.contains(&"imagenet-resnet50 kpca-nys 38.15 / 91.02".to_owned()), "{rows:?}");
        assert!(rows.contains(&"imagenet-resnet50 kpca-rff 48.60 / 87.53".to_owned()), "{rows:?}");
        // Every setting has its row but PCA, which the paper shows for one network only.
        let settings: usize = PRESETS.iter().map(|preset| preset.settings.len()).sum();
        assert_eq!(rows.len(), settings - 3, "{rows:?}");
        let energy = PaperRow::of_preset(&PRESETS[0], "energy");
        assert!(energy.is_none(), "a preset says nothing of it");
    }

    #[test]
    fn documents_have_fractions() {
        let row = paper_row("comparison", "resnet50", "msp", "").unwrap();
        let document = row.document();
        assert_eq!(document["average"]["fpr95"], 0.6695);
        assert_eq!(document["sets"]["textures"]["auroc"], 0.7961);
        assert_eq!(document["data"], "ResNet50 on ImageNet-1K");
    }
}
