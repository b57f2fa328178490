//! The settings with which the paper's authors ran their networks.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Serialize;

use super::option::Given;

/// The settings for one network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// The network and its data.
    pub network: &'static str,
    /// The methods for which settings are public.
    pub settings: &'static [Setting],
}

/// The settings for one method.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Setting {
    /// The method.
    pub method: &'static str,
    /// γ; none for the linear kernel.
    pub gamma: Option<f64>,
    /// M: landmarks or random features; none for the linear kernel.
    pub size: Option<usize>,
    /// Share of the variance that is kept.
    pub explained_variance: f64,
    /// Where activations are cut.
    pub react: Option<f64>,
}

const fn kernel(method: &'static str, gamma: f64, size: usize, ratio: f64) -> Setting {
    Setting { method, gamma: Some(gamma), size: Some(size), explained_variance: ratio, react: None }
}

/// ReAct cuts at 1, as the authors do.
const fn clipped(method: &'static str, gamma: f64, size: usize, ratio: f64) -> Setting {
    Setting { react: Some(1.0), ..kernel(method, gamma, size, ratio) }
}

const fn cosine(ratio: f64) -> Setting {
    Setting { method: "pca", gamma: None, size: None, explained_variance: ratio, react: None }
}

/// Every preset.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "imagenet-resnet50",
        network: "ResNet50 on ImageNet-1K",
        settings: &[
            cosine(0.99),
            kernel("kpca-nys", 0.15, 2048, 0.995),
            kernel("kpca-rff", 3.0, 4096, 0.5),
            clipped("kpca-nys+react", 0.6, 2048, 0.99),
            clipped("kpca-rff+react", 0.5, 4096, 0.8),
        ],
    },
    Preset {
        name: "imagenet-resnet50-supcon",
        network: "ResNet50 on ImageNet-1K, trained with supervised contrast",
        settings: &[
            cosine(0.7),
            kernel("kpca-nys", 0.75, 1536, 0.998),
            kernel("kpca-rff", 1.0, 4096, 0.5),
        ],
    },
    Preset {
        name: "imagenet-vit-b16",
        network: "ViT-B/16 on ImageNet-1K",
        settings: &[kernel("kpca-nys", 0.2, 2048, 0.96), kernel("kpca-rff", 0.1, 2048, 0.9)],
    },
    Preset {
        name: "imagenet-mobilenetv2",
        network: "MobileNetV2 on ImageNet-1K",
        settings: &[
            clipped("kpca-nys+react", 0.2, 2560, 0.996),
            clipped("kpca-rff+react", 1.0, 2560, 0.6),
        ],
    },
    Preset {
        name: "cifar10-resnet18",
        network: "ResNet18 on CIFAR-10",
        settings: &[cosine(0.85), kernel("kpca-rff", 2.0, 2048, 0.8)],
    },
    Preset {
        name: "cifar10-resnet18-supcon",
        network: "ResNet18 on CIFAR-10, trained with supervised contrast",
        settings: &[cosine(0.85), kernel("kpca-rff", 1.0, 2048, 0.7)],
    },
];

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        PRESETS.iter().find(|preset| preset.name == text).copied().ok_or_else(|| {
            let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
            format!("expected one of {}, got `{text}`", names.join(", "))
        })
    }
}

impl Preset {
    /// Whether it has settings for a method.
    pub(super) fn knows(&self, method: &str) -> bool {
        self.settings.iter().any(|setting| setting.method == method)
    }

    /// What was given for a method, and what was not filled in.
    pub(super) fn fill(
        &self,
        method: &str,
        given: &BTreeMap<String, Given>,
    ) -> BTreeMap<String, Given> {
        let mut filled = given.clone();
        let Some(setting) = self.settings.iter().find(|setting| setting.method == method) else {
            return filled;
        };
        let is_given = |name: &str| given.contains_key(name);
        let mut fill = |name: &str, number: Option<f64>| {
            if let Some(number) = number {
                let text = || Given::Text(number.to_string());
                filled.entry(name.to_owned()).or_insert_with(text);
            }
        };
        fill("gamma", setting.gamma);
        let size = setting.size.map(|size| size as f64);
        if method.starts_with("kpca-nys") && !is_given("landmark-rows") {
            fill("landmarks", size);
        }
        if method.starts_with("kpca-rff") && !is_given("frequencies") {
            fill("features", size);
        }
        if !is_given("components") {
            fill("explained-variance", Some(setting.explained_variance));
        }
        fill("react", setting.react);
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MethodOptions;

    fn spec(given: &[(&str, &str)], method: &str) -> String {
        let mut options = MethodOptions::default();
        for (name, text) in given {
            options.set(name, text).unwrap();
        }
        serde_json::json!(options.method(method).unwrap()).to_string()
    }

    #[test]
    fn every_preset_makes_each_of_its_methods() {
        for preset in PRESETS {
            assert_eq!(preset.name.parse(), Ok(*preset));
            for setting in preset.settings {
                let json = spec(&[("preset", preset.name)], setting.method);
                let numbers = setting.gamma.into_iter().chain([setting.explained_variance]);
                for number in numbers {
                    assert!(json.contains(&number.to_string()), "{number} in {json}");
                }
                if let Some(size) = setting.size {
                    assert!(json.contains(&format!(":{size}")), "{size} in {json}");
                }
            }
        }
    }

    #[test]
    fn a_preset_is_what_its_flags_spelt_out_are() {
        let spelt = [("gamma", "0.15"), ("landmarks", "2048"), ("explained-variance", "0.995")];
        assert_eq!(spec(&[("preset", "imagenet-resnet50")], "kpca-nys"), spec(&spelt, "kpca-nys"));
    }

    #[test]
    fn what_is_given_wins() {
        let given = [("preset", "imagenet-resnet50"), ("gamma", "0.5"), ("components", "7")];
        let same = [("gamma", "0.5"), ("components", "7"), ("landmarks", "2048")];
        assert_eq!(spec(&given, "kpca-nys"), spec(&same, "kpca-nys"));
    }

    #[test]
    fn a_preset_without_settings_for_a_method_is_refused() {
        let mut options = MethodOptions::default();
        options.set("preset", "imagenet-vit-b16").unwrap();
        let error = options.method("pca").unwrap_err().to_string();
        assert!(error.starts_with("preset has no meaning for pca"), "{error}");
        let error = options.set("preset", "alexnet").unwrap_err().to_string();
        assert!(error.starts_with("preset: expected one of imagenet-resnet50,"), "{error}");
    }
}
