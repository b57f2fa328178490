//! What all handlers share, and the way of a request once its tensors are known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::batch::Scorers;
use crate::config::Config;
use crate::live::Live;
use crate::models::{Repository, Version};
use crate::net::auth::{Door, Tokens};
use crate::net::body::{Budget, Held};
use crate::protocol::answer::{Answer, room_for};
use crate::protocol::request::InferRequest;
use crate::protocol::signature::shown_id;
use crate::refusal::{Kind, Refusal};
use crate::shutdown::{Phase, Phases};
use crate::stats::Stats;
use crate::watch::Monitors;

/// What a server has.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) repository: Arc<Repository>,
    pub(crate) scorers: Scorers,
    pub(crate) monitors: Option<Arc<Monitors>>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) phases: Phases,
    pub(crate) budget: Budget,
    /// Long bodies that are read at a time: no more than there are cores.
    pub(crate) readers: Arc<Semaphore>,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) admin_tokens: Option<Tokens>,
    pub(crate) live: Live,
    /// Whether everyone who reaches the main listeners may load and unload models.
    pub(crate) open_admin: AtomicBool,
}

/// When a request came, put beside it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived(pub(crate) Instant);

impl App {
    /// The tokens that open a listener. Those of everyone else open the admin listener where it has none of its own: it is
    /// never more open than the others.
    pub(crate) fn tokens_of(&self, door: Door) -> Option<&Tokens> {
        match door {
            Door::Rest | Door::Grpc => self.tokens.as_ref(),
            Door::Admin => self.admin_tokens.as_ref().or(self.tokens.as_ref()),
        }
    }

    /// Whether every model can be asked, and will be for a while.
    pub(crate) fn ready(&self) -> bool {
        self.phases.now() == Phase::Serving && self.repository.ready()
    }

    /// When a request is given up.
    pub(crate) fn deadline(&self, arrived: Arrived) -> tokio::time::Instant {
        tokio::time::Instant::from_std(arrived.0 + self.config.timeout.0)
    }

    /// Scores the rows of a request.
    pub(crate) async fn infer(
        &self,
        version: &Arc<Version>,
        mut request: InferRequest,
        request_id: &str,
        arrived: Arrived,
        held: &Held,
    ) -> Result<Answer, Refusal> {
        let id = request.id.take();
        let (mut inputs, wanted) = request.check(&version.signature)?;
        held.take(room_for(inputs.rows, &wanted))?;
        // Rows that wait take memory, also when whoever asked does not wait any more.
        inputs.held = Some(held.clone());
        let known_as = shown_id(id.as_deref().unwrap_or(request_id));
        let answer = self.scorers.submit(version, known_as, inputs)?;
        let verdicts = match tokio::time::timeout_at(self.deadline(arrived), answer).await {
            Ok(Ok(result)) => result?,
            Ok(Err(_)) => return Err(Refusal::new(Kind::Internal, "the rows were lost")),
            Err(_) => {
                let reason = format!("the rows were not scored within {}", self.config.timeout);
                return Err(Refusal::new(Kind::Late, reason));
            }
        };
        let (model, number) = (version.name.clone(), version.version.clone());
        Ok(Answer { model, version: number, id, verdicts, wanted })
    }

    /// Counts a request for scores that was answered.
    pub(crate) fn count(
        &self,
        version: Option<&Version>,
        protocol: &'static str,
        code: u16,
        arrived: Arrived,
    ) {
        match version {
            Some(version) => {
                version.stats.requests.add((protocol, code));
                version.stats.seconds.add(arrived.0.elapsed().as_secs_f64());
            }
            None => self.stats.strays.add(code),
        }
    }

    /// Takes up the monitors of all versions, and drops those of versions whose folder is gone.
    pub(crate) fn watch_all(&self) {
        if let Some(monitors) = &self.monitors {
            // One that was unloaded on request is still in the index, and goes on when it is loaded again.
            let index = self.repository.index().into_iter();
            let known = index.map(|entry| (entry.name, entry.version)).collect();
            monitors.watch(self.repository.all(), known);
        }
    }

    /// Fails unless models may be loaded and unloaded from a main listener.
    pub(crate) fn check_open_admin(&self) -> Result<(), Refusal> {
        if self.open_admin.load(Ordering::Relaxed) {
            return Ok(());
        }
        let reason = if self.config.admin.is_some() {
            "models are loaded and unloaded at the admin address"
        } else {
            "this address can be reached from elsewhere: loading models takes a token file or an admin address"
        };
        Err(Refusal::new(Kind::Forbidden, reason))
    }

    /// What Prometheus reads.
    pub(crate) fn all_metrics(&self) -> String {
        self.stats.exposition(&self.repository, self.scorers.waiting(), self.budget.used())
    }
}
