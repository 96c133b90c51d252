//! One event on its way to one partner: what to send, and what follows from what came back (C32, C33).

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::evento::{Evento, Transition};
use crate::received::{SVC_SIGNATURE, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use crate::schedule::{Jitter, Schedule, later};
use crate::signature::Signer;
use crate::webhook_url::WebhookUrl;

/// The longest wait that a receiver's `Retry-After` can ask for (C32).
pub const RETRY_AFTER_CAP: Duration = Duration::from_secs(24 * 60 * 60);

/// The delivery of an event. A value: each attempt makes the next one of it, for a store to keep.
#[derive(Clone, Debug)]
pub struct Delivery {
    evento: Evento,
    client_id: String,
    url: WebhookUrl,
    /// Attempts since the schedule began.
    attempts: u32,
    tentativas: Vec<Tentativa>,
    next: Next,
}

/// One attempt and how it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tentativa {
    /// When it began.
    pub em: DateTime<Utc>,
    /// How long it took, in milliseconds.
    pub duracao_ms: u64,
    /// What came back.
    pub resultado: Outcome,
}

/// What came back from an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A final status line; what the body says does not matter.
    Status {
        /// The HTTP status.
        code: u16,
        /// What [`retry_after`](crate::retry_after) made of the header, if it came.
        retry_after: Option<Duration>,
    },
    /// No status line.
    Failed(Falha),
}

/// Why an attempt has no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Falha {
    /// The name was not resolved.
    Dns,
    /// Every address of it is refused (C31).
    Bloqueado,
    /// No connection, or it broke.
    Conexao,
    /// The TLS handshake or the certificate failed.
    Tls,
    /// The deadline passed.
    TempoEsgotado,
}

/// What becomes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another attempt is due at this time.
    At(DateTime<Utc>),
    /// Delivered.
    Done,
    /// Not delivered, and not tried again unless somebody asks.
    GiveUp,
}

/// An HTTP request, ready to be sent as it is.
#[derive(Clone, PartialEq, Eq)]
#[must_use]
pub struct SignedRequest<'d> {
    /// Where to, by POST.
    pub url: &'d str,
    /// The headers to set.
    pub headers: [(&'static str, String); 5],
    /// The body, to be sent byte for byte.
    pub body: &'d [u8],
}

impl Delivery {
    /// The delivery of a fresh event, due as the schedule begins.
    ///
    /// ```
    /// # use chrono::DateTime;
    /// use svc_core::{Acao, Delivery, Jitter, Next, Outcome, Schedule, Secret, Signer, Tentativa};
    /// # use svc_core::{DigestKey, NovaProposta, PropostaId};
    /// # let nova = NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018")
    /// #     .webhook_url("https://example.com/").build().unwrap();
    /// # let now = DateTime::from_timestamp(1_795_811_504, 0).unwrap();
    /// # let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &DigestKey::derive(b"key"), now);
    /// let transition = proposta.apply(Acao::Aceitar, now).unwrap();
    /// let delivery = Delivery::of(&transition, &Schedule::HOMOLOGACAO, now);
    /// assert_eq!(delivery.next(), Next::At(now));
    ///
    /// let signer = Signer::new(&Secret::from_raw_key_bytes(b"segredo-de-teste").unwrap());
    /// let request = delivery.request(&signer, now);
    /// assert_eq!(request.headers[2], ("webhook-id", format!("evt_{}", proposta.id())));
    ///
    /// let attempt = |code| Tentativa { em: now, duracao_ms: 3, resultado: Outcome::Status { code, retry_after: None } };
    /// let failed = delivery.clone().after(attempt(500), &Schedule::HOMOLOGACAO, Jitter::NONE, now);
    /// assert_eq!(failed.next(), Next::At(now + chrono::TimeDelta::seconds(5)));
    /// assert_eq!(failed.after(attempt(204), &Schedule::HOMOLOGACAO, Jitter::NONE, now).next(), Next::Done);
    /// ```
    pub fn of(transition: &Transition, schedule: &Schedule, now: DateTime<Utc>) -> Self {
        Self {
            evento: transition.evento.clone(),
            client_id: transition.proposta.client_id().to_owned(),
            url: transition.proposta.webhook_url().clone(),
            attempts: 0,
            tentativas: Vec::new(),
            next: Next::At(later(now, schedule.wait(0).unwrap_or_default())),
        }
    }

    /// The request of an attempt that begins now: the same id, body and `x-svc-signature` each time, a timestamp and
    /// its signature of its own (C27, C29).
    pub fn request(&self, signer: &Signer, now: DateTime<Utc>) -> SignedRequest<'_> {
        let id = self.evento.id().to_string();
        let timestamp = u64::try_from(now.timestamp()).unwrap_or_default();
        let signature = signer.webhook_signature(&id, timestamp, self.evento.body());
        SignedRequest {
            url: self.url.as_str(),
            headers: [
                ("content-type", "application/json".to_owned()),
                (SVC_SIGNATURE, signer.svc_signature(self.evento.body())),
                (WEBHOOK_ID, id),
                (WEBHOOK_TIMESTAMP, timestamp.to_string()),
                (WEBHOOK_SIGNATURE, signature),
            ],
            body: self.evento.body(),
        }
    }

    /// The delivery after an attempt that has just ended (C32, C33).
    ///
    /// A 2xx delivers, a 410 ends it, anything else waits for the next attempt, the wait counted from `now`; the
    /// `Retry-After` of a 429 or 503 can lengthen it to 24 h.
    #[must_use]
    pub fn after(mut self, attempt: Tentativa, schedule: &Schedule, jitter: Jitter, now: DateTime<Utc>) -> Self {
        self.attempts = self.attempts.saturating_add(1);
        self.tentativas.push(attempt);
        self.next = match attempt.resultado {
            Outcome::Status { code: 200..=299, .. } => Next::Done,
            Outcome::Status { code: 410, .. } => Next::GiveUp,
            Outcome::Status { .. } | Outcome::Failed(_) => match schedule.wait(self.attempts) {
                Some(wait) => Next::At(later(now, jitter.spread(wait.max(attempt.resultado.asked_wait())))),
                None => Next::GiveUp,
            },
        };
        self
    }

    /// The delivery when somebody asks for it again (C19): now; after its end the schedule begins anew.
    #[must_use]
    pub fn resend(mut self, now: DateTime<Utc>) -> Self {
        match self.next {
            Next::At(due) => self.next = Next::At(due.min(now)),
            Next::Done | Next::GiveUp => {
                self.attempts = 0;
                self.next = Next::At(now);
            }
        }
        self
    }

    /// The event.
    pub const fn evento(&self) -> &Evento {
        &self.evento
    }

    /// The partner whose secrets sign it.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Where it goes.
    pub const fn url(&self) -> &WebhookUrl {
        &self.url
    }

    /// Every attempt so far, resends included.
    pub fn tentativas(&self) -> &[Tentativa] {
        &self.tentativas
    }

    /// What becomes of it.
    pub const fn next(&self) -> Next {
        self.next
    }

    /// `pendente`, `entregue` or `falhou` (C22).
    pub const fn estado(&self) -> &'static str {
        match self.next {
            Next::At(_) => "pendente",
            Next::Done => "entregue",
            Next::GiveUp => "falhou",
        }
    }
}

impl Outcome {
    /// The wait that the receiver asked for, where it may (429 and 503).
    fn asked_wait(self) -> Duration {
        match self {
            Self::Status { code: 429 | 503, retry_after: Some(wait) } => wait.min(RETRY_AFTER_CAP),
            Self::Status { .. } | Self::Failed(_) => Duration::ZERO,
        }
    }
}

impl fmt::Display for Outcome {
    /// The status, or the kind of failure: what C22 shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { code, .. } => write!(f, "{code}"),
            Self::Failed(Falha::Dns) => f.write_str("dns"),
            Self::Failed(Falha::Bloqueado) => f.write_str("bloqueado"),
            Self::Failed(Falha::Conexao) => f.write_str("conexao"),
            Self::Failed(Falha::Tls) => f.write_str("tls"),
            Self::Failed(Falha::TempoEsgotado) => f.write_str("tempo_esgotado"),
        }
    }
}

impl fmt::Debug for SignedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignedRequest")
    }
}
