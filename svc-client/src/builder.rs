//! Settings of a client before it is built.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Uri};
use url::Url;

use crate::call::Caller;
use crate::client::Client;
use crate::clock::{Clock, SystemClock};
use crate::defaults::{
    ATTEMPT_TIMEOUT, BACKOFF_BASE, BACKOFF_CAP, BUDGET_FLOOR, BUDGET_PERCENT, IDEMPOTENCY, LOGIN_TIMEOUT,
    MAX_ANSWER_BYTES, MAX_RETRIES, MAX_RETRY_AFTER, TOTAL_TIMEOUT,
};
use crate::error::{Error, Result};
use crate::network::{Network, NetworkSettings};
use crate::retry::{Budget, Idempotency};
use crate::secret::ClientSecret;
use crate::token::Tokens;
use crate::transport::{AnyTransport, Transport};

/// Settings of a [`Client`] before it is built. What is not set is as in [`defaults`](crate::defaults).
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    base_url: String,
    client_id: String,
    client_secret: ClientSecret,
    allow_http: bool,
    app_name: Option<String>,
    settings: Settings,
    network: NetworkSettings,
    transport: Option<Arc<dyn AnyTransport>>,
    clock: Option<Arc<dyn Clock>>,
}

/// Settings of the calls.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) attempt_timeout: Duration,
    pub(crate) login_timeout: Duration,
    pub(crate) total_timeout: Duration,
    pub(crate) max_retries: u32,
    pub(crate) backoff_base: Duration,
    pub(crate) backoff_cap: Duration,
    pub(crate) max_retry_after: Duration,
    pub(crate) budget_percent: u32,
    pub(crate) budget_floor: u32,
    pub(crate) idempotency: Idempotency,
    pub(crate) max_answer_bytes: usize,
}

impl ClientBuilder {
    pub(crate) fn new(base_url: String, client_id: String, client_secret: ClientSecret) -> Self {
        Self {
            base_url,
            client_id,
            client_secret,
            allow_http: false,
            app_name: None,
            settings: Settings {
                attempt_timeout: ATTEMPT_TIMEOUT,
                login_timeout: LOGIN_TIMEOUT,
                total_timeout: TOTAL_TIMEOUT,
                max_retries: MAX_RETRIES,
                backoff_base: BACKOFF_BASE,
                backoff_cap: BACKOFF_CAP,
                max_retry_after: MAX_RETRY_AFTER,
                budget_percent: BUDGET_PERCENT,
                budget_floor: BUDGET_FLOOR,
                idempotency: IDEMPOTENCY,
                max_answer_bytes: MAX_ANSWER_BYTES,
            },
            network: NetworkSettings::default(),
            transport: None,
            clock: None,
        }
    }

    /// Begins with what the environment says: `SVC_BASE_URL`, `SVC_CLIENT_ID`, `SVC_CLIENT_SECRET`.
    ///
    /// ```no_run
    /// # fn main() -> svc_client::Result<()> {
    /// let client = svc_client::ClientBuilder::from_env()?.app_name("financeira/1.0").build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config), naming the variable that is missing, empty or no UTF-8.
    pub fn from_env() -> Result<Self> {
        Self::from_lookup(|name| env::var_os(name))
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let read = |name: &'static str| {
            let text = lookup(name).ok_or_else(|| Error::config("").because(format!("{name} is not set")))?;
            let text = text.into_string().map_err(|_| Error::config("").because(format!("{name} is no UTF-8")))?;
            if text.is_empty() { Err(Error::config("").because(format!("{name} is empty"))) } else { Ok(text) }
        };
        Ok(Self::new(read(BASE_URL)?, read(CLIENT_ID)?, ClientSecret::from(read(CLIENT_SECRET)?)))
    }

    /// Other credentials.
    pub fn credentials(mut self, client_id: impl Into<String>, client_secret: impl Into<ClientSecret>) -> Self {
        (self.client_id, self.client_secret) = (client_id.into(), client_secret.into());
        self
    }

    /// Another base URL, such as `https://propostas.example.com`, without the `/v1` of the calls: the one line to change
    /// between the test service and the real one.
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = base_url.into();
        self
    }

    /// Lets the client speak http to other machines than this one, tokens and persons' data in clear.
    pub fn allow_http(mut self, allow: bool) -> Self {
        self.allow_http = allow;
        self
    }

    /// Your program's name in `User-Agent`, before this crate's, such as `minha-financeira/1.2`.
    pub fn app_name(mut self, name: impl Into<String>) -> Self {
        self.app_name = Some(name.into());
        self
    }

    /// Longest time to connect. Of no effect on a [transport](Self::transport) of your own.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.network.connect_timeout = timeout;
        self
    }

    /// Longest time of one attempt, to the last byte of its answer.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.settings.attempt_timeout = timeout;
        self
    }

    /// Longest time of a login.
    pub fn login_timeout(mut self, timeout: Duration) -> Self {
        self.settings.login_timeout = timeout;
        self
    }

    /// Longest time of a call, with login, waits and retries.
    pub fn total_timeout(mut self, timeout: Duration) -> Self {
        self.settings.total_timeout = timeout;
        self
    }

    /// How many attempts may follow the first; 0 for none, whatever happens.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.settings.max_retries = retries;
        self
    }

    /// The longest wait before the first retry, doubled with each, and the longest of all (see
    /// [`backoff`](crate::retry::backoff)).
    pub fn backoff(mut self, base: Duration, cap: Duration) -> Self {
        (self.settings.backoff_base, self.settings.backoff_cap) = (base, cap);
        self
    }

    /// The longest `Retry-After` that is waited for. A longer one is an error at once, with
    /// [`retry_after`](Error::retry_after).
    pub fn max_retry_after(mut self, wait: Duration) -> Self {
        self.settings.max_retry_after = wait;
        self
    }

    /// How many retries a minute may have: this share of its calls in percent, and always so many.
    pub fn retry_budget(mut self, percent: u32, floor: u32) -> Self {
        (self.settings.budget_percent, self.settings.budget_floor) = (percent, floor);
        self
    }

    /// Whether a proposal whose fate is unknown is posted again.
    pub fn idempotency(mut self, idempotency: Idempotency) -> Self {
        self.settings.idempotency = idempotency;
        self
    }

    /// Largest answer that is read.
    pub fn max_answer_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_answer_bytes = bytes;
        self
    }

    /// How long an idle connection is kept. Of no effect on a [transport](Self::transport) of your own.
    pub fn pool_idle_timeout(mut self, timeout: Duration) -> Self {
        self.network.pool_idle_timeout = timeout;
        self
    }

    /// Most idle connections. Of no effect on a [transport](Self::transport) of your own.
    pub fn pool_max_idle(mut self, connections: usize) -> Self {
        self.network.pool_max_idle = connections;
        self
    }

    /// Sends everything through a proxy, such as `http://proxy.example.com:3128`. Without it no proxy is used, whatever the
    /// environment says.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.network.proxy = Some(url.into());
        self
    }

    /// Uses the proxy of the environment (`HTTPS_PROXY`, `NO_PROXY` and the like) or of the operating system.
    #[cfg(feature = "system-proxy")]
    pub fn system_proxy(mut self, use_it: bool) -> Self {
        self.network.system_proxy = use_it;
        self
    }

    /// Sends requests in another way, see [`Transport`].
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Tells the time in another way: for tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Checks the settings. Needs no runtime, sends nothing and starts nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config): the base URL is no http or https address without query, ends in
    /// `/v1`, or is http to another machine; credentials are empty or have blanks round them; the app's name cannot stand in a header; a proxy
    /// is no URL; or TLS cannot be set up, which is so where a machine has no certificate authorities, even for http.
    pub fn build(self) -> Result<Client> {
        let base_url = self.base_url.trim_end_matches('/').to_owned();
        let base = check(&base_url, self.allow_http)?;
        for (text, why) in [
            (&*self.client_id, "client_id is empty or has blanks round it"),
            (self.client_secret.expose(), "client_secret is empty or has blanks round it"),
        ] {
            if text.is_empty() || text.trim() != text {
                return Err(Error::config(why));
            }
        }
        let user_agent = match &self.app_name {
            Some(name) if name.trim().is_empty() => return Err(Error::config("app's name is empty")),
            Some(name) => format!("{name} {USER_AGENT}"),
            None => USER_AGENT.to_owned(),
        };
        let user_agent =
            HeaderValue::try_from(user_agent).map_err(|_| Error::config("app's name cannot stand in a header"))?;
        let transport = match self.transport {
            Some(transport) => transport,
            None => Arc::new(Network::new(base, self.network)?),
        };
        Ok(Client::new(Caller {
            base_url,
            client_id: self.client_id,
            client_secret: self.client_secret,
            user_agent,
            settings: self.settings,
            transport,
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
            tokens: Tokens::new(),
            budget: Budget::new(self.settings.budget_percent, self.settings.budget_floor),
        }))
    }
}

/// Two parsers read it, as of every request: the types' and the transport's.
fn check(base_url: &str, allow_http: bool) -> Result<Url> {
    let no_url = || Error::config("base URL is no URL");
    let uri: Uri = base_url.parse().map_err(|_| no_url())?;
    let url = Url::parse(base_url).map_err(|_| no_url())?;
    let host = uri.host().ok_or_else(|| Error::config("base URL has no host"))?;
    // A fragment is dropped by the parser, and everything behind it with it.
    if base_url.contains('#')
        || uri.query().is_some()
        || uri.authority().is_some_and(|authority| authority.as_str().contains('@'))
    {
        return Err(Error::config("base URL has a query, a fragment or credentials"));
    }
    if uri.path().ends_with("/v1") {
        return Err(Error::config("base URL ends in /v1, which the calls bring with them"));
    }
    match uri.scheme_str() {
        Some("https") => Ok(url),
        Some("http") if allow_http || is_this_machine(host) => Ok(url),
        Some("http") => Err(Error::config("base URL is http to another machine, which allow_http would allow")),
        _ => Err(Error::config("base URL is neither http nor https")),
    }
}

/// `localhost` and the loopback addresses.
fn is_this_machine(host: &str) -> bool {
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || literal.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

const USER_AGENT: &str = concat!("svc-client/", env!("CARGO_PKG_VERSION"));
const BASE_URL: &str = "SVC_BASE_URL";
const CLIENT_ID: &str = "SVC_CLIENT_ID";
const CLIENT_SECRET: &str = "SVC_CLIENT_SECRET";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_s_faults_are_named() {
        let values = [(BASE_URL, "http://127.0.0.1:1"), (CLIENT_ID, "p"), (CLIENT_SECRET, "segredo")];
        let with = |name: &'static str, value: Option<&'static str>| {
            ClientBuilder::from_lookup(|asked| {
                let found = values.iter().find(|(name, _)| *name == asked).map(|(_, value)| (*value).into());
                if asked == name { value.map(OsString::from) } else { found }
            })
        };
        assert!(with("", None).unwrap().build().is_ok());
        for (name, _) in values {
            let why = |value| with(name, value).unwrap_err().to_string();
            assert_eq!(why(None), format!("request was not sent: {name} is not set"));
            assert_eq!(why(Some("")), format!("request was not sent: {name} is empty"));
        }
    }
}
