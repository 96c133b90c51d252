//! One match from method and path to a handler; a handler reads, calls the core, calls the store, replies.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde::Serialize;
use svc_core::{
    DigestKey, LoginRequest, LoginResponse, NovaProposta, Perfil, PropostaId, PropostaRecebida, today_in_brasilia,
};
use tokio::sync::{Notify, Semaphore};

use crate::auth::{Refused, Tokens};
use crate::config::Config;
use crate::link::Links;
use crate::page::Pages;
use crate::partners::Partners;
use crate::reply::{self, Problem, Reply, X_REQUEST_ID, X_SVC_CAPABILITIES, X_SVC_REPLAYED, json};
use crate::request::{BodyType, body_type, read_body, request_id};
use crate::seams::NoRandomness;
use crate::store::{Inserted, Store, StoreError};

/// A request must be answered within this time (C38).
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// What every request needs.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) links: Links,
    pub(crate) pages: Pages,
    /// Rings when a delivery has become due.
    pub(crate) wake: Notify,
    in_flight: Semaphore,
    tokens: Tokens,
    digest_key: DigestKey,
}

/// A path of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route<'p> {
    Login,
    Propostas,
    Confirmar(&'p str),
    Saude,
}

impl App {
    pub(crate) fn new(config: Config, base_url: &str) -> Self {
        let perfil = config.policy.perfil();
        Self {
            store: Store::memory(config.max_proposals),
            links: Links::new(base_url, perfil, &config.link_key),
            pages: Pages::new(),
            wake: Notify::new(),
            in_flight: Semaphore::new(config.max_in_flight),
            tokens: Tokens::new(perfil, &config.token_key, config.previous_token_key.as_ref()),
            digest_key: DigestKey::derive(config.link_key.bytes()),
            config,
        }
    }

    pub(crate) fn perfil(&self) -> Perfil {
        self.config.policy.perfil()
    }

    pub(crate) fn partners(&self) -> &Partners {
        &self.config.partners
    }

    /// Answers a request: within its deadline, if there is room for it, and always with the request's id.
    pub(crate) async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Reply {
        let given = request_id(request.headers()).map(str::to_owned);
        let id = given.map_or_else(|| self.new_request_id(), Ok).unwrap_or_default();
        let answer = match self.in_flight.try_acquire() {
            Ok(_permit) => {
                let answer = tokio::time::timeout(REQUEST_DEADLINE, Arc::clone(&self).route(request));
                answer.await.unwrap_or(Err(Problem::Unavailable(1)))
            }
            Err(_) => Err(Problem::Unavailable(1)),
        };
        let mut reply = answer.unwrap_or_else(|problem| {
            if problem.status().is_server_error() {
                tracing::warn!(request_id = id, ?problem, "request failed");
            }
            problem.reply(&id)
        });
        // The caller's checked id, or hex of ours: a legal value either way.
        reply.headers_mut().extend(HeaderValue::try_from(id).ok().map(|id| (X_REQUEST_ID, id)));
        reply
    }

    async fn route(self: Arc<Self>, request: Request<Incoming>) -> Result<Reply, Problem> {
        let path = request.uri().path().to_owned();
        let route = Route::of(&path);
        if !is_known(request.method()) {
            return Err(Problem::MethodUnknown);
        }
        let route = route.ok_or(Problem::RouteNotFound)?;
        if request.method() == Method::OPTIONS {
            return Ok(reply::options(route.methods()));
        }
        match (request.method(), route) {
            (&Method::POST, Route::Login) => self.login(request).await,
            (&Method::POST, Route::Propostas) => self.create(request).await,
            (&Method::GET | &Method::HEAD | &Method::POST, Route::Confirmar(id)) => self.confirmar(id, request).await,
            (&Method::GET | &Method::HEAD, Route::Saude) => Ok(self.saude()),
            _ => Err(Problem::MethodNotAllowed(route.methods())),
        }
    }

    /// `POST /v1/login` (C23).
    async fn login(&self, request: Request<Incoming>) -> Result<Reply, Problem> {
        let (head, body) = request.into_parts();
        expect_json(&head.headers)?;
        let login = LoginRequest::from_json(&read_body(&head.headers, body).await?)?;
        if !self.partners().authenticate(login.client_id(), login.client_secret()) {
            return Err(Problem::Credentials);
        }
        let now = self.config.clock.now();
        let token = self.tokens.issue(login.client_id(), self.config.random.bytes()?, now).map_err(|error| {
            tracing::error!(%error, "no token could be signed");
            Problem::Internal
        })?;
        let mut reply = json(StatusCode::OK, &LoginResponse::bearer(token));
        reply.headers_mut().insert(X_SVC_CAPABILITIES, HeaderValue::from_static("idempotent-propostas"));
        Ok(reply)
    }

    /// `POST /v1/propostas` (C9, C10). Stored in a task of its own, which a caller who hangs up does not stop.
    async fn create(self: Arc<Self>, request: Request<Incoming>) -> Result<Reply, Problem> {
        let (head, body) = request.into_parts();
        let client_id = self.authorize(&head.headers)?;
        expect_json(&head.headers)?;
        let body = read_body(&head.headers, body).await?;
        let now = self.config.clock.now();
        let nova = NovaProposta::from_json(&body, &self.config.policy, today_in_brasilia(now))?;
        let id = PropostaId::from_random(self.config.random.bytes()?);
        let proposta = nova.open(id, &client_id, &self.digest_key, now);
        detached(async move {
            match self.store.insert(&proposta).await? {
                Inserted::New => {
                    tracing::info!(proposta = self.links.log_name(id), "proposal stored");
                    if let Err(error) = self.config.sender.send(&proposta, &self.links.of(id)) {
                        tracing::warn!(proposta = self.links.log_name(id), %error, "customer not told");
                    }
                    Ok(json(StatusCode::OK, &PropostaRecebida::new(id)))
                }
                Inserted::Exists(first) if first.digest() == proposta.digest() => {
                    let mut reply = json(StatusCode::OK, &PropostaRecebida::new(first.id()));
                    reply.headers_mut().insert(X_SVC_REPLAYED, HeaderValue::from_static("true"));
                    Ok(reply)
                }
                Inserted::Exists(_) => Err(Problem::PartnerIdInUse),
            }
        })
        .await
    }

    /// `GET /saude` (C19).
    fn saude(&self) -> Reply {
        #[derive(Serialize)]
        struct Saude {
            status: &'static str,
            perfil: &'static str,
            versao: &'static str,
        }
        let saude = Saude { status: "ok", perfil: self.perfil().as_str(), versao: env!("CARGO_PKG_VERSION") };
        json(StatusCode::OK, &saude)
    }

    /// The partner of a token, which must still be one (C24, C25).
    fn authorize(&self, headers: &HeaderMap) -> Result<String, Problem> {
        let authorization = headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes);
        let client_id = self.tokens.check(authorization, self.config.clock.now()).map_err(Problem::Token)?;
        match self.partners().get(&client_id) {
            Some(_) => Ok(client_id),
            None => Err(Problem::Token(Refused::Invalid)),
        }
    }

    fn new_request_id(&self) -> Result<String, NoRandomness> {
        Ok(u128::from_ne_bytes(self.config.random.bytes()?)).map(|id| format!("{id:032x}"))
    }
}

impl<'p> Route<'p> {
    fn of(path: &'p str) -> Option<Self> {
        match path {
            "/v1/login" => Some(Self::Login),
            "/v1/propostas" => Some(Self::Propostas),
            "/saude" => Some(Self::Saude),
            _ => path.strip_prefix("/confirmar/").filter(|id| !id.contains('/')).map(Self::Confirmar),
        }
    }

    /// What its `Allow` says.
    const fn methods(self) -> &'static str {
        match self {
            Self::Login | Self::Propostas => "POST, OPTIONS",
            Self::Confirmar(_) => "GET, HEAD, POST, OPTIONS",
            Self::Saude => "GET, HEAD, OPTIONS",
        }
    }
}

/// The methods of RFC 9110 and RFC 5789; others are not implemented (C18).
fn is_known(method: &Method) -> bool {
    [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::CONNECT,
        Method::OPTIONS,
        Method::TRACE,
        Method::PATCH,
    ]
    .contains(method)
}

fn expect_json(headers: &HeaderMap) -> Result<(), Problem> {
    match body_type(headers)? {
        BodyType::Json => Ok(()),
        BodyType::Form => Err(Problem::ContentType),
    }
}

/// Runs a change of state to its end, whether or not anybody waits for it.
pub(crate) async fn detached(
    change: impl Future<Output = Result<Reply, Problem>> + Send + 'static,
) -> Result<Reply, Problem> {
    tokio::spawn(change).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a change of state did not end");
        Err(Problem::Internal)
    })
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full => Self::Unavailable(60),
        }
    }
}

impl From<NoRandomness> for Problem {
    fn from(_: NoRandomness) -> Self {
        Self::Internal
    }
}
