//! Monitors on disk. The library writes files that appear whole or not at all, so a server that is killed loses what came
//! after the last save and nothing else.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use offspan::io::{remove_if_exists, write_text};
use offspan::{AlarmKind, Monitor};
use serde::{Deserialize, Serialize};

use super::alarm::AlarmEvent;
use crate::{ServeError, clock};

/// A folder of states that no other server uses.
pub(crate) struct StateFolder {
    path: PathBuf,
    /// Locked as long as the server runs.
    _lock: File,
}

/// What a monitor's own file does not know.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    /// When the stream began, in seconds since 1970.
    pub(super) began: f64,
    /// When alarms were raised: of more rows out, of scores that moved. They outlive the stream; a reset clears them.
    pub(super) alarm_times: [Option<f64>; 2],
    /// Alarms of which nobody was told yet, as far as is known.
    #[serde(default)]
    pub(super) untold: Vec<AlarmEvent>,
}

/// Kinds of alarms, in the order of their times.
pub(super) const KINDS: [AlarmKind; 2] = [AlarmKind::Share, AlarmKind::Distribution];

impl About {
    /// Takes note of an alarm. Tells whether it is news: one of each kind is, until the monitor is reset.
    pub(super) fn raise(&mut self, kind: AlarmKind, time: f64) -> bool {
        let known = match kind {
            AlarmKind::Share => &mut self.alarm_times[0],
            AlarmKind::Distribution => &mut self.alarm_times[1],
        };
        let news = known.is_none();
        known.get_or_insert(time);
        news
    }
}

impl StateFolder {
    pub(crate) fn open(path: &Path) -> Result<Self, ServeError> {
        std::fs::create_dir_all(path).map_err(ServeError::io("create", path))?;
        let lock = path.join("lock");
        let mut options = File::options();
        let file = options.create(true).truncate(false).write(true).open(&lock);
        let file = file.map_err(ServeError::io("open", &lock))?;
        match file.try_lock() {
            Ok(()) => Ok(StateFolder { path: path.to_owned(), _lock: file }),
            Err(std::fs::TryLockError::WouldBlock) => {
                Err(ServeError::StateInUse { path: path.to_owned() })
            }
            Err(std::fs::TryLockError::Error(error)) => Err(ServeError::io("lock", &lock)(error)),
        }
    }

    /// A monitor's file. Names are those of folders, and a version is a number, so no two have the same file.
    fn file(&self, name: &str, version: &str, kind: &str) -> PathBuf {
        self.path.join(format!("{name}@{version}.{kind}"))
    }

    /// The monitor that an earlier run left, if it began like this one; one that did not is put aside. What can neither be
    /// read nor put aside is an error: a new monitor would replace it.
    pub(super) fn load(
        &self,
        name: &str,
        version: &str,
        fresh: &Monitor,
    ) -> offspan::Result<Option<(Monitor, About)>> {
        let path = self.file(name, version, "monitor");
        let why = match Monitor::load(&path) {
            Ok(saved) if saved.began_like(fresh) => {
                return Ok(Some((saved, self.about(name, version))));
            }
            Ok(_) => "it is of another detector or another chance of a false alarm".to_owned(),
            Err(offspan::Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error @ offspan::Error::Io { .. }) => return Err(error),
            Err(error) => error.to_string(),
        };
        let aside = self.file(name, version, "monitor.before");
        std::fs::rename(&path, &aside).map_err(|source| offspan::Error::Io {
            action: "put aside",
            path: path.clone(),
            source,
        })?;
        tracing::warn!(
            model = name,
            version,
            "the saved monitor is put aside, and a new one begins: {why}"
        );
        Ok(None)
    }

    fn about(&self, name: &str, version: &str) -> About {
        let text = std::fs::read(self.file(name, version, "json"));
        let about = text.and_then(|text| Ok(serde_json::from_slice(&text)?));
        about.unwrap_or_else(|error| {
            tracing::warn!(
                model = name,
                version,
                "when the saved monitor began cannot be read, so that is now: {error}"
            );
            About { began: clock::unix_seconds(), ..About::default() }
        })
    }

    pub(super) fn save(
        &self,
        name: &str,
        version: &str,
        monitor: &Monitor,
        about: &About,
    ) -> offspan::Result<()> {
        // First what explains the second: alarms never lack their time.
        let text = serde_json::json!(about).to_string();
        write_text(self.file(name, version, "json"), &text)?;
        monitor.save(self.file(name, version, "monitor"))
    }

    pub(super) fn remove(&self, name: &str, version: &str) -> offspan::Result<()> {
        remove_if_exists(self.file(name, version, "monitor"))?;
        remove_if_exists(self.file(name, version, "json"))
    }
}

#[cfg(test)]
mod tests {
    use offspan::MonitorOptions;

    use super::*;

    fn monitor(threshold: f64) -> Monitor {
        let reference: Vec<f64> = (0..100).map(f64::from).collect();
        Monitor::new(&reference, MonitorOptions::new(0.95, threshold)).unwrap()
    }

    #[test]
    fn a_state_comes_back_to_the_same_monitor_only() {
        let folder = tempfile::tempdir().unwrap();
        let states = StateFolder::open(folder.path()).unwrap();
        assert!(matches!(StateFolder::open(folder.path()), Err(ServeError::StateInUse { .. })));
        let mut saved = monitor(5.0);
        saved.update(&[1.0, 2.0]).unwrap();
        let about = About { began: 7.0, alarm_times: [Some(1.5), None], ..About::default() };
        states.save("net", "1", &saved, &about).unwrap();
        let (loaded, known) = states.load("net", "1", &monitor(5.0)).unwrap().unwrap();
        assert_eq!((loaded.rows(), known), (2, about));
        assert!(states.load("other", "1", &monitor(5.0)).unwrap().is_none());
        // What an earlier server wrote knows nothing of alarms that were not told.
        let path = folder.path().join("net@1.json");
        std::fs::write(&path, r#"{"began":7.0,"alarm_times":[1.5,null]}"#).unwrap();
        assert_eq!(states.about("net", "1").alarm_times, [Some(1.5), None]);
        std::fs::write(&path, "{").unwrap();
        assert!(states.about("net", "1").began > 7.0);
        // Another detector: the old state is kept, under another name.
        assert!(states.load("net", "1", &monitor(6.0)).unwrap().is_none());
        assert!(folder.path().join("net@1.monitor.before").exists());
        // What cannot be read, as on a failing disk, or cannot be put aside, is not taken for absent.
        #[cfg(unix)]
        {
            let circle = folder.path().join("circle@1.monitor");
            std::os::unix::fs::symlink(&circle, &circle).unwrap();
            assert!(states.load("circle", "1", &monitor(5.0)).is_err());
        }
        states.save("taken", "1", &saved, &About::default()).unwrap();
        std::fs::create_dir(folder.path().join("taken@1.monitor.before")).unwrap();
        let error = states.load("taken", "1", &monitor(6.0)).unwrap_err().to_string();
        assert!(error.contains("put aside"), "{error}");
        drop(states);
        StateFolder::open(folder.path()).unwrap().remove("net", "1").unwrap();
    }
}
