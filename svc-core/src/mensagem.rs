//! The message that brings the customer their link, on its way (C35).

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::delivery::Next;
use crate::proposta::{Corrupt, Proposta};
use crate::proposta_id::PropostaId;
use crate::schedule::{Jitter, Schedule, later};

/// The customer's message. A value: each attempt to send it makes the next one of it, for a store to keep.
///
/// It holds no person's data: who it goes to and what it says is the proposal's, which is read when it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mensagem {
    proposta: PropostaId,
    client_id: String,
    /// Attempts since the schedule began.
    attempts: u32,
    motivo: Option<Cow<'static, str>>,
    next: Next,
}

/// What came of an attempt to send a message. Reasons are stable words, such as `nao_enviada`, without a person's data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendOutcome {
    /// It was handed over.
    Sent,
    /// It was not, for a reason that can pass.
    Failed(Cow<'static, str>),
    /// It was not, and trying again is of no use.
    Refused(Cow<'static, str>),
}

impl Mensagem {
    /// Why a message is not tried again once the customer has answered.
    pub const JA_RESPONDIDA: &str = "proposta_ja_respondida";

    /// The message of a fresh proposal, due as the schedule begins.
    ///
    /// ```
    /// # use chrono::{DateTime, TimeDelta};
    /// use svc_core::{Jitter, Mensagem, Next, Schedule, SendOutcome};
    /// # use svc_core::{DigestKey, NovaProposta, PropostaId};
    /// # let nova = NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018")
    /// #     .webhook_url("https://example.com/").build().unwrap();
    /// # let now = DateTime::from_timestamp(1_795_811_504, 0).unwrap();
    /// # let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &DigestKey::derive(&[7; 32]).unwrap(), now);
    /// let schedule = Schedule::MENSAGEM;
    /// let mensagem = Mensagem::of(&proposta, &schedule, now);
    /// assert_eq!((mensagem.next(), mensagem.estado()), (Next::At(now), "pendente"));
    ///
    /// let failed = mensagem.after(SendOutcome::Failed("nao_enviada".into()), &schedule, Jitter::NONE, now);
    /// assert_eq!(failed.next(), Next::At(now + TimeDelta::seconds(5)));
    /// assert_eq!((failed.estado(), failed.motivo()), ("pendente", Some("nao_enviada")));
    ///
    /// let sent = failed.after(SendOutcome::Sent, &schedule, Jitter::NONE, now);
    /// assert_eq!((sent.next(), sent.estado(), sent.motivo()), (Next::Done, "enviada", None));
    /// ```
    pub fn of(proposta: &Proposta, schedule: &Schedule, now: DateTime<Utc>) -> Self {
        Self {
            proposta: proposta.id(),
            client_id: proposta.client_id().to_owned(),
            attempts: 0,
            motivo: None,
            next: Next::At(later(now, schedule.wait(0).unwrap_or_default())),
        }
    }

    /// The message after an attempt that has just ended; the next wait is counted from `now`.
    #[must_use]
    pub fn after(mut self, outcome: SendOutcome, schedule: &Schedule, jitter: Jitter, now: DateTime<Utc>) -> Self {
        self.attempts = self.attempts.saturating_add(1);
        (self.next, self.motivo) = match outcome {
            SendOutcome::Sent => (Next::Done, None),
            SendOutcome::Refused(motivo) => (Next::GiveUp, Some(motivo)),
            SendOutcome::Failed(motivo) => match schedule.wait(self.attempts) {
                Some(wait) => (Next::At(later(now, jitter.spread(wait))), Some(motivo)),
                None => (Next::GiveUp, Some(motivo)),
            },
        };
        self
    }

    /// The message when somebody asks for it again (C19): pending, its next attempt is due now; after its end the schedule
    /// begins anew.
    #[must_use]
    pub fn resend(mut self, schedule: &Schedule, now: DateTime<Utc>) -> Self {
        match self.next {
            Next::At(due) => self.next = Next::At(due.min(now)),
            Next::Done | Next::GiveUp => {
                self.attempts = 0;
                self.motivo = None;
                self.next = Next::At(later(now, schedule.wait(0).unwrap_or_default()));
            }
        }
        self
    }

    /// The message as bytes for a store: a JSON object that only [`from_stored`](Self::from_stored) needs to understand.
    pub fn to_stored(&self) -> Vec<u8> {
        let stored = Stored {
            v: STORED_FORMAT,
            id: self.proposta.to_string().into(),
            client_id: self.client_id.as_str().into(),
            attempts: self.attempts,
            motivo: self.motivo().map(Cow::Borrowed),
            estado: self.estado().into(),
            due: match self.next {
                Next::At(due) => Some(due.timestamp_millis()),
                Next::Done | Next::GiveUp => None,
            },
        };
        // Writing these types to memory cannot fail; should it ever, no message is read back from nothing.
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Reads a stored message back, its time to the millisecond.
    ///
    /// ```
    /// # use chrono::DateTime;
    /// use svc_core::{Corrupt, Mensagem, Schedule};
    /// # use svc_core::{DigestKey, NovaProposta, PropostaId};
    /// # let nova = NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018")
    /// #     .webhook_url("https://example.com/").build().unwrap();
    /// # let now = DateTime::from_timestamp(1_795_811_504, 0).unwrap();
    /// # let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &DigestKey::derive(&[7; 32]).unwrap(), now);
    /// let mensagem = Mensagem::of(&proposta, &Schedule::MENSAGEM, now);
    /// assert_eq!(Mensagem::from_stored(&mensagem.to_stored()), Ok(mensagem));
    /// assert_eq!(Mensagem::from_stored(b"{}"), Err(Corrupt));
    /// ```
    pub fn from_stored(bytes: &[u8]) -> Result<Self, Corrupt> {
        let stored: Stored<'_> = serde_json::from_slice(bytes).map_err(|_| Corrupt)?;
        let next = match (&*stored.estado, stored.due) {
            ("pendente", Some(due)) => Next::At(DateTime::from_timestamp_millis(due).ok_or(Corrupt)?),
            ("enviada", None) => Next::Done,
            ("falhou", None) => Next::GiveUp,
            _ => return Err(Corrupt),
        };
        if stored.v != STORED_FORMAT {
            return Err(Corrupt);
        }
        Ok(Self {
            proposta: PropostaId::parse(&stored.id).ok_or(Corrupt)?,
            client_id: stored.client_id.into_owned(),
            attempts: stored.attempts,
            motivo: stored.motivo.map(|motivo| motivo.into_owned().into()),
            next,
        })
    }

    /// The proposal that it tells of.
    pub const fn proposta(&self) -> PropostaId {
        self.proposta
    }

    /// The partner in whose name it is sent.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Whether the schedule has not begun: the first attempt is still to come.
    pub const fn is_fresh(&self) -> bool {
        self.attempts == 0
    }

    /// What becomes of it.
    pub const fn next(&self) -> Next {
        self.next
    }

    /// `pendente`, `enviada` or `falhou` (C22).
    pub const fn estado(&self) -> &'static str {
        match self.next {
            Next::At(_) => "pendente",
            Next::Done => "enviada",
            Next::GiveUp => "falhou",
        }
    }

    /// Why the last attempt failed, if it did.
    pub fn motivo(&self) -> Option<&str> {
        self.motivo.as_deref()
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
    client_id: Cow<'a, str>,
    attempts: u32,
    #[serde(borrow)]
    motivo: Option<Cow<'a, str>>,
    #[serde(borrow)]
    estado: Cow<'a, str>,
    due: Option<i64>,
}
