//! Progress on stderr; silent when stderr is not a terminal.

use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use offspan::Observer;

use crate::output::remark;

/// Shows one stage after the other.
#[derive(Default)]
pub(crate) struct Progress {
    bar: Mutex<Option<ProgressBar>>,
    prefix: Mutex<String>,
}

impl Progress {
    /// Stages are shown behind `prefix`.
    pub(crate) fn new(prefix: impl Into<String>) -> Self {
        Progress { bar: Mutex::new(None), prefix: Mutex::new(prefix.into()) }
    }

    fn with_bar(&self, act: impl FnOnce(&mut Option<ProgressBar>)) {
        if let Ok(mut bar) = self.bar.lock() {
            act(&mut bar);
        }
    }
}

impl Observer for Progress {
    fn method(&self, name: &str, number: usize, of: usize) {
        if let (true, Ok(mut prefix)) = (of > 1, self.prefix.lock()) {
            *prefix = format!("[{number}/{of}] {name}:");
        }
    }

    fn begin(&self, stage: &str, steps: u64) {
        self.with_bar(|slot| {
            if let Some(old) = slot.take() {
                old.finish_and_clear();
            }
            let prefix = self.prefix.lock().map_or(String::new(), |prefix| prefix.clone());
            let message = format!("{prefix} {stage}").trim().to_owned();
            let (bar, template) = if steps == 0 {
                (ProgressBar::new_spinner(), "{spinner} {msg} ({elapsed})")
            } else {
                (
                    ProgressBar::new(steps),
                    "{msg} [{bar:30}] {human_pos}/{human_len} rows, {per_sec}, {eta} left",
                )
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_message(message);
            bar.enable_steady_tick(Duration::from_millis(200));
            *slot = Some(bar);
        });
    }

    fn advance(&self, steps: u64) {
        self.with_bar(|slot| {
            if let Some(bar) = slot {
                bar.inc(steps);
            }
        });
    }

    fn note(&self, text: &str) {
        self.with_bar(|slot| match slot {
            Some(bar) => bar.suspend(|| remark(&format!("note: {text}"))),
            None => remark(&format!("note: {text}")),
        });
    }

    fn interrupted(&self) -> bool {
        crate::interrupt::requested()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.with_bar(|slot| {
            if let Some(bar) = slot.take() {
                bar.finish_and_clear();
            }
        });
    }
}
