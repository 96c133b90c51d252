//! All settings by name.

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

pub(super) const LISTEN: &str = "SVC_LISTEN";
pub(super) const BASE_URL: &str = "SVC_BASE_URL";
pub(super) const PROFILE: &str = "SVC_PROFILE";
pub(super) const RULES_OFF: &str = "SVC_RULES_OFF";
pub(super) const PARTNERS: &str = "SVC_PARTNERS";
pub(super) const TOKEN_KEY: &str = "SVC_TOKEN_KEY";
pub(super) const TOKEN_KEY_FILE: &str = "SVC_TOKEN_KEY_FILE";
pub(super) const TOKEN_KEY_PREVIOUS: &str = "SVC_TOKEN_KEY_PREVIOUS";
pub(super) const LINK_KEY: &str = "SVC_LINK_KEY";
pub(super) const LINK_KEY_FILE: &str = "SVC_LINK_KEY_FILE";
pub(super) const SENDER: &str = "SVC_SENDER";
pub(super) const SIMULATE: &str = "SVC_SIMULATE";
pub(super) const WHATSAPP_PHONE_NUMBER_ID: &str = "SVC_WHATSAPP_PHONE_NUMBER_ID";
pub(super) const WHATSAPP_TEMPLATE: &str = "SVC_WHATSAPP_TEMPLATE";
pub(super) const WHATSAPP_TOKEN: &str = "SVC_WHATSAPP_TOKEN";
pub(super) const WHATSAPP_TOKEN_FILE: &str = "SVC_WHATSAPP_TOKEN_FILE";
pub(super) const WHATSAPP_API_VERSION: &str = "SVC_WHATSAPP_API_VERSION";
pub(super) const WHATSAPP_API_BASE: &str = "SVC_WHATSAPP_API_BASE";
pub(super) const WHATSAPP_APP_SECRET: &str = "SVC_WHATSAPP_APP_SECRET";
pub(super) const WHATSAPP_APP_SECRET_FILE: &str = "SVC_WHATSAPP_APP_SECRET_FILE";
pub(super) const WHATSAPP_VERIFY_TOKEN: &str = "SVC_WHATSAPP_VERIFY_TOKEN";
pub(super) const WEBHOOK_ALLOW: &str = "SVC_WEBHOOK_ALLOW";
pub(super) const TRUSTED_PROXY: &str = "SVC_TRUSTED_PROXY";
pub(super) const RETRY_SCHEDULE: &str = "SVC_RETRY_SCHEDULE";
pub(super) const MAX_CONNECTIONS: &str = "SVC_MAX_CONNECTIONS";
pub(super) const MAX_IN_FLIGHT: &str = "SVC_MAX_IN_FLIGHT";
pub(super) const MAX_PROPOSALS: &str = "SVC_MAX_PROPOSALS";
pub(super) const METRICS_LISTEN: &str = "SVC_METRICS_LISTEN";
pub(super) const LOG: &str = "SVC_LOG";
pub(super) const DATABASE_URL: &str = "SVC_DATABASE_URL";
pub(super) const DATABASE_URL_FILE: &str = "SVC_DATABASE_URL_FILE";
pub(super) const RETENTION: &str = "SVC_RETENTION";

/// All settings, in the order of `--help`.
pub const SETTINGS: [Setting; 32] = [
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
    setting(SENDER, "sender", "SENDER", "How customers are told: log or whatsapp [default: log in homologacao]"),
    setting(
        SIMULATE,
        "simulate",
        "on",
        "Numbers ending in 9901 accept, 9902 refuse, 9903 cannot be reached [default: off]",
    ),
    setting(
        WHATSAPP_PHONE_NUMBER_ID,
        "whatsapp-phone-number-id",
        "ID",
        "Meta's id of the number that messages come from",
    ),
    setting(WHATSAPP_TEMPLATE, "whatsapp-template", "NAME", "Name of the approved message template"),
    setting(WHATSAPP_TOKEN_FILE, "whatsapp-token-file", "FILE", "Access token of a system user at Meta"),
    secret(WHATSAPP_TOKEN, "The token itself, instead of --whatsapp-token-file"),
    setting(WHATSAPP_API_VERSION, "whatsapp-api-version", "VERSION", "Version of Meta's API [default: v23.0]"),
    setting(WHATSAPP_API_BASE, "whatsapp-api-base", "URL", "Where Meta's API is [default: https://graph.facebook.com]"),
    setting(
        WHATSAPP_APP_SECRET_FILE,
        "whatsapp-app-secret-file",
        "FILE",
        "The app's secret at Meta, for POST /whatsapp/webhook [default: off]",
    ),
    secret(WHATSAPP_APP_SECRET, "The app's secret itself, instead of --whatsapp-app-secret-file"),
    secret(WHATSAPP_VERIFY_TOKEN, "Token made up for the subscription at Meta, with the app's secret"),
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

const fn setting(var: &'static str, flag: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { var, flag: Some(flag), value, help }
}

const fn secret(var: &'static str, help: &'static str) -> Setting {
    Setting { var, flag: None, value: "", help }
}
