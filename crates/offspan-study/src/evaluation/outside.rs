//! Scores that another program gave, in the same tables: one file for each set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use offspan::io::{Dataset, Head, read_scores};
use serde_json::{Value, json};
use xxhash_rust::xxh3::Xxh3;

use super::{OwnDetector, OwnMethod, Sets, Source};
use crate::{Result, StudyError};

/// What the names of score files end in.
const ENDINGS: [&str; 3] = ["npy", "npz", "csv"];

/// A method whose scores lie in a folder: `test.npy`, and `NAME.npy` for each out-of-distribution set.
#[derive(Debug, Clone)]
pub struct OutsideScores {
    name: String,
    source: Source,
    scores: BTreeMap<String, Vec<f64>>,
    unused: Vec<PathBuf>,
}

impl OutsideScores {
    /// Reads the scores of every set.
    ///
    /// # Errors
    /// If a set has no file, or a file not one score per row.
    pub fn open(name: &str, folder: impl AsRef<Path>, sets: &Sets<'_>) -> Result<Self> {
        let folder = folder.as_ref();
        let mut left: BTreeSet<PathBuf> = score_files(folder)?.into_iter().collect();
        let mut scores = BTreeMap::new();
        for set in sets.ind().chain(sets.ood) {
            let file = find(folder, set.name()).ok_or_else(|| {
                let expected = set.name();
                StudyError::Setup(format!(
                    "{name}: {} has no scores of {expected}: expected {expected}.npy, .npz or .csv",
                    folder.display()
                ))
            })?;
            let found = read_scores(&file)?.ok_or_else(|| {
                StudyError::Setup(format!(
                    "{}: expected one score per row (one-dimensional .npy, .npz with `conf` or `scores`, or .csv with a \
                     column `score`), got another file",
                    file.display()
                ))
            })?;
            if found.len() != set.rows() {
                return Err(offspan::Error::Shape {
                    what: file.display().to_string(),
                    expected: format!("[{}], one score for each row of {}", set.rows(), set.name()),
                    got: format!("[{}]", found.len()),
                }
                .into());
            }
            left.remove(&file);
            scores.insert(set.name().to_owned(), found);
        }
        Ok(OutsideScores {
            name: name.to_owned(),
            source: Source { path: folder.display().to_string(), hash: hash_of(&scores) },
            scores,
            unused: left.into_iter().collect(),
        })
    }

    /// Files in the folder that belong to no set.
    #[must_use]
    pub fn unused(&self) -> &[PathBuf] {
        &self.unused
    }
}

impl OwnMethod for OutsideScores {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn params(&self) -> Value {
        json!({ "family": "scores" })
    }

    fn learns(&self) -> bool {
        false
    }

    fn source(&self) -> Option<Source> {
        Some(self.source.clone())
    }

    fn fit(&self, _: &Dataset<'_>, _: Option<&Head>) -> offspan::Result<Box<dyn OwnDetector>> {
        Ok(Box::new(self.clone()))
    }
}

impl OwnDetector for OutsideScores {
    fn score(&self, rows: &Dataset<'_>) -> offspan::Result<Vec<f64>> {
        self.scores.get(rows.name()).cloned().ok_or_else(|| offspan::Error::Shape {
            what: format!("scores of {}", self.name),
            expected: format!("some of {}", rows.name()),
            got: "none".to_owned(),
        })
    }
}

/// A hash of all scores, set by set.
fn hash_of(scores: &BTreeMap<String, Vec<f64>>) -> String {
    let mut hash = Xxh3::new();
    for (set, scores) in scores {
        hash.update(set.as_bytes());
        hash.update(&(scores.len() as u64).to_le_bytes());
        scores.iter().for_each(|score| hash.update(&score.to_le_bytes()));
    }
    format!("xxh3-128:{:032x}", hash.digest128())
}

/// The file of a set; the group in its name may be a folder or be left out.
fn find(folder: &Path, set: &str) -> Option<PathBuf> {
    let plain = set.rsplit('/').next().unwrap_or(set);
    let names =
        [set, plain].into_iter().flat_map(|name| ENDINGS.map(|ending| format!("{name}.{ending}")));
    names.map(|name| folder.join(name)).find(|path| path.is_file())
}

/// Every score file in a folder and in the folders inside it.
fn score_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = |folder: &Path| -> Result<Vec<PathBuf>> {
        let failed =
            |source| StudyError::Setup(format!("cannot read {}: {source}", folder.display()));
        let read = std::fs::read_dir(folder).map_err(failed)?;
        read.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
    };
    let is_scores = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        path.is_file() && ending.is_some_and(|ending| ENDINGS.contains(&ending))
    };
    for path in entries(folder)? {
        match path.is_dir() {
            true => files.extend(entries(&path)?.into_iter().filter(is_scores)),
            false => files.extend(Some(path).filter(is_scores)),
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use offspan::io::write_npy_f64;
    use offspan::ndarray::Array2;

    use super::*;

    #[test]
    fn every_set_has_its_file_with_one_score_per_row() {
        let rows = Array2::<f64>::ones((3, 2));
        let (train, test) = (Dataset::new("train", rows.view()), Dataset::new("test", rows.view()));
        let ood = [Dataset::new("near/a", rows.view()), Dataset::new("b", rows.view())];
        let sets = Sets::new(&train, &test, &ood, None);
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, scores: &[f64]| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            write_npy_f64(path, scores).unwrap();
        };
        let open = || OutsideScores::open("x", folder.path(), &sets);
        put("test.npy", &[1.0, 2.0, 3.0]);
        put("a.npy", &[0.0, -1.0, f64::NEG_INFINITY]);
        assert!(open().unwrap_err().to_string().contains("has no scores of b: expected b.npy"));
        put("b.npy", &[0.0]);
        let told = open().unwrap_err().to_string();
        assert!(told.contains("one score for each row of b, got [1]"), "{told}");
        std::fs::write(folder.path().join("b.csv"), "row,score\n0,1\n1,2\n2,3\n").unwrap();
        std::fs::remove_file(folder.path().join("b.npy")).unwrap();
        put("far/c.npy", &[0.0]);
        let scores = open().unwrap();
        assert_eq!(scores.unused(), [folder.path().join("far/c.npy")]);
        assert_eq!(scores.score(&ood[1]).unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(scores.score(&ood[0]).unwrap()[2], f64::NEG_INFINITY);
        // A folder of the group counts before the name alone.
        put("near/a.npy", &[7.0, 8.0, 9.0]);
        assert_eq!(open().unwrap().score(&ood[0]).unwrap(), [7.0, 8.0, 9.0]);
    }
}
