//! The message that brings the customer their link, on its way (C35).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::delivery::Next;
use crate::proposta::{Corrupt, Proposta};
use crate::proposta_id::PropostaId;
use crate::schedule::{Jitter, Schedule, later};

/// The customer's message. A value: each attempt to send it makes the next one of it, for a store to keep.
///
/// Who it goes to and what it says is the proposal's, which is read when it is sent. Of a person's data it holds at most what
/// its channel calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mensagem {
    proposta: PropostaId,
    client_id: Arc<str>,
    /// Attempts since the schedule began.
    attempts: u32,
    motivo: Option<Cow<'static, str>>,
    next: Next,
    /// What the channel that took it last calls it.
    envio: Option<Box<Envio>>,
    entrega: Entrega,
    /// Since when it waits for its channel to be mended.
    held_since: Option<DateTime<Utc>>,
}

/// What a channel calls a message that it took. Both can tell of the customer's number, so neither outlives their data, and
/// `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Envio {
    /// The message's id, by which the channel tells of its way.
    pub id: String,
    /// The account that it goes to, where the channel says so.
    pub conta: Option<String>,
}

impl fmt::Debug for Envio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Envio(***)")
    }
}

/// How far a message that was taken has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Entrega {
    #[default]
    Enviada,
    Entregue,
    Lida,
}

/// What a channel tells of a message that it took earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Noticia {
    /// It has come to the customer's telephone.
    Delivered,
    /// It was read.
    Read,
    /// It did not come, as an attempt that fails.
    Failed(SendOutcome),
}

/// What came of an attempt to send a message. Reasons are stable words, such as `nao_enviada`, without a person's data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendOutcome {
    /// It was handed over.
    Sent,
    /// It was handed over to a channel that tells of its way.
    Taken(Envio),
    /// It was not, for a reason that can pass.
    Failed(Cow<'static, str>),
    /// It was not, for a reason that does not pass before this time is over.
    Postponed(Cow<'static, str>, Duration),
    /// It was not, for a fault that every message meets, and that this one shall not pay for: it is tried again after this time
    /// without the attempt being counted, for a day at most.
    Held(Cow<'static, str>, Duration),
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
            client_id: proposta.shared_client_id(),
            attempts: 0,
            motivo: None,
            next: Next::At(later(now, schedule.wait(0).unwrap_or_default())),
            envio: None,
            entrega: Entrega::Enviada,
            held_since: None,
        }
    }

    /// The message after an attempt that has just ended; the next wait is counted from `now`.
    #[must_use]
    pub fn after(mut self, outcome: SendOutcome, schedule: &Schedule, jitter: Jitter, now: DateTime<Utc>) -> Self {
        if !matches!(outcome, SendOutcome::Held(..)) {
            self.attempts = self.attempts.saturating_add(1);
        }
        if matches!(outcome, SendOutcome::Sent | SendOutcome::Taken(_)) {
            self.entrega = Entrega::Enviada;
        }
        self.ended(outcome, schedule, jitter, now)
    }

    /// The message after its channel has told of it, whatever came before: news come in any order, and twice. Of another
    /// message than the one taken last, it changes nothing.
    ///
    /// ```
    /// # use chrono::DateTime;
    /// use svc_core::{Envio, Jitter, Mensagem, Noticia, Schedule, SendOutcome};
    /// # use svc_core::{DigestKey, NovaProposta, PropostaId};
    /// # let nova = NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018")
    /// #     .webhook_url("https://example.com/").build().unwrap();
    /// # let now = DateTime::from_timestamp(1_795_811_504, 0).unwrap();
    /// # let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &DigestKey::derive(&[7; 32]).unwrap(), now);
    /// let schedule = Schedule::MENSAGEM;
    /// let taken = SendOutcome::Taken(Envio { id: "wamid.1".into(), conta: None });
    /// let mensagem = Mensagem::of(&proposta, &schedule, now).after(taken, &schedule, Jitter::NONE, now);
    /// assert_eq!(mensagem.estado(), "enviada");
    ///
    /// let read = mensagem.clone().told("wamid.1", Noticia::Read, &schedule, Jitter::NONE, now);
    /// assert_eq!(read.estado(), "lida");
    /// assert_eq!(read.told("wamid.1", Noticia::Delivered, &schedule, Jitter::NONE, now).estado(), "lida");
    /// assert_eq!(mensagem.told("wamid.2", Noticia::Read, &schedule, Jitter::NONE, now).estado(), "enviada");
    /// ```
    #[must_use]
    pub fn told(mut self, id: &str, noticia: Noticia, schedule: &Schedule, jitter: Jitter, now: DateTime<Utc>) -> Self {
        if self.envio.as_ref().is_none_or(|envio| envio.id != id) {
            return self;
        }
        let entrega = match noticia {
            Noticia::Delivered => Entrega::Entregue,
            Noticia::Read => Entrega::Lida,
            // What has come has come, and what is being repeated already is not repeated twice.
            Noticia::Failed(_) if self.entrega > Entrega::Enviada || self.next != Next::Done => return self,
            Noticia::Failed(outcome) => return self.ended(outcome, schedule, jitter, now),
        };
        self.entrega = self.entrega.max(entrega);
        // What failed has come nevertheless. A message that was asked for again (C19) is still to be sent.
        if self.motivo.is_some() {
            (self.next, self.motivo) = (Next::Done, None);
        }
        self
    }

    /// What follows from the end of an attempt, however late it is known.
    fn ended(mut self, outcome: SendOutcome, schedule: &Schedule, jitter: Jitter, now: DateTime<Utc>) -> Self {
        let again = |wait: Duration| Next::At(later(now, jitter.spread(wait)));
        let held_since = self.held_since.take().unwrap_or(now);
        (self.next, self.motivo) = match outcome {
            SendOutcome::Sent => {
                self.envio = None;
                (Next::Done, None)
            }
            SendOutcome::Taken(envio) => {
                self.envio = Some(Box::new(envio));
                (Next::Done, None)
            }
            SendOutcome::Refused(motivo) => (Next::GiveUp, Some(motivo)),
            SendOutcome::Failed(motivo) => (schedule.wait(self.attempts).map_or(Next::GiveUp, again), Some(motivo)),
            SendOutcome::Postponed(motivo, least) => {
                let wait = schedule.wait(self.attempts).map(|wait| wait.max(least));
                (wait.map_or(Next::GiveUp, again), Some(motivo))
            }
            SendOutcome::Held(motivo, wait) => {
                self.held_since = Some(held_since);
                let ends = now.signed_duration_since(held_since) >= MOST_HELD;
                (if ends { Next::GiveUp } else { again(wait) }, Some(motivo))
            }
        };
        self
    }

    /// The message without what its channel calls it, which can tell of a person.
    #[must_use]
    pub fn without_dados(mut self) -> Self {
        self.envio = None;
        self
    }

    /// The message when somebody asks for it again (C19): pending, its next attempt is due now; after its end the schedule
    /// begins anew.
    #[must_use]
    pub fn resend(mut self, schedule: &Schedule, now: DateTime<Utc>) -> Self {
        self.motivo = None;
        match self.next {
            Next::At(due) => self.next = Next::At(due.min(now)),
            Next::Done | Next::GiveUp => {
                self.attempts = 0;
                self.held_since = None;
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
            client_id: (&*self.client_id).into(),
            attempts: self.attempts,
            motivo: self.motivo().map(Cow::Borrowed),
            estado: self.estado().into(),
            due: match self.next {
                Next::At(due) => Some(due.timestamp_millis()),
                Next::Done | Next::GiveUp => None,
            },
            envio: self.envio.as_ref().map(|envio| Cow::Borrowed(&*envio.id)),
            conta: self.envio.as_ref().and_then(|envio| envio.conta.as_deref()).map(Cow::Borrowed),
            held: self.held_since.map(|since| since.timestamp_millis()),
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
        let (next, entrega) = match (&*stored.estado, stored.due) {
            ("pendente", Some(due)) => {
                (Next::At(DateTime::from_timestamp_millis(due).ok_or(Corrupt)?), Entrega::Enviada)
            }
            ("enviada", None) => (Next::Done, Entrega::Enviada),
            ("entregue", None) => (Next::Done, Entrega::Entregue),
            ("lida", None) => (Next::Done, Entrega::Lida),
            ("falhou", None) => (Next::GiveUp, Entrega::Enviada),
            _ => return Err(Corrupt),
        };
        if stored.v != STORED_FORMAT {
            return Err(Corrupt);
        }
        Ok(Self {
            proposta: PropostaId::parse(&stored.id).ok_or(Corrupt)?,
            client_id: stored.client_id.into(),
            attempts: stored.attempts,
            motivo: stored.motivo.map(|motivo| motivo.into_owned().into()),
            next,
            envio: stored
                .envio
                .map(|id| Box::new(Envio { id: id.into_owned(), conta: stored.conta.map(Cow::into_owned) })),
            entrega,
            held_since: stored.held.and_then(DateTime::from_timestamp_millis),
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

    /// What the channel that took it last calls it.
    pub fn envio(&self) -> Option<&Envio> {
        self.envio.as_deref()
    }

    /// `pendente`, `enviada`, `entregue`, `lida` or `falhou` (C22).
    pub const fn estado(&self) -> &'static str {
        match (self.next, self.entrega) {
            (Next::At(_), _) => "pendente",
            (Next::Done, Entrega::Enviada) => "enviada",
            (Next::Done, Entrega::Entregue) => "entregue",
            (Next::Done, Entrega::Lida) => "lida",
            (Next::GiveUp, _) => "falhou",
        }
    }

    /// Why the last attempt failed, if it did.
    pub fn motivo(&self) -> Option<&str> {
        self.motivo.as_deref()
    }
}

/// So long is waited for a channel to be mended.
const MOST_HELD: TimeDelta = TimeDelta::hours(24);
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
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    envio: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    conta: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<i64>,
}
