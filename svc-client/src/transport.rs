//! One HTTP exchange: a request out, its answer in, within a deadline and a cap. The only file that knows reqwest.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::redirect::Policy;

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

    /// Sends a request and reads its answer to the last byte.
    pub(crate) async fn exchange(
        &self,
        request: http::Request<Bytes>,
        deadline: Duration,
    ) -> Result<http::Response<Bytes>, Error> {
        let config =
            |error: reqwest::Error| Error::new(ErrorKind::Config, Outcome::NotSent).because(error.without_url());
        let request = reqwest::Request::try_from(request).map_err(config)?;
        match tokio::time::timeout(deadline, self.send(request)).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(Error::new(ErrorKind::Timeout, Outcome::Unknown).because(elapsed)),
        }
    }

    async fn send(&self, request: reqwest::Request) -> Result<http::Response<Bytes>, Error> {
        let mut answer = self.0.execute(request).await.map_err(sort)?;
        let mut body = BytesMut::new();
        while let Some(chunk) = answer.chunk().await.map_err(sort)? {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(Error::new(ErrorKind::Decode, Outcome::Unknown).because("answer of more than 1 MiB"));
            }
            body.extend_from_slice(&chunk);
        }
        let mut response = http::Response::new(body.freeze());
        *response.status_mut() = answer.status();
        *response.headers_mut() = std::mem::take(answer.headers_mut());
        Ok(response)
    }
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
