//! All models: found on disk, loaded, replaced when their files change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::Serialize;

use super::files::{Fingerprint, Place, Source};
use super::load::load;
use super::version::Version;
use crate::ServeError;
use crate::protocol::signature::shown;
use crate::refusal::{Kind, Refusal};
use crate::stats::Stats;

/// Models by name, their versions by number.
type Models = BTreeMap<String, BTreeMap<u64, Entry>>;

/// A version: what is loaded of it, and how the last attempt to load it went.
#[derive(Clone, Default)]
struct Entry {
    loaded: Option<Arc<Version>>,
    fingerprint: Fingerprint,
    /// Why what is on disk is not what is served.
    problem: Option<String>,
}

/// A line of the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct IndexEntry {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) state: &'static str,
    pub(crate) reason: String,
}

/// The models of a server.
pub(crate) struct Repository {
    sources: Vec<Source>,
    models: RwLock<Models>,
    /// Models that somebody asked to unload.
    unloaded: Mutex<BTreeSet<String>>,
    /// One load at a time; it also keeps what was said of files that are no models.
    loading: Mutex<BTreeSet<String>>,
    stats: Arc<Stats>,
    keep_samples: usize,
}

impl Repository {
    /// Loads everything that is there. What cannot be loaded is said, and the others are served, as after a change.
    ///
    /// # Errors
    /// If nothing can be loaded, or there is nothing.
    pub(crate) fn open(
        paths: &[PathBuf],
        stats: Arc<Stats>,
        keep_samples: usize,
    ) -> Result<Self, ServeError> {
        let sources = paths.iter().map(|path| Source::of(path)).collect::<Result<Vec<_>, _>>()?;
        let repository = Repository {
            sources,
            models: RwLock::default(),
            unloaded: Mutex::default(),
            loading: Mutex::default(),
            stats,
            keep_samples,
        };
        repository.refresh(None);
        let index = repository.index();
        let broken = index.iter().find(|entry| !entry.reason.is_empty());
        if let Some(broken) = broken.filter(|_| repository.all().is_empty()) {
            let name = format!("{}, version {}", broken.name, broken.version);
            return Err(ServeError::Model { name, reason: broken.reason.clone() });
        }
        if index.is_empty() {
            let name: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            let reason =
                "expected models as NAME/VERSION/DETECTOR.offspan or detector files, found none";
            return Err(ServeError::Model { name: name.join(", "), reason: reason.to_owned() });
        }
        Ok(repository)
    }

    /// Looks at the files, loads what is new or changed, and drops versions whose folder is gone. A version that cannot be
    /// loaded stays as it was. With a name, that model is loaded in any case. Gives the names of changed models.
    pub(crate) fn refresh(&self, forced: Option<&str>) -> Vec<String> {
        let mut noted = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = forced {
            self.unloaded.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        }
        let mut places: BTreeMap<(String, u64), Place> = BTreeMap::new();
        let mut unseen = false;
        for source in &self.sources {
            let mut note = |text: String| {
                if noted.insert(text.clone()) {
                    tracing::warn!("{text}; it is left alone");
                }
            };
            match source.places(&mut note) {
                Ok(found) => {
                    for mut place in found {
                        let key = (place.name.clone(), place.version);
                        if places.contains_key(&key) {
                            place.files = Err("two models have this name and version".to_owned());
                        }
                        places.insert(key, place);
                    }
                }
                Err(error) => {
                    // What cannot be seen may still be there.
                    unseen = true;
                    tracing::warn!("a folder of models cannot be read: {error}");
                }
            }
        }
        let mut changed = BTreeSet::new();
        for place in places.values() {
            if self.is_unloaded(&place.name) {
                continue;
            }
            if self.take(place, forced == Some(place.name.as_str())) {
                changed.insert(place.name.clone());
            }
        }
        if !unseen {
            self.forget_missing(&places, &mut changed);
        }
        changed.into_iter().collect()
    }

    /// Loads a version if its files changed. Tells whether another is served now.
    fn take(&self, place: &Place, forced: bool) -> bool {
        let before = {
            let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
            let entry = models.get(&place.name).and_then(|versions| versions.get(&place.version));
            entry.cloned().unwrap_or_default()
        };
        let fingerprint =
            place.files.as_ref().map_or_else(|_| Vec::new(), |files| files.fingerprint());
        let is_new = before.loaded.is_none() && before.problem.is_none();
        let same = fingerprint == before.fingerprint
            && place.files.is_err() == before.fingerprint.is_empty();
        if same && !is_new && !forced {
            return false;
        }
        let stats = self.stats.model(&place.name, &place.version.to_string());
        let result = match &place.files {
            Ok(files) => guarded(|| load(place, files, Arc::clone(&stats), self.keep_samples)),
            Err(reason) => Err(reason.clone()),
        };
        let entry = match result {
            Ok(version) => {
                tracing::info!(model = place.name, version = place.version, "loaded");
                stats.stale.store(false, Ordering::Relaxed);
                stats.loads.add(1);
                Entry { loaded: Some(Arc::new(version)), fingerprint, problem: None }
            }
            Err(reason) => {
                let (name, version) = (&place.name, place.version);
                let serving = before.loaded.is_some();
                tracing::error!(
                    model = name,
                    version,
                    serving_the_old_one = serving,
                    "cannot be loaded: {reason}"
                );
                stats.load_failures.add(1);
                stats.stale.store(serving, Ordering::Relaxed);
                Entry { loaded: before.loaded.clone(), fingerprint, problem: Some(reason) }
            }
        };
        let is_other = entry.problem.is_none();
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        if self.is_unloaded(&place.name) {
            // Somebody asked for that while it was being loaded.
            return false;
        }
        models.entry(place.name.clone()).or_default().insert(place.version, entry);
        is_other
    }

    fn forget_missing(
        &self,
        places: &BTreeMap<(String, u64), Place>,
        changed: &mut BTreeSet<String>,
    ) {
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        for (name, versions) in models.iter_mut() {
            versions.retain(|&version, _| {
                let there = places.contains_key(&(name.clone(), version));
                if !there {
                    tracing::info!(model = name, version, "its folder is gone: unloaded");
                    self.stats.forget(name, &version.to_string());
                    changed.insert(name.clone());
                }
                there
            });
        }
        models.retain(|_, versions| !versions.is_empty());
    }

    /// Loads a model again, or for the first time.
    pub(crate) fn load(&self, name: &str) -> Result<(), Refusal> {
        self.refresh(Some(name));
        let index = self.index();
        let mut versions = index.iter().filter(|entry| entry.name == name).peekable();
        if versions.peek().is_none() {
            return Err(no_model(name));
        }
        match versions.find(|entry| !entry.reason.is_empty()) {
            Some(broken) => {
                let reason =
                    format!("version {} cannot be loaded: {}", broken.version, broken.reason);
                Err(Refusal::bad(reason))
            }
            None => Ok(()),
        }
    }

    /// Drops a model until somebody asks to load it.
    pub(crate) fn unload(&self, name: &str) -> Result<(), Refusal> {
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        let versions = models.get_mut(name).ok_or_else(|| no_model(name))?;
        self.unloaded.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        for (version, entry) in versions.iter_mut() {
            let stats = self.stats.model(name, &version.to_string());
            stats.stale.store(false, Ordering::Relaxed);
            *entry = Entry { problem: Some("unloaded on request".to_owned()), ..Entry::default() };
        }
        tracing::info!(model = name, "unloaded on request");
        Ok(())
    }

    fn is_unloaded(&self, name: &str) -> bool {
        self.unloaded.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    /// A version to ask: that of this number, or the one with the largest.
    pub(crate) fn find(&self, name: &str, version: Option<&str>) -> Result<Arc<Version>, Refusal> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        let versions = models.get(name).ok_or_else(|| no_model(name))?;
        let entry = match version {
            None => versions.values().rev().find(|entry| entry.loaded.is_some()),
            Some(version) => {
                let known = versions.iter().find(|(number, _)| number.to_string() == version);
                let (_, entry) = known.ok_or_else(|| {
                    let reason =
                        format!("model `{}` has no version `{}`", shown(name), shown(version));
                    Refusal::new(Kind::NotFound, reason)
                })?;
                Some(entry)
            }
        };
        entry.and_then(|entry| entry.loaded.clone()).ok_or_else(|| {
            Refusal::new(Kind::Unavailable, format!("model `{}` is not ready", shown(name)))
        })
    }

    /// The numbers of the versions that can be asked.
    pub(crate) fn versions(&self, name: &str) -> Vec<String> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        let versions = models.get(name).into_iter().flatten();
        versions
            .filter(|(_, entry)| entry.loaded.is_some())
            .map(|(number, _)| number.to_string())
            .collect()
    }

    /// Every version that is loaded.
    pub(crate) fn all(&self) -> Vec<Arc<Version>> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        models
            .values()
            .flat_map(BTreeMap::values)
            .filter_map(|entry| entry.loaded.clone())
            .collect()
    }

    /// Whether every model has a version that can be asked; those that were unloaded on request do not count.
    pub(crate) fn ready(&self) -> bool {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        models.iter().all(|(name, versions)| {
            self.is_unloaded(name) || versions.values().any(|entry| entry.loaded.is_some())
        })
    }

    /// What there is, and how it is.
    pub(crate) fn index(&self) -> Vec<IndexEntry> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        let entry = |name: &String, (version, entry): (&u64, &Entry)| IndexEntry {
            name: name.clone(),
            version: version.to_string(),
            state: if entry.loaded.is_some() { "READY" } else { "UNAVAILABLE" },
            reason: match (&entry.problem, &entry.loaded) {
                (Some(problem), Some(_)) => format!("the one before is served: {problem}"),
                (problem, _) => problem.clone().unwrap_or_default(),
            },
        };
        models
            .iter()
            .flat_map(|(name, versions)| versions.iter().map(move |version| entry(name, version)))
            .collect()
    }
}

fn no_model(name: &str) -> Refusal {
    Refusal::new(Kind::NotFound, format!("there is no model `{}`", shown(name)))
}

/// A file that makes a reader panic is a broken file.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err("reading it failed in a way that should not be possible".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_is_unloaded_while_it_is_loaded_stays_unloaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.offspan");
        let stats = Arc::new(Stats::new(1));
        Version::small(&stats).detector.save(&path).unwrap();
        let repository =
            Repository::open(std::slice::from_ref(&path), Arc::clone(&stats), 0).unwrap();
        assert!(repository.find("net", None).is_ok());
        stats.model("net", "1").stale.store(true, Ordering::Relaxed);
        repository.unload("net").unwrap();
        assert!(!stats.model("net", "1").stale.load(Ordering::Relaxed));
        // What a look at the files does that began before.
        let source = Source::of(&path).unwrap();
        for place in source.places(&mut |_| {}).unwrap() {
            assert!(!repository.take(&place, false));
        }
        assert_eq!(repository.find("net", None).err().unwrap().kind, Kind::Unavailable);
        assert_eq!(repository.index()[0].reason, "unloaded on request");
        repository.load("net").unwrap();
        assert!(repository.find("net", None).is_ok());
    }
}
