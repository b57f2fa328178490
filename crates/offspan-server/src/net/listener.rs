//! The loop that takes connections, and what each of them is served with.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::{Semaphore, watch};

use super::answering::Requests;
use super::stall::Stall;
use super::tls::Certificate;
use crate::ServeError;
use crate::shutdown::{Phase, closing};
use crate::stats::Stats;

/// How a connection hears that the server ends, and how the server hears that the connection has.
type End = (Watcher, watch::Receiver<Phase>);

/// What is said to a connection too many, before it is closed.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
Content-Type: application/json\r\nContent-Length: 33\r\n\r\n{\"error\":\"too many connections\"}\n";
/// After a failure to take connections, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// Streams of one HTTP/2 connection.
const MOST_STREAMS: u32 = 256;
/// Bytes of all headers of a request.
const LONGEST_HEADERS: u32 = 16 << 10;
/// Bytes that HTTP/2 peers may send before they are read: a large batch should not wait for permission.
const WINDOW: u32 = 4 << 20;

/// Which protocol a listener speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http1,
    Http2,
}

/// Bounds of connections.
#[derive(Clone)]
pub(crate) struct ListenOptions {
    pub(crate) certificate: Option<Arc<Certificate>>,
    pub(crate) max_connections: usize,
    pub(crate) idle: Duration,
    pub(crate) shutdown: Duration,
    pub(crate) stats: Arc<Stats>,
}

/// An address that is listened at.
pub(crate) struct Listener {
    socket: TcpListener,
    pub(crate) address: SocketAddr,
    speaks: Speaks,
    /// What is served there: nothing, until it is set.
    pub(crate) router: Router,
}

impl Listener {
    pub(crate) async fn bind(address: &str, speaks: Speaks) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen { address: address.to_owned(), source };
        let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
        for found in lookup_host(address).await.map_err(failed)? {
            match TcpListener::bind(found).await {
                Ok(socket) => {
                    let address = socket.local_addr().map_err(failed)?;
                    return Ok(Listener { socket, address, speaks, router: Router::new() });
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// Serves until the server closes; then waits for what was begun.
    pub(crate) async fn run(self, options: ListenOptions, mut phase: watch::Receiver<Phase>) {
        let most = options.max_connections.min(Semaphore::MAX_PERMITS);
        let slots = Arc::new(Semaphore::new(most));
        let graceful = GracefulShutdown::new();
        loop {
            let stream = tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!("a connection could not be taken: {error}");
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                },
                () = closing(&mut phase) => break,
            };
            let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                options.stats.rejected.add("connections");
                tokio::spawn(turn_away(stream, options.clone()));
                continue;
            };
            let _ = stream.set_nodelay(true);
            let (router, options) = (self.router.clone(), options.clone());
            let (watcher, speaks) = (graceful.watcher(), self.speaks);
            let ends = phase.clone();
            tokio::spawn(async move {
                options.stats.connections.fetch_add(1, Ordering::Relaxed);
                serve(stream, speaks, router, &options, (watcher, ends)).await;
                options.stats.connections.fetch_sub(1, Ordering::Relaxed);
                drop(slot);
            });
        }
        drop(self.socket);
        if tokio::time::timeout(options.shutdown, graceful.shutdown()).await.is_err() {
            tracing::warn!("connections that did not end in time are cut");
        }
    }
}

async fn turn_away(mut stream: TcpStream, options: ListenOptions) {
    if options.certificate.is_none() {
        let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(TOO_MANY)).await;
    }
}

async fn serve(
    stream: TcpStream,
    speaks: Speaks,
    router: Router,
    options: &ListenOptions,
    end: End,
) {
    let Some(certificate) = &options.certificate else {
        return speak(stream, speaks, router, options, end).await;
    };
    let acceptor = certificate.acceptor(speaks == Speaks::Http2);
    match tokio::time::timeout(options.idle, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => speak(stream, speaks, router, options, end).await,
        Ok(Err(error)) => tracing::debug!("a connection could not be encrypted: {error}"),
        Err(_) => tracing::debug!("a connection took too long to be encrypted"),
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    speaks: Speaks,
    router: Router,
    options: &ListenOptions,
    end: End,
) {
    match speaks {
        Speaks::Http1 => speak_http1(stream, router, options, end.0).await,
        Speaks::Http2 => speak_http2(stream, router, options, end).await,
    }
}

async fn speak_http1(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    options: &ListenOptions,
    watcher: Watcher,
) {
    let io = TokioIo::new(Stall::new(stream, options.idle, false));
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(options.idle);
    let connection = builder.serve_connection(io, TowerToHyperService::new(router));
    told(watcher.watch(connection).await);
}

async fn speak_http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    options: &ListenOptions,
    (watcher, mut phase): End,
) {
    // Pings are answered by every peer that is there, so silence means that it is gone.
    let io = TokioIo::new(Stall::new(stream, 2 * options.idle, true));
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(options.idle)
        .keep_alive_timeout(options.idle)
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(LONGEST_HEADERS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW);
    let requests = Arc::new(Requests::new(options.idle));
    let service = TowerToHyperService::new(router);
    let theirs = Arc::clone(&requests);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&theirs));
        service.call(request)
    });
    let mut connection = pin!(builder.serve_connection(io, service));
    let server_ends = tokio::select! {
        ended = connection.as_mut() => return told(ended),
        () = closing(&mut phase) => true,
        () = requests.given_up() => false,
    };
    // What else was begun is still done; clients begin a new connection for what comes next.
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = connection => told(ended),
        () = requests.nothing_but_given_up(), if !server_ends => {
            tracing::debug!("a connection whose peer takes no answer is cut");
        }
    }
    // Until now whoever ends the server waits for this one.
    drop(watcher);
}

fn told(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}
