//! Logs: lines for people or objects for machines, on stderr.

#[cfg(feature = "otel")]
pub(crate) mod otel;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use crate::ServeError;
use crate::config::{Config, LogFormat};

/// What must be kept as long as logs are written.
#[derive(Default)]
pub(crate) struct Logs {
    #[cfg(feature = "otel")]
    exporter: Option<otel::Exporter>,
}

impl Logs {
    /// Sends what is left.
    pub(crate) fn finish(self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = self.exporter {
            exporter.finish();
        }
    }
}

/// Starts to write logs. A program that has a subscriber of its own keeps it.
pub(crate) fn start(config: &Config) -> Result<Logs, ServeError> {
    let level: LevelFilter = config.log_level.parse().map_err(|_| {
        let got = &config.log_level;
        ServeError::Setting(format!(
            "log_level: expected error, warn, info, debug or trace, got `{got}`"
        ))
    })?;
    let registry = Registry::default().with(lines(config.log_format).with_filter(level));
    #[cfg(feature = "otel")]
    {
        let exporter = config.otlp.as_deref().map(otel::Exporter::start).transpose()?;
        let _ = registry.with(exporter.as_ref().map(otel::Exporter::layer)).try_init();
        Ok(Logs { exporter })
    }
    #[cfg(not(feature = "otel"))]
    {
        let _ = registry.try_init();
        Ok(Logs::default())
    }
}

fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    }
}
