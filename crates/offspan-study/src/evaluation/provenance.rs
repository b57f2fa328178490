//! What it takes to repeat an evaluation: versions, the processor, and what the rows are.

use std::collections::BTreeMap;

use offspan::Instructions;
use serde::{Deserialize, Serialize};

use super::sets::Sets;
use crate::Result;
use crate::fingerprint::{fingerprint_of, head_fingerprint};

/// What made a result, and of what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The version of offspan.
    pub offspan: String,
    /// Vector instructions of the inner loops.
    pub instructions: String,
    /// Operating system and processor.
    pub platform: String,
    /// The pack's folder, as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Every split by its name: `train`, `test`, `ood/NAME`, `shifted/NAME`.
    pub rows: BTreeMap<String, RowsFingerprint>,
    /// A hash of the last layer, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The seeds that methods with random choices were fitted with.
    pub seeds: Vec<u64>,
}

/// What identifies the rows of a split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsFingerprint {
    /// Their number.
    pub rows: usize,
    /// Features of each.
    pub width: usize,
    /// A hash of all features, logits, labels and further tensors: `xxh3-128:` and 32 hex digits.
    pub hash: String,
}

impl Provenance {
    /// Reads all rows once.
    ///
    /// # Errors
    /// If rows cannot be read.
    pub fn of(sets: &Sets<'_>, path: Option<String>, seeds: &[u64]) -> Result<Self> {
        let mut rows = BTreeMap::new();
        let mut add = |name: String, data: &offspan::io::Dataset<'_>| -> Result<()> {
            let hash = fingerprint_of(data)?;
            rows.insert(name, RowsFingerprint { rows: data.rows(), width: data.width(), hash });
            Ok(())
        };
        add("train".to_owned(), sets.train)?;
        add("test".to_owned(), sets.test)?;
        for set in sets.shifted {
            add(format!("shifted/{}", set.name()), set)?;
        }
        for set in sets.ood {
            add(format!("ood/{}", set.name()), set)?;
        }
        Ok(Provenance {
            offspan: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: Instructions::in_use()?.to_string(),
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            path,
            rows,
            head: sets.head.map(head_fingerprint),
            seeds: seeds.to_vec(),
        })
    }

    /// The splits, and the last layer, that are not those of another evaluation.
    #[must_use]
    pub fn other_rows(&self, other: &Provenance) -> Vec<String> {
        let names = self.rows.keys().chain(other.rows.keys());
        let mut differing: Vec<String> =
            names.filter(|name| self.rows.get(*name) != other.rows.get(*name)).cloned().collect();
        differing.sort();
        differing.dedup();
        differing.extend((self.head != other.head).then(|| "head".to_owned()));
        differing
    }
}
