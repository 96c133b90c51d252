//! From leaves to typed parts: every field through its one door (C1–C5), whoever brought the leaves.

use std::borrow::Cow;

use crate::campo::Campo;
use crate::cliente::{Cliente, Cpf, Nome, Whatsapp};
use crate::data::Data;
use crate::error::Codigo;
use crate::findings::Findings;
use crate::json::{Leaf, Leaves};
use crate::simulacao::{
    Parcelas, Prazos, Simulacao, Taxa, Taxas, Valor, ValorPositivo, Valores, has_fractions_of_a_cent,
};
use crate::texto::IdParceiro;
use crate::webhook_url::WebhookUrl;

/// The parts of a proposal that passed their doors.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) id_proposta_parceiro: Option<IdParceiro>,
    pub(crate) data_solicitacao: Option<Data>,
    pub(crate) cliente: Option<Cliente>,
    pub(crate) simulacao: Option<Simulacao>,
    pub(crate) webhook_url: Option<WebhookUrl>,
}

impl Draft {
    /// Opens every door, and notes what does not pass.
    pub(crate) fn read(leaves: Leaves<'_>, findings: &mut Findings) -> Self {
        let mut doors = Doors { leaves, findings };
        Self {
            id_proposta_parceiro: doors.text(Campo::IdPropostaParceiro, Need::Always, IdParceiro::new, none),
            data_solicitacao: doors.date(Campo::DataSolicitacao),
            cliente: doors.cliente(),
            simulacao: doors.simulacao(),
            webhook_url: doors.text(Campo::WebhookUrl, Need::Always, WebhookUrl::parse, none),
        }
    }
}

/// Which profiles ask for a field (C1).
#[derive(Clone, Copy)]
enum Need {
    Always,
    Strict,
}

struct Doors<'f, 'a> {
    leaves: Leaves<'a>,
    findings: &'f mut Findings,
}

impl<'a> Doors<'_, 'a> {
    fn cliente(&mut self) -> Option<Cliente> {
        self.group(Campo::Cliente, Need::Always)?;
        let nome = self.text(Campo::Nome, Need::Always, Nome::new, none);
        let cpf = self.text(
            Campo::Cpf,
            Need::Always,
            |text| Cpf::parse(&text),
            |cpf| (!cpf.has_valid_check_digits()).then_some(Codigo::DigitoVerificadorInvalido),
        );
        let whatsapp = self.text(Campo::Whatsapp, Need::Always, Whatsapp::parse, Whatsapp::strict);
        Some(Cliente { nome: nome?, cpf: cpf?, whatsapp: whatsapp? })
    }

    fn simulacao(&mut self) -> Option<Simulacao> {
        self.group(Campo::Simulacao, Need::Always)?;
        let valores = self.group(Campo::Valores, Need::Strict).map(|()| Valores {
            solicitado: self.positive(Campo::Solicitado),
            iof: self.amount(Campo::Iof),
            principal: self.positive(Campo::Principal),
            parcela: self.positive(Campo::Parcela),
            liquido: self.amount(Campo::Liquido),
            bruto: self.positive(Campo::Bruto),
        });
        let taxas = self.group(Campo::Taxas, Need::Strict).map(|()| Taxas {
            nominal_am: self.rate(Campo::NominalAm),
            cet_am: self.rate(Campo::CetAm),
            cet_aa: self.rate(Campo::CetAa),
        });
        let prazos = self.group(Campo::Prazos, Need::Strict).map(|()| Prazos {
            total_parcelas: self
                .number(Campo::TotalParcelas, Parcelas::from_literal, |n| n.get() > Parcelas::MAX_PRODUCAO),
            data_liberacao_estimada: self.date(Campo::DataLiberacaoEstimada),
            primeiro_vencimento: self.date(Campo::PrimeiroVencimento),
            ultimo_vencimento: self.date(Campo::UltimoVencimento),
        });
        Some(Simulacao { valores, taxas, prazos })
    }

    fn positive(&mut self, campo: Campo) -> Option<ValorPositivo> {
        self.number(campo, ValorPositivo::from_literal, |valor| has_fractions_of_a_cent(valor.decimal()))
    }

    fn amount(&mut self, campo: Campo) -> Option<Valor> {
        self.number(campo, Valor::from_literal, |valor| has_fractions_of_a_cent(valor.decimal()))
    }

    fn rate(&mut self, campo: Campo) -> Option<Taxa> {
        self.number(campo, Taxa::from_literal, |_| false)
    }

    fn date(&mut self, campo: Campo) -> Option<Data> {
        self.text(campo, Need::Strict, |text| Data::parse(&text), none)
    }

    /// A text field: its door, and what `producao` has against a value that passed it.
    fn text<T, C: IntoIterator<Item = Codigo>>(
        &mut self,
        campo: Campo,
        need: Need,
        door: impl FnOnce(Cow<'a, str>) -> Result<T, Codigo>,
        strict: impl FnOnce(&T) -> C,
    ) -> Option<T> {
        match self.leaves.take(campo) {
            Leaf::Text(text) => {
                let value = door(text).map_err(|codigo| self.findings.add(campo, codigo)).ok()?;
                strict(&value).into_iter().for_each(|codigo| self.findings.add_strict(campo, codigo));
                Some(value)
            }
            other => self.without(campo, need, &other),
        }
    }

    /// A number of the simulation: its door, and whether `producao` finds it out of range.
    fn number<T>(
        &mut self,
        campo: Campo,
        door: impl FnOnce(&str) -> Result<T, Codigo>,
        too_much: impl FnOnce(&T) -> bool,
    ) -> Option<T> {
        match self.leaves.take(campo) {
            Leaf::Number(literal) => {
                let value = door(&literal).map_err(|codigo| self.findings.add(campo, codigo)).ok()?;
                if too_much(&value) {
                    self.findings.add_strict(campo, Codigo::ValorForaDaFaixa);
                }
                Some(value)
            }
            other => self.without(campo, Need::Strict, &other),
        }
    }

    /// Whether a group is there. A missing one is a single finding, at the group (C2).
    fn group(&mut self, campo: Campo, need: Need) -> Option<()> {
        match self.leaves.take(campo) {
            Leaf::Object => Some(()),
            other => self.without(campo, need, &other),
        }
    }

    /// Nothing that could be read; a value of the wrong type was noted by the reader.
    fn without<T>(&mut self, campo: Campo, need: Need, leaf: &Leaf<'_>) -> Option<T> {
        match (leaf, need) {
            (Leaf::Absent, Need::Always) => self.findings.add(campo, Codigo::CampoObrigatorio),
            (Leaf::Absent, Need::Strict) => self.findings.add_strict(campo, Codigo::CampoObrigatorio),
            (Leaf::Text(_) | Leaf::Number(_) | Leaf::Object | Leaf::Wrong, _) => {}
        }
        None
    }
}

/// `producao` has nothing to add.
fn none<T>(_: &T) -> Option<Codigo> {
    None
}
