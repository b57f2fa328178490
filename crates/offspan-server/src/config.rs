//! Everything that a server can be told, with its defaults.

use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::ServeError;

/// A stretch of time, as in `250us`, `2ms`, `30s` or `5m`; a number alone is seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected a time such as 250us, 2ms, 30s or 5m, got `{text}`");
        let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit);
        let seconds = match unit {
            "us" => 1e-6,
            "ms" => 1e-3,
            "" | "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        let duration = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        // Clocks add it to now.
        if duration > Duration::from_secs(366 * 86_400) {
            return Err(format!("expected a time of at most a year, got `{text}`"));
        }
        Ok(Span(duration))
    }
}

impl Display for Span {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self.0.as_secs_f64() {
            seconds if seconds == 0.0 || seconds >= 1.0 => write!(f, "{seconds}s"),
            seconds if seconds >= 1e-3 => write!(f, "{}ms", (seconds * 1e6).round() / 1e3),
            seconds => write!(f, "{}us", (seconds * 1e6).round()),
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Seconds(f64),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Text(text) => text,
            Written::Seconds(seconds) => seconds.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object in a line, for machines.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(format!("expected text or json, got `{text}`")),
        }
    }
}

/// A server's settings. A file of them is TOML with the same names.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Folders of models and detector files.
    pub models: Vec<PathBuf>,
    /// Where REST and the page listen, or `off`.
    pub http: String,
    /// Where gRPC listens, or `off`.
    pub grpc: String,
    /// Where metrics are alone, if not with REST.
    pub metrics: Option<String>,
    /// Where models are loaded and unloaded and monitors reset, with metrics, if not with REST and gRPC.
    pub admin: Option<String>,
    /// Rows scored at once, at most.
    pub max_batch: usize,
    /// How long a batch waits for more rows.
    pub batch_delay: Span,
    /// Rows that wait, at most; beyond that, requests are refused with 429.
    pub max_queue: usize,
    /// Threads that score, at most as many as there are cores; 0 is all of them.
    pub threads: usize,
    /// Bytes of a body, at most.
    pub max_body: usize,
    /// Bytes of all bodies that are in memory, and of what is made of them, at most.
    pub max_memory: usize,
    /// Connections at a time, at most, for each listener.
    pub max_connections: usize,
    /// How long a request may take.
    pub timeout: Span,
    /// How long a client may take for the headers of its next request, and how long an answer waits for one that takes too little.
    pub idle_timeout: Span,
    /// How often files are looked at; 0 is never.
    pub poll: Span,
    /// A certificate, in PEM.
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
    /// A file of bearer tokens, one in a line.
    pub token_file: Option<PathBuf>,
    /// The same for the admin listener; those of `token_file` where it is not given.
    pub admin_token_file: Option<PathBuf>,
    /// Whether drift is watched.
    pub monitor: bool,
    /// The chance that a stream without change ever raises an alarm.
    pub false_alarm: f64,
    /// Rows after which a monitor begins a new stream: it keeps 16 bytes of each.
    pub monitor_rows: usize,
    /// A folder in which monitors outlive the server.
    pub state: Option<PathBuf>,
    /// How often they are saved.
    pub state_interval: Span,
    /// A command to run on an alarm; it gets the alarm as JSON.
    pub on_alarm: Option<String>,
    /// An address to post alarms to.
    pub alarm_url: Option<String>,
    /// Rows called OoD whose numbers are kept, for each model.
    pub keep_samples: usize,
    /// How long the server goes on after it said that it is no longer ready.
    pub drain: Span,
    /// How long it waits for what it began.
    pub shutdown_timeout: Span,
    /// How logs are written.
    pub log_format: LogFormat,
    /// The least important level that is written: error, warn, info, debug or trace.
    pub log_level: String,
    /// Where spans are exported to, by OpenTelemetry's own protocol.
    pub otlp: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        let seconds = |seconds| Span(Duration::from_secs(seconds));
        Config {
            models: Vec::new(),
            http: "127.0.0.1:8000".to_owned(),
            grpc: "127.0.0.1:8001".to_owned(),
            metrics: None,
            admin: None,
            max_batch: 1024,
            batch_delay: seconds(0),
            max_queue: 65_536,
            threads: 0,
            max_body: 64 << 20,
            max_memory: 1 << 30,
            max_connections: 1024,
            timeout: seconds(30),
            idle_timeout: seconds(30),
            poll: seconds(1),
            tls_cert: None,
            tls_key: None,
            token_file: None,
            admin_token_file: None,
            monitor: true,
            false_alarm: 0.01,
            monitor_rows: 1_000_000,
            state: None,
            state_interval: seconds(10),
            on_alarm: None,
            alarm_url: None,
            keep_samples: 0,
            drain: seconds(0),
            shutdown_timeout: seconds(30),
            log_format: LogFormat::Text,
            log_level: "info".to_owned(),
            otlp: None,
        }
    }
}

impl Config {
    /// Reads a file of settings.
    ///
    /// # Errors
    /// If it cannot be read, or has a setting that does not exist or cannot be.
    pub fn read(path: &Path) -> Result<Self, ServeError> {
        let wrong = |reason: String| ServeError::Setting(format!("{}: {reason}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        toml::from_str(&text).map_err(|error| wrong(error.to_string().trim().to_owned()))
    }

    /// Fails if settings do not go together.
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        let wrong = |reason: &str| Err(ServeError::Setting(reason.to_owned()));
        if self.models.is_empty() {
            return wrong("expected at least one folder of models or detector file, got none");
        }
        if self.http == "off" && self.grpc == "off" {
            return wrong("http and grpc are both off: nobody could ask anything");
        }
        for (name, value) in [
            ("max_batch", self.max_batch),
            ("max_queue", self.max_queue),
            ("max_body", self.max_body),
            ("max_connections", self.max_connections),
        ] {
            if value == 0 {
                return wrong(&format!("{name}: expected at least 1, got 0"));
            }
        }
        if self.max_memory < self.max_body {
            return wrong(&format!(
                "max_memory: expected at least max_body, {} bytes, got {}",
                self.max_body, self.max_memory
            ));
        }
        for (name, span) in [
            ("timeout", self.timeout),
            ("idle_timeout", self.idle_timeout),
            ("state_interval", self.state_interval),
        ] {
            if span.0.is_zero() {
                return wrong(&format!("{name}: expected more than 0, got 0"));
            }
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return wrong("tls_cert and tls_key go together: expected both, got one");
        }
        if self.admin_token_file.is_some() && self.admin.is_none() {
            return wrong("admin_token_file is for the admin listener: expected admin, too");
        }
        if !self.monitor {
            let idle = [
                (self.state.is_some(), "state"),
                (self.on_alarm.is_some(), "on_alarm"),
                (self.alarm_url.is_some(), "alarm_url"),
            ];
            if let Some((_, name)) = idle.iter().find(|(given, _)| *given) {
                return wrong(&format!("{name}: has no effect without a monitor"));
            }
        }
        if !(self.false_alarm > 0.0 && self.false_alarm < 1.0) {
            let got = self.false_alarm;
            return wrong(&format!("false_alarm: expected a chance between 0 and 1, got {got}"));
        }
        if self.monitor_rows < 1000 {
            return wrong(
                "monitor_rows: expected at least 1000 rows, so that there is something to see",
            );
        }
        if self.otlp.is_some() && cfg!(not(feature = "otel")) {
            return wrong("otlp: this program was built without the feature `otel`");
        }
        Ok(())
    }

    /// Threads that score.
    pub(crate) fn scoring_threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        if self.threads == 0 { cores } else { self.threads.min(cores) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let span = |text: &str| text.parse::<Span>().map(|span| span.0);
        assert_eq!(span("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(span("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(span("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(span("5m"), Ok(Duration::from_secs(300)));
        for wrong in ["", "fast", "-1s", "3 weeks", "1e99"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        for text in ["250us", "2ms", "30s", "0s"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_file_has_the_names_of_the_settings_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, "models = [\"m\"]\nmax_batch = 7\ntimeout = \"2s\"\npoll = 0\n")
            .unwrap();
        let config = Config::read(&path).unwrap();
        assert_eq!((config.max_batch, config.timeout.0.as_secs()), (7, 2));
        assert!(config.poll.0.is_zero());
        config.check().unwrap();
        std::fs::write(&path, "max_bach = 7\n").unwrap();
        let message = Config::read(&path).unwrap_err().to_string();
        assert!(message.contains("max_bach"), "{message}");
    }

    #[test]
    fn settings_that_do_not_go_together_are_refused() {
        let good = || Config { models: vec!["m".into()], ..Config::default() };
        good().check().unwrap();
        let wrong = [
            Config { models: vec![], ..good() },
            Config { http: "off".into(), grpc: "off".into(), ..good() },
            Config { max_batch: 0, ..good() },
            Config { max_memory: 1, ..good() },
            Config { tls_cert: Some("c".into()), ..good() },
            Config { admin_token_file: Some("t".into()), ..good() },
            Config { monitor: false, on_alarm: Some("x".into()), ..good() },
            Config { false_alarm: 1.0, ..good() },
            Config { monitor_rows: 1, ..good() },
        ];
        assert!(wrong.iter().all(|config| config.check().is_err()));
    }
}
