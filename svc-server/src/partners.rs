//! The partners that a server knows: their credentials, webhook secrets and names (the settings in svc-core's decisions).

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use svc_core::{BadSecret, Secret, Signer};

/// `client_id` of the demonstration partner.
pub const DEMO_CLIENT_ID: &str = "parceiro-demo";
/// `client_secret` of the demonstration partner.
pub const DEMO_CLIENT_SECRET: &str = "segredo-demo";
/// Webhook secret of the demonstration partner.
pub const DEMO_WEBHOOK_SECRET: &str = "whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj";

/// All partners, by their `client_id`.
#[derive(Debug)]
pub struct Partners {
    by_client_id: HashMap<String, Partner>,
}

/// One partner.
#[derive(Debug)]
pub struct Partner {
    client_secret: SecretDigest,
    signer: Signer,
    creditor_name: String,
}

/// Why a file of partners cannot be used. Never a secret in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartnersError {
    /// Not the JSON list that it should be.
    #[error("no JSON list of partners: line {line} column {column}")]
    Json {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// No partner in it.
    #[error("no partner in it")]
    Empty,
    /// Two entries of one `client_id`.
    #[error("partner {0} is in it twice")]
    Repeated(String),
    /// An entry whose `client_id` is empty.
    #[error("entry {0} has an empty client_id")]
    NoClientId(usize),
    /// A digest that is none.
    #[error("partner {0}: client_secret_sha256 is not 64 hex digits")]
    BadDigest(String),
    /// A partner without webhook secret.
    #[error("partner {0} has no webhook secret")]
    NoWebhookSecret(String),
    /// A webhook secret that is none.
    #[error("partner {0}: {1}")]
    BadWebhookSecret(String, BadSecret),
}

impl Partners {
    /// Reads a JSON list of objects with `client_id`, `client_secret_sha256` (64 hex digits), `webhook_secrets` (newest
    /// first, at least one) and `creditor_name`.
    ///
    /// ```
    /// use svc_server::Partners;
    /// let file = br#"[{
    ///     "client_id": "parceiro",
    ///     "client_secret_sha256": "48ff64b8a0e41b8a09b3b4f3a4e13fd4bd5fc8e9c1a6b1cd0d2e3e1f0a9b8c7d",
    ///     "webhook_secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    ///     "creditor_name": "Banco Exemplo S.A."
    /// }]"#;
    /// assert!(Partners::from_json(file).is_ok());
    /// assert_eq!(Partners::from_json(b"[]").unwrap_err().to_string(), "no partner in it");
    /// ```
    pub fn from_json(file: &[u8]) -> Result<Self, PartnersError> {
        let entries: Vec<Entry> = serde_json::from_slice(file)
            .map_err(|error| PartnersError::Json { line: error.line(), column: error.column() })?;
        let mut by_client_id = HashMap::with_capacity(entries.len());
        for (i, entry) in entries.into_iter().enumerate() {
            if entry.client_id.trim().is_empty() {
                return Err(PartnersError::NoClientId(i + 1));
            }
            let client_id = entry.client_id.clone();
            if by_client_id.insert(client_id.clone(), Partner::read(entry)?).is_some() {
                return Err(PartnersError::Repeated(client_id));
            }
        }
        if by_client_id.is_empty() { Err(PartnersError::Empty) } else { Ok(Self { by_client_id }) }
    }

    /// The one partner of a first try, whose secrets everybody knows. For a server on a loopback address only.
    pub fn demonstration() -> Self {
        let secret = Secret::parse(DEMO_WEBHOOK_SECRET).expect("a constant of this file, and a doc test");
        let partner = Partner {
            client_secret: SecretDigest::of(DEMO_CLIENT_SECRET),
            signer: Signer::new(&secret),
            creditor_name: "Credora de Demonstração S.A.".to_owned(),
        };
        Self { by_client_id: HashMap::from([(DEMO_CLIENT_ID.to_owned(), partner)]) }
    }

    /// The partner with this id.
    pub fn get(&self, client_id: &str) -> Option<&Partner> {
        self.by_client_id.get(client_id)
    }

    /// Whether these are a partner's credentials; the work is the same for an unknown partner (C23).
    pub fn authenticate(&self, client_id: &str, client_secret: &str) -> bool {
        let claimed = SecretDigest::of(client_secret);
        let partner = self.get(client_id);
        let expected = partner.map_or(SecretDigest([0; 32]), |partner| partner.client_secret);
        bool::from(claimed.0.ct_eq(&expected.0)) && partner.is_some()
    }
}

impl Partner {
    fn read(entry: Entry) -> Result<Self, PartnersError> {
        let Entry { client_id, client_secret_sha256, webhook_secrets, creditor_name } = entry;
        let Some(client_secret) = SecretDigest::from_hex(&client_secret_sha256) else {
            return Err(PartnersError::BadDigest(client_id));
        };
        let mut signer: Option<Signer> = None;
        for secret in &webhook_secrets {
            let secret =
                Secret::parse(secret).map_err(|why| PartnersError::BadWebhookSecret(client_id.clone(), why))?;
            signer = Some(match signer {
                None => Signer::new(&secret),
                Some(signer) => signer.also(&secret),
            });
        }
        let signer = signer.ok_or(PartnersError::NoWebhookSecret(client_id))?;
        Ok(Self { client_secret, signer, creditor_name })
    }

    /// Signs with all of the partner's webhook secrets.
    pub const fn signer(&self) -> &Signer {
        &self.signer
    }

    /// The creditor's name, as the customer's page shows it.
    pub fn creditor_name(&self) -> &str {
        &self.creditor_name
    }
}

/// SHA-256 of a client secret: what is stored of it.
#[derive(Clone, Copy)]
struct SecretDigest([u8; 32]);

impl SecretDigest {
    fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret).into())
    }

    fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut digest = [0; 32];
        for (i, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        Some(Self(digest))
    }
}

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    client_id: String,
    client_secret_sha256: String,
    webhook_secrets: Vec<String>,
    creditor_name: String,
}
