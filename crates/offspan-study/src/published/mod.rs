//! The figures in the kernel PCA paper's own tables. They are the authors', measured on their networks and data, and no
//! figure of another pack can be compared with them but by the order of methods.

mod beside;
mod paper_row;

pub use beside::{averages_beside, preset_rows};
pub(crate) use beside::{beside_blocks, rows_beside};
pub use paper_row::{PaperRow, paper_row};

use std::sync::LazyLock;

use offspan::{PRESETS, Preset};
use serde::Serialize;

/// Where the figures come from.
pub const PAPER: &str = "Kernel PCA for Out-of-Distribution Detection: Non-Linear Kernel Selection and \
                         Approximation (Fang et al., TPAMI 2026, arXiv 2505.15284)";

/// How every table with these figures is marked.
pub(crate) const THEIRS: &str = "theirs, on their data";

/// One cell of the paper's result tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Figure {
    /// `comparison`, `rectification`, `kernels`, `sampling`, `layers` or `learned`.
    pub table: &'static str,
    /// The network, such as `resnet50`.
    pub network: &'static str,
    /// The in-distribution data.
    pub ind: &'static str,
    /// How the network was trained.
    pub training: &'static str,
    /// The method by our name where there is one; in `kernels` the kernel.
    pub method: &'static str,
    /// The approximation, sampling, layer or size of the map.
    pub variant: &'static str,
    /// The OoD set, or `average`.
    pub set: &'static str,
    /// FPR95 in percent, as printed.
    pub fpr95: &'static str,
    /// AUROC in percent, as printed.
    pub auroc: &'static str,
}

impl Figure {
    /// Both numbers as tables show them.
    #[must_use]
    pub fn pair(&self) -> String {
        format!("{} / {}", self.fpr95, self.auroc)
    }
}

/// Every figure, in the order of the paper's tables.
pub static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let lines = include_str!("figures.csv").lines().skip(1);
    lines
        .map(|line| figure(line).unwrap_or_else(|| unreachable!("`{line}` is part of the program")))
        .collect()
});

fn figure(line: &'static str) -> Option<Figure> {
    let cells: Vec<&str> = line.split(',').collect();
    let [table, network, ind, training, method, variant, set, fpr95, auroc] = cells[..] else {
        return None;
    };
    Some(Figure { table, network, ind, training, method, variant, set, fpr95, auroc })
}

/// The paper's networks with the presets that have the authors' settings for them.
const NETWORKS: [(&str, &str); 6] = [
    ("resnet50", "imagenet-resnet50"),
    ("resnet50-supcon", "imagenet-resnet50-supcon"),
    ("vit-b16", "imagenet-vit-b16"),
    ("mobilenet-v2", "imagenet-mobilenetv2"),
    ("resnet18", "cifar10-resnet18"),
    ("resnet18-supcon", "cifar10-resnet18-supcon"),
];

/// The network that a preset is for.
pub(crate) fn network_of(preset: &Preset) -> &'static str {
    let of = |(_, name): &&(&str, &str)| *name == preset.name;
    NETWORKS
        .iter()
        .find(of)
        .map_or_else(|| unreachable!("every preset is of the paper"), |(network, _)| network)
}

/// The network and its data in words.
pub(crate) fn network_in_words(network: &str) -> &'static str {
    let preset = NETWORKS.iter().find(|(known, _)| *known == network).map(|(_, preset)| *preset);
    let preset = PRESETS.iter().find(|known| Some(known.name) == preset);
    preset.map_or_else(
        || unreachable!("every network of the paper has a preset"),
        |preset| preset.network,
    )
}

/// What a reader of the figures must know: they are shown as printed.
pub(crate) const ODDITIES: [&str; 3] = [
    "kernels, gaussian by Nyström: the average FPR95 as printed, 38.15, is also that of the cosine-gaussian kernel, and \
     does not go with the AUROC beside it, 35.44.",
    "rectification on ResNet50, low-dim+react: 0.00 / 100.00 on places.",
    "rectification, gradorth on ResNet50 and mahalanobis on MobileNetV2: the average is not the mean of the four sets.",
];

/// Time and memory of a score as the paper gives them: ResNet50 on ImageNet-1K, one RTX 3090, per sample.
pub(crate) const COSTS: [(&str, &str, &str); 3] = [
    ("nearest neighbours by Faiss, 1,281,167 rows", "15.59 ms", "20 GiB"),
    ("kpca-rff, M = 4,096", "0.464 ms", "93 MiB"),
    ("kpca-nys, M = 2,048", "0.212 ms", "83 MiB"),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use offspan::MethodSpec;

    use super::*;

    #[test]
    fn every_figure_of_the_paper_is_there_once() {
        assert_eq!(FIGURES.len(), 458);
        let keys: HashSet<_> = FIGURES
            .iter()
            .map(|figure| {
                let Figure { table, network, method, variant, set, .. } = *figure;
                (table, network, method, variant, set)
            })
            .collect();
        assert_eq!(keys.len(), 458);
        for figure in FIGURES.iter() {
            let percent =
                |text: &str| text.parse().is_ok_and(|value| (0.0..=100.0).contains(&value));
            assert!(percent(figure.fpr95) && percent(figure.auroc), "{figure:?}");
            assert!(!network_in_words(figure.network).is_empty());
        }
    }

    #[test]
    fn averages_are_those_of_the_sets_but_for_the_rows_that_are_named() {
        let mut odd = Vec::new();
        for average in FIGURES.iter().filter(|figure| figure.set == "average") {
            let key =
                |figure: &Figure| (figure.table, figure.network, figure.method, figure.variant);
            let same = |figure: &&Figure| key(figure) == key(average) && figure.set != "average";
            let sets: Vec<&Figure> = FIGURES.iter().filter(same).collect();
            let number = |text: &str| text.parse::<f64>().unwrap();
            let off = |of: fn(&Figure) -> &'static str| {
                let mean = sets.iter().map(|f| number(of(f))).sum::<f64>() / sets.len() as f64;
                (mean - number(of(average))).abs()
            };
            // Printed figures are rounded, and so are those that they were averaged from.
            if !sets.is_empty() && off(|f| f.fpr95).max(off(|f| f.auroc)) > 0.05 {
                odd.push((average.network, average.method));
            }
        }
        assert_eq!(odd, [("resnet50", "gradorth"), ("mobilenet-v2", "mahalanobis")]);
    }

    #[test]
    fn methods_of_the_comparisons_have_our_names_or_are_known_not_to() {
        // Ours is called kpca-ensemble.
        let without = ["ensemble"];
        for figure in FIGURES.iter().filter(|f| ["comparison", "rectification"].contains(&f.table))
        {
            let known =
                MethodSpec::named(figure.method).is_some() || without.contains(&figure.method);
            assert!(known, "{}", figure.method);
        }
    }
}
