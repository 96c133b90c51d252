//! One call: attempts until one succeeds, or until another would do harm or no good.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use svc_core::LoginResponse;

use crate::answer::Answer;
use crate::builder::Settings;
use crate::clock::{Clock, by};
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::retry::{Budget, backoff};
use crate::secret::{AccessToken, ClientSecret};
use crate::span::Span;
use crate::token::{Granted, Token, Tokens, random};
use crate::transport::{AnyTransport, SendErrorKind};

/// What is called.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// The path without what identifies anything, for traces.
    pub(crate) route: &'static str,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// Whether it needs a token.
    pub(crate) authorized: bool,
    pub(crate) effect: Effect,
}

/// What a call changes at the service, and so whether it may be made again when nobody knows what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// Something that twice is as once.
    Harmless,
    /// A proposal comes to be: again under the service's promise only (C9).
    Creates,
}

/// What all calls of a client share.
pub(crate) struct Caller {
    pub(crate) base_url: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: ClientSecret,
    pub(crate) user_agent: HeaderValue,
    pub(crate) settings: Settings,
    pub(crate) transport: Arc<dyn AnyTransport>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tokens: Tokens,
    pub(crate) budget: Budget,
}

/// One attempt of a call.
struct Attempt<'a> {
    number: u32,
    request_id: &'a str,
    /// When the whole call must be over.
    end: Duration,
}

/// An attempt that failed, and the token that it went with.
struct Failed {
    error: Error,
    token: Option<Token>,
}

/// An answer, and what was wrong with its body, if anything was.
struct Exchanged {
    response: Response<Bytes>,
    fault: Option<BodyFault>,
}

/// Why a body is not whole.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum BodyFault {
    #[error("answer is longer than it may be")]
    TooLong,
    #[error("answer broke off")]
    BrokeOff,
    #[error("answer did not end in time")]
    Late,
}

impl Caller {
    /// Makes a call, again if need be (see [`crate::retry`]).
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: &Call) -> Result<Answer<T>> {
        let request_id = new_request_id();
        let end = self.begin();
        let (mut number, mut refused, mut unknown) = (1, None, None);
        loop {
            let attempt = Attempt { number, request_id: &request_id, end };
            let Failed { error, token } =
                match self.attempt::<T>(call, refused.as_ref(), unknown.as_ref(), &attempt).await {
                    Ok(answer) => return Ok(answer.after(number)),
                    Err(failed) => failed,
                };
            // What became of the call is what became of all its attempts.
            let error = match &unknown {
                Some(_) => error.after_unknown(),
                None => error,
            };
            let error = error.of_call(number, &request_id);
            if call.effect != Effect::None && error.outcome() == Outcome::Unknown {
                unknown.get_or_insert_with(|| error.clone());
            }
            let again_promised =
                call.effect != Effect::Creates || unknown.is_none() || self.is_promised(token.as_ref());
            let token_refused = token.is_some() && error.status() == Some(StatusCode::UNAUTHORIZED);
            if token_refused && refused.is_none() && number <= self.settings.max_retries {
                // Refused before its body was read: the same bytes again, once, under a fresh token.
                refused = token;
            } else if again_promised {
                let sent = token.is_some() || !call.authorized;
                self.pause(error, number, end, sent).await?;
            } else {
                return Err(error);
            }
            number += 1;
        }
    }

    /// Whether a proposal of unknown fate may be posted under this token. Without one nobody knows yet; it is asked again
    /// when there is one.
    fn is_promised(&self, token: Option<&Token>) -> bool {
        token.is_none_or(|token| self.settings.idempotency.holds(token.promised()))
    }

    /// Logs in, if there is no token that lives. As often as a call would.
    pub(crate) async fn log_in(&self) -> Result<()> {
        let request_id = new_request_id();
        let end = self.begin();
        let mut number = 1;
        loop {
            let attempt = Attempt { number, request_id: &request_id, end };
            match self.token(None, &attempt).await {
                Ok(_) => return Ok(()),
                Err(error) => self.pause(error.of_call(number, &request_id), number, end, false).await?,
            }
            number += 1;
        }
    }

    /// Counts a call; gives the time when it must be over.
    fn begin(&self) -> Duration {
        let now = self.clock.elapsed();
        self.budget.called(now);
        now.saturating_add(self.settings.total_timeout)
    }

    /// Waits before the next attempt, or gives the error back if there is to be none. A call that had no token was not
    /// `sent`, and costs nothing of the budget: however many wait for a login, it is one, and has its own pace.
    async fn pause(&self, error: Error, number: u32, end: Duration, sent: bool) -> Result<()> {
        let settings = &self.settings;
        let hint = error.retry_after().unwrap_or_default();
        let wait = backoff(settings.backoff_base, settings.backoff_cap, number, random());
        let now = self.clock.elapsed();
        let next = now.saturating_add(hint).saturating_add(wait);
        let in_time = hint <= settings.max_retry_after && next < end;
        let again = number <= settings.max_retries && error.is_retryable() && in_time;
        if !again || sent && !self.budget.take(now) {
            return Err(error);
        }
        self.clock.pause_until(next).await;
        Ok(())
    }

    async fn attempt<T: DeserializeOwned>(
        &self,
        call: &Call,
        refused: Option<&Token>,
        unknown: Option<&Error>,
        attempt: &Attempt<'_>,
    ) -> Result<Answer<T>, Failed> {
        let token = match call.authorized {
            true => Some(self.token(refused, attempt).await.map_err(|error| Failed { error, token: None })?),
            false => None,
        };
        // The promise is that of the login which this attempt goes out under.
        if let (Some(error), Effect::Creates, false) = (unknown, call.effect, self.is_promised(token.as_ref())) {
            return Err(Failed { error: error.clone(), token });
        }
        let span = Span::new(&call.method, call.route, attempt.number, attempt.request_id);
        let sent = async {
            let mut request = self.request(call.method.clone(), &call.path, call.body.clone(), attempt)?;
            if let Some(token) = &token {
                let bearer = HeaderValue::try_from(format!("Bearer {}", token.bearer()));
                let mut bearer = bearer.map_err(|_| Error::config("token is no header value"))?;
                bearer.set_sensitive(true);
                request.headers_mut().insert(AUTHORIZATION, bearer);
            }
            let answer = self.exchange(request, self.settings.attempt_timeout, attempt.end, &span).await?;
            self.read(answer, ErrorKind::Api)
        };
        let answer = self.timed(&span, pin!(sent)).await;
        answer.map_err(|error| Failed { error, token })
    }

    /// A token for the next request, in the time that the call has.
    async fn token(&self, refused: Option<&Token>, attempt: &Attempt<'_>) -> Result<Token> {
        let clock = &*self.clock;
        let first = attempt.number == 1;
        // In a place of its own, since it is rare: what a call may have to wait for is part of it, and is copied with it.
        let login = || Box::pin(self.fetch_token(attempt));
        let token = pin!(self.tokens.get(clock, refused, first, attempt.end, login));
        let late = || Err(Error::new(ErrorKind::Timeout, Outcome::NotSent).passing());
        by(clock, attempt.end, token).await.unwrap_or_else(late)
    }

    /// `POST /v1/login`. Whatever fails here, the request that it is for was not sent.
    async fn fetch_token(&self, attempt: &Attempt<'_>) -> Result<Granted> {
        const ROUTE: &str = "/v1/login";
        let span = Span::new(&Method::POST, ROUTE, attempt.number, attempt.request_id);
        let sent = async {
            let body = Credentials { client_id: &self.client_id, client_secret: self.client_secret.expose() };
            let body = serde_json::to_vec(&body).map_err(|_| Error::config("credentials are no JSON"))?;
            let request = self.request(Method::POST, ROUTE, body.into(), attempt)?;
            let answer = self.exchange(request, self.settings.login_timeout, attempt.end, &span).await?;
            let promised = promises(&answer.response);
            let LoginResponse { access_token, expires_in, .. } =
                self.read::<LoginResponse>(answer, ErrorKind::Login)?.into_body();
            if HeaderValue::try_from(&access_token).is_err() {
                return Err(Error::new(ErrorKind::Login, Outcome::NotSent).because("token cannot stand in a header"));
            }
            let life = Duration::from_secs(expires_in.into());
            Ok(Granted { token: AccessToken::new(access_token), life, promised })
        };
        self.timed(&span, pin!(async { sent.await.map_err(Error::before_sending) })).await
    }

    fn request(&self, method: Method, path: &str, body: Bytes, attempt: &Attempt<'_>) -> Result<Request<Bytes>> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base_url));
        let request = request.header(ACCEPT, "application/json").header(USER_AGENT, &self.user_agent);
        let request = if body.is_empty() { request } else { request.header(CONTENT_TYPE, "application/json") };
        let request = match attempt.request_id {
            "" => request,
            id => request.header(X_REQUEST_ID, id),
        };
        request.body(body).map_err(|error| Error::config("not a request").because(error))
    }

    /// A request out, its answer in, within a deadline and a cap. An answer whose body breaks off, stalls or is too long
    /// keeps its status: that tells what became of the request.
    async fn exchange(
        &self,
        request: Request<Bytes>,
        timeout: Duration,
        end: Duration,
        span: &Span,
    ) -> Result<Exchanged> {
        let clock = &*self.clock;
        let now = clock.elapsed();
        if now >= end {
            // Too late to begin.
            return Err(Error::new(ErrorKind::Timeout, Outcome::NotSent).passing());
        }
        let deadline = now.saturating_add(timeout).min(end);
        let answer = match by(clock, deadline, self.transport.send_boxed(request)).await {
            Some(answer) => answer,
            None => return Err(Error::new(ErrorKind::Timeout, Outcome::Unknown).passing()),
        };
        let (head, mut body) = answer
            .map_err(|error| match error.kind {
                SendErrorKind::NotSent => Error::new(ErrorKind::Connect, Outcome::NotSent).passing().because(error),
                SendErrorKind::Certificate => Error::new(ErrorKind::Connect, Outcome::NotSent).because(error),
                SendErrorKind::Broken => Error::new(ErrorKind::Transport, Outcome::Unknown).passing().because(error),
            })?
            .into_parts();
        span.answered(head.status);
        let mut whole = BytesMut::new();
        let fault = loop {
            match by(clock, deadline, body.chunk()).await {
                Some(Some(Ok(chunk))) if whole.len() + chunk.len() > self.settings.max_answer_bytes => {
                    break Some(BodyFault::TooLong);
                }
                Some(Some(Ok(chunk))) => whole.extend_from_slice(&chunk),
                Some(None) => break None,
                Some(Some(Err(_))) => break Some(BodyFault::BrokeOff),
                None => break Some(BodyFault::Late),
            }
        };
        Ok(Exchanged { response: Response::from_parts(head, whole.freeze()), fault })
    }

    /// Reads an answer: the body of a success, or all that an error says.
    fn read<T: DeserializeOwned>(&self, exchanged: Exchanged, kind: ErrorKind) -> Result<Answer<T>> {
        let Exchanged { response: answer, fault } = exchanged;
        let status = answer.status();
        if !status.is_success() {
            let refused = status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT;
            let outcome = if refused { Outcome::Rejected } else { Outcome::Unknown };
            let conflict = status == StatusCode::CONFLICT && kind == ErrorKind::Api;
            let kind = if conflict { ErrorKind::Conflict } else { kind };
            let now = chrono::DateTime::from(self.clock.now());
            let hint = answer.headers().get(RETRY_AFTER);
            let hint = hint.and_then(|hint| svc_core::retry_after(hint.as_bytes(), now));
            return Err(Error::answer(kind, outcome, &answer).after(hint));
        }
        // Not the parser's error as its cause: that text can quote the body. And of a login no body: it can hold a token.
        let unreadable = || match kind {
            ErrorKind::Login => Error::new(kind, Outcome::NotSent).passing().because("answer cannot be read"),
            _ => Error::answer(ErrorKind::Decode, Outcome::Accepted, &answer),
        };
        match fault {
            Some(fault) => Err(unreadable().because(fault)),
            None => {
                serde_json::from_slice(answer.body()).map(|body| Answer::new(body, &answer)).map_err(|_| unreadable())
            }
        }
    }

    async fn timed<T>(&self, span: &Span, sent: Pin<&mut impl Future<Output = Result<T>>>) -> Result<T> {
        let began = self.clock.elapsed();
        let result = span.around(sent).await;
        span.ended(self.clock.elapsed().saturating_sub(began), result.as_ref().err());
        result
    }
}

#[derive(Serialize)]
struct Credentials<'a> {
    client_id: &'a str,
    client_secret: &'a str,
}

/// Whether the service promises what C9 says.
fn promises(answer: &Response<Bytes>) -> bool {
    let values = answer.headers().get_all(&X_SVC_CAPABILITIES).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim() == IDEMPOTENT)
}

/// The id of a call, the same for its attempts; without random numbers the service makes its own.
fn new_request_id() -> String {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => format!("{:032x}", u128::from_ne_bytes(bytes)),
        Err(_) => String::new(),
    }
}

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const X_SVC_CAPABILITIES: HeaderName = HeaderName::from_static("x-svc-capabilities");
const IDEMPOTENT: &str = "idempotent-propostas";
