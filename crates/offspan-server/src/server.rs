//! A server from its settings: everything is put together here, started, and ended.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::admin::Gate;
use crate::app::App;
use crate::batch::{BatchOptions, Scorers};
use crate::config::Config;
use crate::live::Live;
use crate::models::Repository;
use crate::net::auth::{Door, Tokens};
use crate::net::body::Budget;
use crate::net::listener::{ListenOptions, Listener, Speaks};
use crate::net::tls::Certificate;
use crate::observe::{Observer, observe};
use crate::shutdown::{EndSignals, Phase, Phases};
use crate::stats::Stats;
use crate::watch::{Monitors, Teller, WatchOptions};
use crate::{ServeError, admin, grpc, log, page, rest};

/// Serves until a signal asks to end. Gives back when everything that was begun is done.
///
/// # Errors
/// If a setting, a model or an address cannot be used.
pub fn run(config: Config) -> Result<(), ServeError> {
    config.check()?;
    let workers = config.scoring_threads();
    // Scoring in parts uses the library's own threads; they follow the same bound.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(workers).build_global();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("serve")
        .enable_all()
        .build()
        .map_err(ServeError::System)?;
    let result = runtime.block_on(async {
        let mut signals = EndSignals::new().map_err(ServeError::System)?;
        let logs = log::start(&config)?;
        // Large models take long to load, and somebody may change their mind.
        let started = tokio::select! {
            started = Server::start(config) => Ok(started?),
            signal = signals.next() => Err(signal),
        };
        match started {
            Ok(server) => {
                let signal = signals.next().await;
                tracing::info!(signal, "asked to end");
                server.stop().await;
            }
            Err(signal) => tracing::info!(signal, "asked to end before it had begun"),
        }
        logs.finish();
        Ok(())
    });
    // What still loads is of no use to anybody.
    runtime.shutdown_background();
    result
}

/// A running server.
pub struct Server {
    app: Arc<App>,
    addresses: Addresses,
    listeners: JoinSet<()>,
    background: JoinSet<()>,
    teller: JoinSet<()>,
}

/// Where a server listens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Addresses {
    /// REST and the page.
    pub http: Option<SocketAddr>,
    /// gRPC.
    pub grpc: Option<SocketAddr>,
    /// Metrics alone.
    pub metrics: Option<SocketAddr>,
    /// Models, monitors and metrics.
    pub admin: Option<SocketAddr>,
}

impl Server {
    /// Loads all models and begins to listen.
    ///
    /// # Errors
    /// If a setting, a model or an address cannot be used.
    pub async fn start(config: Config) -> Result<Self, ServeError> {
        config.check()?;
        let stats = Arc::new(Stats::new(config.max_batch));
        let certificate = match (&config.tls_cert, &config.tls_key) {
            (Some(cert), Some(key)) => Some(Arc::new(Certificate::open(cert, key)?)),
            _ => None,
        };
        let tokens = config.token_file.as_deref().map(Tokens::open).transpose()?;
        let admin_tokens = config.admin_token_file.as_deref().map(Tokens::open).transpose()?;
        let mut teller = JoinSet::new();
        let monitors = start_monitors(&config, &stats, &mut teller)?;
        let repository = {
            let (paths, stats) = (config.models.clone(), Arc::clone(&stats));
            let keep = config.keep_samples;
            let open = tokio::task::spawn_blocking(move || Repository::open(&paths, stats, keep));
            let failed =
                |error: tokio::task::JoinError| ServeError::System(std::io::Error::other(error));
            Arc::new(open.await.map_err(failed)??)
        };
        let listener = monitors.clone();
        let scorers = Scorers::start(
            BatchOptions {
                max_batch: config.max_batch,
                delay: config.batch_delay.0,
                max_queue: config.max_queue,
                threads: config.scoring_threads(),
            },
            Arc::clone(&stats),
            Box::new(move |version, scores| {
                if let Some(monitors) = &listener {
                    monitors.scores(version, scores);
                }
            }),
        )
        .map_err(ServeError::System)?;
        let app = Arc::new(App {
            budget: Budget::new(config.max_memory, Arc::clone(&stats)),
            readers: Arc::new(Semaphore::new(config.scoring_threads().max(1))),
            config,
            repository,
            scorers,
            monitors,
            stats: Arc::clone(&stats),
            phases: Phases::default(),
            tokens,
            admin_tokens,
            live: Live::default(),
            open_admin: AtomicBool::new(false),
        });
        app.watch_all();
        let (addresses, bound) = bind(&app).await?;
        let options = ListenOptions {
            certificate: certificate.clone(),
            max_connections: app.config.max_connections,
            idle: app.config.idle_timeout.0,
            shutdown: app.config.shutdown_timeout.0,
            stats,
        };
        let mut listeners = JoinSet::new();
        for listener in bound {
            listeners.spawn(listener.run(options.clone(), app.phases.watch()));
        }
        let mut background = JoinSet::new();
        background.spawn(tick(Arc::clone(&app)));
        if !app.config.poll.0.is_zero() {
            background.spawn(look_at_files(Arc::clone(&app), certificate));
        }
        say_hello(&app, addresses);
        Ok(Server { app, addresses, listeners, background, teller })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Says that it is not ready, waits as long as it was told to, takes no more, and finishes what it began.
    pub async fn stop(mut self) {
        self.app.phases.set(Phase::Draining);
        tokio::time::sleep(self.app.config.drain.0).await;
        self.app.phases.set(Phase::Closing);
        self.app.scorers.hurry();
        while self.listeners.join_next().await.is_some() {}
        self.background.shutdown().await;
        let app = Arc::clone(&self.app);
        let ended = tokio::task::spawn_blocking(move || {
            app.scorers.stop();
            if let Some(monitors) = &app.monitors {
                monitors.hush();
            }
        });
        let _ = ended.await;
        // Alarms of the last rows are still told, and that they were is saved.
        let told = async { while self.teller.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.app.config.shutdown_timeout.0, told).await;
        if let Some(monitors) = self.app.monitors.clone() {
            let _ = tokio::task::spawn_blocking(move || monitors.stop()).await;
        }
        tracing::info!("ended");
    }
}

fn start_monitors(
    config: &Config,
    stats: &Arc<Stats>,
    teller: &mut JoinSet<()>,
) -> Result<Option<Arc<Monitors>>, ServeError> {
    if !config.monitor {
        return Ok(None);
    }
    let (sender, alarms) = mpsc::unbounded_channel();
    let hook = config.alarm_url.as_deref();
    let teller_of_alarms = Teller::new(config.on_alarm.clone(), hook, Arc::clone(stats))?;
    let folder = config.state.as_deref().map(crate::watch::StateFolder::open).transpose()?;
    let options = WatchOptions {
        false_alarm: config.false_alarm,
        rows: config.monitor_rows,
        folder,
        save_every: config.state_interval.0,
    };
    let tell = Box::new(move |alarm| {
        let _ = sender.send(alarm);
    });
    let monitors = Monitors::start(options, Arc::clone(stats), tell).map_err(ServeError::System)?;
    let monitors = Arc::new(monitors);
    let weak = Arc::downgrade(&monitors);
    teller.spawn(teller_of_alarms.run(alarms, move |event| {
        if let Some(monitors) = weak.upgrade() {
            monitors.told(event);
        }
    }));
    Ok(Some(monitors))
}

/// Routes with everything around them.
fn finished(routes: Router<Arc<App>>, app: &Arc<App>, door: Door) -> Router {
    let observer = Observer { app: Arc::clone(app), door };
    routes.layer(from_fn_with_state(observer, observe)).with_state(Arc::clone(app))
}

/// Opens every address that is wanted.
async fn bind(app: &Arc<App>) -> Result<(Addresses, Vec<Listener>), ServeError> {
    let config = &app.config;
    let mut addresses = Addresses::default();
    let mut bound = Vec::new();
    if config.http != "off" {
        let mut listener = Listener::bind(&config.http, Speaks::Http1).await?;
        let gate = Gate::new(app, Door::Rest, listener.address);
        let mut routes =
            rest::routes().merge(page::routes()).merge(admin::index()).merge(admin::changes(gate));
        if config.metrics.is_none() && config.admin.is_none() {
            routes = routes.merge(admin::metrics());
        }
        listener.router = finished(rest::with_fallbacks(routes), app, Door::Rest);
        addresses.http = Some(listener.address);
        bound.push(listener);
    }
    if config.grpc != "off" {
        let mut listener = Listener::bind(&config.grpc, Speaks::Http2).await?;
        listener.router = finished(grpc::routes(app), app, Door::Grpc);
        addresses.grpc = Some(listener.address);
        bound.push(listener);
    }
    if let Some(address) = &config.metrics {
        let mut listener = Listener::bind(address, Speaks::Http1).await?;
        listener.router = finished(rest::with_fallbacks(admin::metrics()), app, Door::Rest);
        addresses.metrics = Some(listener.address);
        bound.push(listener);
    }
    if let Some(address) = &config.admin {
        let mut listener = Listener::bind(address, Speaks::Http1).await?;
        if !listener.address.ip().is_loopback() && app.tokens_of(Door::Admin).is_none() {
            return Err(ServeError::Setting(format!(
                "admin: {} can be reached from elsewhere: expected admin_token_file or token_file, got neither",
                listener.address
            )));
        }
        let gate = Gate::new(app, Door::Admin, listener.address);
        let routes = admin::metrics().merge(admin::index()).merge(admin::changes(gate));
        listener.router = finished(rest::with_fallbacks(routes), app, Door::Admin);
        addresses.admin = Some(listener.address);
        bound.push(listener);
    }
    let here = |addresses: &[Option<SocketAddr>]| {
        addresses.iter().flatten().all(|address| address.ip().is_loopback())
    };
    let asked_here = here(&[addresses.http, addresses.grpc]);
    let open = config.admin.is_none() && (asked_here || config.token_file.is_some());
    app.open_admin.store(open, Ordering::Relaxed);
    if !(asked_here && here(&[addresses.metrics])) && config.token_file.is_none() {
        tracing::warn!("everyone who reaches this machine can ask: there is no token file");
    }
    if !(asked_here && here(&[addresses.metrics, addresses.admin])) && config.tls_cert.is_none() {
        tracing::warn!(
            "requests and answers go over the network unencrypted: there is no certificate"
        );
    }
    Ok((addresses, bound))
}

fn say_hello(app: &App, addresses: Addresses) {
    let show = |address: Option<SocketAddr>| address.map(|address| address.to_string());
    let models: Vec<String> =
        app.repository.all().iter().map(|v| format!("{} {}", v.name, v.version)).collect();
    tracing::info!(
        http = show(addresses.http),
        grpc = show(addresses.grpc),
        metrics = show(addresses.metrics),
        admin = show(addresses.admin),
        models = models.join(", "),
        "listening"
    );
    if app.config.monitor && app.config.state.is_none() {
        tracing::info!(
            "monitors of drift begin anew with every start: there is no folder for their state"
        );
    }
}

/// Once a second, for the page.
async fn tick(app: Arc<App>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        app.live.tick(&app);
    }
}

/// Loads what changed on disk: models, tokens, the certificate.
async fn look_at_files(app: Arc<App>, certificate: Option<Arc<Certificate>>) {
    let mut looks = tokio::time::interval(app.config.poll.0);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = secrets(&app);
    loop {
        looks.tick().await;
        let (app, certificate, before) = (Arc::clone(&app), certificate.clone(), seen.clone());
        let look = tokio::task::spawn_blocking(move || {
            if !app.repository.refresh(None).is_empty() {
                app.watch_all();
            }
            let now = secrets(&app);
            if now != before {
                tracing::info!("a token file or the certificate has changed: read again");
                app.tokens.iter().chain(&app.admin_tokens).for_each(Tokens::refresh);
                if let Some(certificate) = certificate {
                    certificate.refresh();
                }
            }
            now
        });
        match look.await {
            Ok(now) => seen = now,
            Err(error) => tracing::error!("looking at the files failed: {error}"),
        }
    }
}

/// When the files of tokens and keys were written last.
fn secrets(app: &App) -> Vec<Option<std::time::SystemTime>> {
    let config = &app.config;
    [&config.token_file, &config.admin_token_file, &config.tls_cert, &config.tls_key]
        .into_iter()
        .map(|path| path.as_ref()?.metadata().ok()?.modified().ok())
        .collect()
}
