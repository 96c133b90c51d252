//! One event on its way to one partner: what to send, and what follows from what came back (C32, C33).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::evento::{Evento, EventoId, Transition};
use crate::proposta::Corrupt;
use crate::received::{SVC_SIGNATURE, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use crate::schedule::{Jitter, Schedule, later};
use crate::signature::Signer;
use crate::webhook_url::WebhookUrl;

/// The longest wait that a receiver's `Retry-After` can ask for (C32).
pub const RETRY_AFTER_CAP: Duration = Duration::from_secs(24 * 60 * 60);

/// So many attempts are kept; a partner that asks again and again loses sight of the oldest.
pub const MAX_TENTATIVAS: usize = 200;

/// The delivery of an event. A value: each attempt makes the next one of it, for a store to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    evento: Evento,
    client_id: Arc<str>,
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
#[non_exhaustive]
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
    /// # let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &DigestKey::derive(&[7; 32]).unwrap(), now);
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
            client_id: transition.proposta.shared_client_id(),
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
    /// `Retry-After` of a 429 or 503 can lengthen it to 24 h. What has ended stays ended, whatever comes late, but a late
    /// 2xx still delivers.
    #[must_use]
    pub fn after(mut self, attempt: Tentativa, schedule: &Schedule, jitter: Jitter, now: DateTime<Utc>) -> Self {
        self.attempts = self.attempts.saturating_add(1);
        if self.tentativas.len() >= MAX_TENTATIVAS {
            self.tentativas.remove(0);
        }
        if self.tentativas.is_empty() {
            // Most deliveries have one.
            self.tentativas.reserve_exact(1);
        }
        self.tentativas.push(attempt);
        self.next = match (attempt.resultado, self.next) {
            (Outcome::Status { code: 200..=299, .. }, _) => Next::Done,
            (_, ended @ (Next::Done | Next::GiveUp)) => ended,
            (Outcome::Status { code: 410, .. }, _) => Next::GiveUp,
            (Outcome::Status { .. } | Outcome::Failed(_), Next::At(_)) => match schedule.wait(self.attempts) {
                Some(wait) => Next::At(later(now, jitter.spread(wait.max(attempt.resultado.asked_wait())))),
                None => Next::GiveUp,
            },
        };
        self
    }

    /// The delivery when somebody asks for it again (C19): pending, its next attempt is due now; after its end the
    /// schedule begins anew.
    #[must_use]
    pub fn resend(mut self, schedule: &Schedule, now: DateTime<Utc>) -> Self {
        match self.next {
            Next::At(due) => self.next = Next::At(due.min(now)),
            Next::Done | Next::GiveUp => {
                self.attempts = 0;
                self.next = Next::At(later(now, schedule.wait(0).unwrap_or_default()));
            }
        }
        self
    }

    /// The delivery as bytes for a store: a JSON object that only [`from_stored`](Self::from_stored) needs to understand.
    /// What a store searches by (the event's id, when it is due) is to be had from the value.
    pub fn to_stored(&self) -> Vec<u8> {
        let stored = Stored {
            v: STORED_FORMAT,
            id: self.evento.id().to_string().into(),
            body: String::from_utf8_lossy(self.evento.body()),
            client_id: (&*self.client_id).into(),
            url: self.url.as_str().into(),
            attempts: self.attempts,
            tentativas: self.tentativas.iter().map(StoredTentativa::of).collect(),
            estado: self.estado().into(),
            due: match self.next {
                Next::At(due) => Some(due.timestamp_millis()),
                Next::Done | Next::GiveUp => None,
            },
        };
        // Writing these types to memory cannot fail; should it ever, no delivery is read back from nothing.
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Reads a stored delivery back, its times to the millisecond.
    ///
    /// ```
    /// # use chrono::DateTime;
    /// use svc_core::{Acao, Corrupt, Delivery, Schedule};
    /// # use svc_core::{DigestKey, NovaProposta, PropostaId};
    /// # let nova = NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018")
    /// #     .webhook_url("https://example.com/").build().unwrap();
    /// # let now = DateTime::from_timestamp(1_795_811_504, 0).unwrap();
    /// # let key = DigestKey::derive(&[7; 32]).unwrap();
    /// # let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &key, now);
    /// let delivery = Delivery::of(&proposta.apply(Acao::Aceitar, now).unwrap(), &Schedule::HOMOLOGACAO, now);
    /// assert_eq!(Delivery::from_stored(&delivery.to_stored()), Ok(delivery));
    /// assert_eq!(Delivery::from_stored(b"{}"), Err(Corrupt));
    /// ```
    pub fn from_stored(bytes: &[u8]) -> Result<Self, Corrupt> {
        let stored: Stored<'_> = serde_json::from_slice(bytes).map_err(|_| Corrupt)?;
        let next = match (&*stored.estado, stored.due) {
            ("pendente", Some(due)) => Next::At(DateTime::from_timestamp_millis(due).ok_or(Corrupt)?),
            ("entregue", None) => Next::Done,
            ("falhou", None) => Next::GiveUp,
            _ => return Err(Corrupt),
        };
        if stored.v != STORED_FORMAT {
            return Err(Corrupt);
        }
        Ok(Self {
            evento: Evento::new(EventoId::parse(&stored.id).ok_or(Corrupt)?, stored.body.into_owned().into_bytes()),
            client_id: stored.client_id.into(),
            url: WebhookUrl::parse(stored.url).map_err(|_| Corrupt)?,
            attempts: stored.attempts,
            tentativas: stored.tentativas.iter().map(StoredTentativa::tentativa).collect::<Result<_, _>>()?,
            next,
        })
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
    /// Reads what [`Display`](fmt::Display) writes; a wait that was asked for is over by then.
    fn parse(text: &str) -> Option<Self> {
        let failed = Falha::ALL.into_iter().find(|falha| falha.as_str() == text).map(Self::Failed);
        failed.or_else(|| Some(Self::Status { code: text.parse().ok()?, retry_after: None }))
    }

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
            Self::Failed(falha) => f.write_str(falha.as_str()),
        }
    }
}

impl Falha {
    const ALL: [Self; 5] = [Self::Dns, Self::Bloqueado, Self::Conexao, Self::Tls, Self::TempoEsgotado];

    /// The class that C22 shows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Bloqueado => "bloqueado",
            Self::Conexao => "conexao",
            Self::Tls => "tls",
            Self::TempoEsgotado => "tempo_esgotado",
        }
    }
}

/// A change of the format is a new number here and a reader for the old one.
const STORED_FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    v: u32,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    body: Cow<'a, str>,
    #[serde(borrow)]
    client_id: Cow<'a, str>,
    #[serde(borrow)]
    url: Cow<'a, str>,
    attempts: u32,
    #[serde(borrow)]
    tentativas: Vec<StoredTentativa<'a>>,
    #[serde(borrow)]
    estado: Cow<'a, str>,
    due: Option<i64>,
}

/// Begin in unix milliseconds, duration, result.
#[derive(Serialize, Deserialize)]
struct StoredTentativa<'a>(i64, u64, #[serde(borrow)] Cow<'a, str>);

impl StoredTentativa<'_> {
    fn of(tentativa: &Tentativa) -> Self {
        Self(tentativa.em.timestamp_millis(), tentativa.duracao_ms, tentativa.resultado.to_string().into())
    }

    fn tentativa(&self) -> Result<Tentativa, Corrupt> {
        Ok(Tentativa {
            em: DateTime::from_timestamp_millis(self.0).ok_or(Corrupt)?,
            duracao_ms: self.1,
            resultado: Outcome::parse(&self.2).ok_or(Corrupt)?,
        })
    }
}

impl fmt::Debug for SignedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignedRequest")
    }
}
