//! What a receiver gets of a delivery, and why it may not believe it (C30).

use std::fmt;

/// The interface's header: hex of HMAC-SHA256 over the body.
pub const SVC_SIGNATURE: &str = "x-svc-signature";
/// Standard Webhooks: the event's id.
pub const WEBHOOK_ID: &str = "webhook-id";
/// Standard Webhooks: unix seconds of the attempt.
pub const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
/// Standard Webhooks: `v1,` and base64 of HMAC-SHA256 over `id.timestamp.body`, one item for each live secret.
pub const WEBHOOK_SIGNATURE: &str = "webhook-signature";

/// The four headers of a delivery as they came, raw; absent ones are `None`.
///
/// ```
/// use svc_core::{Header, Received, VerifyError};
/// let headers = [("X-Svc-Signature", "c0b4"), ("content-type", "application/json")];
/// let received = Received::from_pairs(headers.map(|(name, value)| (name, value.as_bytes()))).unwrap();
/// assert_eq!(received.svc_signature, Some(&b"c0b4"[..]));
/// assert_eq!(received.id, None);
///
/// let twice = [("webhook-id", "evt_1"), ("webhook-id", "evt_2")];
/// assert_eq!(
///     Received::from_pairs(twice.map(|(name, value)| (name, value.as_bytes()))).unwrap_err(),
///     VerifyError::Repeated(Header::WebhookId)
/// );
/// ```
#[derive(Clone, Copy, Default)]
pub struct Received<'a> {
    /// `x-svc-signature`
    pub svc_signature: Option<&'a [u8]>,
    /// `webhook-id`
    pub id: Option<&'a [u8]>,
    /// `webhook-timestamp`
    pub timestamp: Option<&'a [u8]>,
    /// `webhook-signature`
    pub signature: Option<&'a [u8]>,
}

impl<'a> Received<'a> {
    /// Picks them from all headers, names in any case; one that comes twice with different values is refused.
    pub fn from_pairs<'n>(pairs: impl IntoIterator<Item = (&'n str, &'a [u8])>) -> Result<Self, VerifyError> {
        let mut received = Self::default();
        for (name, value) in pairs {
            let Some(header) = Header::named(name) else { continue };
            let place = received.place(header);
            if place.is_some_and(|first| first != value) {
                return Err(VerifyError::Repeated(header));
            }
            *place = Some(value);
        }
        Ok(received)
    }

    fn place(&mut self, header: Header) -> &mut Option<&'a [u8]> {
        match header {
            Header::SvcSignature => &mut self.svc_signature,
            Header::WebhookId => &mut self.id,
            Header::WebhookTimestamp => &mut self.timestamp,
            Header::WebhookSignature => &mut self.signature,
        }
    }
}

impl fmt::Debug for Received<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Received")
    }
}

/// A header of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Header {
    /// `x-svc-signature`
    SvcSignature,
    /// `webhook-id`
    WebhookId,
    /// `webhook-timestamp`
    WebhookTimestamp,
    /// `webhook-signature`
    WebhookSignature,
}

impl Header {
    const ALL: [Self; 4] = [Self::SvcSignature, Self::WebhookId, Self::WebhookTimestamp, Self::WebhookSignature];

    /// Its name, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SvcSignature => SVC_SIGNATURE,
            Self::WebhookId => WEBHOOK_ID,
            Self::WebhookTimestamp => WEBHOOK_TIMESTAMP,
            Self::WebhookSignature => WEBHOOK_SIGNATURE,
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|header| header.as_str().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a delivery is not believed. Tell the sender none of it: one plain refusal for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A header is needed and is not there.
    #[error("{0} is missing")]
    Missing(Header),
    /// A header came twice, with different values.
    #[error("{0} came twice")]
    Repeated(Header),
    /// A header is not in its form, or `webhook-signature` holds more than 32 items.
    #[error("{0} is malformed")]
    Malformed(Header),
    /// The signature is not this body's under any of the secrets.
    #[error("{0} does not match the body: verify its raw bytes, not JSON that was read and written again")]
    Mismatch(Header),
    /// Signed rightly, too long ago.
    #[error("delivery is too old")]
    TooOld,
    /// Signed rightly, with a time still to come.
    #[error("delivery is from the future")]
    TooNew,
}

impl VerifyError {
    /// What is usually behind it, for whoever writes the receiver; never for the sender.
    ///
    /// ```
    /// use svc_core::{Header, VerifyError};
    /// assert!(VerifyError::Mismatch(Header::SvcSignature).hint().contains("raw bytes"));
    /// ```
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Missing(Header::SvcSignature) => {
                "the request is not from the service, or a proxy in front takes out headers that it does not know"
            }
            Self::Missing(_) => {
                "the delivery has x-svc-signature alone and require_timestamp asks for more, or a proxy in front takes out some of \
                 the webhook-* headers, of which all three belong together"
            }
            Self::Repeated(_) => "a proxy in front adds headers of its own, or somebody tries what you do with two",
            Self::Malformed(_) => {
                "a proxy or framework in front changes header values, or somebody tries what you do with it"
            }
            Self::Mismatch(_) => {
                "verify the raw bytes as they came: a body that was parsed and written again has other bytes although \
                 it says the same; then the secret: that of this environment, whole, decoded once, and given as whsec_ text \
                 rather than as raw key bytes with blanks or a line end; while it is rotated, both, with also"
            }
            Self::TooOld => {
                "this machine's clock is ahead, the request waited in a queue, or it is a recorded one sent again"
            }
            Self::TooNew => "this machine's clock is behind",
        }
    }

    /// A stable name for logs and metrics.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Missing(_) => "header_missing",
            Self::Repeated(_) => "header_repeated",
            Self::Malformed(_) => "header_malformed",
            Self::Mismatch(_) => "signature_mismatch",
            Self::TooOld => "timestamp_too_old",
            Self::TooNew => "timestamp_too_new",
        }
    }
}
