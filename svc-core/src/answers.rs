//! What the service answers, for whoever sends it and whoever reads it.

use serde::{Deserialize, Serialize};

use crate::proposta::{Proposta, rfc3339};
use crate::proposta_id::PropostaId;

/// The answer to a new proposal (interface 2.4).
///
/// ```
/// use svc_core::{PropostaId, PropostaRecebida};
/// let answer = PropostaRecebida::new(PropostaId::from_random([7; 16]));
/// let json = serde_json::to_string(&answer).unwrap();
/// assert_eq!(
///     json,
///     r#"{"status":"proposta_recebida_e_notificacao_enviada","id_proposta_svc":"07070707-0707-4707-8707-070707070707"}"#
/// );
/// assert_eq!(serde_json::from_str::<PropostaRecebida>(&json).unwrap(), answer);
/// assert!(serde_json::from_str::<PropostaRecebida>("{}").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PropostaRecebida {
    /// Always [`PropostaRecebida::STATUS`].
    pub status: String,
    /// The service's id, to be kept by the partner.
    pub id_proposta_svc: String,
}

impl PropostaRecebida {
    /// The interface's literal.
    pub const STATUS: &str = "proposta_recebida_e_notificacao_enviada";

    /// The answer for this id.
    pub fn new(id: PropostaId) -> Self {
        Self { status: Self::STATUS.to_owned(), id_proposta_svc: id.to_string() }
    }
}

/// The answer to a confirmation (C15).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Confirmacao {
    /// The service's id of the proposal.
    pub id_proposta_svc: String,
    /// `ACEITO` or `RECUSADO`.
    pub status: String,
    /// When the customer answered, RFC 3339 in UTC.
    pub timestamp: String,
    /// Whether the same answer had been given before.
    pub ja_respondida: bool,
}

impl Confirmacao {
    /// The answer for an answered proposal; `None` for one that still waits.
    ///
    /// ```
    /// # use chrono::DateTime;
    /// use svc_core::{Acao, Confirmacao};
    /// # use svc_core::{DigestKey, NovaProposta, PropostaId};
    /// # let nova = NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018")
    /// #     .webhook_url("https://example.com/").build().unwrap();
    /// # let now = DateTime::from_timestamp(1_795_811_504, 0).unwrap();
    /// # let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &DigestKey::derive(b"key"), now);
    /// assert_eq!(Confirmacao::of(&proposta, false), None); // no answer yet
    /// let answered = proposta.apply(Acao::Aceitar, now).unwrap().proposta;
    /// let answer = Confirmacao::of(&answered, false).unwrap();
    /// assert_eq!((answer.status.as_str(), answer.timestamp.as_str()), ("ACEITO", "2026-11-27T20:31:44.000Z"));
    /// ```
    pub fn of(proposta: &Proposta, ja_respondida: bool) -> Option<Self> {
        Some(Self {
            id_proposta_svc: proposta.id().to_string(),
            status: proposta.status().as_str().to_owned(),
            timestamp: rfc3339(proposta.respondida_em()?),
            ja_respondida,
        })
    }
}
