//! Settings: one table of flags and variables, read once through an injected look-up; an error names the variable.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use svc_core::{IpRange, Perfil, Policy, Regra, Schedule, WebhookUrl};

use crate::config::{Config, DEFAULT_MAX_CONNECTIONS, DEFAULT_MAX_IN_FLIGHT, DEFAULT_MAX_PROPOSALS, loopback};
use crate::key::ServerKey;
use crate::partners::Partners;
use crate::seams::{Clock, Random, Resolver, Transport};
use crate::sender::Sender;
#[cfg(feature = "postgres")]
use crate::store::DatabaseUrl;

/// A setting: its variable, its flag if it is no secret, and what `--help` says.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// Environment variable.
    pub var: &'static str,
    /// Long flag without its dashes; secrets have none.
    pub flag: Option<&'static str>,
    /// What stands for the value in `--help`.
    pub value: &'static str,
    /// One sentence.
    pub help: &'static str,
}

const LISTEN: &str = "SVC_LISTEN";
const BASE_URL: &str = "SVC_BASE_URL";
const PROFILE: &str = "SVC_PROFILE";
const RULES_OFF: &str = "SVC_RULES_OFF";
const PARTNERS: &str = "SVC_PARTNERS";
const TOKEN_KEY: &str = "SVC_TOKEN_KEY";
const TOKEN_KEY_FILE: &str = "SVC_TOKEN_KEY_FILE";
const TOKEN_KEY_PREVIOUS: &str = "SVC_TOKEN_KEY_PREVIOUS";
const LINK_KEY: &str = "SVC_LINK_KEY";
const LINK_KEY_FILE: &str = "SVC_LINK_KEY_FILE";
const SENDER: &str = "SVC_SENDER";
const WEBHOOK_ALLOW: &str = "SVC_WEBHOOK_ALLOW";
const TRUSTED_PROXY: &str = "SVC_TRUSTED_PROXY";
const RETRY_SCHEDULE: &str = "SVC_RETRY_SCHEDULE";
const MAX_CONNECTIONS: &str = "SVC_MAX_CONNECTIONS";
const MAX_IN_FLIGHT: &str = "SVC_MAX_IN_FLIGHT";
const MAX_PROPOSALS: &str = "SVC_MAX_PROPOSALS";
const METRICS_LISTEN: &str = "SVC_METRICS_LISTEN";
const LOG: &str = "SVC_LOG";
const DATABASE_URL: &str = "SVC_DATABASE_URL";
const DATABASE_URL_FILE: &str = "SVC_DATABASE_URL_FILE";
const RETENTION: &str = "SVC_RETENTION";

/// All settings, in the order of `--help`.
pub const SETTINGS: [Setting; 22] = [
    setting(LISTEN, "listen", "ADDRESS", "Address and port to listen on [default: 127.0.0.1:8080]"),
    setting(BASE_URL, "base-url", "URL", "Where customers reach this server [default: http://<listen>]"),
    setting(PROFILE, "profile", "PROFILE", "homologacao or producao [default: homologacao]"),
    setting(RULES_OFF, "rules-off", "RULES", "Consistency rules to switch off, such as R7,R9"),
    setting(PARTNERS, "partners", "FILE", "JSON list of partners; without it, a demonstration partner on loopback"),
    setting(TOKEN_KEY_FILE, "token-key-file", "FILE", "Key of access tokens, 32 bytes or more [default: random]"),
    secret(TOKEN_KEY, "Key of access tokens itself, instead of --token-key-file"),
    secret(TOKEN_KEY_PREVIOUS, "Key of access tokens before the last change; its tokens are still taken"),
    setting(LINK_KEY_FILE, "link-key-file", "FILE", "Key of links and digests, 32 bytes or more [default: random]"),
    secret(LINK_KEY, "Key of links and digests itself, instead of --link-key-file"),
    setting(
        DATABASE_URL_FILE,
        "database-url-file",
        "FILE",
        "File with the URL of a PostgreSQL database [default: memory]",
    ),
    secret(DATABASE_URL, "The URL itself, postgres://user:password@host/database, instead of --database-url-file"),
    setting(RETENTION, "retention", "DAYS", "Days after the answer that a person's data stay [default: for ever]"),
    setting(SENDER, "sender", "SENDER", "How customers are told: log [default: log in homologacao]"),
    setting(WEBHOOK_ALLOW, "webhook-allow", "CIDRS", "Private ranges that webhooks may reach, such as 10.1.0.0/16"),
    setting(
        RETRY_SCHEDULE,
        "retry-schedule",
        "WAITS",
        "Waits before each attempt of a webhook [default: the profile's]",
    ),
    setting(TRUSTED_PROXY, "trusted-proxy", "CIDRS", "Proxies whose X-Forwarded-For is believed, such as 10.0.0.0/8"),
    setting(MAX_CONNECTIONS, "max-connections", "N", "Most connections at a time [default: 4096]"),
    setting(MAX_IN_FLIGHT, "max-in-flight", "N", "Most requests in flight [default: 512]"),
    setting(MAX_PROPOSALS, "max-proposals", "N", "Most proposals in memory [default: 1000000]"),
    setting(METRICS_LISTEN, "metrics-listen", "ADDRESS", "Address and port to serve GET /metrics on [default: none]"),
    setting(LOG, "log", "FORMAT", "Log format on standard error, text or json [default: text]"),
];

/// What the program is told: where to listen, how to log, and the server's [`Config`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Address to bind.
    pub listen: SocketAddr,
    /// Address to bind for the metrics, if they are to be served.
    pub metrics_listen: Option<SocketAddr>,
    /// Format of the log.
    pub log: LogFormat,
    /// The partners' file, to be read again on request.
    pub partners_file: Option<PathBuf>,
    /// What follows for [`run`](crate::run).
    pub config: Config,
    /// Things to be said once the log is there.
    pub warnings: Vec<&'static str>,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// A setting that cannot be used: which, and why. Never its value, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{var}: {why}")]
pub struct BadSetting {
    /// The environment variable, by which both forms of the setting are known.
    pub var: &'static str,
    /// One sentence.
    pub why: String,
}

impl Settings {
    /// Reads all settings through a look-up by variable, which a program lets flags answer first.
    ///
    /// ```
    /// use svc_server::Settings;
    /// let settings = Settings::read(|_| None).unwrap();
    /// assert_eq!(settings.listen.to_string(), "127.0.0.1:8080");
    ///
    /// let bad = Settings::read(|var| (var == "SVC_LISTEN").then(|| "8080".into())).unwrap_err();
    /// assert_eq!(bad.to_string(), "SVC_LISTEN: not an address such as 127.0.0.1:8080");
    /// ```
    pub fn read(lookup: impl Fn(&'static str) -> Option<OsString>) -> Result<Self, BadSetting> {
        Source { lookup: &lookup }.read()
    }
}

struct Source<'l> {
    lookup: &'l dyn Fn(&'static str) -> Option<OsString>,
}

impl Source<'_> {
    /// A setting's text; an empty one is none, since scripts set variables to nothing.
    fn text(&self, var: &'static str) -> Result<Option<String>, BadSetting> {
        let text =
            (self.lookup)(var).map(|value| value.into_string().map_err(|_| bad(var, "is not UTF-8"))).transpose()?;
        Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
    }

    fn read(&self) -> Result<Settings, BadSetting> {
        let perfil = self.parsed(PROFILE, "not homologacao or producao", Perfil::parse)?.unwrap_or_default();
        let strict = perfil == Perfil::Producao;
        let listen: SocketAddr = self
            .parsed(LISTEN, "not an address such as 127.0.0.1:8080", |text| text.parse().ok())?
            .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080)));
        let on_loopback = listen.ip().is_loopback();
        let mut warnings = Vec::new();
        let random = Random::system();
        let database = self.database()?;
        // What lasts needs keys that do, and what several servers share needs the same.
        let named = strict || database.is_some();
        let link_key = self.key(LINK_KEY, LINK_KEY_FILE, named, &random)?;
        let token_key = self.key(TOKEN_KEY, TOKEN_KEY_FILE, named, &random)?;
        let previous_token_key =
            self.text(TOKEN_KEY_PREVIOUS)?.map(|key| server_key(TOKEN_KEY_PREVIOUS, key.into_bytes()));
        let config = Config {
            policy: self.policy(perfil, on_loopback, &mut warnings)?,
            base_url: self.base_url(listen, strict)?,
            partners: self.partners(strict, on_loopback, &mut warnings)?.into(),
            token_key,
            previous_token_key: previous_token_key.transpose()?,
            link_key,
            sender: self.sender(strict)?,
            schedule: self
                .parsed(RETRY_SCHEDULE, "not a list of waits such as 0,5s,30s,2m,10m", |text| {
                    Schedule::parse(text).ok()
                })?
                .unwrap_or(if strict { Schedule::PRODUCAO } else { Schedule::HOMOLOGACAO }),
            trusted_proxies: self.ranges(TRUSTED_PROXY)?,
            max_connections: self.count(MAX_CONNECTIONS, DEFAULT_MAX_CONNECTIONS)?,
            max_in_flight: self.count(MAX_IN_FLIGHT, DEFAULT_MAX_IN_FLIGHT)?,
            max_proposals: self.count(MAX_PROPOSALS, DEFAULT_MAX_PROPOSALS)?,
            #[cfg(feature = "postgres")]
            database,
            retention: self.parsed(RETENTION, "not a whole number of days from 1", |text| {
                let days: u64 = text.parse().ok().filter(|days| (1..=36_500).contains(days))?;
                Some(Duration::from_secs(24 * 60 * 60 * days))
            })?,
            webhook_ca: None,
            metrics: None,
            clock: Clock::system(),
            random,
            resolver: Resolver::system(),
            transport: Transport::system(),
        };
        let log = self.parsed(LOG, "not text or json", |text| match text {
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            _ => None,
        })?;
        let metrics_listen =
            self.parsed(METRICS_LISTEN, "not an address such as 127.0.0.1:9090", |text| text.parse().ok())?;
        let partners_file = self.text(PARTNERS)?.map(PathBuf::from);
        Ok(Settings { listen, metrics_listen, log: log.unwrap_or_default(), partners_file, config, warnings })
    }

    fn policy(
        &self,
        perfil: Perfil,
        on_loopback: bool,
        warnings: &mut Vec<&'static str>,
    ) -> Result<Policy, BadSetting> {
        let mut policy = Policy::new(perfil);
        if let Some(rules) = self.text(RULES_OFF)? {
            for rule in rules.split(',').map(str::trim) {
                policy =
                    policy.without(Regra::parse(rule).ok_or_else(|| bad(RULES_OFF, "not a list of rules R1 to R9"))?);
            }
        }
        policy = self.ranges(WEBHOOK_ALLOW)?.into_iter().fold(policy, Policy::open);
        if perfil == Perfil::Homologacao && on_loopback {
            warnings.push("webhooks may reach this machine, since the server listens on loopback only");
            policy = loopback().into_iter().fold(policy, Policy::open);
        }
        Ok(policy)
    }

    fn base_url(&self, listen: SocketAddr, strict: bool) -> Result<Option<String>, BadSetting> {
        let Some(text) = self.text(BASE_URL)? else {
            return match (strict, listen.ip().is_unspecified()) {
                (true, _) => Err(bad(BASE_URL, "required in producao")),
                (_, true) => Err(bad(BASE_URL, "required when SVC_LISTEN names no address that customers could open")),
                _ => Ok(None),
            };
        };
        // What links are made of is held to what webhooks are: nothing that a parser would have to repair.
        let url = WebhookUrl::parse(text.as_str()).ok().filter(|_| !text.contains('?'));
        match url.map(|url| url.is_https()) {
            Some(false) if strict => Err(bad(BASE_URL, "must be https in producao")),
            Some(_) => Ok(Some(text)),
            None => Err(bad(BASE_URL, "not an address such as https://propostas.example.com")),
        }
    }

    fn partners(
        &self,
        strict: bool,
        on_loopback: bool,
        warnings: &mut Vec<&'static str>,
    ) -> Result<Partners, BadSetting> {
        match self.text(PARTNERS)? {
            Some(path) => match Partners::from_file(path.as_ref()) {
                Ok(partners) if strict && partners.have_sample_secrets() => {
                    Err(bad(PARTNERS, "holds a secret of the demonstration partner, which everybody knows"))
                }
                partners => partners.map_err(|why| bad(PARTNERS, why)),
            },
            None if strict => Err(bad(PARTNERS, "required in producao")),
            None if !on_loopback => Err(bad(PARTNERS, "required unless the server listens on loopback")),
            None => {
                warnings.push("no partners file: the demonstration partner, whose secrets everybody knows, may log in");
                Ok(Partners::demonstration())
            }
        }
    }

    /// The database, from its variable or its file.
    #[cfg(feature = "postgres")]
    fn database(&self) -> Result<Option<DatabaseUrl>, BadSetting> {
        let (var, text) = match (self.text(DATABASE_URL)?, self.text(DATABASE_URL_FILE)?) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(bad(DATABASE_URL, format!("set besides {DATABASE_URL_FILE}; one of them is enough")));
            }
            (Some(text), None) => (DATABASE_URL, text),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path);
                (DATABASE_URL_FILE, text.map_err(|why| bad(DATABASE_URL_FILE, format!("cannot be read: {why}")))?)
            }
        };
        DatabaseUrl::parse(text.trim()).map(Some).map_err(|why| bad(var, why))
    }

    /// Ignored, it would lose what it was to keep.
    #[cfg(not(feature = "postgres"))]
    fn database(&self) -> Result<Option<std::convert::Infallible>, BadSetting> {
        for var in [DATABASE_URL, DATABASE_URL_FILE] {
            if self.text(var)?.is_some() {
                return Err(bad(var, "this program was built without PostgreSQL"));
            }
        }
        Ok(None)
    }

    fn sender(&self, strict: bool) -> Result<Sender, BadSetting> {
        match self.text(SENDER)?.as_deref() {
            Some("log") => Ok(Sender::Log),
            None if !strict => Ok(Sender::Log),
            None => Err(bad(SENDER, "required in producao")),
            Some(_) => Err(bad(SENDER, "not log")),
        }
    }

    /// A key from its variable or its file; random where a restart loses everything that it protects.
    fn key(
        &self,
        var: &'static str,
        file_var: &'static str,
        strict: bool,
        random: &Random,
    ) -> Result<ServerKey, BadSetting> {
        match (self.text(var)?, self.text(file_var)?) {
            (Some(_), Some(_)) => Err(bad(var, format!("set besides {file_var}; one of them is enough"))),
            (Some(key), None) => server_key(var, key.into_bytes()),
            (None, Some(path)) => {
                let key = std::fs::read(path).map_err(|why| bad(file_var, format!("cannot be read: {why}")))?;
                server_key(file_var, key.trim_ascii().to_vec())
            }
            (None, None) if strict => {
                Err(bad(var, format!("required in producao and with a database, here or in {file_var}")))
            }
            (None, None) => ServerKey::fresh(random).map_err(|why| bad(var, why)),
        }
    }

    fn ranges(&self, var: &'static str) -> Result<Vec<IpRange>, BadSetting> {
        let ranges = self.text(var)?;
        let ranges = ranges.iter().flat_map(|ranges| ranges.split(',')).map(str::trim);
        ranges.map(|range| IpRange::parse(range).map_err(|why| bad(var, why))).collect()
    }

    fn count(&self, var: &'static str, default: usize) -> Result<usize, BadSetting> {
        let most = tokio::sync::Semaphore::MAX_PERMITS;
        let count = self.parsed(var, "not a whole number from 1", |text| {
            text.parse().ok().filter(|count| (1..=most).contains(count))
        })?;
        Ok(count.unwrap_or(default))
    }

    fn parsed<T>(
        &self,
        var: &'static str,
        why: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, BadSetting> {
        self.text(var)?.map(|text| parse(&text).ok_or_else(|| bad(var, why))).transpose()
    }
}

fn server_key(var: &'static str, key: Vec<u8>) -> Result<ServerKey, BadSetting> {
    ServerKey::new(key).map_err(|why| bad(var, why))
}

fn bad(var: &'static str, why: impl ToString) -> BadSetting {
    BadSetting { var, why: why.to_string() }
}

const fn setting(var: &'static str, flag: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { var, flag: Some(flag), value, help }
}

const fn secret(var: &'static str, help: &'static str) -> Setting {
    Setting { var, flag: None, value: "", help }
}

#[cfg(test)]
mod tests;
