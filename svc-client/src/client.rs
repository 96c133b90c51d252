//! The client: a few calls, each one request, with a login before it where one is needed.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use serde::Serialize;
use serde::de::DeserializeOwned;
use svc_core::{Acao, Confirmacao, LoginResponse, NovaProposta, PropostaId, PropostaRecebida};

use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::token::{Token, Tokens};
use crate::transport::{Exchanged, Transport};

/// Longest time to connect.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time of one request, to the last byte of its answer.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time of a login.
pub const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept; the server closes it at 20 s.
pub const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Most idle connections.
pub const MAX_IDLE_PER_HOST: usize = 8;
/// Largest answer that is read.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// Calls the service for one partner. Cheap to clone; clones share token and connections.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    base_url: String,
    credentials: Credentials,
    transport: Transport,
    tokens: Tokens,
}

#[derive(Clone, Serialize)]
struct Credentials {
    client_id: String,
    client_secret: String,
}

/// Settings of a [`Client`] before it is built.
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    base_url: String,
    credentials: Credentials,
    allow_http: bool,
}

/// What the server answered, with what came beside its body.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    body: T,
    status: StatusCode,
    request_id: Option<String>,
    replayed: bool,
}

impl ClientBuilder {
    /// Lets the client speak http to other machines than this one, tokens and persons' data in clear.
    pub fn allow_http(mut self, allow: bool) -> Self {
        self.allow_http = allow;
        self
    }

    /// Checks the settings. Needs no runtime and sends nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`]: the base URL is no http or https address without query, or is http to another machine; or
    /// this machine has no certificate authorities.
    pub fn build(self) -> Result<Client> {
        let config = |why: &str| Error::new(ErrorKind::Config, Outcome::NotSent).because(why);
        let base_url = self.base_url.trim_end_matches('/').to_owned();
        let uri: Uri = base_url.parse().map_err(|_| config("base URL is no URL"))?;
        let host = uri.host().ok_or_else(|| config("base URL has no host"))?;
        if uri.query().is_some() || uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(config("base URL has a query or credentials"));
        }
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if self.allow_http || is_this_machine(host) => {}
            Some("http") => return Err(config("base URL is http to another machine, which allow_http would allow")),
            _ => return Err(config("base URL is neither http nor https")),
        }
        let Self { credentials, .. } = self;
        Ok(Client(Arc::new(Inner { base_url, credentials, transport: Transport::new()?, tokens: Tokens::default() })))
    }
}

impl Client {
    /// Begins a client for a service and a partner's credentials.
    ///
    /// ```
    /// use svc_client::{Client, ErrorKind};
    /// assert!(Client::builder("https://propostas.example.com", "parceiro", "segredo").build().is_ok());
    /// assert!(Client::builder("http://127.0.0.1:8080", "parceiro", "segredo").build().is_ok());
    ///
    /// let error = Client::builder("http://propostas.example.com", "parceiro", "segredo").build().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Config); // a token in clear, to another machine
    /// ```
    pub fn builder(
        base_url: impl Into<String>,
        client_id: impl Into<String>,
        client_secret: impl Into<String>,
    ) -> ClientBuilder {
        let credentials = Credentials { client_id: client_id.into(), client_secret: client_secret.into() };
        ClientBuilder { base_url: base_url.into(), credentials, allow_http: false }
    }

    /// Logs in, if there is no token yet. Other calls do that by themselves; this one shows early that it works.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Login`] where the service answers with an error, 401 for refused credentials; and what can happen to
    /// every request.
    pub async fn login(&self) -> Result<()> {
        self.token(None).await.map(drop)
    }

    /// Posts a proposal (interface 4.2).
    ///
    /// # Errors
    ///
    /// [`Error::violations`] lists all that the server refuses it for; [`Error::outcome`] tells whether it may exist.
    pub async fn create_proposta(&self, proposta: &NovaProposta) -> Result<Answer<PropostaRecebida>> {
        let body = Bytes::from(proposta.to_json());
        let token = self.token(None).await?;
        let mut answer = self.send(self.authorized(&token, body.clone())?, ATTEMPT_TIMEOUT).await?;
        if answer.response.status() == StatusCode::UNAUTHORIZED {
            // Refused before its body was read: the same bytes again, once, under a fresh token.
            let token = self.token(Some(&token)).await?;
            answer = self.send(self.authorized(&token, body)?, ATTEMPT_TIMEOUT).await?;
        }
        read(&answer, ErrorKind::Api)
    }

    /// Answers in the customer's place, as only a test environment allows (interface 4.3).
    ///
    /// ```no_run
    /// # async fn example(client: svc_client::Client) -> svc_client::Result<()> {
    /// use svc_client::Acao;
    /// let answer = client.simulate_answer("07070707-0707-4707-8707-070707070707", Acao::Aceitar).await?;
    /// assert_eq!(answer.status, "ACEITO");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a text that is no id; [`ErrorKind::Api`] with status 404 for an unknown one, 409 for a
    /// proposal with the other answer.
    pub async fn simulate_answer(&self, id_proposta_svc: &str, acao: Acao) -> Result<Answer<Confirmacao>> {
        let no_id = || Error::new(ErrorKind::Config, Outcome::NotSent).because("not an id of this service");
        let id = PropostaId::parse(id_proposta_svc).ok_or_else(no_id)?;
        let request = self.request(Method::GET, &format!("/confirmar/{id}?acao={acao}"), Bytes::new())?;
        read(&self.send(request, ATTEMPT_TIMEOUT).await?, ErrorKind::Api)
    }

    async fn token(&self, stale: Option<&Token>) -> Result<Token> {
        self.0.tokens.get(stale, || self.fetch_token()).await
    }

    /// `POST /v1/login`. Whatever fails here, the request that it is for was not sent.
    async fn fetch_token(&self) -> Result<LoginResponse> {
        let body =
            serde_json::to_vec(&self.0.credentials).map_err(|_| Error::new(ErrorKind::Config, Outcome::NotSent))?;
        let request = self.request(Method::POST, "/v1/login", body.into())?;
        let answer = match self.send(request, LOGIN_TIMEOUT).await {
            Ok(answer) => read::<LoginResponse>(&answer, ErrorKind::Login),
            Err(error) => Err(error),
        };
        answer.map(|answer| answer.body).map_err(Error::before_sending)
    }

    fn authorized(&self, token: &Token, body: Bytes) -> Result<Request<Bytes>> {
        let mut request = self.request(Method::POST, "/v1/propostas", body)?;
        let bearer = HeaderValue::try_from(format!("Bearer {}", token.bearer));
        let mut bearer =
            bearer.map_err(|_| Error::new(ErrorKind::Decode, Outcome::NotSent).because("token is no header value"))?;
        bearer.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, bearer);
        Ok(request)
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Bytes>> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.0.base_url));
        let request = request.header(ACCEPT, "application/json").header(CONTENT_TYPE, "application/json");
        request.body(body).map_err(|error| Error::new(ErrorKind::Config, Outcome::NotSent).because(error))
    }

    async fn send(&self, request: Request<Bytes>, deadline: Duration) -> Result<Exchanged> {
        self.0.transport.exchange(request, deadline).await
    }
}

/// Reads an answer: the body of a success, or all that an error says.
fn read<T: DeserializeOwned>(exchanged: &Exchanged, kind: ErrorKind) -> Result<Answer<T>> {
    let Exchanged { response: answer, fault } = exchanged;
    let status = answer.status();
    if !status.is_success() {
        let refused = status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT;
        let outcome = if refused { Outcome::Rejected } else { Outcome::Unknown };
        return Err(Error::answer(kind, outcome, answer));
    }
    let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
    if let Some(fault) = fault {
        return Err(Error::answer(ErrorKind::Decode, Outcome::Accepted, answer).because(*fault));
    }
    match serde_json::from_slice(answer.body()) {
        Ok(body) => Ok(Answer {
            body,
            status,
            request_id: header("x-request-id").map(str::to_owned),
            replayed: header("x-svc-replayed") == Some("true"),
        }),
        // Not as its cause: the parser's text can quote the body.
        Err(_) => Err(Error::answer(ErrorKind::Decode, Outcome::Accepted, answer)),
    }
}

/// `localhost` and the loopback addresses.
fn is_this_machine(host: &str) -> bool {
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || literal.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

impl<T> Answer<T> {
    /// The body alone.
    pub fn into_body(self) -> T {
        self.body
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The server's id of the request.
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// Whether the proposal had been there before, and this is its first id again (C9).
    pub fn replayed(&self) -> bool {
        self.replayed
    }
}

impl<T> Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.body
    }
}

/// The base URL is not shown: until it is checked it can hold credentials.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { credentials, allow_http, .. } = self;
        f.debug_struct("ClientBuilder")
            .field("credentials", credentials)
            .field("allow_http", allow_http)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}
