//! The door of the fake: takes each request whole, breaks what it is told to break, and passes the rest to the server.

use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use svc_core::Invalid;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::auth::Refused;
use crate::fake::fault::Kind;
use crate::fake::{FakeClock, Fault, Route};
use crate::reply::{Problem, X_SVC_CAPABILITIES, X_SVC_REPLAYED};

pub(crate) struct Front {
    /// The server behind it.
    inner: SocketAddr,
    clock: FakeClock,
    state: Mutex<State>,
    /// Counts requests, for those who wait for them; each change lets them look again.
    arrivals: watch::Sender<()>,
    /// Counts the orders to close what is idle.
    closing: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    next: HashMap<Route, VecDeque<Fault>>,
    always: HashMap<Route, Fault>,
    requests: HashMap<Route, Vec<Request<Bytes>>>,
    effects: HashMap<String, usize>,
    /// Tokens that the server gave out, and what they are replaced by since.
    tokens: HashSet<String>,
    replaced: HashMap<String, String>,
    silent: bool,
}

/// The connection ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("hung up")]
pub(crate) struct HungUp;

impl Front {
    pub(crate) fn new(inner: SocketAddr, clock: FakeClock) -> Self {
        let (arrivals, closing) = (watch::channel(()).0, watch::channel(()).0);
        Self { inner, clock, state: Mutex::default(), arrivals, closing }
    }

    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // A caller's broken connection; or no descriptor is left, and others must end first.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let front = Arc::clone(&self);
            let mut closing = self.closing.subscribe();
            tokio::spawn(async move {
                let service = service_fn(move |request| Arc::clone(&front).handle(request));
                let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
                tokio::select! {
                    // Hung up, or the caller has gone.
                    _ = &mut connection => return,
                    _ = closing.changed() => {}
                }
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            });
        }
    }

    async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Paced>, HungUp> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| HungUp)?.to_bytes();
        let request = Request::from_parts(head, body);
        let route = Route::of(&request);
        let Fault { kind, effect, retry_after } = self.arrived_at(route, &request);
        let answer = match effect {
            // In a task of its own: a caller who goes away takes no effect back.
            true => Some(tokio::spawn(Arc::clone(&self).pass(route, request)).await.map_err(|_| HungUp)??),
            false => None,
        };
        let or_empty = |answer: Option<Response<Bytes>>| answer.unwrap_or_default();
        let mut answer = match kind {
            Kind::None => or_empty(answer).map(Paced::whole),
            Kind::Status(status) => problem(status),
            Kind::Html(status) => {
                let page = format!("<html><head><title>{status}</title></head><body><h1>{status}</h1></body></html>");
                let mut answer = with_status(status, page.into());
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
                answer
            }
            Kind::Redirect(to) => {
                let mut answer = with_status(302, Bytes::new());
                answer.headers_mut().insert(LOCATION, to);
                answer
            }
            Kind::BrokenJson => or_empty(answer).map(|body| Paced::whole(body.slice(..body.len() / 2))),
            Kind::Body(json) => or_empty(answer).map(|_| Paced::whole(json.into())),
            Kind::Delay(time) => {
                self.clock.advance(time);
                or_empty(answer).map(Paced::whole)
            }
            Kind::Hang => std::future::pending().await,
            Kind::HangUp => return Err(HungUp),
            Kind::Stall => or_empty(answer).map(|_| Paced::Never),
            Kind::Trickle => {
                or_empty(answer).map(|body| Paced::Slow { left: body, clock: self.clock.clone(), pause: false })
            }
        };
        if matches!(answer.body(), Paced::Whole(_)) {
            // What was cut or replaced has another length than the true answer.
            answer.headers_mut().remove(CONTENT_LENGTH);
        }
        if let Some(value) = retry_after {
            answer.headers_mut().insert(RETRY_AFTER, value);
        }
        Ok(answer)
    }

    /// Notes a request, and gives what is to become of it.
    fn arrived_at(&self, route: Route, request: &Request<Bytes>) -> Fault {
        let fault = {
            let state = &mut *self.lock();
            state.requests.entry(route).or_default().push(request.clone());
            let next = state.next.get_mut(&route).and_then(VecDeque::pop_front);
            next.or_else(|| state.always.get(&route).cloned()).unwrap_or_else(Fault::none)
        };
        self.arrivals.send_replace(());
        fault
    }

    /// Passes a request on, and notes what came of it.
    async fn pass(self: Arc<Self>, route: Route, mut request: Request<Bytes>) -> Result<Response<Bytes>, HungUp> {
        let replaced = bearer(&request).and_then(|token| self.lock().replaced.get(token).cloned());
        if let Some(token) = replaced {
            let value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| HungUp)?;
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let sent = request.body().clone();
        let mut answer = self.ask(request).await?;
        if answer.status().is_success() {
            let text = |body: &[u8], key: &str| {
                let json = serde_json::from_slice::<Value>(body).unwrap_or_default();
                json.get(key).and_then(Value::as_str).map(str::to_owned)
            };
            let state = &mut *self.lock();
            match route {
                Route::Login => {
                    state.tokens.extend(text(answer.body(), "access_token"));
                    if state.silent {
                        answer.headers_mut().remove(X_SVC_CAPABILITIES);
                    }
                }
                Route::Create if !answer.headers().contains_key(X_SVC_REPLAYED) => {
                    *state.effects.entry(text(&sent, "id_proposta_parceiro").unwrap_or_default()).or_default() += 1;
                }
                _ => {}
            }
        }
        Ok(answer)
    }

    /// The server's answer. It hangs up if the server does.
    async fn ask(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HungUp> {
        let stream = TcpStream::connect(self.inner).await.map_err(|_| HungUp)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|_| HungUp)?;
        tokio::spawn(connection);
        let answer = sender.send_request(request.map(Full::new)).await.map_err(|_| HungUp)?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(|_| HungUp)?.to_bytes();
        Ok(Response::from_parts(head, body))
    }

    pub(crate) fn next(&self, route: Route, faults: impl IntoIterator<Item = Fault>) {
        self.lock().next.entry(route).or_default().extend(faults);
    }

    pub(crate) fn always(&self, route: Route, fault: Option<Fault>) {
        let state = &mut *self.lock();
        match fault {
            Some(fault) => state.always.insert(route, fault),
            None => state.always.remove(&route),
        };
    }

    pub(crate) fn replace_tokens(&self, by: &str) {
        let state = &mut *self.lock();
        state.replaced.extend(state.tokens.drain().map(|token| (token, by.to_owned())));
    }

    pub(crate) fn promise(&self, promises: bool) {
        self.lock().silent = !promises;
    }

    pub(crate) fn close_connections(&self) {
        self.closing.send_replace(());
    }

    pub(crate) fn requests(&self, route: Route) -> Vec<Request<Bytes>> {
        self.lock().requests.get(&route).cloned().unwrap_or_default()
    }

    pub(crate) fn effects(&self, id: &str) -> usize {
        self.lock().effects.get(id).copied().unwrap_or_default()
    }

    pub(crate) async fn arrived(&self, route: Route, requests: usize) {
        let mut arrivals = self.arrivals.subscribe();
        while self.lock().requests.get(&route).map_or(0, Vec::len) < requests {
            // The sender lives in this front.
            let _ = arrivals.changed().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bearer(request: &Request<Bytes>) -> Option<&str> {
    request.headers().get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// The service's own words for a status, where it has some; else what RFC 9457 has for all.
fn problem(status: u16) -> Response<Paced> {
    let problem = match status {
        400 => Problem::Invalid(Invalid::unreadable()),
        401 => Problem::Token(Refused::Invalid),
        404 => Problem::ProposalNotFound,
        408 => Problem::Timeout,
        409 => Problem::PartnerIdInUse,
        413 => Problem::BodyTooLarge,
        415 => Problem::ContentType,
        429 => Problem::TooManyAttempts(1),
        500 => Problem::Internal,
        503 => Problem::Unavailable(1),
        other => {
            let mut answer = with_status(other, format!(r#"{{"type":"about:blank","status":{other}}}"#).into());
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
            return answer;
        }
    };
    let mut answer = problem.reply(ORDERED).map(Paced::Whole);
    // Only what was ordered: without it nobody is told to wait.
    answer.headers_mut().remove(RETRY_AFTER);
    answer
}

/// The request's id in the body of an ordered error.
const ORDERED: &str = "encomendada";

fn with_status(status: u16, body: Bytes) -> Response<Paced> {
    let mut answer = Response::new(Paced::whole(body));
    *answer.status_mut() = StatusCode::from_u16(status).expect("checked when it was ordered");
    answer
}

/// A body, at the pace that was ordered.
pub(crate) enum Paced {
    Whole(Full<Bytes>),
    /// It never comes.
    Never,
    /// A byte, a pause in which it goes out, and so on.
    Slow {
        left: Bytes,
        clock: FakeClock,
        pause: bool,
    },
}

impl Paced {
    fn whole(body: Bytes) -> Self {
        Self::Whole(Full::new(body))
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Never => Poll::Pending,
            Self::Slow { left, .. } if left.is_empty() => Poll::Ready(None),
            Self::Slow { left, clock, pause } => {
                *pause = !*pause;
                if *pause {
                    clock.advance(Duration::from_secs(1));
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(Some(Ok(Frame::data(left.split_to(1)))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            // Told by the true answer's Content-Length.
            Self::Never | Self::Slow { .. } => SizeHint::default(),
        }
    }
}
