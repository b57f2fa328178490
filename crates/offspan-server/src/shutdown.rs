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

/// Waits for a signal that asks the process to end.
pub(crate) async fn asked_to_end() -> std::io::Result<&'static str> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        Ok(tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        })
    }
    #[cfg(not(unix))]
    {
        tokio::signal::ctrl_c().await?;
        Ok("Ctrl-C")
    }
}
