//! The transport that comes with the crate. The only file that knows reqwest.

use std::error::Error as StdError;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use reqwest::redirect::Policy;
use tokio::runtime::{Handle, Id};
use url::Url;

use crate::defaults::{CONNECT_TIMEOUT, POOL_IDLE_TIMEOUT, POOL_MAX_IDLE};
use crate::error::{Error, ErrorKind, Outcome};
use crate::transport::{Body, SendError, Transport};

/// Settings of the connections.
#[derive(Clone)]
pub(crate) struct NetworkSettings {
    pub(crate) connect_timeout: Duration,
    pub(crate) pool_idle_timeout: Duration,
    pub(crate) pool_max_idle: usize,
    /// Its URL, which can hold a password.
    pub(crate) proxy: Option<String>,
    #[cfg(feature = "system-proxy")]
    pub(crate) system_proxy: bool,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            connect_timeout: CONNECT_TIMEOUT,
            pool_idle_timeout: POOL_IDLE_TIMEOUT,
            pool_max_idle: POOL_MAX_IDLE,
            proxy: None,
            #[cfg(feature = "system-proxy")]
            system_proxy: false,
        }
    }
}

/// Connections live in the runtime that made them, and are nobody's who waits for them in another: so each runtime has
/// its own, the latest few of them.
pub(crate) struct Network {
    /// The service's address, parsed once: of a request only path and query are.
    base: Url,
    settings: NetworkSettings,
    pools: Mutex<Vec<(Option<Id>, reqwest::Client)>>,
}

/// Most runtimes whose connections are kept.
const MAX_POOLS: usize = 4;

impl Network {
    /// Makes the first pool, for whichever runtime comes first: what is wrong with the settings shows at once.
    pub(crate) fn new(base: Url, settings: NetworkSettings) -> Result<Self, Error> {
        let first = Self::pool(&settings)?;
        Ok(Self { base, settings, pools: Mutex::new(vec![(None, first)]) })
    }

    /// The connections of this runtime.
    fn here(&self) -> Result<reqwest::Client, SendError> {
        let here = Handle::try_current().map_err(SendError::not_sent)?.id();
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((id, pool)) = pools.iter_mut().find(|(id, _)| id.is_none_or(|id| id == here)) {
            *id = Some(here);
            return Ok(pool.clone());
        }
        let pool = Self::pool(&self.settings).map_err(SendError::not_sent)?;
        if pools.len() >= MAX_POOLS {
            pools.remove(0);
        }
        pools.push((Some(here), pool.clone()));
        Ok(pool)
    }

    /// No redirects, no cookies, no proxy that nobody asked for: what the service answers comes from the service. And no
    /// retries of its own where a build has HTTP/2, which would be attempts that nobody counts; without any allowed it keeps no
    /// copy of each request either.
    fn pool(settings: &NetworkSettings) -> Result<reqwest::Client, Error> {
        let mut builder = reqwest::Client::builder()
            .redirect(Policy::none())
            .retry(reqwest::retry::never().max_retries_per_request(0))
            .connect_timeout(settings.connect_timeout)
            .pool_idle_timeout(settings.pool_idle_timeout)
            .pool_max_idle_per_host(settings.pool_max_idle);
        #[cfg(feature = "system-proxy")]
        let from_system = settings.system_proxy;
        #[cfg(not(feature = "system-proxy"))]
        let from_system = false;
        if !from_system {
            builder = builder.no_proxy();
        }
        if let Some(url) = &settings.proxy {
            // Not as its cause, which would quote it.
            let proxy = reqwest::Proxy::all(url).map_err(|_| Error::config("proxy is no URL"))?;
            builder = builder.proxy(proxy);
        }
        // Where a build has both, the one that needs nothing of the machine.
        #[cfg(feature = "rustls")]
        let builder = builder.tls_backend_rustls();
        builder.build().map_err(|error| {
            let error = error.without_url();
            Error::new(ErrorKind::Config, Outcome::NotSent).because(format!(
                "TLS cannot be set up; are there certificate authorities on this machine? {}",
                chain(&error)
            ))
        })
    }
}

impl Transport for Network {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, SendError> {
        let (head, body) = request.into_parts();
        let mut url = self.base.clone();
        url.set_path(head.uri.path());
        url.set_query(head.uri.query());
        let mut request = reqwest::Request::new(head.method, url);
        *request.headers_mut() = head.headers;
        *request.body_mut() = Some(body.into());
        let answer = self.here()?.execute(request).await.map_err(sort)?;
        Ok(Response::<reqwest::Body>::from(answer).map(Body::new))
    }
}

/// Whether anything went out before it failed. Its text could hold the URL, which is left out.
fn sort(error: reqwest::Error) -> SendError {
    let is_connect = error.is_connect();
    let error = error.without_url();
    if !is_connect {
        SendError::broken(error)
    } else if chain(&error).to_lowercase().contains("certificate") {
        // Each TLS library has its own type for it, and all of them this word.
        SendError::certificate(error)
    } else {
        SendError::not_sent(error)
    }
}

/// An error and all that is behind it.
fn chain(error: &dyn StdError) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
