//! The list of steps.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::step::{Step, StepParams};
use crate::Result;
use crate::io::Head;
use crate::methods::Stored;
use crate::methods::method::Entry;
use crate::methods::option::Options;
use crate::training::Training;
use crate::training::statistics::{Needs, Statistics};

macro_rules! steps {
    ($($(#[$doc:meta])* $variant:ident($module:ident::$params:ident),)*) => {
        /// The parameters of each step.
        pub(crate) mod params {
            $(pub use crate::methods::rectify::$module::$params;)*
        }
        use params::*;

        /// A step that changes features or the last layer.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "step", rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum Rectification {
            $($(#[$doc])* $variant($params),)*
        }

        impl Rectification {
            fn params(&self) -> &dyn StepParams {
                match self {
                    $(Rectification::$variant(params) => params,)*
                }
            }

            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Rectification::$variant(_) => $params::entry().name,)*
                }
            }

            /// Every step with its defaults.
            pub(crate) fn list() -> Vec<Entry<Self>> {
                vec![$({
                    let Entry { name, summary, needs, source, parity, default } =
                        $params::entry();
                    let default = Rectification::$variant(default);
                    Entry { name, summary, needs, source, parity, default }
                },)*]
            }

            pub(crate) fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
                match self {
                    $(Rectification::$variant(params) => params.options(options),)*
                }
            }
        }
    };
}

steps!(
    /// min(z, c) (Sun et al. 2021).
    React(react::ReactParams),
    /// Each channel within its mean ± λ standard deviations (Zhu et al. 2022).
    Bats(bats::BatsParams),
    /// Values below α become 0, values above β become β (Xu et al. 2023).
    Vra(vra::VraParams),
    /// The largest entries of a row become (sum of the row)/(their number), the rest 0 (Djurisic et
    /// al. 2023).
    AshB(ash::AshBParams),
    /// All but the largest entries of a row become 0.
    AshP(ash::AshPParams),
    /// ASH-P, then times exp(sum of the row / sum of what was kept).
    AshS(ash::AshSParams),
    /// Times exp(sum of the row / sum of the largest entries); nothing becomes 0 (Xu et al. 2024).
    Scale(ash::ScaleParams),
    /// Only weights that contribute much on average stay (Sun & Li 2022).
    Dice(dice::DiceParams),
    /// Only activations and weights that matter for the predicted class stay (Ahn et al. 2023).
    Line(line::LineParams),
    /// Shaped activations; channels that tell the classes apart stay (Yuan et al. 2024).
    Ddcs(ddcs::DdcsParams),
    /// z/‖z‖^β.
    BetaNorm(beta_norm::BetaNormParams),
    /// Entries times what their size contributes on average (Zhao et al. 2024).
    OptFs(opt_fs::OptFsParams),
    /// Large entries cut softly (Kong & Li 2023).
    BfAct(bf_act::BfActParams),
    /// Logits times the squared share of entries beside the largest (Djurisic et al. 2024).
    Lts(lts::LtsParams),
);

impl Rectification {
    /// A step with its default parameters.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::list().into_iter().find(|entry| entry.name == name).map(|entry| entry.default)
    }

    pub(crate) fn changes_head(&self) -> bool {
        self.params().changes_head()
    }

    pub(crate) fn keeps_features(&self) -> bool {
        self.params().keeps_features()
    }

    /// Whether the step was made for features that are never negative.
    #[must_use]
    pub fn wants_non_negative(&self) -> bool {
        self.params().wants_non_negative()
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.params().check()
    }

    pub(crate) fn needs(&self) -> Needs {
        self.params().needs()
    }

    pub(crate) fn check_inputs(&self, training: &Training<'_>) -> Result<()> {
        self.params().check_inputs(self.name(), training)
    }

    pub(super) fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Arc<dyn Step>> {
        self.params().fit(training, known)
    }

    pub(super) fn read(&self, stored: Stored<'_>, head: Option<&Head>) -> Result<Arc<dyn Step>> {
        self.params().read(stored, head)
    }
}
