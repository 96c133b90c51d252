//! The record of a proposal: what the service keeps from its creation on.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, SecondsFormat, SubsecRound, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::campo::{Campo, PROPOSTA};
use crate::digest::{Digest, DigestKey};
use crate::draft::Draft;
use crate::error::{Codigo, Violacao};
use crate::json;
use crate::nova_proposta::{Dados, NovaProposta, Wire};
use crate::policy::{Perfil, Regra};
use crate::proposta_id::PropostaId;
use crate::status::Status;
use crate::texto::IdParceiro;
use crate::webhook_url::WebhookUrl;

/// A stored proposal. Cheap to clone and never edited: an answer makes a new one, see [`apply`](Self::apply).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposta {
    fixed: Arc<Fixed>,
    /// `None` after retention.
    dados: Option<Arc<Dados>>,
    status: Status,
    /// Present exactly when answered.
    respondida_em: Option<DateTime<Utc>>,
    version: u32,
}

/// What no answer and no retention changes.
#[derive(Debug, PartialEq, Eq)]
struct Fixed {
    id: PropostaId,
    client_id: Arc<str>,
    id_proposta_parceiro: IdParceiro,
    webhook_url: WebhookUrl,
    digest: Digest,
    avisos: Vec<Violacao>,
    criada_em: DateTime<Utc>,
}

impl NovaProposta {
    /// Makes the record of it: id and time come from outside, the partner from the token. A partner's name that is an `Arc<str>`
    /// is shared by all its proposals; any other text is copied.
    ///
    /// ```
    /// use chrono::DateTime;
    /// use svc_core::{DigestKey, NovaProposta, PropostaId, Status};
    /// let nova = NovaProposta::builder("P-1")
    ///     .nome("Ana")
    ///     .cpf("111.444.777-35")
    ///     .whatsapp("5511900000018")
    ///     .webhook_url("https://example.com/")
    ///     .build()
    ///     .unwrap();
    /// let now = DateTime::from_timestamp(1_795_811_504, 123_999_999).unwrap();
    /// let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &DigestKey::derive(&[7; 32]).unwrap(), now);
    /// assert_eq!(proposta.status(), Status::AguardandoResposta);
    /// assert_eq!(proposta.criada_em().timestamp_subsec_micros(), 123_000); // to the millisecond
    /// ```
    pub fn open(self, id: PropostaId, client_id: impl Into<Arc<str>>, key: &DigestKey, now: DateTime<Utc>) -> Proposta {
        let digest = self.digest(key);
        let fixed = Fixed {
            id,
            client_id: client_id.into(),
            id_proposta_parceiro: self.id_proposta_parceiro,
            webhook_url: self.webhook_url,
            digest,
            avisos: self.avisos,
            criada_em: now.trunc_subsecs(3),
        };
        Proposta {
            fixed: Arc::new(fixed),
            dados: Some(Arc::new(self.dados)),
            status: Status::AguardandoResposta,
            respondida_em: None,
            version: 1,
        }
    }
}

impl Proposta {
    /// The service's id.
    pub fn id(&self) -> PropostaId {
        self.fixed.id
    }

    /// The partner that sent it.
    pub fn client_id(&self) -> &str {
        &self.fixed.client_id
    }

    /// The same, for what goes on in its name.
    pub(crate) fn shared_client_id(&self) -> Arc<str> {
        Arc::clone(&self.fixed.client_id)
    }

    /// The partner's own id.
    pub fn id_proposta_parceiro(&self) -> &IdParceiro {
        &self.fixed.id_proposta_parceiro
    }

    /// Where the notification goes.
    pub fn webhook_url(&self) -> &WebhookUrl {
        &self.fixed.webhook_url
    }

    /// By which the same proposal is recognised when it comes again (C9).
    pub fn digest(&self) -> Digest {
        self.fixed.digest
    }

    /// What `producao` would have refused it for, fixed at creation (C6, C22).
    pub fn avisos(&self) -> &[Violacao] {
        &self.fixed.avisos
    }

    /// When it was created, to the millisecond.
    pub fn criada_em(&self) -> DateTime<Utc> {
        self.fixed.criada_em
    }

    /// Customer and simulation, unless retention removed them.
    pub fn dados(&self) -> Option<&Dados> {
        self.dados.as_deref()
    }

    /// Where it stands.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// When the customer answered, to the millisecond.
    pub const fn respondida_em(&self) -> Option<DateTime<Utc>> {
        self.respondida_em
    }

    /// Counts the changes, from 1: a store replaces a record only by the next version.
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// The record after the retention time: ids, status and digest stay, the person goes.
    ///
    /// ```
    /// # use chrono::DateTime;
    /// # use svc_core::{DigestKey, NovaProposta, PropostaId};
    /// # let nova = NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018")
    /// #     .webhook_url("https://example.com/").build().unwrap();
    /// # let now = DateTime::from_timestamp(1_795_811_504, 0).unwrap();
    /// # let key = DigestKey::derive(&[7; 32]).unwrap();
    /// # let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &key, now);
    /// let removed = proposta.without_dados();
    /// assert_eq!(removed.digest(), proposta.digest()); // a replay is still recognised
    /// assert_eq!(removed.dados(), None); // the page has nothing to show any more
    /// ```
    #[must_use]
    pub fn without_dados(&self) -> Self {
        Self { dados: None, version: self.version.saturating_add(1), ..self.clone() }
    }

    /// The record after an answer.
    pub(crate) fn answered(&self, status: Status, at: DateTime<Utc>) -> Self {
        Self { status, respondida_em: Some(at), version: self.version.saturating_add(1), ..self.clone() }
    }

    /// The record as bytes for a store: a JSON object that only [`from_stored`](Self::from_stored) needs to understand.
    pub fn to_stored(&self) -> Vec<u8> {
        let proposta = Wire::of(self.id_proposta_parceiro(), self.webhook_url(), self.dados());
        let stored = Stored {
            v: STORED_FORMAT,
            id: self.id().to_string().into(),
            client_id: self.client_id().into(),
            status: self.status.as_str().into(),
            version: self.version,
            criada_em: rfc3339(self.criada_em()).into(),
            respondida_em: self.respondida_em.map(|at| rfc3339(at).into()),
            digest: STANDARD.encode(self.fixed.digest.as_bytes()).into(),
            avisos: self.avisos().iter().map(StoredAviso::of).collect(),
            proposta,
        };
        // Writing these types to memory cannot fail; should it ever, no record is read back from nothing.
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Reads a stored record back, by the formats that it was accepted under and by no profile: what is stored stays
    /// readable whatever the policy is today. A stricter format needs a new number of the stored form.
    ///
    /// ```
    /// # use chrono::DateTime;
    /// use svc_core::{Corrupt, Proposta};
    /// # use svc_core::{DigestKey, NovaProposta, PropostaId};
    /// # let nova = NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018")
    /// #     .webhook_url("https://example.com/").build().unwrap();
    /// # let now = DateTime::from_timestamp(1_795_811_504, 0).unwrap();
    /// # let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &DigestKey::derive(&[7; 32]).unwrap(), now);
    /// assert_eq!(Proposta::from_stored(&proposta.to_stored()), Ok(proposta));
    /// assert_eq!(Proposta::from_stored(b"{}"), Err(Corrupt));
    /// ```
    pub fn from_stored(bytes: &[u8]) -> Result<Self, Corrupt> {
        let stored: Stored<'_, &RawValue> = serde_json::from_slice(bytes).map_err(|_| Corrupt)?;
        if stored.v != STORED_FORMAT {
            return Err(Corrupt);
        }
        let status = Status::parse(&stored.status).ok_or(Corrupt)?;
        let respondida_em = stored.respondida_em.as_deref().map(instant).transpose()?;
        if (status == Status::AguardandoResposta) != respondida_em.is_none() {
            return Err(Corrupt);
        }
        let digest = STANDARD.decode(&*stored.digest).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(Corrupt)?;
        let (leaves, mut findings) = json::read(stored.proposta.get().as_bytes(), &PROPOSTA).map_err(|_| Corrupt)?;
        let draft = Draft::read(leaves, &mut findings);
        let removed = findings.is_absent(Campo::Cliente) && findings.is_absent(Campo::Simulacao);
        let dados = match (draft.cliente, draft.simulacao) {
            (Some(cliente), Some(simulacao)) if findings.settle(Perfil::Homologacao).is_ok() => {
                Some(Arc::new(Dados { data_solicitacao: draft.data_solicitacao, cliente, simulacao }))
            }
            (None, None) if removed => None,
            _ => return Err(Corrupt),
        };
        let fixed = Fixed {
            id: PropostaId::parse(&stored.id).ok_or(Corrupt)?,
            client_id: stored.client_id.into(),
            id_proposta_parceiro: draft.id_proposta_parceiro.ok_or(Corrupt)?,
            webhook_url: draft.webhook_url.ok_or(Corrupt)?,
            digest: Digest::from_bytes(digest),
            avisos: stored.avisos.iter().map(StoredAviso::violacao).collect::<Result<_, _>>()?,
            criada_em: instant(&stored.criada_em)?,
        };
        Ok(Self { fixed: Arc::new(fixed), dados, status, respondida_em, version: stored.version })
    }
}

/// Stored bytes that are no record of this version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored proposal cannot be read")]
pub struct Corrupt;

/// A change of the format is a new number here and a reader for the old one.
const STORED_FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Stored<'a, P> {
    v: u32,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    client_id: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    version: u32,
    #[serde(borrow)]
    criada_em: Cow<'a, str>,
    #[serde(borrow)]
    respondida_em: Option<Cow<'a, str>>,
    #[serde(borrow)]
    digest: Cow<'a, str>,
    #[serde(borrow)]
    avisos: Vec<StoredAviso<'a>>,
    proposta: P,
}

/// Pointer, code, rule.
#[derive(Serialize, Deserialize)]
struct StoredAviso<'a>(
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] Option<Cow<'a, str>>,
);

impl StoredAviso<'_> {
    fn of(violacao: &Violacao) -> Self {
        let regra = violacao.regra.map(|regra| regra.as_str().into());
        Self(violacao.propriedade.into(), violacao.codigo.as_str().into(), regra)
    }

    fn violacao(&self) -> Result<Violacao, Corrupt> {
        let campo = Campo::at(&self.0).ok_or(Corrupt)?;
        let codigo = Codigo::parse(&self.1).ok_or(Corrupt)?;
        let regra = self.2.as_deref().map(|regra| Regra::parse(regra).ok_or(Corrupt)).transpose()?;
        Ok(Violacao { regra, ..Violacao::new(campo.ponteiro(), codigo) })
    }
}

/// RFC 3339 in UTC, with milliseconds and `Z` (C26).
pub(crate) fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn instant(text: &str) -> Result<DateTime<Utc>, Corrupt> {
    Ok(DateTime::parse_from_rfc3339(text).map_err(|_| Corrupt)?.to_utc())
}
