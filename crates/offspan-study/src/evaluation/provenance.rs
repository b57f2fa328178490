//! What it takes to repeat an evaluation: versions, the processor, and what the rows are.

use std::collections::BTreeMap;

use offspan::Instructions;
use offspan::io::{ColumnChoice, RawLayout, Reading};
use serde::{Deserialize, Serialize};

use super::sets::Sets;
use crate::fingerprint::{fingerprint_of, head_fingerprint};
use crate::{Result, StudyError};

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
    /// How its files were read, where they do not tell it themselves.
    #[serde(default, skip_serializing_if = "ReadAs::is_default")]
    pub read: ReadAs,
    /// Every split by its name: `train`, `test`, `ood/NAME`, `shifted/NAME`.
    pub rows: BTreeMap<String, RowsFingerprint>,
    /// A hash of the last layer, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The seeds that methods with random choices were fitted with.
    pub seeds: Vec<u64>,
}

/// How files are read that do not tell it themselves, in the words of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadAs {
    /// `--raw`: type and width of files without a header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// `--columns`, once for each time that it was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

impl ReadAs {
    /// Whether files tell everything.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == ReadAs::default()
    }

    /// The same for the library.
    ///
    /// # Errors
    /// If a text says nothing.
    pub fn reading(&self) -> Result<Reading> {
        let wrong = |what: &str, reason: String| {
            StudyError::Setup(format!("`{what}` of the document: {reason}"))
        };
        let raw: Option<RawLayout> = self
            .raw
            .as_ref()
            .map(|raw| raw.parse())
            .transpose()
            .map_err(|reason| wrong("read.raw", reason))?;
        let columns = ColumnChoice::parse(&self.columns)
            .map_err(|reason| wrong("read.columns", reason.to_string()))?;
        Ok(Reading::from(raw).columns(columns))
    }
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
            read: ReadAs::default(),
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
