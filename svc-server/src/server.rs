//! The server's life: accept, serve, drain (C38). Owns the tasks that work off webhooks and messages.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;

use crate::app::App;
use crate::config::Config;
use crate::deliver::Webhooks;
use crate::message::Messages;
use crate::outbox::Outbox;
use crate::reply::Reply;
use crate::store::Store;

/// A header block must come within this time; the same timer ends an idle connection (C38).
const HEADER_DEADLINE: Duration = Duration::from_secs(20);
/// A client that takes nothing of its answer for this long is let go (C38).
const WRITE_DEADLINE: Duration = Duration::from_secs(30);
/// Largest header block (C38).
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// Connections are told to close with their next answer; those that send no request are closed after this. A client whose
/// request was on its way in that moment gets its answer.
const LAST_REQUEST: Duration = Duration::from_secs(1);
/// Connections that are not done by then are cut at the end.
const DRAIN_DEADLINE: Duration = Duration::from_secs(15);
/// So much longer have the attempts of the last answers.
const DRAIN_RESERVE: Duration = Duration::from_secs(3);
/// How long a store may take to say what waits at the end.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// How often it is looked for data that have been kept long enough.
const FORGET_EVERY: Duration = Duration::from_secs(60 * 60);
/// So long does a start wait for its database; then requests are served, with 503 until it is ready.
#[cfg(feature = "postgres")]
const PREPARE_DEADLINE: Duration = Duration::from_secs(3);
/// How often a database that was away at the start is looked for.
const PREPARE_PAUSE: Duration = Duration::from_secs(1);
/// The same after a time when that failed.
const FORGET_AGAIN: Duration = Duration::from_secs(60);
/// Connections of those who read the metrics.
const MAX_SCRAPERS: usize = 16;
/// After an accept that failed for lack of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves on a bound listener until `shutdown` completes, then stops accepting, lets requests and attempts end, and
/// returns.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use svc_server::{Config, Partners, run};
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let config = Config::homologacao(Partners::demonstration()).unwrap();
/// run(listener, config, std::future::ready(())).await?; // told to stop at once
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// The listener's address cannot be read; the database refuses this server, or its schema is newer; or a fault of ours ended
/// the delivery of webhooks or messages. A database that is away ends nothing, and nothing that a client does ends a server.
pub async fn run(listener: TcpListener, mut config: Config, shutdown: impl Future<Output = ()>) -> io::Result<()> {
    let metrics = config.metrics.take();
    let app = prepare(&listener, config).await?;
    let sender = app.config.sender.clone();
    let ended = work(app, listener, metrics, shutdown).await;
    sender.flush().await;
    ended
}

/// A server before its first request.
pub(crate) async fn prepare(listener: &TcpListener, config: Config) -> io::Result<Arc<App>> {
    let base_url = match &config.base_url {
        Some(base_url) => base_url.clone(),
        None => format!("http://{}", listener.local_addr()?),
    };
    let store = open(&config).await?;
    Ok(Arc::new(App::new(config, store, &base_url)))
}

/// Its life after that.
pub(crate) async fn work(
    app: Arc<App>,
    listener: TcpListener,
    metrics: Option<TcpListener>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (stop, stopped) = watch::channel(None);
    // All of it ends with this future, however that ends.
    let mut work = JoinSet::new();
    work.spawn(Outbox::new(Webhooks::new(Arc::clone(&app))).run(told(stopped.clone())));
    work.spawn(Outbox::new(Messages::new(Arc::clone(&app))).run(told(stopped)));
    let mut apart = JoinSet::new();
    if let Some(retention) = app.config.retention {
        apart.spawn(forget(Arc::clone(&app), retention));
    }
    if let Some(listener) = metrics {
        // Until the very end: what happens there is worth seeing.
        let scraped = serve(listener, MAX_SCRAPERS, Arc::clone(&app), App::scrape, std::future::pending());
        apart.spawn(async {
            scraped.await;
        });
    }
    let served = serve(listener, app.config.max_connections, Arc::clone(&app), App::handle, shutdown);
    let mut served = pin!(served);
    let deadline = tokio::select! {
        deadline = &mut served => deadline,
        // It ends only by a panic, and answers that go nowhere are worse than no answers.
        Some(_) = work.join_next() => return Err(io::Error::other("a task that works off what is due failed")),
        error = refused(&app.store) => return Err(error),
    };
    // Requests have ended: each could still make work. That has the rest of the time, and a little more.
    stop.send_replace(Some(deadline + DRAIN_RESERVE));
    while let Some(ended) = work.join_next().await {
        if ended.is_err() {
            tracing::error!("a task that works off what is due had failed");
        }
    }
    let partners = app.config.partners.current();
    if let Ok(Ok(waiting)) = tokio::time::timeout(LAST_LOOK, app.store.waiting(&partners)).await {
        let [webhooks, messages] = [waiting.webhooks, waiting.messages].map(|waits| waits.count + waits.of_removed);
        match webhooks + messages {
            0 => {}
            _ if app.store.lasts() => tracing::info!(webhooks, messages, "wait in the store for the next server"),
            _ => tracing::warn!(webhooks, messages, "not delivered at the end, and lost with the store in memory"),
        }
    }
    Ok(())
}

/// The store that the settings name.
async fn open(config: &Config) -> io::Result<Store> {
    #[cfg(feature = "postgres")]
    if let Some(database) = &config.database {
        let writer = u64::from_ne_bytes(config.random.bytes().map_err(io::Error::other)?);
        let store = Store::postgres(database, config.clock.clone(), writer);
        match tokio::time::timeout(PREPARE_DEADLINE, store.prepare()).await {
            Ok(Err(error)) => return Err(io::Error::other(error)),
            Ok(Ok(true)) => {}
            Ok(Ok(false)) | Err(_) => tracing::warn!("database is not ready; until it is, requests are answered 503"),
        }
        return Ok(store);
    }
    Ok(Store::memory(config.max_proposals, config.clock.clone()))
}

/// Prepares a store that was not ready, as soon as it comes. Completes only if it cannot be used.
async fn refused(store: &Store) -> io::Error {
    loop {
        match store.prepare().await {
            Ok(true) => std::future::pending().await,
            Ok(false) => tokio::time::sleep(PREPARE_PAUSE).await,
            Err(error) => return io::Error::other(error),
        }
    }
}

/// Takes the data of persons out of what was answered long enough ago, hour by hour.
async fn forget(app: Arc<App>, retention: Duration) {
    loop {
        let before =
            TimeDelta::from_std(retention).ok().and_then(|time| app.config.clock.now().checked_sub_signed(time));
        let forgotten = match before {
            Some(before) => app.store.forget(before).await,
            None => Ok(0),
        };
        let pause = match forgotten {
            Ok(0) => FORGET_EVERY,
            Ok(records) => {
                tracing::info!(records, "data of persons removed");
                FORGET_EVERY
            }
            Err(error) => {
                tracing::warn!(%error, "data of persons not removed yet");
                FORGET_AGAIN
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Completes with the deadline once there is one.
async fn told(mut stopped: watch::Receiver<Option<Instant>>) -> Instant {
    match stopped.wait_for(Option::is_some).await {
        Ok(deadline) => deadline.unwrap_or_else(Instant::now),
        Err(_) => Instant::now(),
    }
}

/// Accepts until told to stop, then lets requests end until the deadline that it gives.
async fn serve<F>(
    listener: TcpListener,
    max_connections: usize,
    app: Arc<App>,
    handle: fn(Arc<App>, Request<Incoming>, IpAddr) -> F,
    shutdown: impl Future<Output = ()>,
) -> Instant
where
    F: Future<Output = Reply> + Send + 'static,
{
    let connections = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
    let (graceful, closing) = (GracefulShutdown::new(), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut failing = false;
    loop {
        // At the cap the listener pauses: what comes waits in the operating system's queue.
        let accepted = async {
            let permit = Arc::clone(&connections).acquire_owned().await.expect("never closed");
            (permit, listener.accept().await)
        };
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown, if !closing.load(Ordering::Relaxed) => {
                closing.store(true, Ordering::Relaxed);
                continue;
            }
            Some(_) = tasks.join_next() => continue,
            accepted = accepted => Some(accepted),
            // Whoever had connected before is served, once the runtime has looked; then the listener goes.
            () = tokio::task::yield_now(), if closing.load(Ordering::Relaxed) => None,
        };
        match accepted {
            None => break,
            Some((permit, Ok((stream, peer)))) => {
                failing = false;
                // An answer goes out at once, also one that takes more than one packet.
                let _ = stream.set_nodelay(true);
                let (app, peer, closing) = (Arc::clone(&app), peer.ip(), Arc::clone(&closing));
                let connection = connection(stream, move |request| {
                    let (app, closing) = (Arc::clone(&app), Arc::clone(&closing));
                    async move {
                        let mut reply = handle(app, request, peer).await;
                        if closing.load(Ordering::Relaxed) {
                            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                        }
                        Ok(reply)
                    }
                });
                let connection = graceful.watch(connection);
                tasks.spawn(async move {
                    // A broken connection is the client's affair.
                    let _ = connection.await;
                    drop(permit);
                });
            }
            Some((_, Err(error))) if is_connection_error(&error) => {}
            Some((_, Err(_))) if closing.load(Ordering::Relaxed) => break,
            // Out of descriptors, or of memory: it passes when others are done. Said once, not each time.
            Some((_, Err(error))) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "accept fails");
                }
                tokio::select! {
                    () = &mut shutdown => closing.store(true, Ordering::Relaxed),
                    () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                }
            }
        }
    }
    drop(listener);
    let deadline = Instant::now() + DRAIN_DEADLINE;
    let ended = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_REQUEST, ended).await;
    if tokio::time::timeout_at(deadline.into(), graceful.shutdown()).await.is_err() {
        tracing::warn!("connections cut off at the end");
    }
    tasks.shutdown().await;
    deadline
}

/// One connection, HTTP/1.1 only: TLS and HTTP/2 belong to the proxy in front.
fn connection<F>(
    stream: TcpStream,
    handle: impl Fn(Request<Incoming>) -> F + Send + 'static,
) -> impl GracefulConnection<Error = hyper::Error>
where
    F: Future<Output = Result<Reply, Infallible>> + Send + 'static,
{
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_DEADLINE));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_DEADLINE)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), service_fn(handle))
}

/// Faults of one connection; anything else is the machine's, and passes.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
