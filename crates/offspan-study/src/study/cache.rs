//! Results of earlier runs, so that a repeated study only computes what changed.

use std::path::PathBuf;

use offspan::io::write_text;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use crate::Result;
use crate::folder::Folder;

/// Goes up when the same inputs give other results than before.
const VERSION: u32 = 2;

/// A folder with one small file per result, named after what went into it.
pub(super) struct Cache {
    folder: Folder,
}

/// What such a file holds.
#[derive(Serialize, Deserialize)]
struct Entry<T> {
    key: Value,
    result: T,
}

impl Cache {
    pub(super) fn open(folder: &Folder) -> Result<Self> {
        Ok(Cache { folder: Folder::make(&folder.join("cache"))? })
    }

    /// The result that was kept for this key. A file that is damaged, or of another key, counts as
    /// none: the result is computed again and takes its place.
    pub(super) fn get<T: DeserializeOwned>(&self, key: &Value) -> Option<T> {
        let text = std::fs::read_to_string(self.path(key)).ok()?;
        let entry: Entry<T> = serde_json::from_str(&text).ok()?;
        (entry.key == versioned(key)).then_some(entry.result)
    }

    pub(super) fn put<T: Serialize>(&self, key: &Value, result: &T) -> Result<()> {
        let entry = Entry { key: versioned(key), result };
        Ok(write_text(self.path(key), &serde_json::to_string(&entry)?)?)
    }

    fn path(&self, key: &Value) -> PathBuf {
        let name = xxh3_128(versioned(key).to_string().as_bytes());
        self.folder.join(&format!("{name:032x}.json"))
    }
}

fn versioned(key: &Value) -> Value {
    json!({ "offspan": env!("CARGO_PKG_VERSION"), "cache": VERSION, "of": key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_kept_for_the_same_key_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&Folder::make(folder.path()).unwrap()).unwrap();
        let (one, two) = (json!({"method": "knn"}), json!({"method": "pca"}));
        cache.put(&one, &vec![0.1, f64::MIN_POSITIVE]).unwrap();
        assert_eq!(cache.get::<Vec<f64>>(&one), Some(vec![0.1, f64::MIN_POSITIVE]));
        assert_eq!(cache.get::<Vec<f64>>(&two), None);
        std::fs::rename(cache.path(&one), cache.path(&two)).unwrap();
        assert_eq!(cache.get::<Vec<f64>>(&two), None, "a file under the name of another key");
        cache.put(&one, &vec![0.1]).unwrap();
        std::fs::write(cache.path(&one), "{\"key\":").unwrap();
        assert_eq!(cache.get::<Vec<f64>>(&one), None, "a damaged file");
    }
}
