//! Signing and verifying notifications (C27, C29, C30): raw bytes, no header map, no allocation before the verdict.
//!
//! Both sides stand in this file, so that they cannot part.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use crate::key::Key;
use crate::received::{Header, Received, VerifyError};
use crate::secret::Secret;

/// How far a delivery's timestamp may lie from the receiver's clock, in seconds (C30).
pub const DEFAULT_TOLERANCE_SECONDS: u64 = 300;
/// Most items that are looked at in `webhook-signature` (C30).
pub const MAX_SIGNATURES: usize = 32;

/// Signs for one partner, with every secret that is live.
///
/// ```
/// use svc_core::{Secret, Signer};
/// let old = Secret::from_raw_key_bytes(b"segredo-de-teste").unwrap();
/// let new = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
/// let signer = Signer::new(&new).also(&old);
/// // The interface's header holds one value: the oldest secret's, which every receiver knows (C27) …
/// assert_eq!(signer.svc_signature(b"{}"), Signer::new(&old).svc_signature(b"{}"));
/// assert_ne!(signer.svc_signature(b"{}"), Signer::new(&new).svc_signature(b"{}"));
/// // … Standard Webhooks has room for both.
/// assert_eq!(signer.webhook_signature("evt_1", 1_614_265_330, b"{}").split(' ').count(), 2);
/// ```
#[derive(Clone)]
pub struct Signer {
    newest: Key,
    older: Vec<Key>,
}

impl Signer {
    /// Keys it with the newest secret.
    pub fn new(newest: &Secret) -> Self {
        Self { newest: newest.keyed(), older: Vec::new() }
    }

    /// Adds the next older secret.
    #[must_use]
    pub fn also(mut self, older: &Secret) -> Self {
        self.older.push(older.keyed());
        self
    }

    /// The value of `x-svc-signature`: 64 lower-case hex digits, by the oldest secret.
    pub fn svc_signature(&self, body: &[u8]) -> String {
        let oldest = self.older.last().unwrap_or(&self.newest);
        oldest.mac([body]).iter().flat_map(|byte| [hex_digit(byte >> 4), hex_digit(byte & 15)]).collect()
    }

    /// The value of `webhook-signature`: one item for each secret, newest first, space separated.
    pub fn webhook_signature(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let timestamp = timestamp.to_string();
        let mut items = String::new();
        for key in std::iter::once(&self.newest).chain(&self.older) {
            let separator = if items.is_empty() { "v1," } else { " v1," };
            items.push_str(separator);
            STANDARD.encode_string(key.mac(standard(id.as_bytes(), timestamp.as_bytes(), body)), &mut items);
        }
        items
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

/// Verifies deliveries for one receiver, under any of its live secrets.
///
/// ```
/// use svc_core::{Header, Received, Secret, Verifier, VerifyError};
/// let verifier = Verifier::new(&Secret::from_raw_key_bytes(b"segredo-de-teste").unwrap());
/// let body = br#"{"id_proposta_svc":"prp_01","id_proposta_parceiro":"PARC-12345","status":"ACEITO","timestamp":"2026-11-27T20:31:44.000Z"}"#;
/// let signature = b"c0b41196d53f17aa37c69ffd2844bcfea02726f1af6f0423adc2231fce4313af";
/// let received = Received { svc_signature: Some(signature), ..Received::default() };
/// assert_eq!(verifier.verify(received, body, 1_795_811_504), Ok(()));
/// assert_eq!(
///     verifier.verify(received, b"{}", 1_795_811_504),
///     Err(VerifyError::Mismatch(Header::SvcSignature))
/// );
/// // A receiver that wants protection from replays asks for the timestamped headers:
/// assert_eq!(
///     verifier.require_timestamp().verify(received, body, 1_795_811_504),
///     Err(VerifyError::Missing(Header::WebhookTimestamp))
/// );
/// ```
#[derive(Clone)]
pub struct Verifier {
    first: Key,
    others: Vec<Key>,
    tolerance: u64,
    require_timestamp: bool,
}

impl Verifier {
    /// Keys it with one secret.
    pub fn new(secret: &Secret) -> Self {
        Self {
            first: secret.keyed(),
            others: Vec::new(),
            tolerance: DEFAULT_TOLERANCE_SECONDS,
            require_timestamp: false,
        }
    }

    /// Believes another secret too, as during a rotation.
    ///
    /// ```
    /// use svc_core::{Received, Secret, Signer, Verifier};
    /// let (old, new) = (Secret::from_raw_key_bytes(b"old").unwrap(), Secret::from_raw_key_bytes(b"new").unwrap());
    /// let signature = Signer::new(&old).svc_signature(b"{}");
    /// let received = Received { svc_signature: Some(signature.as_bytes()), ..Received::default() };
    /// assert!(Verifier::new(&new).also(&old).verify(received, b"{}", 0).is_ok());
    /// assert!(Verifier::new(&new).verify(received, b"{}", 0).is_err());
    /// ```
    #[must_use]
    pub fn also(mut self, secret: &Secret) -> Self {
        self.others.push(secret.keyed());
        self
    }

    /// Sets how many seconds a timestamp may lie from `now`, either way; 0 asks for the very second.
    #[must_use]
    pub fn tolerance(mut self, seconds: u64) -> Self {
        self.tolerance = seconds;
        self
    }

    /// Refuses deliveries without the three Standard Webhooks headers.
    #[must_use]
    pub fn require_timestamp(mut self) -> Self {
        self.require_timestamp = true;
        self
    }

    /// Verifies a delivery: its four headers, the raw body, and the receiver's clock in unix seconds (C30).
    ///
    /// `x-svc-signature` must be there and match. If any of the other three is there, all must be, and match, and
    /// lie within the tolerance, which is looked at last. Nothing is allocated, whatever the verdict.
    pub fn verify(&self, received: Received<'_>, body: &[u8], now: u64) -> Result<(), VerifyError> {
        let header = Header::SvcSignature;
        let value = received.svc_signature.ok_or(VerifyError::Missing(header))?;
        let claimed = decode_hex(value.trim_ascii()).ok_or(VerifyError::Malformed(header))?;
        if !self.keys().any(|key| same(&key.mac([body]), &claimed)) {
            return Err(VerifyError::Mismatch(header));
        }
        match (received.id, received.timestamp, received.signature) {
            (None, None, None) if !self.require_timestamp => Ok(()),
            (_, None, _) => Err(VerifyError::Missing(Header::WebhookTimestamp)),
            (None, _, _) => Err(VerifyError::Missing(Header::WebhookId)),
            (_, _, None) => Err(VerifyError::Missing(Header::WebhookSignature)),
            (Some(id), Some(timestamp), Some(items)) => {
                self.verify_standard(id.trim_ascii(), timestamp.trim_ascii(), items, body, now)
            }
        }
    }

    fn verify_standard(
        &self,
        id: &[u8],
        timestamp: &[u8],
        items: &[u8],
        body: &[u8],
        now: u64,
    ) -> Result<(), VerifyError> {
        let sent = decode_seconds(timestamp).ok_or(VerifyError::Malformed(Header::WebhookTimestamp))?;
        let header = Header::WebhookSignature;
        let items = || items.split(u8::is_ascii_whitespace).filter(|item| !item.is_empty());
        if items().nth(MAX_SIGNATURES).is_some() {
            return Err(VerifyError::Malformed(header));
        }
        let matches = self.keys().any(|key| {
            let expected = key.mac(standard(id, timestamp, body));
            items().filter_map(decode_item).any(|claimed| same(&expected, &claimed))
        });
        if !matches {
            return Err(VerifyError::Mismatch(header));
        }
        if now.saturating_sub(sent) > self.tolerance {
            return Err(VerifyError::TooOld);
        }
        if sent.saturating_sub(now) > self.tolerance {
            return Err(VerifyError::TooNew);
        }
        Ok(())
    }

    fn keys(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("secrets", &(1 + self.others.len()))
            .field("tolerance", &self.tolerance)
            .field("require_timestamp", &self.require_timestamp)
            .finish_non_exhaustive()
    }
}

/// What Standard Webhooks signs, without a copy of the body.
const fn standard<'a>(id: &'a [u8], timestamp: &'a [u8], body: &'a [u8]) -> [&'a [u8]; 5] {
    [id, b".", timestamp, b".", body]
}

/// Compares without telling by its time where two signatures part: all differences are gathered, in a loop that runs in vector
/// registers, before anything is decided.
fn same(expected: &[u8; 32], claimed: &[u8; 32]) -> bool {
    let bytes = expected.iter().zip(claimed);
    bytes.fold(0, |different, (a, b)| different | (a ^ b)).ct_eq(&0).into()
}

/// Reads 64 hex digits of any case, `sha256=` before them or not. By arithmetic, in two loops without branches that run in
/// vector registers: as one loop from digits to bytes, or made one with what its caller does, they take five times as long.
#[inline(never)]
fn decode_hex(value: &[u8]) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = value.strip_prefix(b"sha256=").unwrap_or(value).try_into().ok()?;
    let (mut values, mut bad) = ([0; 64], false);
    for (value, digit) in values.iter_mut().zip(digits) {
        let number = digit.wrapping_sub(b'0');
        let letter = (digit | 0x20).wrapping_sub(b'a');
        *value = if number < 10 { number } else { letter.wrapping_add(10) };
        bad |= !(number < 10 || letter < 6);
    }
    let mut bytes = [0; 32];
    for (byte, [high, low]) in bytes.iter_mut().zip(values.as_chunks::<2>().0) {
        *byte = high << 4 | low;
    }
    (!bad).then_some(bytes)
}

const fn hex_digit(value: u8) -> char {
    (if value < 10 { b'0' + value } else { b'a' + (value - 10) }) as char
}

/// Reads one item of `webhook-signature`; other versions and what is no item are passed over.
fn decode_item(item: &[u8]) -> Option<[u8; 32]> {
    let encoded = item.strip_prefix(b"v1,")?;
    // 44 digits are 33 bytes at most, and a signature has 32.
    let mut bytes = [0; 33];
    if encoded.len() != 44 || STANDARD.decode_slice(encoded, &mut bytes).ok()? != 32 {
        return None;
    }
    bytes.first_chunk().copied()
}

/// Reads unix seconds: digits only.
fn decode_seconds(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(value).ok()?.parse().ok()
}
