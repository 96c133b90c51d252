//! Everything that a server is told before it starts.

use std::time::Duration;

use svc_core::{IpRange, Perfil, Policy, Schedule};
use tokio::net::TcpListener;

use crate::key::ServerKey;
use crate::partners::SharedPartners;
use crate::seams::{Clock, NoRandomness, Random, Resolver, Transport};
use crate::sender::Sender;
#[cfg(feature = "postgres")]
use crate::store::DatabaseUrl;
#[cfg(feature = "whatsapp")]
use crate::whatsapp::WhatsAppWebhook;

/// Most connections at a time (C38).
pub const DEFAULT_MAX_CONNECTIONS: usize = 4_096;
/// Most requests in flight (C38).
pub const DEFAULT_MAX_IN_FLIGHT: usize = 512;
/// Most proposals of the store in memory (C38).
pub const DEFAULT_MAX_PROPOSALS: usize = 1_000_000;

/// The settings of a server, and the seams where tests take hold of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Config {
    /// Profile, rules, open ranges.
    pub policy: Policy,
    /// Where customers reach the server; `None` is `http://` and the listener's address (C21).
    pub base_url: Option<String>,
    /// Who may call it; can be replaced while the server runs.
    pub partners: SharedPartners,
    /// Signs access tokens.
    pub token_key: ServerKey,
    /// Signed them before.
    pub previous_token_key: Option<ServerKey>,
    /// Links and digests are derived from it; it should never change.
    pub link_key: ServerKey,
    /// How customers are told.
    pub sender: Sender,
    /// Whether some numbers answer by themselves: for trying the service out.
    pub simulate: bool,
    /// How WhatsApp tells what became of messages, if it may.
    #[cfg(feature = "whatsapp")]
    pub whatsapp_webhook: Option<WhatsAppWebhook>,
    /// When a webhook is tried again.
    pub schedule: Schedule,
    /// Certificate authorities that receivers' certificates may come from, as PEM; `None` is the machine's.
    pub webhook_ca: Option<String>,
    /// Proxies whose `X-Forwarded-For` is believed (C23).
    pub trusted_proxies: Vec<IpRange>,
    /// Most connections at a time.
    pub max_connections: usize,
    /// Most requests in flight.
    pub max_in_flight: usize,
    /// Most proposals of the store in memory.
    pub max_proposals: usize,
    /// Where proposals last; `None` keeps them in memory.
    #[cfg(feature = "postgres")]
    pub database: Option<DatabaseUrl>,
    /// How long after the answer a person's data stay; `None` is for ever.
    pub retention: Option<Duration>,
    /// Serves `GET /metrics`, if anything does: a listener of its own, apart from the one for the world.
    pub metrics: Option<TcpListener>,
    /// What time it is, and how much has passed.
    pub clock: Clock,
    /// The source of ids.
    pub random: Random,
    /// Resolves the names in webhook URLs.
    pub resolver: Resolver,
    /// Connects to the addresses that they have.
    pub transport: Transport,
}

impl Config {
    /// A test server (`homologacao`) for these partners: fresh keys, the `log` sender, webhooks to this machine allowed.
    ///
    /// ```
    /// use svc_server::{Config, Partners};
    /// let config = Config::homologacao(Partners::demonstration()).unwrap();
    /// assert_eq!(config.max_in_flight, svc_server::DEFAULT_MAX_IN_FLIGHT);
    /// assert!(config.policy.may_reach("127.0.0.1".parse().unwrap()));
    /// assert!(!config.policy.may_reach("10.0.0.1".parse().unwrap()));
    /// ```
    pub fn homologacao(partners: impl Into<SharedPartners>) -> Result<Self, NoRandomness> {
        let random = Random::system();
        Ok(Self {
            policy: loopback().into_iter().fold(Policy::new(Perfil::Homologacao), Policy::open),
            base_url: None,
            partners: partners.into(),
            token_key: ServerKey::fresh(&random)?,
            previous_token_key: None,
            link_key: ServerKey::fresh(&random)?,
            sender: Sender::Log,
            simulate: false,
            #[cfg(feature = "whatsapp")]
            whatsapp_webhook: None,
            schedule: Schedule::HOMOLOGACAO,
            webhook_ca: None,
            trusted_proxies: Vec::new(),
            max_connections: DEFAULT_MAX_CONNECTIONS,
            max_in_flight: DEFAULT_MAX_IN_FLIGHT,
            max_proposals: DEFAULT_MAX_PROPOSALS,
            #[cfg(feature = "postgres")]
            database: None,
            retention: None,
            metrics: None,
            clock: Clock::system(),
            random,
            resolver: Resolver::system(),
            transport: Transport::system(),
        })
    }
}

/// The addresses of this machine.
pub(crate) fn loopback() -> [IpRange; 2] {
    ["127.0.0.0/8", "::1/128"].map(|range| IpRange::parse(range).expect("constants of this line"))
}
