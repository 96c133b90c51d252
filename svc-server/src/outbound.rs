//! One signed request on its way to a receiver: vetted addresses, one deadline over everything, no redirect, no proxy
//! (C31, C32).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use svc_core::{Falha, Policy, SignedRequest};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::config::Config;
use crate::lookup::{Lookups, Unresolved};
use crate::seams::{Stream, Transport};
use crate::tls;

/// One deadline over a whole attempt (C32).
pub(crate) const ATTEMPT_DEADLINE: Duration = Duration::from_secs(15);
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// A name's next address is tried beside one that says nothing for so long (RFC 8305, 5).
const CONNECT_STAGGER: Duration = Duration::from_millis(250);
/// Of an answer's body no more is read.
const MAX_ANSWER_BYTES: usize = 4 * 1024;
/// Largest header block of an answer, and most lines of it.
const MAX_ANSWER_HEADER_BYTES: usize = 16 * 1024;
const MAX_ANSWER_HEADERS: usize = 512;
/// Of a name's addresses no more are tried: a zone of thousands is no way to have us call on them all.
const MAX_ADDRESSES: usize = 8;
/// A connection is kept for the next request to the same receiver; many servers close theirs after five seconds.
const MAX_IDLE: Duration = Duration::from_secs(4);
/// And not for ever, however busy: a receiver can move, and its certificate expire.
const MAX_AGE: Duration = Duration::from_secs(60);
const MAX_IDLE_PER_RECEIVER: usize = 8;
const MAX_IDLE_IN_ALL: usize = 256;
/// Most URLs that are kept as they were read: partners have one or a few, but each of their proposals could have its own.
const MAX_TARGETS: usize = 1_024;
const AGENT: HeaderValue = HeaderValue::from_static(concat!("svc-server/", env!("CARGO_PKG_VERSION")));

/// Sends requests. Kept are connections to a receiver, for a while, and what the latest URLs say.
pub(crate) struct Outbound {
    policy: Policy,
    lookups: Lookups,
    transport: Transport,
    tls: TlsConnector,
    targets: Mutex<HashMap<String, Arc<Target>>>,
    idle: Mutex<Vec<Idle>>,
}

/// A final status line, and the header that can come with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) retry_after: Option<Vec<u8>>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The attempt failed; in fixed words, for the log, at what.
    Failed(Falha, &'static str),
    /// It was not made, for want of room on our side.
    Busy,
}

/// Who is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Receiver {
    https: bool,
    host: Host<String>,
    port: u16,
}

/// What a URL says, read once for all requests that go there. Without `Debug`, as the next: a query can hold a key.
struct Target {
    receiver: Receiver,
    authority: HeaderValue,
    /// With its query.
    path: Uri,
}

/// A connection that nothing is on. The longest idle stand first.
struct Idle {
    target: Arc<Target>,
    connection: Connection,
    since: Instant,
}

/// A connection that ends when it is dropped.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    born: Instant,
    _driver: JoinSet<()>,
}

impl Outbound {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            policy: config.policy.clone(),
            lookups: Lookups::new(config.resolver.clone()),
            transport: config.transport.clone(),
            tls: tls::connector(config.webhook_ca.as_deref()),
            targets: Mutex::default(),
            idle: Mutex::default(),
        }
    }

    /// Sends a request in a partner's name and waits for the status line. It decides, whatever the body does: that is read
    /// only so that the connection can serve again.
    pub(crate) async fn post(&self, partner: &str, signed: SignedRequest<'_>) -> Result<Answer, Unanswered> {
        let deadline = Instant::now() + ATTEMPT_DEADLINE;
        let no_such = Unanswered::Failed(Falha::Conexao, "no such request");
        let target = self.target(signed.url).ok_or(no_such)?;
        let request = target.request(signed).ok_or(no_such)?;
        let exchanged = timeout_at(deadline, pin!(self.exchange(partner, &target.receiver, request))).await;
        let (connection, response) =
            exchanged.map_err(|_| Unanswered::Failed(Falha::TempoEsgotado, "no answer in time"))??;
        let retry_after = response.headers().get(RETRY_AFTER).map(|value| value.as_bytes().to_vec());
        let answer = Answer { code: response.status().as_u16(), retry_after };
        if timeout_at(deadline, read_to_end(response.into_body())).await == Ok(true) {
            self.keep(target, connection);
        }
        Ok(answer)
    }

    /// Lets connections go that nothing came for.
    pub(crate) fn close_idle(&self) {
        let now = Instant::now();
        lock(&self.idle).retain(|idle| now - idle.since < MAX_IDLE && !idle.connection.sender.is_closed());
    }

    /// Where a URL leads.
    fn target(&self, url: &str) -> Option<Arc<Target>> {
        if let Some(target) = lock(&self.targets).get(url) {
            return Some(Arc::clone(target));
        }
        let target = Arc::new(Target::of(url)?);
        let mut targets = lock(&self.targets);
        if targets.len() >= MAX_TARGETS {
            targets.clear();
        }
        targets.insert(url.to_owned(), Arc::clone(&target));
        Some(target)
    }

    /// The request over a connection that is there, else over a new one. What could not be written to one that had ended is
    /// given back by hyper, and was not sent.
    async fn exchange(
        &self,
        partner: &str,
        receiver: &Receiver,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Connection, Response<Incoming>), Unanswered> {
        while let Some(mut connection) = self.idle(receiver) {
            match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok((connection, response)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(broken(&error.into_error())),
                },
            }
        }
        // Rare, and large: in a place of its own.
        let stream = Box::pin(self.connect(partner, receiver)).await?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_ANSWER_HEADER_BYTES).max_headers(MAX_ANSWER_HEADERS);
        let (mut sender, driver) = builder.handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
        let mut _driver = JoinSet::new();
        // How a connection ends is told by the request on it.
        _driver.spawn(async { drop(driver.await) });
        let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
        Ok((Connection { sender, born: Instant::now(), _driver }, response))
    }

    async fn connect(&self, partner: &str, receiver: &Receiver) -> Result<Box<dyn Stream>, Unanswered> {
        let addresses: Vec<IpAddr> = match &receiver.host {
            Host::Ipv4(v4) => vec![IpAddr::V4(*v4)],
            Host::Ipv6(v6) => vec![IpAddr::V6(*v6)],
            Host::Domain(name) => self.lookups.addresses(partner, name).await?.to_vec(),
        };
        // Vetted here, after the name was resolved and before anything is connected to, each time.
        let vetted = addresses.into_iter().filter(|address| self.policy.may_reach(*address));
        let vetted: Vec<_> =
            vetted.map(|address| SocketAddr::new(address, receiver.port)).take(MAX_ADDRESSES).collect();
        if vetted.is_empty() {
            return Err(Unanswered::Failed(Falha::Bloqueado, "no address that --webhook-allow or the world has"));
        }
        let connected = timeout(CONNECT_DEADLINE, first_of(&self.transport, vetted)).await;
        let stream = connected
            .map_err(|_| Unanswered::Failed(Falha::TempoEsgotado, "not connected in time"))?
            .ok_or(Unanswered::Failed(Falha::Conexao, "not connected"))?;
        if !receiver.https {
            return Ok(stream);
        }
        let name = match &receiver.host {
            Host::Domain(name) => ServerName::try_from(name.clone())
                .map_err(|_| Unanswered::Failed(Falha::Tls, "a name that no certificate can have"))?,
            Host::Ipv4(v4) => ServerName::from(IpAddr::V4(*v4)),
            Host::Ipv6(v6) => ServerName::from(IpAddr::V6(*v6)),
        };
        let secured = self.tls.connect(name, stream).await;
        Ok(Box::new(secured.map_err(|error| Unanswered::Failed(Falha::Tls, tls::cause(&error)))?))
    }

    /// A connection that was kept and still stands, the one used last first.
    fn idle(&self, receiver: &Receiver) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        while let Some(last) = idle.iter().rposition(|idle| idle.target.receiver == *receiver) {
            let Idle { connection, since, .. } = idle.remove(last);
            if since.elapsed() < MAX_IDLE && connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    fn keep(&self, target: Arc<Target>, connection: Connection) {
        let mut idle = lock(&self.idle);
        let kept = idle.iter().filter(|idle| idle.target.receiver == target.receiver).count();
        if kept >= MAX_IDLE_PER_RECEIVER || connection.born.elapsed() > MAX_AGE {
            return;
        }
        if idle.len() >= MAX_IDLE_IN_ALL {
            idle.remove(0);
        }
        idle.push(Idle { target, connection, since: Instant::now() });
    }
}

/// Whatever of a critical section was done, what is in it are whole connections, or whole targets.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What broke on a connection that stood.
fn broken(error: &hyper::Error) -> Unanswered {
    let cause = if error.is_parse() { "no HTTP answer" } else { "connection broke" };
    Unanswered::Failed(Falha::Conexao, cause)
}

impl From<Unresolved> for Unanswered {
    fn from(unresolved: Unresolved) -> Self {
        match unresolved {
            Unresolved::Dns => Self::Failed(Falha::Dns, "no address"),
            Unresolved::Late => Self::Failed(Falha::Dns, "name server silent"),
            Unresolved::Busy => Self::Busy,
        }
    }
}

impl Target {
    /// `None` for what no stored URL is.
    fn of(url: &str) -> Option<Self> {
        let url = Url::parse(url).ok()?;
        let host = url.host()?.to_owned();
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        Some(Self {
            path: path.parse().ok()?,
            authority: authority.try_into().ok()?,
            receiver: Receiver { https: url.scheme() == "https", port: url.port_or_known_default()?, host },
        })
    }

    /// A signed request as HTTP/1.1 wants it.
    fn request(&self, signed: SignedRequest<'_>) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(signed.body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        let headers = request.headers_mut();
        headers.reserve(2 + signed.headers.len());
        headers.insert(HOST, self.authority.clone());
        headers.insert(USER_AGENT, AGENT);
        for (name, value) in signed.headers {
            headers.insert(HeaderName::from_static(name), value.try_into().ok()?);
        }
        Some(request)
    }
}

/// Whether a body came to its end within what is read of it.
async fn read_to_end(mut body: Incoming) -> bool {
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > MAX_ANSWER_BYTES {
            return false;
        }
    }
    true
}

/// The first of the addresses that is connected to; the next one is tried when the one before failed or is slow.
async fn first_of(transport: &Transport, addresses: Vec<SocketAddr>) -> Option<Box<dyn Stream>> {
    let mut tries = JoinSet::new();
    for address in addresses {
        let transport = transport.clone();
        tries.spawn(async move { transport.connect(address).await });
        if let Ok(Some(Ok(Ok(stream)))) = timeout(CONNECT_STAGGER, tries.join_next()).await {
            return Some(stream);
        }
    }
    while let Some(tried) = tries.join_next().await {
        if let Ok(Ok(stream)) = tried {
            return Some(stream);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partners::Partners;

    #[test]
    fn what_urls_say_is_kept_up_to_a_limit_and_two_of_one_receiver_share_its_connections() {
        let outbound = Outbound::new(&Config::homologacao(Partners::demonstration()).unwrap());
        let of = |url: &str| outbound.target(url).unwrap();
        let [one, other] = ["https://A.example/um?k=1", "https://a.example:443/dois"].map(of);
        assert_eq!((one.path.to_string(), other.path.to_string()), ("/um?k=1".to_owned(), "/dois".to_owned()));
        assert_eq!((&one.receiver, &one.authority), (&other.receiver, &"a.example".parse().unwrap()));
        assert!(Arc::ptr_eq(&one, &of("https://A.example/um?k=1")));
        assert!(outbound.target("nothing").is_none());
        for number in 0..3 * MAX_TARGETS {
            assert_eq!(of(&format!("http://127.0.0.1:8080/{number}")).path.path(), format!("/{number}"));
            assert!(lock(&outbound.targets).len() <= MAX_TARGETS);
        }
    }
}
