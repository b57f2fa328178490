//! A monitor between two batches, as a file.

use std::path::Path;

use ndarray::Array1;
use serde::{Deserialize, Serialize};

use super::{Monitor, MonitorState};
use crate::io::{Content, Format, TensorFile, TensorWriter};
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
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.monitor");
        std::fs::write(&path, b"nothing of the kind").unwrap();
        assert!(Monitor::load(&path).is_err());
        assert!(Monitor::load(folder.path().join("missing")).is_err());
    }
}
