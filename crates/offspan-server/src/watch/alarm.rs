//! Who is told of an alarm: a command, a web hook.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Request, Uri, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use offspan::{Alarm, AlarmKind, MonitorOptions};
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::ServeError;
use crate::models::Version;
use crate::net::tls;
use crate::stats::Stats;

/// How long a command or a web hook may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Times that a web hook is called before it is given up.
const ATTEMPTS: u32 = 4;

/// An alarm, as it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AlarmEvent {
    schema: String,
    pub(super) model: String,
    pub(super) version: String,
    kind: AlarmKind,
    /// The row of the stream, from 0.
    pub(crate) row: usize,
    /// The decimal logarithm of the evidence.
    evidence_log10: f64,
    /// The chance that a stream without change ever raises an alarm.
    false_alarm: f64,
    /// Seconds since 1970.
    time: f64,
    /// The same in words.
    pub(crate) words: String,
}

impl AlarmEvent {
    pub(super) fn new(
        version: &Version,
        alarm: Alarm,
        evidence_log10: f64,
        options: &MonitorOptions,
        time: f64,
    ) -> Self {
        let what = match alarm.kind {
            AlarmKind::Share => "more rows are out",
            AlarmKind::Distribution => "the scores have moved",
        };
        AlarmEvent {
            schema: "offspan.alarm/1".to_owned(),
            model: version.name.clone(),
            version: version.version.clone(),
            kind: alarm.kind,
            row: alarm.row,
            // JSON knows no infinity.
            evidence_log10: evidence_log10.min(f64::MAX),
            false_alarm: options.false_alarm,
            time,
            words: format!("{what}, at row {} of the stream", alarm.row),
        }
    }
}

/// Where a web hook is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hook {
    uri: Uri,
    host: String,
    port: u16,
    encrypted: bool,
}

impl Hook {
    fn of(address: &str) -> Result<Self, ServeError> {
        let wrong = || {
            ServeError::Setting(format!(
                "alarm_url: expected an address such as https://host/path, got `{address}`"
            ))
        };
        let uri: Uri = address.parse().map_err(|_| wrong())?;
        let encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let host = uri.host().ok_or_else(wrong)?.to_owned();
        let port = uri.port_u16().unwrap_or(if encrypted { 443 } else { 80 });
        Ok(Hook { uri, host, port, encrypted })
    }
}

/// Tells of alarms, one after the other, without keeping anybody waiting.
pub(crate) struct Teller {
    command: Option<String>,
    hook: Option<Hook>,
    stats: Arc<Stats>,
}

impl Teller {
    pub(crate) fn new(
        command: Option<String>,
        hook: Option<&str>,
        stats: Arc<Stats>,
    ) -> Result<Self, ServeError> {
        let hook = hook.map(Hook::of).transpose()?;
        Ok(Teller { command, hook, stats })
    }

    /// Tells of alarms until no more can come. `told` hears of each that everybody was told of.
    pub(crate) async fn run(
        self,
        mut alarms: mpsc::UnboundedReceiver<AlarmEvent>,
        told: impl Fn(AlarmEvent),
    ) {
        while let Some(alarm) = alarms.recv().await {
            let text = serde_json::json!(alarm).to_string();
            let mut all_told = true;
            if let Some(command) = &self.command {
                let result = run_command(command, &text).await;
                all_told &= self.note("command", result);
            }
            if let Some(hook) = &self.hook {
                let mut result = post(hook, &text).await;
                let mut pause = Duration::from_secs(1);
                for _ in 1..ATTEMPTS {
                    if result.is_ok() {
                        break;
                    }
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                    result = post(hook, &text).await;
                }
                all_told &= self.note("web hook", result);
            }
            // With a state on disk the others are told again when the server begins anew.
            if all_told {
                told(alarm);
            }
        }
    }

    fn note(&self, what: &str, result: Result<(), String>) -> bool {
        match &result {
            Ok(()) => self.stats.alarms_told.add("told"),
            Err(reason) => {
                self.stats.alarms_told.add("failed");
                tracing::error!("the {what} for an alarm failed: {reason}");
            }
        }
        result.is_ok()
    }
}

/// Runs a command with the alarm on its stdin.
async fn run_command(command: &str, text: &str) -> Result<(), String> {
    let mut shell = tokio::process::Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::piped()).kill_on_drop(true);
    let mut child = shell.spawn().map_err(|error| error.to_string())?;
    let work = async {
        if let Some(mut stdin) = child.stdin.take() {
            // A command that does not read it has all the same been run.
            let _ = stdin.write_all(text.as_bytes()).await;
        }
        child.wait().await
    };
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(status.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("it took longer than {PATIENCE:?}")),
    }
}

async fn post(hook: &Hook, text: &str) -> Result<(), String> {
    let work = async {
        let stream = TcpStream::connect((hook.host.as_str(), hook.port)).await;
        let stream = stream.map_err(|error| error.to_string())?;
        if !hook.encrypted {
            return send(hook, text, stream).await;
        }
        let connector = tls::connector()?;
        let name = ServerName::try_from(hook.host.clone()).map_err(|error| error.to_string())?;
        let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
        send(hook, text, stream).await
    };
    let late = |_| Err(format!("it took longer than {PATIENCE:?}"));
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(late)
}

async fn send(
    hook: &Hook,
    text: &str,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<(), String> {
    let words = |error: hyper::Error| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
    let driver = tokio::spawn(connection);
    let path = hook.uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(header::HOST, hook.uri.authority().map_or(hook.host.as_str(), |host| host.as_str()))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, concat!("offspan/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(Bytes::from(text.to_owned())))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(words)?;
    let status = response.status();
    let _ = response.into_body().collect().await;
    driver.abort();
    if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_web_hooks_are_checked() {
        let hook = Hook::of("https://example.org/a?b=c").unwrap();
        assert_eq!((hook.host.as_str(), hook.port, hook.encrypted), ("example.org", 443, true));
        assert_eq!(Hook::of("http://127.0.0.1:9/x").unwrap().port, 9);
        for wrong in ["", "example.org", "ftp://example.org", "https://"] {
            assert!(Hook::of(wrong).is_err(), "{wrong}");
        }
    }
}
