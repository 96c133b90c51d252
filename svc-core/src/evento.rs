//! The one event of a proposal: made with the answer, frozen, and read by whoever receives it (C12, C26, C29).

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Serialize};

use crate::acao::Acao;
use crate::proposta::{Proposta, rfc3339};
use crate::proposta_id::PropostaId;
use crate::status::{Answer, Status};

/// The id of an event: `evt_` and the proposal's own UUID, since each proposal has one event (C29).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventoId(PropostaId);

impl EventoId {
    /// Reads `evt_` and a proposal's id.
    ///
    /// ```
    /// use svc_core::EventoId;
    /// assert!(EventoId::parse("evt_07070707-0707-4707-8707-070707070707").is_some());
    /// assert_eq!(EventoId::parse("07070707-0707-4707-8707-070707070707"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        PropostaId::parse(text.strip_prefix("evt_")?).map(Self)
    }

    /// The event's proposal.
    pub const fn proposta(self) -> PropostaId {
        self.0
    }
}

impl fmt::Display for EventoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "evt_{}", self.0)
    }
}

/// What goes out when a customer has answered.
#[derive(Clone, PartialEq, Eq)]
pub struct Evento {
    id: EventoId,
    body: Arc<[u8]>,
}

impl Evento {
    pub(crate) fn new(id: EventoId, body: Vec<u8>) -> Self {
        Self { id, body: body.into() }
    }

    /// Its id, the same in every attempt.
    pub const fn id(&self) -> EventoId {
        self.id
    }

    /// The notification's bytes, made once: every attempt sends these (C26).
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

impl fmt::Debug for Evento {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Evento").field(&self.id).finish()
    }
}

/// An answer that counts: the new record and its event, to be stored in one step or not at all.
#[derive(Clone, Debug)]
#[must_use = "an answer counts only when both halves are stored"]
pub struct Transition {
    /// The record after the answer.
    pub proposta: Proposta,
    /// What its partner must be told.
    pub evento: Evento,
}

/// Why an action changes nothing (C12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotApplied {
    /// The same answer was given before; a success for whoever repeats it.
    #[error("proposal has this answer already")]
    AlreadySo,
    /// The other answer was given before, and stands.
    #[error("proposal is {stored} already")]
    Refused {
        /// The answer that stands.
        stored: Status,
    },
}

impl Proposta {
    /// Applies the customer's answer. The first one wins; this record stays as it is.
    ///
    /// ```
    /// # use chrono::DateTime;
    /// use svc_core::{Acao, NotApplied, Status};
    /// # use svc_core::{DigestKey, NovaProposta, PropostaId};
    /// # let nova = NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018")
    /// #     .webhook_url("https://example.com/").build().unwrap();
    /// # let now = DateTime::from_timestamp(1_795_811_504, 0).unwrap();
    /// # let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &DigestKey::derive(&[7; 32]).unwrap(), now);
    /// let transition = proposta.apply(Acao::Aceitar, now).unwrap();
    /// assert_eq!(transition.proposta.status(), Status::Aceito);
    /// assert_eq!(
    ///     str::from_utf8(transition.evento.body()).unwrap(),
    ///     r#"{"id_proposta_svc":"07070707-0707-4707-8707-070707070707","id_proposta_parceiro":"P-1","#.to_owned()
    ///         + r#""status":"ACEITO","timestamp":"2026-11-27T20:31:44.000Z"}"#
    /// );
    /// assert_eq!(
    ///     transition.proposta.apply(Acao::Recusar, now).unwrap_err(),
    ///     NotApplied::Refused { stored: Status::Aceito }
    /// );
    /// ```
    pub fn apply(&self, acao: Acao, now: DateTime<Utc>) -> Result<Transition, NotApplied> {
        match self.status().after(acao) {
            Answer::Moved(status) => {
                let proposta = self.answered(status, now.trunc_subsecs(3));
                let evento = Evento::new(EventoId(self.id()), body(&proposta, now));
                Ok(Transition { proposta, evento })
            }
            Answer::AlreadySo => Err(NotApplied::AlreadySo),
            Answer::Refused => Err(NotApplied::Refused { stored: self.status() }),
        }
    }
}

fn body(proposta: &Proposta, now: DateTime<Utc>) -> Vec<u8> {
    let wire = Wire {
        id_proposta_svc: proposta.id().to_string(),
        id_proposta_parceiro: proposta.id_proposta_parceiro().as_str().to_owned(),
        status: proposta.status().as_str().to_owned(),
        timestamp: rfc3339(now),
    };
    // Writing four strings to memory cannot fail.
    serde_json::to_vec(&wire).unwrap_or_default()
}

/// The notification as the wire has it, its keys in the interface's order (interface 6).
#[derive(Serialize, Deserialize)]
struct Wire {
    id_proposta_svc: String,
    id_proposta_parceiro: String,
    status: String,
    timestamp: String,
}

/// A notification as its receiver reads it, after its signature was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notificacao {
    /// The service's id of the proposal.
    pub id_proposta_svc: String,
    /// The partner's own id, as it was submitted.
    pub id_proposta_parceiro: String,
    /// The customer's answer.
    pub status: Resposta,
    /// When the customer answered.
    pub timestamp: DateTime<Utc>,
}

/// The answer in a notification. One that this version does not know keeps its text (C30).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resposta {
    /// `ACEITO`
    Aceito,
    /// `RECUSADO`
    Recusado,
    /// Another word, as it came.
    Outro(String),
}

impl Resposta {
    /// The wire's word.
    ///
    /// ```
    /// use svc_core::Resposta;
    /// assert_eq!(Resposta::Aceito.as_str(), "ACEITO");
    /// assert_eq!(Resposta::Outro("EXPIRADO".to_owned()).to_string(), "EXPIRADO");
    /// ```
    pub fn as_str(&self) -> &str {
        match self {
            Self::Aceito => Status::Aceito.as_str(),
            Self::Recusado => Status::Recusado.as_str(),
            Self::Outro(word) => word,
        }
    }
}

impl fmt::Display for Resposta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A body that is no notification: no JSON object with the interface's four fields, or a timestamp that is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("body is no notification")]
pub struct BadNotificacao;

impl Notificacao {
    /// Reads a body; unknown fields are ignored. To be called after [`Verifier::verify`](crate::Verifier::verify).
    ///
    /// ```
    /// use svc_core::{BadNotificacao, Notificacao, Resposta};
    /// let body = br#"{"id_proposta_svc":"a","id_proposta_parceiro":"b","status":"ACEITO","timestamp":"2026-11-27T20:31:44.000Z"}"#;
    /// assert_eq!(Notificacao::from_json(body).unwrap().status, Resposta::Aceito);
    /// assert_eq!(Notificacao::from_json(br#"{"status":"ACEITO"}"#), Err(BadNotificacao));
    /// ```
    pub fn from_json(body: &[u8]) -> Result<Self, BadNotificacao> {
        let wire: Wire = serde_json::from_slice(body).map_err(|_| BadNotificacao)?;
        let timestamp = DateTime::parse_from_rfc3339(&wire.timestamp).map_err(|_| BadNotificacao)?.to_utc();
        let status = match wire.status.as_str() {
            "ACEITO" => Resposta::Aceito,
            "RECUSADO" => Resposta::Recusado,
            _ => Resposta::Outro(wire.status),
        };
        Ok(Self {
            id_proposta_svc: wire.id_proposta_svc,
            id_proposta_parceiro: wire.id_proposta_parceiro,
            status,
            timestamp,
        })
    }
}
