//! One error for all calls: what kind, what the server said, and what became of the proposal.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use svc_core::{Aviso, Invalid};

use crate::defaults::MAX_KEPT_BODY_BYTES;

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A call that did not succeed. Its text is one line, without secrets, tokens or anybody's data.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    status: Option<StatusCode>,
    code: Option<String>,
    request_id: Option<String>,
    violations: Vec<Aviso>,
    raw_body: Bytes,
    retry_after: Option<Duration>,
    attempts: u32,
    retryable: bool,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting of the client, an argument, or a proposal that no server would take ([`Invalid`] becomes one by `?`):
    /// nothing was sent.
    Config,
    /// The login was answered with an error; [`Error::status`] 401 says that the credentials are wrong.
    Login,
    /// No connection.
    Connect,
    /// A deadline passed.
    Timeout,
    /// The connection broke.
    Transport,
    /// The server answered with an error.
    Api,
    /// The proposal stands in the way of the request, and the same request will never succeed (409):
    /// `id_proposta_parceiro_em_uso` for another proposal under the same id, `proposta_ja_respondida` for the other
    /// answer, `proposta_sem_resposta` for a webhook that there is not yet.
    Conflict,
    /// The server accepted, and its answer cannot be read.
    Decode,
}

/// What became of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The request itself never went out, though a login for it may have.
    NotSent,
    /// The server refused it: nothing changed there.
    Rejected,
    /// It may or may not have had its effect. Post the same id again, never a new one.
    Unknown,
    /// It had its effect.
    Accepted,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, outcome: Outcome) -> Self {
        Self(Box::new(Inner {
            kind,
            outcome,
            status: None,
            code: None,
            request_id: None,
            violations: Vec::new(),
            raw_body: Bytes::new(),
            retry_after: None,
            attempts: 0,
            retryable: false,
            cause: None,
        }))
    }

    /// What the caller has to put right; nothing was sent.
    pub(crate) fn config(why: &'static str) -> Self {
        Self::new(ErrorKind::Config, Outcome::NotSent).because(why)
    }

    pub(crate) fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.cause = Some(cause.into().into());
        self
    }

    /// What an answer that is no success says. A gateway's page in HTML keeps its status.
    pub(crate) fn answer(kind: ErrorKind, outcome: Outcome, answer: &http::Response<Bytes>) -> Self {
        // Each member by itself: one that is odd does not take the others along (C20). Whatever answered may not be the
        // service: what cannot be its words is left out, and lies in the raw body.
        let problem: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        let code = problem.get("codigo").and_then(Value::as_str).filter(|code| is_word(code)).map(str::to_owned);
        let violations = problem.get("violacoes").and_then(Value::as_array);
        let violations = violations.into_iter().flatten().filter_map(|item| Aviso::deserialize(item).ok());
        let violations = violations.filter(is_plain).take(MAX_VIOLATIONS);
        let request_id = answer.headers().get("x-request-id").and_then(|id| id.to_str().ok());
        let request_id = request_id.filter(|id| id.len() <= 64).map(str::to_owned);
        let mut error = Self::new(kind, outcome);
        let status = answer.status();
        error.0.retryable = outcome != Outcome::Accepted
            && (status.is_server_error()
                || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS));
        error.0.status = Some(status);
        error.0.code = code;
        error.0.violations = violations.collect();
        error.0.request_id = request_id;
        error.0.raw_body = Bytes::copy_from_slice(&answer.body()[..answer.body().len().min(MAX_KEPT_BODY_BYTES)]);
        error
    }

    /// What passes by itself, perhaps.
    pub(crate) fn passing(mut self) -> Self {
        self.0.retryable = true;
        self
    }

    pub(crate) fn after(mut self, wait: Option<Duration>) -> Self {
        self.0.retry_after = wait;
        self
    }

    /// Puts in what the whole call knows: how often it was tried, and by which id the service may know it.
    pub(crate) fn of_call(mut self, attempts: u32, request_id: &str) -> Self {
        self.0.attempts = attempts;
        if self.0.request_id.is_none() && attempts > 0 && !request_id.is_empty() {
            self.0.request_id = Some(request_id.to_owned());
        }
        self
    }

    /// The same of a call whose earlier attempt nobody knows the fate of: what happened to this one does not settle that,
    /// unless the service has the proposal, or another under its id.
    pub(crate) fn after_unknown(mut self) -> Self {
        if self.0.outcome != Outcome::Accepted && self.0.code.as_deref() != Some(IN_USE) {
            self.0.outcome = Outcome::Unknown;
        }
        self
    }

    /// The same, of a request that was only to prepare another: that one did not go out.
    pub(crate) fn before_sending(mut self) -> Self {
        self.0.outcome = Outcome::NotSent;
        self
    }

    /// What failed.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What became of the request: whether it may be sent again, and how.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The HTTP status, if there was an answer.
    pub fn status(&self) -> Option<StatusCode> {
        self.0.status
    }

    /// The server's code, such as `token_expirado`.
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// Everything that is wrong with the proposal.
    pub fn violations(&self) -> &[Aviso] {
        &self.0.violations
    }

    /// The id of the request in the service's log, to be told to whoever operates it: the service's own, or, where there
    /// was no answer, the one that it was sent.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// How long the service asked to wait, if it did (`Retry-After`).
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// How often the call was tried; 0 where a setting or an argument is at fault.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Whether the same call may succeed later: no connection, a broken one, time ran out, 408, 429, or 5xx. What is wrong
    /// with the request, the credentials or a certificate does not pass by itself.
    ///
    /// This is about the fault. Whether a second call may do harm is what [`outcome`](Self::outcome) tells: posting the
    /// **same** `id_proposta_parceiro` again never does where the service keeps the promise of C9.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// The beginning of the answer's body, at most 8 KiB.
    pub fn raw_body(&self) -> &[u8] {
        &self.0.raw_body
    }
}

/// A proposal that does not pass the checks which every server makes.
impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        let mut error = Self::new(ErrorKind::Config, Outcome::NotSent);
        error.0.violations = invalid.violacoes().iter().map(Aviso::from).collect();
        error.because(invalid)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.kind {
            ErrorKind::Config if self.0.violations.is_empty() => "request was not sent",
            ErrorKind::Config => "request was not sent: the proposal is at fault",
            ErrorKind::Login => "login failed",
            ErrorKind::Connect => "no connection to the service",
            ErrorKind::Timeout => "the service did not answer in time",
            ErrorKind::Transport => "the connection to the service broke",
            ErrorKind::Api => "the service answered with an error",
            ErrorKind::Conflict => match self.code() {
                Some(IN_USE) => "another proposal has this id_proposta_parceiro",
                Some("proposta_ja_respondida") => "the customer has given the other answer already",
                Some("proposta_sem_resposta") => "the customer has not answered yet",
                _ => "the proposal's state stands in the way",
            },
            ErrorKind::Decode => "the service's answer cannot be read",
        })?;
        // What was set wrongly, and what kept a connection from coming about: without it the line says nothing.
        let says_more = match self.0.kind {
            ErrorKind::Config => self.0.violations.is_empty(),
            ErrorKind::Connect => true,
            _ => false,
        };
        if let (true, Some(cause)) = (says_more, &self.0.cause) {
            let mut root: &dyn StdError = &**cause;
            while let Some(deeper) = root.source() {
                root = deeper;
            }
            write!(f, ": {root}")?;
        }
        if let Some(status) = self.0.status {
            write!(f, ", status {}", status.as_u16())?;
        }
        if let Some(code) = &self.0.code {
            write!(f, ", code {code}")?;
        }
        for Aviso { propriedade, codigo, .. } in &self.0.violations {
            let place = if propriedade.is_empty() { "body" } else { propriedade };
            write!(f, ", {place} {codigo}")?;
        }
        if let Some(wait) = self.0.retry_after {
            write!(f, ", retry after {} s", wait.as_secs())?;
        }
        if let Some(request_id) = &self.0.request_id {
            write!(f, ", request {request_id}")?;
        }
        if self.0.outcome == Outcome::Unknown {
            f.write_str("; it may have had its effect")?;
        }
        Ok(())
    }
}

/// Whether it can be the service's: a pointer, a code, a rule, and a sentence.
fn is_plain(violation: &Aviso) -> bool {
    let Aviso { propriedade, codigo, regra, razao, .. } = violation;
    let pointer = propriedade.len() <= 256 && propriedade.split('/').all(|part| part.is_empty() || is_word(part));
    let rule =
        regra.as_ref().is_none_or(|regra| regra.len() <= 8 && regra.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    pointer && is_word(codigo) && rule && razao.len() <= 512
}

/// More violations than a proposal has fields and rules are none of the service's.
const MAX_VIOLATIONS: usize = 64;
const IN_USE: &str = "id_proposta_parceiro_em_uso";

/// A code or a field's name.
fn is_word(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(is_letter)
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            // What `fn main() -> Result` prints is this.
            .field("message", &self.to_string())
            .field("kind", &self.0.kind)
            .field("outcome", &self.0.outcome)
            .field("status", &self.0.status)
            .field("code", &self.0.code)
            .field("request_id", &self.0.request_id)
            // Without the sentences, which whoever answered may have written.
            .field("violations", &self.0.violations.iter().map(|v| (&v.propriedade, &v.codigo)).collect::<Vec<_>>())
            .field("retry_after", &self.0.retry_after)
            .field("attempts", &self.0.attempts)
            .field("retryable", &self.0.retryable)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}
