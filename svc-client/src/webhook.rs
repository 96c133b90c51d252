//! The receiver's side: believe a notification, then read it (C26–C30).
//!
//! One [`Verifier`] at start, one [`parse`](Verifier::parse) a request, over the headers and the **raw** body: a body that
//! was parsed and written again has other bytes, and no signature.

use std::ops::Deref;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use svc_core::{BadNotificacao, Received, Verifier as Core};

pub use svc_core::{BadSecret, Resposta, Secret, VerifyError};

/// The headers of a request, in whatever form a framework has them.
///
/// Implemented for [`http::HeaderMap`], and for slices and vectors of pairs, so that another version of `http` locks
/// nobody out.
pub trait Headers {
    /// Picks the four headers of a notification.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Repeated`] where one of them comes twice with different values.
    fn received(&self) -> Result<Received<'_>, VerifyError>;
}

impl Headers for http::HeaderMap {
    fn received(&self) -> Result<Received<'_>, VerifyError> {
        Received::from_pairs(self.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for [(N, V)] {
    fn received(&self) -> Result<Received<'_>, VerifyError> {
        Received::from_pairs(self.iter().map(|(name, value)| (name.as_ref(), value.as_ref())))
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for Vec<(N, V)> {
    fn received(&self) -> Result<Received<'_>, VerifyError> {
        self.as_slice().received()
    }
}

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
/// let notificacao = verifier.parse(&headers[..], body).unwrap();
/// assert_eq!(notificacao.status, Resposta::Aceito);
///
/// let altered = body.map(|byte| if byte == b'1' { b'2' } else { byte });
/// assert!(matches!(verifier.parse(&headers[..], &altered), Err(ParseError::Verify(VerifyError::Mismatch(_)))));
/// ```
#[derive(Clone, Debug)]
pub struct Verifier(Core);

/// A believed notification: its fields, and what its headers say of the event and of this attempt.
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
        Self(Core::new(secret))
    }

    /// Believes the previous secret too, as during a rotation.
    #[must_use]
    pub fn also(self, previous: &Secret) -> Self {
        Self(self.0.also(previous))
    }

    /// Sets how far a delivery's timestamp may lie from this machine's clock, in seconds; 300 unless set.
    #[must_use]
    pub fn tolerance(self, seconds: u64) -> Self {
        Self(self.0.tolerance(seconds))
    }

    /// Refuses deliveries without a signed timestamp, which a recorded one could be without.
    #[must_use]
    pub fn require_timestamp(self) -> Self {
        Self(self.0.require_timestamp())
    }

    /// Verifies headers and raw body by this machine's clock.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] says what is missing, malformed, wrong or late; never what would be right.
    pub fn verify(&self, headers: &(impl Headers + ?Sized), body: &[u8]) -> Result<(), VerifyError> {
        self.verify_at(headers, body, SystemTime::now())
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
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.0.verify(headers.received()?, body, now)
    }

    /// Verifies, then reads.
    ///
    /// # Errors
    ///
    /// [`ParseError::Verify`] as [`verify`](Self::verify); [`ParseError::Body`] for a body that is no notification.
    pub fn parse(&self, headers: &(impl Headers + ?Sized), body: &[u8]) -> Result<Notificacao, ParseError> {
        self.verify(headers, body)?;
        let received = headers.received()?;
        let text = |value: Option<&[u8]>| Some(str::from_utf8(value?.trim_ascii()).ok()?.to_owned());
        let seconds = text(received.timestamp).and_then(|seconds| seconds.parse().ok());
        Ok(Notificacao {
            body: svc_core::Notificacao::from_json(body)?,
            event_id: text(received.id),
            attempted_at: seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds))),
        })
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
}
