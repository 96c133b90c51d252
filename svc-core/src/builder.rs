//! A proposal written by hand, field by field, through the same doors as one read from JSON.

use std::borrow::Cow;
use std::fmt;

use chrono::NaiveDate;
use rust_decimal::Decimal;

use crate::campo::Campo;
use crate::error::Invalid;
use crate::findings::Findings;
use crate::json::{Leaf, Leaves};
use crate::nova_proposta::NovaProposta;
use crate::policy::Policy;

/// Collects the fields of a proposal; nothing is judged before [`build`](Self::build).
///
/// A field that is not set is absent. A group is present once one of its fields is; the simulation always is.
///
/// ```
/// use svc_core::NovaProposta;
/// let nova = NovaProposta::builder("PARC-12345")
///     .nome("João da Silva Exemplo")
///     .cpf("111.444.777-35")
///     .whatsapp("5511900000018")
///     .solicitado(2_000)
///     .parcela("211.29".parse::<svc_core::Decimal>().unwrap())
///     .total_parcelas(12)
///     .webhook_url("https://parceiro.example.com/webhooks/svc")
///     .build()
///     .unwrap();
/// assert_eq!(nova.id_proposta_parceiro().as_str(), "PARC-12345");
///
/// let invalid = NovaProposta::builder("PARC-1").nome("João").cpf("1").webhook_url("x").build().unwrap_err();
/// assert_eq!(
///     invalid.to_string(),
///     "3 violations: /cliente/cpf formato_invalido, /cliente/whatsapp campo_obrigatorio, /webhook_url url_invalida"
/// );
/// ```
#[must_use]
pub struct NovaPropostaBuilder {
    leaves: Leaves<'static>,
}

impl NovaPropostaBuilder {
    pub(crate) fn new(id_proposta_parceiro: String) -> Self {
        let mut leaves = Leaves::empty();
        leaves.set(Campo::Simulacao, Leaf::Object);
        Self { leaves }.text(Campo::IdPropostaParceiro, id_proposta_parceiro)
    }

    /// Builds a proposal to be sent: checks everything that both profiles check, and gives all violations at once, as the
    /// server would.
    ///
    /// What only the server knows is left to it: its profile, and where webhooks may go. A server that makes proposals
    /// by itself uses [`build_for`](Self::build_for).
    pub fn build(self) -> Result<NovaProposta, Invalid> {
        NovaProposta::unjudged(self.leaves, Findings::default())
    }

    /// Builds a proposal to be stored: judged as [`NovaProposta::from_json`] judges, avisos included.
    ///
    /// ```
    /// use svc_core::{NovaProposta, Policy, today_in_brasilia};
    /// let today = today_in_brasilia(chrono::DateTime::from_timestamp(1_795_800_000, 0).unwrap());
    /// let local = || NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018")
    ///     .webhook_url("http://127.0.0.1/");
    /// assert!(local().build().is_ok()); // the server may allow it
    /// let invalid = local().build_for(&Policy::default(), today).unwrap_err();
    /// assert_eq!(invalid.to_string(), "1 violation: /webhook_url url_invalida");
    /// ```
    pub fn build_for(self, policy: &Policy, today: NaiveDate) -> Result<NovaProposta, Invalid> {
        NovaProposta::judged(self.leaves, Findings::default(), policy, today)
    }

    fn text(mut self, campo: Campo, text: String) -> Self {
        let leaf = if text.trim().is_empty() { Leaf::Absent } else { Leaf::Text(Cow::Owned(text)) };
        self.leaves.set(campo, leaf);
        self
    }

    fn number(mut self, campo: Campo, value: Decimal) -> Self {
        self.leaves.set(campo, Leaf::Number(Cow::Owned(value.to_string())));
        self
    }

    fn within(mut self, group: Campo) -> Self {
        self.leaves.set(group, Leaf::Object);
        self
    }
}

macro_rules! setters {
    ($($(#[$docs:meta])* $name:ident: $kind:ident $campo:ident $(in $group:ident)?;)*) => {
        impl NovaPropostaBuilder {
            $(setters! { @ $kind $(#[$docs])* $name $campo $($group)? })*
        }
    };
    (@ text $(#[$docs:meta])* $name:ident $campo:ident $($group:ident)?) => {
        $(#[$docs])*
        pub fn $name(self, text: impl Into<String>) -> Self {
            self$(.within(Campo::$group))?.text(Campo::$campo, text.into())
        }
    };
    (@ number $(#[$docs:meta])* $name:ident $campo:ident $($group:ident)?) => {
        $(#[$docs])*
        pub fn $name(self, value: impl Into<Decimal>) -> Self {
            self$(.within(Campo::$group))?.number(Campo::$campo, value.into())
        }
    };
}

setters! {
    /// Request date, `AAAA-MM-DD`.
    data_solicitacao: text DataSolicitacao;
    /// The customer's full name.
    nome: text Nome in Cliente;
    /// The customer's CPF, `XXX.XXX.XXX-XX`.
    cpf: text Cpf in Cliente;
    /// The customer's WhatsApp number, `55DDDNUMERO`.
    whatsapp: text Whatsapp in Cliente;
    /// Amount requested, in reais.
    solicitado: number Solicitado in Valores;
    /// IOF tax, in reais.
    iof: number Iof in Valores;
    /// Requested amount plus IOF, in reais.
    principal: number Principal in Valores;
    /// Each instalment, in reais.
    parcela: number Parcela in Valores;
    /// Net amount that the customer receives, in reais.
    liquido: number Liquido in Valores;
    /// Total gross amount, in reais.
    bruto: number Bruto in Valores;
    /// Nominal rate per month, in percent.
    nominal_am: number NominalAm in Taxas;
    /// Total effective cost per month, in percent.
    cet_am: number CetAm in Taxas;
    /// Total effective cost per year, in percent.
    cet_aa: number CetAa in Taxas;
    /// Number of instalments.
    total_parcelas: number TotalParcelas in Prazos;
    /// Estimated credit release, `AAAA-MM-DD`.
    data_liberacao_estimada: text DataLiberacaoEstimada in Prazos;
    /// First due date, `AAAA-MM-DD`.
    primeiro_vencimento: text PrimeiroVencimento in Prazos;
    /// Last due date, `AAAA-MM-DD`.
    ultimo_vencimento: text UltimoVencimento in Prazos;
    /// URL that receives the notification.
    webhook_url: text WebhookUrl;
}

impl fmt::Debug for NovaPropostaBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NovaPropostaBuilder")
    }
}
