//! One HTTP exchange: a request out, its answer in, within a deadline and a cap. The only file that knows reqwest.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::redirect::Policy;
use tokio::time::{Instant, timeout_at};

use crate::client::{CONNECT_TIMEOUT, MAX_ANSWER_BYTES, MAX_IDLE_PER_HOST, POOL_IDLE_TIMEOUT};
use crate::error::{Error, ErrorKind, Outcome};

#[derive(Debug)]
pub(crate) struct Transport(reqwest::Client);

impl Transport {
    /// No redirects, no proxy, no cookies: what the service answers comes from the service.
    pub(crate) fn new() -> Result<Self, Error> {
        let builder = reqwest::Client::builder()
            .user_agent(concat!("svc-client/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_PER_HOST);
        // It fails where the machine has no certificate authorities.
        builder
            .build()
            .map(Self)
            .map_err(|error| Error::new(ErrorKind::Config, Outcome::NotSent).because(error.without_url()))
    }

    /// Sends a request and reads its answer. An answer whose body breaks off, stalls or is too long keeps its status:
    /// that tells what became of the request.
    pub(crate) async fn exchange(&self, request: http::Request<Bytes>, deadline: Duration) -> Result<Exchanged, Error> {
        let deadline = Instant::now() + deadline;
        let config =
            |error: reqwest::Error| Error::new(ErrorKind::Config, Outcome::NotSent).because(error.without_url());
        let request = reqwest::Request::try_from(request).map_err(config)?;
        let mut answer = match timeout_at(deadline, self.0.execute(request)).await {
            Ok(answer) => answer.map_err(sort)?,
            Err(elapsed) => return Err(Error::new(ErrorKind::Timeout, Outcome::Unknown).because(elapsed)),
        };
        let mut body = BytesMut::new();
        let fault = loop {
            match timeout_at(deadline, answer.chunk()).await {
                Ok(Ok(Some(chunk))) if body.len() + chunk.len() > MAX_ANSWER_BYTES => break Some(BodyFault::TooLong),
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Ok(Ok(None)) => break None,
                Ok(Err(_)) => break Some(BodyFault::BrokeOff),
                Err(_) => break Some(BodyFault::Late),
            }
        };
        let mut response = http::Response::new(body.freeze());
        *response.status_mut() = answer.status();
        *response.headers_mut() = std::mem::take(answer.headers_mut());
        Ok(Exchanged { response, fault })
    }
}

/// An answer, and what was wrong with its body, if anything was.
#[derive(Debug)]
pub(crate) struct Exchanged {
    pub(crate) response: http::Response<Bytes>,
    pub(crate) fault: Option<BodyFault>,
}

/// Why a body is not whole.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum BodyFault {
    #[error("answer is longer than 1 MiB")]
    TooLong,
    #[error("answer broke off")]
    BrokeOff,
    #[error("answer did not end in time")]
    Late,
}

/// The kind of a failure, and what it says of the request. Its text could hold the URL, which is left out.
fn sort(error: reqwest::Error) -> Error {
    let (kind, outcome) = if error.is_connect() {
        (ErrorKind::Connect, Outcome::NotSent)
    } else if error.is_timeout() {
        (ErrorKind::Timeout, Outcome::Unknown)
    } else {
        (ErrorKind::Transport, Outcome::Unknown)
    };
    Error::new(kind, outcome).because(error.without_url())
}
