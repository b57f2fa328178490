//! `pack.toml`: where the rows of a pack come from.

use std::path::Path;

use offspan::ModelSource;
use offspan::io::write_text;
use toml::{Table, Value};

use crate::input_error::{InputError, InputResult};

const NAME: &str = "pack.toml";
const SCHEMA: &str = "offspan.pack/1";
/// Far more than such a file needs, with the names of all classes.
const LARGEST: u64 = 64 << 20;

/// What a pack says of itself. Keys of other programs are kept.
pub struct PackFile {
    table: Table,
}

impl PackFile {
    /// Reads the file of a pack; one that has none says nothing.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub fn read(pack: &Path) -> InputResult<Self> {
        let path = pack.join(NAME);
        let size = match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(PackFile { table: Table::new() });
            }
            metadata => metadata.map_err(InputError::io("open", &path))?.len(),
        };
        if size > LARGEST {
            let reason = format!("expected at most {LARGEST} bytes, got {size}");
            return Err(InputError::data(&path, reason));
        }
        let text = std::fs::read_to_string(&path).map_err(InputError::io("read", &path))?;
        let table = text
            .parse::<Table>()
            .map_err(|error| InputError::data(&path, format!("not TOML: {}", error.message())))?;
        Ok(PackFile { table })
    }

    /// The model that gave the features.
    ///
    /// # Errors
    /// If it is named and anything of it is missing.
    pub fn source(&self, pack: &Path) -> InputResult<Option<ModelSource>> {
        let Some(source) = self.table.get("source") else { return Ok(None) };
        // Others may write what they like there.
        if self.table.get("schema").and_then(Value::as_str) != Some(SCHEMA) {
            return Ok(None);
        }
        let source = source.clone().try_into().map_err(|error: toml::de::Error| {
            InputError::data(&pack.join(NAME), format!("`source`: {}", error.message()))
        })?;
        Ok(Some(source))
    }

    /// Whether this split is one that was extracted, and not another program's.
    #[must_use]
    pub fn has_split(&self, split: &str) -> bool {
        self.table.get("splits").is_some_and(|splits| splits.get(split).is_some())
    }

    /// The names of the classes in the order of their numbers.
    #[must_use]
    pub fn classes(&self) -> Option<Vec<String>> {
        let names = self.table.get("classes")?.as_array()?;
        names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
    }

    /// Adds a split, and the source if there is none.
    pub(super) fn add(
        &mut self,
        source: &ModelSource,
        classes: Option<&[String]>,
        split: &str,
        about: Table,
    ) -> InputResult<()> {
        let source = Value::try_from(source)
            .map_err(|error| InputError::data(Path::new(NAME), format!("`source`: {error}")))?;
        self.table.insert("schema".to_owned(), SCHEMA.into());
        self.table.insert("source".to_owned(), source);
        if let Some(classes) = classes {
            let names: Vec<Value> = classes.iter().map(|name| name.as_str().into()).collect();
            self.table.insert("classes".to_owned(), names.into());
        }
        let splits = self.table.entry("splits").or_insert_with(|| Table::new().into());
        if let Some(splits) = splits.as_table_mut() {
            splits.insert(split.to_owned(), about.into());
        }
        Ok(())
    }

    pub(super) fn write(&self, pack: &Path) -> InputResult<()> {
        Ok(write_text(pack.join(NAME), &self.table.to_string())?)
    }
}
