//! What `offspan serve` accepts.

use std::path::PathBuf;

use clap::Args;
use offspan_server::{Config, LogFormat, ServeError, Span};

/// What a flag is set to, for a setting of the same name.
macro_rules! overrides {
    ($args:expr, $config:expr; $($plain:ident),* ; $($optional:ident),*) => {
        $( if let Some(value) = $args.$plain.clone() { $config.$plain = value; } )*
        $( if $args.$optional.is_some() { $config.$optional = $args.$optional.clone(); } )*
    };
}

/// Flags say more than the file of settings, and the file more than the defaults.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Folders of models (NAME/VERSION/DETECTOR.offspan, with the classifier's .onnx beside it if inputs are to come in
    /// place of features), or detector files
    #[arg(value_name = "DIR|DETECTOR")]
    models: Vec<PathBuf>,

    /// Ask a running server whether it is ready, and exit with 0 if it is and 1 if not
    #[arg(long, value_name = "ADDRESS", exclusive = true)]
    pub(crate) check: Option<String>,

    /// Where REST and the page listen, or off [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,

    /// Where gRPC listens, or off [default: 127.0.0.1:8001]
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<String>,

    /// Where metrics are alone [default: /metrics beside REST]
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,

    /// Where models are loaded and unloaded, monitors reset and metrics read [default: beside REST]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,

    /// Settings in TOML, named as these flags with _ in place of -
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Rows scored at once, at most [default: 1024]
    #[arg(long, value_name = "ROWS")]
    max_batch: Option<usize>,

    /// How long a batch waits for more rows, such as 500us [default: 0s]
    #[arg(long, value_name = "TIME")]
    batch_delay: Option<Span>,

    /// Rows that wait, at most; beyond that the answer is 429 [default: 65536]
    #[arg(long, value_name = "ROWS")]
    max_queue: Option<usize>,

    /// Bytes of a request's body, at most [default: 64 MiB]
    #[arg(long, value_name = "BYTES")]
    max_body: Option<usize>,

    /// Bytes of all bodies in memory, at most [default: 1 GiB]
    #[arg(long, value_name = "BYTES")]
    max_memory: Option<usize>,

    /// Connections of each listener, at most [default: 1024]
    #[arg(long, value_name = "COUNT")]
    max_connections: Option<usize>,

    /// How long a request may take [default: 30s]
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,

    /// How long a client may take for its next headers, or to take an answer [default: 30s]
    #[arg(long, value_name = "TIME")]
    idle_timeout: Option<Span>,

    /// How often files are looked at; 0 is never [default: 1s]
    #[arg(long, value_name = "TIME")]
    poll: Option<Span>,

    /// A certificate in PEM, for all listeners
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Bearer tokens that requests must bring, one in a line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Bearer tokens for the admin address
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,

    /// Do not watch scores for drift
    #[arg(long)]
    no_monitor: bool,

    /// Chance that a stream without change ever raises an alarm [default: 0.01]
    #[arg(long, value_name = "CHANCE")]
    false_alarm: Option<f64>,

    /// Rows after which a monitor begins a new stream; it keeps 16 bytes of each [default: 1000000]
    #[arg(long, value_name = "ROWS")]
    monitor_rows: Option<usize>,

    /// A folder in which monitors outlive the server
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// How often they are saved [default: 10s]
    #[arg(long, value_name = "TIME")]
    state_interval: Option<Span>,

    /// A command to run on an alarm, with the alarm as JSON on its stdin
    #[arg(long, value_name = "COMMAND")]
    on_alarm: Option<String>,

    /// An address to post alarms to, as JSON
    #[arg(long, value_name = "URL")]
    alarm_url: Option<String>,

    /// Keep the numbers of the last N rows called OoD, for each model [default: 0, only their ids]
    #[arg(long, value_name = "N")]
    keep_samples: Option<usize>,

    /// How long to go on answering after /v2/health/ready says no [default: 0s]
    #[arg(long, value_name = "TIME")]
    drain: Option<Span>,

    /// How long to wait for what was begun [default: 30s]
    #[arg(long, value_name = "TIME")]
    shutdown_timeout: Option<Span>,

    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,

    /// error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,

    /// Where spans are exported to, such as http://collector:4317 (needs the feature `otel`)
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

impl ServeArgs {
    /// All settings.
    pub(crate) fn config(&self, threads: Option<usize>) -> Result<Config, ServeError> {
        let mut config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        overrides!(
            self, config;
            http, grpc, max_batch, batch_delay, max_queue, max_body, max_memory, max_connections, timeout,
            idle_timeout, poll, false_alarm, monitor_rows, state_interval, keep_samples, drain,
            shutdown_timeout, log_format, log_level;
            metrics, admin, tls_cert, tls_key, token_file, admin_token_file, state, on_alarm, alarm_url, otlp
        );
        if !self.models.is_empty() {
            config.models.clone_from(&self.models);
        }
        if self.no_monitor {
            config.monitor = false;
        }
        if let Some(threads) = threads {
            config.threads = threads;
        }
        Ok(config)
    }
}
