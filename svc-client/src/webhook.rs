//! The receiver's side: believe a notification, then read it (C26–C30).
//!
//! One [`Verifier`] at start, one [`parse`](Verifier::parse) a request, over the headers and the **raw** body: a body that
//! was parsed and written again has other bytes, and no signature.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use svc_core::Verifier as Core;

pub use svc_core::{BadNotificacao, BadSecret, Header, Received, Resposta, Secret, VerifyError};

mod deduper;
#[cfg(feature = "axum")]
mod extract;
mod headers;
mod testing;
pub use deduper::{CLAIM, Claim, Deduper, MemoryDeduper, REMEMBERED};
#[cfg(feature = "axum")]
pub use extract::{MAX_BODY_BYTES, SignedNotificacao, SignedNotificacaoRejection};
pub use headers::Headers;
pub use testing::sign_for_test;

/// 300 s: how far a delivery's timestamp may lie from this machine's clock (C30).
pub const DEFAULT_TOLERANCE: Duration = Duration::from_secs(svc_core::DEFAULT_TOLERANCE_SECONDS);

/// Verifies notifications, under any of the live secrets.
///
/// ```
/// use svc_client::webhook::{ParseError, Resposta, Secret, Verifier, VerifyError};
///
/// let verifier = Verifier::new(&Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap());
/// let body = br#"{"id_proposta_svc":"s","id_proposta_parceiro":"P-1","status":"ACEITO","timestamp":"2026-11-27T20:31:44.000Z"}"#;
/// # let signer = svc_core::Signer::new(&Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap());
/// # let signature = signer.svc_signature(body);
/// let headers = [("x-svc-signature", signature.as_str())];
/// let notificacao = verifier.parse(&headers, body).unwrap();
/// assert_eq!(notificacao.status, Resposta::Aceito);
///
/// let altered = body.map(|byte| if byte == b'1' { b'2' } else { byte });
/// assert!(matches!(verifier.parse(&headers, &altered), Err(ParseError::Verify(VerifyError::Mismatch(_)))));
/// ```
#[derive(Clone)]
pub struct Verifier {
    core: Core,
    clock: Option<Arc<dyn Fn() -> SystemTime + Send + Sync>>,
}

/// A believed notification: its fields, and what its headers say of the event and of this attempt.
///
/// The fields are those of the body, by the names of the interface: `id_proposta_svc` and `id_proposta_parceiro` are
/// [`String`]s, `status` is a [`Resposta`], and `timestamp`, when the customer answered, a `chrono::DateTime<Utc>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notificacao {
    body: svc_core::Notificacao,
    event_id: Option<String>,
    attempted_at: Option<SystemTime>,
}

impl Notificacao {
    /// The event's id, the same in every attempt: what to recognise a repetition by. `None` for a delivery without the
    /// Standard Webhooks headers; each proposal has one event, so its id serves as well.
    pub fn event_id(&self) -> Option<&str> {
        self.event_id.as_deref()
    }

    /// What to recognise a repetition by. It is the proposal's id for its one event, with headers or without, so that a
    /// recorded delivery does not become another by leaving them out; and the event's id for any event of another kind.
    ///
    /// ```
    /// # use std::time::SystemTime;
    /// # use svc_client::webhook::{Secret, Verifier, sign_for_test};
    /// # let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    /// # let verifier = Verifier::new(&secret);
    /// # let body = br#"{"id_proposta_svc":"s","id_proposta_parceiro":"P-1","status":"ACEITO","timestamp":"2026-11-27T20:31:44.000Z"}"#;
    /// # let headers = sign_for_test(&secret, body, SystemTime::now());
    /// let first = verifier.parse(&headers, body).unwrap();
    /// let stripped = verifier.parse(&headers[..1], body).unwrap(); // x-svc-signature alone
    /// assert_eq!(first.event_id(), Some("evt_s"));
    /// assert_eq!(stripped.event_id(), None);
    /// assert_eq!(first.dedup_key(), stripped.dedup_key());
    /// ```
    pub fn dedup_key(&self) -> &str {
        match self.event_id() {
            Some(id) if id.strip_prefix("evt_") != Some(&self.body.id_proposta_svc) => id,
            _ => &self.body.id_proposta_svc,
        }
    }

    /// When this attempt was made, to the second, if the headers say so.
    pub fn attempted_at(&self) -> Option<SystemTime> {
        self.attempted_at
    }
}

impl Deref for Notificacao {
    type Target = svc_core::Notificacao;

    fn deref(&self) -> &svc_core::Notificacao {
        &self.body
    }
}

/// Why a request is no notification. Answer its sender with a plain 400 or 401, and nothing of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// It is not believed.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// It is signed rightly and cannot be read.
    #[error(transparent)]
    Body(#[from] BadNotificacao),
}

impl Verifier {
    /// Keys it with one secret.
    pub fn new(secret: &Secret) -> Self {
        Self { core: Core::new(secret), clock: None }
    }

    /// Believes another secret too, as during a rotation; as often as there are live ones.
    #[must_use]
    pub fn also(self, previous: &Secret) -> Self {
        Self { core: self.core.also(previous), ..self }
    }

    /// Sets how far a delivery's timestamp may lie from this machine's clock; [`DEFAULT_TOLERANCE`] unless set. Nothing
    /// asks for the very second, and switches nothing off.
    #[must_use]
    pub fn tolerance(self, tolerance: Duration) -> Self {
        Self { core: self.core.tolerance(tolerance.as_secs()), ..self }
    }

    /// Refuses deliveries without a signed timestamp, which a recorded one could be without.
    #[must_use]
    pub fn require_timestamp(self) -> Self {
        Self { core: self.core.require_timestamp(), ..self }
    }

    /// Goes by another clock than this machine's: for tests.
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use svc_client::webhook::{Secret, Verifier, sign_for_test};
    /// let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    /// let then = UNIX_EPOCH + Duration::from_secs(1_795_811_504);
    /// let headers = sign_for_test(&secret, b"{}", then);
    /// assert!(Verifier::new(&secret).verify(&headers, b"{}").is_err()); // too old, or too new
    /// assert!(Verifier::new(&secret).clock(move || then).verify(&headers, b"{}").is_ok());
    /// ```
    #[must_use]
    pub fn clock(self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self { clock: Some(Arc::new(now)), ..self }
    }

    fn now(&self) -> SystemTime {
        self.clock.as_ref().map_or_else(SystemTime::now, |clock| clock())
    }

    /// Verifies headers and raw body by this machine's clock.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] says what is missing, malformed, wrong or late; never what would be right.
    pub fn verify(&self, headers: &(impl Headers + ?Sized), body: &[u8]) -> Result<(), VerifyError> {
        self.verify_at(headers, body, self.now())
    }

    /// The same by another clock.
    ///
    /// # Errors
    ///
    /// As [`verify`](Self::verify).
    pub fn verify_at(
        &self,
        headers: &(impl Headers + ?Sized),
        body: &[u8],
        now: SystemTime,
    ) -> Result<(), VerifyError> {
        self.believe(headers, body, now).map(drop)
    }

    fn believe<'h>(
        &self,
        headers: &'h (impl Headers + ?Sized),
        body: &[u8],
        now: SystemTime,
    ) -> Result<Received<'h>, VerifyError> {
        let (received, now) = (headers.received()?, now.duration_since(UNIX_EPOCH));
        self.core.verify(received, body, now.map_or(0, |since| since.as_secs()))?;
        Ok(received)
    }

    /// Verifies, then reads.
    ///
    /// # Errors
    ///
    /// [`ParseError::Verify`] as [`verify`](Self::verify); [`ParseError::Body`] for a body that is no notification.
    pub fn parse(&self, headers: &(impl Headers + ?Sized), body: &[u8]) -> Result<Notificacao, ParseError> {
        self.parse_at(headers, body, self.now())
    }

    /// The same by another clock.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn parse_at(
        &self,
        headers: &(impl Headers + ?Sized),
        body: &[u8],
        now: SystemTime,
    ) -> Result<Notificacao, ParseError> {
        let received = self.believe(headers, body, now)?;
        let text = |value: Option<&[u8]>| Some(str::from_utf8(value?.trim_ascii()).ok()?.to_owned());
        let seconds = text(received.timestamp).and_then(|seconds| seconds.parse().ok());
        Ok(Notificacao {
            body: svc_core::Notificacao::from_json(body)?,
            event_id: text(received.id),
            attempted_at: seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds))),
        })
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}

impl ParseError {
    /// A stable name for logs and metrics.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Verify(error) => error.code(),
            Self::Body(_) => "body_malformed",
        }
    }

    /// What is usually behind it, for whoever writes the receiver; never for the sender.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Verify(error) => error.hint(),
            Self::Body(_) => "the service signed it, and this version cannot read it: look for a newer one",
        }
    }
}
