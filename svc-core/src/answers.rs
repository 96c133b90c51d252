//! What the service answers, for whoever sends it and whoever reads it.

use serde::{Deserialize, Serialize};

use crate::delivery::{Delivery, Tentativa};
use crate::error::Violacao;
use crate::mensagem::Mensagem;
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
    /// # let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &DigestKey::derive(&[7; 32]).unwrap(), now);
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

/// All that a partner can see of a proposal (C22). Fields may be added; readers ignore what they do not know (C20).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Situacao {
    /// The service's id.
    pub id_proposta_svc: String,
    /// The partner's own id.
    pub id_proposta_parceiro: String,
    /// `AGUARDANDO_RESPOSTA`, `ACEITO` or `RECUSADO`.
    pub status: String,
    /// RFC 3339 in UTC.
    pub criada_em: String,
    /// When the customer answered, if they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub respondida_em: Option<String>,
    /// How the customer's message fares.
    pub mensagem: SituacaoMensagem,
    /// How the notification fares, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<SituacaoWebhook>,
    /// What `producao` would have refused the proposal for.
    pub avisos: Vec<Aviso>,
}

/// The customer's message: `pendente`, `enviada`, `entregue`, `lida` or `falhou`, and why the last attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SituacaoMensagem {
    /// Its state.
    pub estado: String,
    /// Why the last attempt failed, if it did: a stable word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub motivo: Option<String>,
}

/// The notification: `pendente`, `entregue` or `falhou`, and every attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SituacaoWebhook {
    /// The event's id, as in `webhook-id`.
    pub id: String,
    /// Its state.
    pub estado: String,
    /// Every attempt so far.
    pub tentativas: Vec<SituacaoTentativa>,
}

/// One attempt to deliver the notification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SituacaoTentativa {
    /// When it began, RFC 3339 in UTC.
    pub em: String,
    /// How long it took, in milliseconds.
    pub duracao_ms: u64,
    /// An HTTP status, or `dns`, `bloqueado`, `conexao`, `tls`, `tempo_esgotado`.
    pub resultado: String,
}

/// A violation as the wire shows it, for whoever reads one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Aviso {
    /// JSON pointer to the field.
    pub propriedade: String,
    /// The kind.
    pub codigo: String,
    /// The consistency rule, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regra: Option<String>,
    /// A sentence for a person, in Portuguese.
    #[serde(default)]
    pub razao: String,
}

impl Situacao {
    /// Puts it together from what a store keeps.
    ///
    /// ```
    /// # use chrono::DateTime;
    /// use svc_core::{Acao, Delivery, Jitter, Mensagem, Schedule, SendOutcome, Situacao};
    /// # use svc_core::{DigestKey, NovaProposta, PropostaId};
    /// # let nova = NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018")
    /// #     .webhook_url("https://example.com/").build().unwrap();
    /// # let now = DateTime::from_timestamp(1_795_811_504, 0).unwrap();
    /// # let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &DigestKey::derive(&[7; 32]).unwrap(), now);
    /// let mensagem = Mensagem::of(&proposta, &Schedule::MENSAGEM, now);
    /// let waiting = Situacao::of(&proposta, &mensagem, None);
    /// assert_eq!((waiting.status.as_str(), waiting.webhook), ("AGUARDANDO_RESPOSTA", None)); // no answer, no event
    /// assert_eq!(waiting.mensagem.estado, "pendente");
    ///
    /// let transition = proposta.apply(Acao::Aceitar, now).unwrap();
    /// let delivery = Delivery::of(&transition, &Schedule::HOMOLOGACAO, now);
    /// let sent = mensagem.after(SendOutcome::Sent, &Schedule::MENSAGEM, Jitter::NONE, now);
    /// let answered = Situacao::of(&transition.proposta, &sent, Some(&delivery));
    /// assert_eq!(answered.webhook.unwrap().estado, "pendente");
    /// assert_eq!(answered.mensagem.estado, "enviada");
    /// ```
    pub fn of(proposta: &Proposta, mensagem: &Mensagem, delivery: Option<&Delivery>) -> Self {
        Self {
            id_proposta_svc: proposta.id().to_string(),
            id_proposta_parceiro: proposta.id_proposta_parceiro().as_str().to_owned(),
            status: proposta.status().as_str().to_owned(),
            criada_em: rfc3339(proposta.criada_em()),
            respondida_em: proposta.respondida_em().map(rfc3339),
            mensagem: SituacaoMensagem {
                estado: mensagem.estado().to_owned(),
                motivo: mensagem.motivo().map(str::to_owned),
            },
            webhook: delivery.map(|delivery| SituacaoWebhook {
                id: delivery.evento().id().to_string(),
                estado: delivery.estado().to_owned(),
                tentativas: delivery.tentativas().iter().map(SituacaoTentativa::from).collect(),
            }),
            avisos: proposta.avisos().iter().map(Aviso::from).collect(),
        }
    }
}

impl From<&Tentativa> for SituacaoTentativa {
    fn from(tentativa: &Tentativa) -> Self {
        Self { em: rfc3339(tentativa.em), duracao_ms: tentativa.duracao_ms, resultado: tentativa.resultado.to_string() }
    }
}

impl From<&Violacao> for Aviso {
    fn from(violacao: &Violacao) -> Self {
        Self {
            propriedade: violacao.propriedade.to_owned(),
            codigo: violacao.codigo.as_str().to_owned(),
            regra: violacao.regra.map(|regra| regra.as_str().to_owned()),
            razao: violacao.razao().to_owned(),
        }
    }
}
