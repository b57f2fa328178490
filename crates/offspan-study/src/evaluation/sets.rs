//! The parts of a pack that an evaluation needs.

use offspan::io::{Dataset, Head, Pack, SetGroup};
use offspan::{Observer, with_pseudo_labels};

use crate::{Result, StudyError};

/// The parts of a pack that an evaluation needs.
#[derive(Clone, Copy)]
pub struct Sets<'a> {
    /// Rows to fit on.
    pub train: &'a Dataset<'a>,
    /// In-distribution rows to judge with.
    pub test: &'a Dataset<'a>,
    /// In-distribution rows of another appearance that count as in-distribution, too.
    pub shifted: &'a [Dataset<'a>],
    /// Out-of-distribution sets.
    pub ood: &'a [Dataset<'a>],
    /// Groups of these sets, whose means are figures of their own.
    pub groups: &'a [SetGroup],
    /// The network's last layer.
    pub head: Option<&'a Head>,
}

impl<'a> Sets<'a> {
    /// Without groups and shifted rows.
    #[must_use]
    pub fn new(
        train: &'a Dataset<'a>,
        test: &'a Dataset<'a>,
        ood: &'a [Dataset<'a>],
        head: Option<&'a Head>,
    ) -> Self {
        Sets { train, test, shifted: &[], ood, groups: &[], head }
    }

    /// The parts of this pack. Shifted rows, if it has any, are left out.
    ///
    /// # Errors
    /// If it has no test rows or no out-of-distribution set.
    pub fn of(pack: &'a Pack) -> Result<Self> {
        let missing = |what: &str| {
            StudyError::Setup(format!(
                "pack {} has no {what}: an evaluation compares in-distribution rows in `test` with each set \
                 in `ood/`",
                pack.name
            ))
        };
        if pack.ood.is_empty() {
            return Err(missing("ood/NAME.safetensors"));
        }
        let test = pack.test.as_ref().ok_or_else(|| missing("test.safetensors"))?;
        let sets = Sets::new(&pack.train, test, &pack.ood, pack.head.as_ref());
        Ok(Sets { groups: &pack.groups, ..sets })
    }

    /// The same with the pack's shifted rows, which then count as in-distribution (full spectrum).
    ///
    /// # Errors
    /// As [`Sets::of`], or if the pack has no shifted rows.
    pub fn full_spectrum(pack: &'a Pack) -> Result<Self> {
        let sets = Self::of(pack)?;
        if pack.shifted.is_empty() {
            return Err(StudyError::Setup(format!(
                "pack {} has no shifted rows: expected sets in `shifted/`, or sets of `ood/` that pack.toml \
                 names as `shifted`",
                pack.name
            )));
        }
        Ok(Sets { shifted: &pack.shifted, ..sets })
    }

    /// Rows that count as in-distribution.
    pub fn ind(&self) -> impl Iterator<Item = &'a Dataset<'a>> {
        std::iter::once(self.test).chain(self.shifted)
    }

    /// Rows to score.
    #[must_use]
    pub fn scored_rows(&self) -> usize {
        self.ind().chain(self.ood).map(Dataset::rows).sum()
    }

    /// The groups by the numbers of their sets.
    pub(super) fn group_members(&self) -> Vec<(String, Vec<usize>)> {
        let number = |name: &String| self.ood.iter().position(|set| set.name() == name);
        let members = |group: &SetGroup| group.sets.iter().filter_map(number).collect::<Vec<_>>();
        let groups = self.groups.iter().map(|group| (group.name.clone(), members(group)));
        groups.filter(|(_, members)| !members.is_empty()).collect()
    }

    /// Whether the class of each in-distribution row is predicted rightly, where that can be known.
    pub(super) fn right_predictions(&self) -> offspan::Result<Option<Vec<bool>>> {
        let mut right = Vec::new();
        for set in self.ind() {
            match offspan::right_predictions(set, self.head)? {
                Some(more) => right.extend(more),
                None => return Ok(None),
            }
        }
        Ok(Some(right))
    }
}

/// A pack whose training rows have clusters in place of classes, if so many are asked for.
///
/// # Errors
/// If the rows have labels, are too few, or cannot be read, or the observer asks to stop.
pub fn pseudo_labelled(
    pack: Pack,
    clusters: Option<usize>,
    seed: u64,
    observer: &dyn Observer,
) -> Result<Pack> {
    match clusters {
        Some(clusters) => {
            Ok(pack.with_train(|train| with_pseudo_labels(train, clusters, seed, observer))?)
        }
        None => Ok(pack),
    }
}
