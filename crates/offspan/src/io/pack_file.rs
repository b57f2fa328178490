//! What `pack.toml` says of the sets of a pack.

use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::{Error, Result};

const NAME: &str = "pack.toml";
/// Far more than such a file needs, with the names of all classes.
const LARGEST: u64 = 64 << 20;
/// Groups that have a key of their own, in the order of tables.
const USUAL_GROUPS: [&str; 2] = ["near", "far"];

/// Out-of-distribution sets that are averaged together, such as near and far ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetGroup {
    /// The group's name.
    pub name: String,
    /// Its sets by their names.
    pub sets: Vec<String>,
}

impl SetGroup {
    /// The groups that the names of sets tell, `near/NAME` and `far/NAME` before others.
    #[must_use]
    pub fn by_names<'a>(sets: impl IntoIterator<Item = &'a str>) -> Vec<Self> {
        let mut described = Described::default();
        described.add_by_names(sets);
        described.sort();
        described.groups
    }
}

/// What a pack says of itself, as far as an evaluation is concerned.
#[derive(Debug, Default)]
pub(super) struct Described {
    pub(super) name: Option<String>,
    pub(super) groups: Vec<SetGroup>,
    /// Sets in `ood/` that are in-distribution rows of another appearance.
    pub(super) shifted: Vec<String>,
}

impl Described {
    /// Reads the file of a pack; one that has none says nothing. Other keys are other programs'.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let size = match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            metadata => metadata.map_err(Error::io("open", &path))?.len(),
        };
        let wrong = |reason: String| Error::malformed(&path, "a description of a pack", reason);
        if size > LARGEST {
            return Err(wrong(format!("expected at most {LARGEST} bytes, got {size}")));
        }
        let text = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| wrong(format!("not TOML: {}", error.message())))?;
        let mut described = Described::default();
        if let Some(name) = table.get("name") {
            let name = name.as_str().filter(|name| !name.trim().is_empty());
            described.name =
                Some(name.ok_or_else(|| wrong("`name`: expected a text".to_owned()))?.to_owned());
        }
        for key in USUAL_GROUPS {
            if let Some(value) = table.get(key) {
                described.add(key, names(key, value).map_err(wrong)?);
            }
        }
        if let Some(groups) = table.get("groups") {
            let groups = groups
                .as_table()
                .ok_or_else(|| wrong("`groups`: expected a table of lists of sets".to_owned()))?;
            for (key, value) in groups {
                described.add(key, names(key, value).map_err(wrong)?);
            }
        }
        if let Some(value) = table.get("shifted") {
            described.shifted = names("shifted", value).map_err(wrong)?;
        }
        Ok(described)
    }

    /// Adds sets to a group.
    pub(super) fn add(&mut self, group: &str, sets: Vec<String>) {
        let known = self.groups.iter().position(|known| known.name == group);
        let at = known.unwrap_or_else(|| {
            self.groups.push(SetGroup { name: group.to_owned(), sets: Vec::new() });
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        for set in sets {
            if !group.sets.contains(&set) {
                group.sets.push(set);
            }
        }
    }

    /// Adds sets to the groups that their names begin with.
    pub(super) fn add_by_names<'a>(&mut self, sets: impl IntoIterator<Item = &'a str>) {
        for set in sets {
            if let Some((group, _)) = set.split_once('/') {
                self.add(group, vec![set.to_owned()]);
            }
        }
    }

    /// Puts groups in order.
    fn sort(&mut self) {
        let place = |name: &str| {
            USUAL_GROUPS.iter().position(|usual| *usual == name).unwrap_or(USUAL_GROUPS.len())
        };
        self.groups.sort_by_key(|group| (place(&group.name), group.name.clone()));
    }

    /// Fails if a set is named that the pack does not have; puts groups in order.
    pub(super) fn check(&mut self, folder: &Path, known: &[String]) -> Result<()> {
        let named = self
            .groups
            .iter()
            .flat_map(|group| group.sets.iter().map(move |set| (&group.name, set)));
        let shifted = "shifted".to_owned();
        let named = named.chain(self.shifted.iter().map(|set| (&shifted, set)));
        for (key, set) in named {
            if !known.contains(set) {
                return Err(Error::malformed(
                    &folder.join(NAME),
                    "a description of a pack",
                    format!("`{key}` names {set}; expected sets of ood/: {}", known.join(", ")),
                ));
            }
        }
        self.sort();
        Ok(())
    }
}

/// A list of names.
fn names(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let wrong = || format!("`{key}`: expected a list of names of sets, got {value}");
    let list = value.as_array().ok_or_else(wrong)?;
    list.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}
