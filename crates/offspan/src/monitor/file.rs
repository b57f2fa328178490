//! A monitor between two batches, as a file.

use std::path::Path;

use ndarray::Array1;
use serde::{Deserialize, Serialize};

use super::{Monitor, MonitorState};
use crate::io::{Content, FileLock, Format, TensorFile, TensorWriter, stored_checksum};
use crate::{Error, Result};

/// 1 had no checksum, and did not know which batches it had seen.
const FORMAT: Format =
    Format { content: Content::Monitor, version: 2, oldest: 1, if_older: "begin anew" };
const SCORES: &str = "scores";

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    state: MonitorState,
}

impl Monitor {
    /// Saves the monitor; the file appears whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let (state, scores) = self.state();
        let scores = Array1::from(scores);
        let mut writer = TensorWriter::default();
        writer.array1(SCORES, &scores);
        let document = Document { version: FORMAT.version, state };
        writer.write(path, &FORMAT, serde_json::json!(document))
    }

    /// Saves the monitor as [`Monitor::save`] does, with the file locked; over a state only if that is still the one of
    /// this checksum ([`stored_checksum`]), if one is given. Gives the checksum of what it wrote.
    ///
    /// # Errors
    /// [`Error::InUse`] if somebody else saves or counts at this moment, [`Error::Changed`] if somebody has done so since,
    /// or if it cannot be written.
    pub fn save_if_unchanged(
        &self,
        path: impl AsRef<Path>,
        expected: Option<&str>,
    ) -> Result<Option<String>> {
        let path = path.as_ref();
        let _lock = FileLock::try_new(path)?;
        // A device keeps nothing.
        let checksum = || if path.is_file() { stored_checksum(path) } else { Ok(None) };
        if expected.is_some() && path.is_file() && checksum()?.as_deref() != expected {
            return Err(Error::Changed { path: path.to_owned() });
        }
        self.save(path)?;
        checksum()
    }

    /// The monitor that [`Monitor::save`] wrote. It goes on as if it had never stopped.
    ///
    /// # Errors
    /// If the file cannot be read or anything in it is wrong.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = TensorFile::open(path)?;
        let Document { state, .. } = file.document(&FORMAT)?;
        let scores = file.scores(SCORES)?;
        Monitor::from_state(state, &scores)
            .map_err(|error| Error::malformed(path, Content::Monitor.name(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::MonitorOptions;

    #[test]
    fn a_saved_monitor_goes_on_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stream.monitor");
        let reference: Vec<f64> = (0..100).map(|i| f64::from(i) / 7.0).collect();
        let mut before = Monitor::new(&reference, MonitorOptions::new(0.95, 1.0)).unwrap();
        before.update(&[f64::NEG_INFINITY, 0.3, 5.0, f64::INFINITY]).unwrap();
        before.save(&path).unwrap();
        let mut after = Monitor::load(&path).unwrap();
        assert_eq!(after.state(), before.state());
        assert_eq!(after.update(&reference).unwrap(), before.update(&reference).unwrap());
    }

    #[test]
    fn a_state_that_somebody_else_has_saved_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stream.monitor");
        let reference: Vec<f64> = (0..100).map(|i| f64::from(i) / 7.0).collect();
        let mut first = Monitor::new(&reference, MonitorOptions::new(0.95, 1.0)).unwrap();
        let begun = first.save_if_unchanged(&path, None).unwrap();
        let mut second = Monitor::load(&path).unwrap();
        first.update(&[0.3]).unwrap();
        let saved = first.save_if_unchanged(&path, begun.as_deref()).unwrap();
        assert_ne!(begun, saved);
        second.update(&[5.0, 6.0]).unwrap();
        let error = second.save_if_unchanged(&path, begun.as_deref()).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{error}");
        assert_eq!(Monitor::load(&path).unwrap().rows(), 1, "nothing is lost");
        // The first one knows the file as it is.
        first.save_if_unchanged(&path, saved.as_deref()).unwrap();
        let lock = FileLock::try_new(&path).unwrap();
        let error = first.save_if_unchanged(&path, saved.as_deref()).unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        drop(lock);
        // A file that was removed is nobody's.
        std::fs::remove_file(&path).unwrap();
        second.save_if_unchanged(&path, begun.as_deref()).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no lock stays");
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.monitor");
        std::fs::write(&path, b"nothing of the kind").unwrap();
        assert!(Monitor::load(&path).is_err());
        assert!(Monitor::load(folder.path().join("missing")).is_err());
    }
}
