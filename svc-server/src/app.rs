//! What every request and every attempt shares.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use svc_core::{DigestKey, Perfil};
use tokio::sync::{Notify, Semaphore};

use crate::auth::{Refused, Tokens};
use crate::config::Config;
use crate::limiter::Limiter;
use crate::link::Links;
use crate::metrics::Metrics;
use crate::reply::{Problem, Reply};
use crate::seams::NoRandomness;
use crate::store::{Store, StoreError};

/// What a request asks of the store is waited for so long in all, however many calls that takes.
const STORE_DEADLINE: Duration = Duration::from_millis(2_750);

/// What every request needs.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) links: Links,
    pub(crate) tokens: Tokens,
    pub(crate) limiter: Limiter,
    pub(crate) digest_key: DigestKey,
    pub(crate) metrics: Metrics,
    /// Rings when a delivery has become due.
    pub(crate) wake_webhooks: Notify,
    /// Rings when a message has.
    pub(crate) wake_messages: Notify,
    /// Room for requests.
    pub(crate) in_flight: Semaphore,
}

impl App {
    pub(crate) fn new(config: Config, store: Store, base_url: &str) -> Self {
        let perfil = config.policy.perfil();
        Self {
            store,
            links: Links::new(base_url, perfil, &config.link_key),
            tokens: Tokens::new(perfil, &config.token_key, config.previous_token_key.as_ref()),
            limiter: Limiter::default(),
            digest_key: DigestKey::derive(config.link_key.bytes()).expect("a server key has 32 bytes"),
            metrics: Metrics::new(),
            wake_webhooks: Notify::new(),
            wake_messages: Notify::new(),
            in_flight: Semaphore::new(config.max_in_flight.min(Semaphore::MAX_PERMITS)),
            config,
        }
    }

    pub(crate) fn perfil(&self) -> Perfil {
        self.config.policy.perfil()
    }

    /// The partner of a token, which must still be one (C24, C25). Asked before a body is read.
    pub(crate) fn authorize(&self, headers: &HeaderMap) -> Result<Arc<str>, Problem> {
        let authorization = headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes);
        let client_id = self.tokens.check(authorization, self.config.clock.now()).map_err(Problem::Token)?;
        match self.config.partners.current().get(&client_id) {
            Some(_) => Ok(client_id),
            None => Err(Problem::Token(Refused::Invalid)),
        }
    }

    pub(crate) fn new_request_id(&self) -> Result<String, NoRandomness> {
        Ok(u128::from_ne_bytes(self.config.random.bytes()?)).map(|id| format!("{id:032x}"))
    }
}

/// All that a request asks of the store, in time. What it began goes on to its end. It stays where it is pinned, since what
/// is handed on is copied whole.
pub(crate) async fn in_time(asked: Pin<&mut impl Future<Output = Result<Reply, Problem>>>) -> Result<Reply, Problem> {
    tokio::time::timeout(STORE_DEADLINE, asked).await.unwrap_or(Err(Problem::Unavailable(1)))
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full => Self::Unavailable(60),
            StoreError::Away | StoreError::Rejected => Self::Unavailable(1),
            StoreError::Corrupt => Self::Internal,
        }
    }
}

impl From<NoRandomness> for Problem {
    fn from(_: NoRandomness) -> Self {
        Self::Internal
    }
}
