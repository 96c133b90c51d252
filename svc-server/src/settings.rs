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

mod table;
mod whatsapp;
use table::*;
pub use table::{SETTINGS, Setting};

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
            simulate: self.simulate(strict)?,
            #[cfg(feature = "whatsapp")]
            whatsapp_webhook: self.whatsapp_webhook()?,
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

    /// A secret from its variable or its file, with the one that it came from.
    #[cfg(any(feature = "postgres", feature = "whatsapp"))]
    fn text_or_file(
        &self,
        var: &'static str,
        file_var: &'static str,
    ) -> Result<Option<(&'static str, String)>, BadSetting> {
        match (self.text(var)?, self.text(file_var)?) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(bad(var, format!("set besides {file_var}; one of them is enough"))),
            (Some(text), None) => Ok(Some((var, text))),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path);
                let text = text.map_err(|why| bad(file_var, format!("cannot be read: {why}")))?;
                Ok(Some((file_var, text.trim().to_owned())))
            }
        }
    }

    /// The database, from its variable or its file.
    #[cfg(feature = "postgres")]
    fn database(&self) -> Result<Option<DatabaseUrl>, BadSetting> {
        let Some((var, text)) = self.text_or_file(DATABASE_URL, DATABASE_URL_FILE)? else { return Ok(None) };
        DatabaseUrl::parse(&text).map(Some).map_err(|why| bad(var, why))
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

    fn simulate(&self, strict: bool) -> Result<bool, BadSetting> {
        let on = self.parsed(SIMULATE, "not on or off", |text| match text {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })?;
        match on.unwrap_or_default() {
            true if self.text(SENDER)?.as_deref() == Some("whatsapp") => {
                Err(bad(SIMULATE, "not with the sender whatsapp, which writes to persons who answer for themselves"))
            }
            true if strict => Err(bad(SIMULATE, "not in producao, where customers answer for themselves")),
            on => Ok(on),
        }
    }

    fn sender(&self, strict: bool) -> Result<Sender, BadSetting> {
        match self.text(SENDER)?.as_deref() {
            Some("log") => Ok(Sender::Log),
            Some("whatsapp") => self.whatsapp(),
            None if !strict => Ok(Sender::Log),
            None => Err(bad(SENDER, "required in producao")),
            Some(_) => Err(bad(SENDER, "not log or whatsapp")),
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

#[cfg(test)]
mod tests;
