//! The end of a server: first it says that it is not ready, then it takes no more, then it finishes what it began.

use tokio::sync::watch;

/// Where a server is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// Not ready any more, for whoever asks; everything is still answered.
    Draining,
    /// No new connections.
    Closing,
}

/// The phase, to be told and to be waited for.
#[derive(Clone)]
pub(crate) struct Phases(watch::Sender<Phase>);

impl Default for Phases {
    fn default() -> Self {
        Phases(watch::Sender::new(Phase::Serving))
    }
}

impl Phases {
    pub(crate) fn now(&self) -> Phase {
        *self.0.borrow()
    }

    pub(crate) fn set(&self, phase: Phase) {
        self.0.send_replace(phase);
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Phase> {
        self.0.subscribe()
    }
}

/// Waits until no new connections are taken.
pub(crate) async fn closing(phase: &mut watch::Receiver<Phase>) {
    // Nobody who could tell is there any more: that is the end, too.
    let _ = phase.wait_for(|phase| *phase == Phase::Closing).await;
}

/// Signals that ask the process to end, also those that come before anybody waits for them.
pub(crate) struct EndSignals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl EndSignals {
    /// From now on none is lost.
    #[cfg(unix)]
    pub(crate) fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(EndSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(EndSignals {})
    }

    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> &'static str {
        // Without a way to hear of it the server ends by force alone.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}
