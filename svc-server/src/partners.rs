//! The partners that a server knows: their credentials, webhook secrets and names (the settings in svc-core's decisions).

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use svc_core::{BadSecret, Nome, Secret, Signer};
use zeroize::Zeroizing;

use crate::seams::{NoRandomness, Random};

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
    /// Whether one of its secrets is the demonstration partner's.
    sample: bool,
}

/// The partners of a running server, which can be replaced while it runs. Clones are one and the same.
#[derive(Clone, Debug)]
pub struct SharedPartners(Arc<RwLock<Arc<Partners>>>);

impl SharedPartners {
    /// The partners of now; what a request or an attempt has taken does not change under it.
    pub fn current(&self) -> Arc<Partners> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts others in their place. Tokens of a partner that is gone are refused from here on, and its due events wait.
    ///
    /// ```
    /// use svc_server::{Partners, SharedPartners};
    /// let shared = SharedPartners::from(Partners::demonstration());
    /// let file = br#"[{"client_id": "p", "creditor_name": "Banco", "webhook_secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    ///     "client_secret_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}]"#;
    /// shared.replace(Partners::from_json(file).unwrap());
    /// assert!(shared.current().get("p").is_some());
    /// assert!(shared.current().get("parceiro-demo").is_none());
    /// ```
    pub fn replace(&self, partners: Partners) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(partners);
    }
}

impl From<Partners> for SharedPartners {
    fn from(partners: Partners) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(partners))))
    }
}

/// Why a file of partners cannot be used. Never a secret in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartnersError {
    /// No file to be read.
    #[error("cannot be read: {0}")]
    Io(std::io::Error),
    /// Not the JSON list that it should be.
    #[error("{why} at line {line} column {column}")]
    Json {
        /// What is missing, unknown or wrong; never a value.
        why: String,
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
    /// An entry whose `creditor_name`, which customers read, is empty.
    #[error("partner {0} has an empty creditor_name")]
    NoCreditor(String),
    /// An entry whose `creditor_name` is longer than a customer's name may be, and than fits the page.
    #[error("partner {0} has a creditor_name of more than 200 characters")]
    CreditorTooLong(String),
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

impl PartnersError {
    /// Of the parser's words, those that name fields; others can quote a value.
    fn json(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or_default();
        let of_fields = text.starts_with("missing field") || text.starts_with("unknown field");
        let why = if of_fields { text } else { "no JSON list of partners" };
        Self::Json { why: why.to_owned(), line: error.line(), column: error.column() }
    }
}

impl Partners {
    /// Reads a file, see [`from_json`](Self::from_json).
    ///
    /// # Errors
    ///
    /// [`PartnersError::Io`] for a file that cannot be read, another for one that holds no partners.
    pub fn from_file(path: &Path) -> Result<Self, PartnersError> {
        Self::from_json(&std::fs::read(path).map_err(PartnersError::Io)?)
    }

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
        let entries: Vec<Entry> = serde_json::from_slice(file).map_err(|error| PartnersError::json(&error))?;
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
        Self::demonstration_signing(Signer::new(&secret))
    }

    /// The same with other webhook secrets.
    pub(crate) fn demonstration_signing(signer: Signer) -> Self {
        let partner = Partner {
            client_secret: SecretDigest::of(DEMO_CLIENT_SECRET),
            signer,
            creditor_name: "Credora de Demonstração S.A.".to_owned(),
            sample: true,
        };
        Self { by_client_id: HashMap::from([(DEMO_CLIENT_ID.to_owned(), partner)]) }
    }

    /// The partner with this id.
    pub fn get(&self, client_id: &str) -> Option<&Partner> {
        self.by_client_id.get(client_id)
    }

    /// The ids of all of them.
    #[cfg(feature = "postgres")]
    pub(crate) fn client_ids(&self) -> impl Iterator<Item = &str> {
        self.by_client_id.keys().map(String::as_str)
    }

    /// Whether a secret of the demonstration partner is among them, which is no secret.
    pub fn have_sample_secrets(&self) -> bool {
        self.by_client_id.values().any(|partner| partner.sample)
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
        if creditor_name.trim().is_empty() {
            return Err(PartnersError::NoCreditor(client_id));
        }
        if creditor_name.chars().count() > Nome::MAX_CHARS {
            return Err(PartnersError::CreditorTooLong(client_id));
        }
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
        let sample = client_secret.0 == SecretDigest::of(DEMO_CLIENT_SECRET).0
            || webhook_secrets.iter().any(|secret| secret.trim() == DEMO_WEBHOOK_SECRET);
        Ok(Self { client_secret, signer, creditor_name, sample })
    }

    /// Signs with the partner's webhook secrets: the oldest of them `x-svc-signature`, all of them the rest (C27, C29).
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

/// A new partner: its entry for the file, and the client secret, which the entry does not hold.
#[derive(Clone)]
pub struct NewPartner {
    /// A JSON object for the list of partners.
    pub entry: String,
    /// To be handed to the partner, and not kept.
    pub client_secret: Zeroizing<String>,
}

impl NewPartner {
    /// Draws fresh secrets for a partner.
    ///
    /// ```
    /// use svc_server::{NewPartner, Partners, Random};
    /// let new = NewPartner::draw("parceiro", &Random::system()).unwrap();
    /// let partners = Partners::from_json(format!("[{}]", new.entry).as_bytes()).unwrap();
    /// assert!(partners.authenticate("parceiro", &new.client_secret));
    /// assert!(!partners.authenticate("parceiro", "segredo-demo"));
    /// ```
    ///
    /// # Errors
    ///
    /// [`NoRandomness`] where the operating system gives none.
    pub fn draw(client_id: &str, random: &Random) -> Result<Self, NoRandomness> {
        let client_secret = Zeroizing::new(URL_SAFE_NO_PAD.encode(random.bytes::<32>()?));
        let webhook_secret = format!("{}{}", Secret::PREFIX, STANDARD.encode(random.bytes::<32>()?));
        let digest = SecretDigest::of(&client_secret).0.map(|byte| format!("{byte:02x}")).concat();
        let entry = Entry {
            client_id: client_id.to_owned(),
            client_secret_sha256: digest,
            webhook_secrets: vec![webhook_secret],
            creditor_name: client_id.to_owned(),
        };
        let entry = serde_json::to_string_pretty(&entry).expect("four fields of text");
        Ok(Self { entry, client_secret })
    }
}

impl fmt::Debug for NewPartner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewPartner(***)")
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    client_id: String,
    client_secret_sha256: String,
    webhook_secrets: Vec<String>,
    creditor_name: String,
}
