//! A proposal as a partner sends it: read whole, judged once, and from then on never checked again.

use chrono::NaiveDate;
use serde::Serialize;

use crate::builder::NovaPropostaBuilder;
use crate::campo::{Campo, PROPOSTA};
use crate::cliente::Cliente;
use crate::consistencia::{self, Figures};
use crate::data::Data;
use crate::digest::{Digest, DigestKey};
use crate::draft::Draft;
use crate::error::{Codigo, Invalid, Violacao};
use crate::findings::Findings;
use crate::json::{self, Leaves};
use crate::policy::{Perfil, Policy};
use crate::simulacao::Simulacao;
use crate::texto::IdParceiro;
use crate::webhook_url::{Standing, WebhookUrl};

/// A valid proposal, not stored yet.
#[derive(Clone, Debug)]
pub struct NovaProposta {
    pub(crate) id_proposta_parceiro: IdParceiro,
    pub(crate) webhook_url: WebhookUrl,
    pub(crate) dados: Dados,
    pub(crate) avisos: Vec<Violacao>,
}

/// What a proposal says of a person and their loan; the part that retention removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dados {
    /// Request date; absent stays absent (C1).
    pub data_solicitacao: Option<Data>,
    /// The end customer.
    pub cliente: Cliente,
    /// The financial simulation.
    pub simulacao: Simulacao,
}

impl NovaProposta {
    /// Reads the body of `POST /v1/propostas`, with every violation in one pass (C1–C7, C36).
    ///
    /// `today` is the date in Brasília, see [`today_in_brasilia`](crate::today_in_brasilia).
    ///
    /// ```
    /// use svc_core::{NovaProposta, Perfil, Policy, today_in_brasilia};
    ///
    /// let today = today_in_brasilia(chrono::DateTime::from_timestamp(1_795_800_000, 0).unwrap());
    /// let body = br#"{
    ///     "id_proposta_parceiro": "PARC-12345",
    ///     "cliente": {"nome": "Ana Exemplo", "cpf": "111.444.777-35", "whatsapp": "5511900000018"},
    ///     "simulacao": {"valores": {"solicitado": 2e3}},
    ///     "webhook_url": "https://parceiro.example.com/webhooks/svc"
    /// }"#;
    /// let nova = NovaProposta::from_json(body, &Policy::new(Perfil::Homologacao), today).unwrap();
    /// assert_eq!(nova.avisos().len(), 8); // what production would refuse it for
    ///
    /// let invalid = NovaProposta::from_json(body, &Policy::new(Perfil::Producao), today).unwrap_err();
    /// assert_eq!(invalid.violacoes(), nova.avisos());
    /// assert_eq!(invalid.violacoes()[0].propriedade, "/data_solicitacao");
    /// ```
    pub fn from_json(body: &[u8], policy: &Policy, today: NaiveDate) -> Result<Self, Invalid> {
        let (leaves, findings) = json::read(body, &PROPOSTA)?;
        Self::judged(leaves, findings, policy, today)
    }

    /// Reads a proposal that is to be sent, as from a partner's own file: checks all that both profiles check, and leaves
    /// to the service what only that knows, its profile and where webhooks may go.
    ///
    /// ```
    /// use svc_core::NovaProposta;
    /// let body = br#"{
    ///     "id_proposta_parceiro": "PARC-12345",
    ///     "cliente": {"nome": "Ana Exemplo", "cpf": "111.444.777-35", "whatsapp": "5511900000018"},
    ///     "simulacao": {"valores": {"solicitado": 2000.00}},
    ///     "webhook_url": "http://127.0.0.1:3000/webhooks/svc"
    /// }"#;
    /// assert!(NovaProposta::from_json_to_send(body).is_ok());
    /// let invalid = NovaProposta::from_json_to_send(b"{}").unwrap_err();
    /// assert_eq!(invalid.violacoes().len(), 4); // simulacao, webhook_url, cliente, and the id
    /// ```
    pub fn from_json_to_send(body: &[u8]) -> Result<Self, Invalid> {
        let (leaves, findings) = json::read(body, &PROPOSTA)?;
        Self::unjudged(leaves, findings)
    }

    /// Leaves through their doors, and past the judge.
    pub(crate) fn unjudged(leaves: Leaves<'_>, mut findings: Findings) -> Result<Self, Invalid> {
        let draft = Draft::read(leaves, &mut findings);
        findings.settle(Perfil::Homologacao)?;
        Self::assemble(draft, Vec::new())
    }

    /// Leaves, whoever brought them, through their doors and before the judge.
    pub(crate) fn judged(
        leaves: Leaves<'_>,
        mut findings: Findings,
        policy: &Policy,
        today: NaiveDate,
    ) -> Result<Self, Invalid> {
        let draft = Draft::read(leaves, &mut findings);
        judge(&draft, policy, today, &mut findings);
        Self::assemble(draft, findings.settle(policy.perfil())?)
    }

    /// Begins a proposal by hand, field by field.
    pub fn builder(id_proposta_parceiro: impl Into<String>) -> NovaPropostaBuilder {
        NovaPropostaBuilder::new(id_proposta_parceiro.into())
    }

    /// A draft without findings has all that a proposal needs; were it otherwise, the body would be refused.
    pub(crate) fn assemble(draft: Draft, avisos: Vec<Violacao>) -> Result<Self, Invalid> {
        match draft {
            Draft {
                id_proposta_parceiro: Some(id_proposta_parceiro),
                data_solicitacao,
                cliente: Some(cliente),
                simulacao: Some(simulacao),
                webhook_url: Some(webhook_url),
            } => {
                let dados = Dados { data_solicitacao, cliente, simulacao };
                Ok(Self { id_proposta_parceiro, webhook_url, dados, avisos })
            }
            _ => Err(Invalid::new(vec![Violacao::new("", Codigo::CampoObrigatorio)])),
        }
    }

    /// The partner's own id.
    pub const fn id_proposta_parceiro(&self) -> &IdParceiro {
        &self.id_proposta_parceiro
    }

    /// Where the notification goes.
    pub const fn webhook_url(&self) -> &WebhookUrl {
        &self.webhook_url
    }

    /// Customer, simulation, request date.
    pub const fn dados(&self) -> &Dados {
        &self.dados
    }

    /// What `producao` would refuse it for (C6, C22); always empty there, and for a proposal that was only
    /// [built](NovaPropostaBuilder::build) to be sent.
    pub fn avisos(&self) -> &[Violacao] {
        &self.avisos
    }

    /// The canonical body: compact, fields in the interface's order, numbers in their shortest form, text as it was sent,
    /// absent fields absent. Equal proposals give equal bytes.
    ///
    /// ```
    /// use svc_core::NovaProposta;
    /// let nova = NovaProposta::builder("P-1")
    ///     .nome("Ana")
    ///     .cpf("111.444.777-35")
    ///     .whatsapp("5511900000018")
    ///     .solicitado(svc_core::Decimal::new(100_000, 2))
    ///     .webhook_url("https://example.com/")
    ///     .build()
    ///     .unwrap();
    /// assert_eq!(
    ///     String::from_utf8(nova.to_json()).unwrap(),
    ///     r#"{"id_proposta_parceiro":"P-1","cliente":{"nome":"Ana","cpf":"111.444.777-35","whatsapp":"5511900000018"},"#
    ///         .to_owned() + r#""simulacao":{"valores":{"solicitado":1000}},"webhook_url":"https://example.com/"}"#
    /// );
    /// ```
    pub fn to_json(&self) -> Vec<u8> {
        // Writing these types to memory cannot fail; should it ever, an empty body is refused by every reader.
        let mut body = Vec::with_capacity(USUAL_BYTES);
        let wire = Wire::of(&self.id_proposta_parceiro, &self.webhook_url, Some(&self.dados));
        serde_json::to_writer(&mut body, &wire).map_or_else(|_| Vec::new(), |()| body)
    }

    /// The digest by which the same proposal is recognised when it comes again (C9).
    ///
    /// ```
    /// use svc_core::{DigestKey, NovaProposta};
    /// let key = DigestKey::derive(&[7; 32]).unwrap();
    /// let digest = |nome: &str, solicitado: &str| {
    ///     let nova = NovaProposta::builder("P-1").nome(nome).cpf("111.444.777-35").whatsapp("5511900000018");
    ///     let nova = nova.solicitado(solicitado.parse::<svc_core::Decimal>().unwrap());
    ///     nova.webhook_url("https://example.com/").build().unwrap().digest(&key)
    /// };
    /// assert_eq!(digest("Ana", "1000.00"), digest("Ana", "1000")); // another notation
    /// assert_ne!(digest("Ana", "1000"), digest("ana", "1000")); // another name
    /// ```
    pub fn digest(&self, key: &DigestKey) -> Digest {
        key.digest(&self.to_json())
    }
}

/// The wire's form of a proposal; in a store, that of a record whose data may be gone.
#[derive(Serialize)]
pub(crate) struct Wire<'a> {
    id_proposta_parceiro: &'a IdParceiro,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_solicitacao: Option<Data>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cliente: Option<&'a Cliente>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulacao: Option<&'a Simulacao>,
    webhook_url: &'a WebhookUrl,
}

impl<'a> Wire<'a> {
    pub(crate) fn of(
        id_proposta_parceiro: &'a IdParceiro,
        webhook_url: &'a WebhookUrl,
        dados: Option<&'a Dados>,
    ) -> Self {
        Self {
            id_proposta_parceiro,
            data_solicitacao: dados.and_then(|dados| dados.data_solicitacao),
            cliente: dados.map(|dados| &dados.cliente),
            simulacao: dados.map(|dados| &dados.simulacao),
            webhook_url,
        }
    }
}

/// Room for a typical body, so that it is not moved while it grows.
const USUAL_BYTES: usize = 640;

/// What no field can know by itself: where webhooks may go (C31), and whether the figures agree (C6).
fn judge(draft: &Draft, policy: &Policy, today: NaiveDate, findings: &mut Findings) {
    match draft.webhook_url.as_ref().map(|url| url.standing(policy)) {
        Some(Standing::Refused) => findings.add(Campo::WebhookUrl, Codigo::UrlInvalida),
        Some(Standing::TestOnly) => findings.add_strict(Campo::WebhookUrl, Codigo::UrlInvalida),
        Some(Standing::Good) | None => {}
    }
    consistencia::check(&Figures::of(draft, today, findings), policy, findings);
}
