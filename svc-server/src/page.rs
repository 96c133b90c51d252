//! The customer's page (C17): what a proposal says, as a person reads it.

use std::sync::LazyLock;

use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use sha2::{Digest, Sha256};
use svc_core::{Dados, Proposta, Status, today_in_brasilia};

use crate::format::{ABSENT, day, instalments, rate, reais};

/// A page, and the status that it comes with.
#[derive(Debug)]
pub(crate) struct Html {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

/// The offer, with its two buttons.
pub(crate) fn offer(proposta: &Proposta, creditor: &str) -> Html {
    // After retention there is nothing to agree to.
    Page {
        offer: proposta.dados().map(Offer::of),
        note: removed(proposta),
        ..Page::titled("Proposta de empréstimo", creditor)
    }
    .html(StatusCode::OK)
}

/// The answer that stands.
pub(crate) fn answered(proposta: &Proposta, creditor: &str) -> Html {
    let page =
        Page { result: result(proposta), note: removed(proposta), ..Page::titled("Resposta registrada", creditor) };
    page.html(StatusCode::OK)
}

/// What is said of a proposal that has no figures any more.
fn removed(proposta: &Proposta) -> Option<&'static str> {
    proposta.dados().is_none().then_some("Os dados desta proposta foram removidos.")
}

/// The answer that stands, to someone who gave another.
pub(crate) fn conflict(proposta: &Proposta, creditor: &str) -> Html {
    let note = Some("A outra escolha não muda mais a resposta.");
    let page = Page { result: result(proposta), note, ..Page::titled("Proposta já respondida", creditor) };
    page.html(StatusCode::CONFLICT)
}

/// Nothing stands behind the link.
pub(crate) fn not_found() -> Html {
    let note = Some("Confira se o endereço está completo, como veio na mensagem.");
    Page { note, ..Page::titled("Proposta não encontrada", "") }.html(StatusCode::NOT_FOUND)
}

/// What a browser may do with a page: show it in this style, and send its form back.
pub(crate) static CSP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; style-src 'sha256-{}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        STANDARD.encode(Sha256::digest(STYLE))
    )
});

const STYLE: &str = include_str!("page.css");

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'p> {
    style: &'static str,
    title: &'p str,
    creditor: &'p str,
    offer: Option<Offer>,
    result: Option<String>,
    note: Option<&'static str>,
}

impl<'p> Page<'p> {
    fn titled(title: &'p str, creditor: &'p str) -> Self {
        Self { style: STYLE, title, creditor, offer: None, result: None, note: None }
    }

    fn html(&self, status: StatusCode) -> Html {
        Html { status, text: self.render().expect("a template over text, written to memory") }
    }
}

/// The rows of the offer, formatted; an absent figure reads "não informado".
struct Offer {
    first_name: String,
    cpf: String,
    rows: Vec<(&'static str, String)>,
}

impl Offer {
    fn of(dados: &Dados) -> Self {
        let valores = dados.simulacao.valores.clone().unwrap_or_default();
        let taxas = dados.simulacao.taxas.clone().unwrap_or_default();
        let prazos = dados.simulacao.prazos.clone().unwrap_or_default();
        let parcela = valores.parcela.map(|parcela| parcela.decimal());
        let parcelas = instalments(prazos.total_parcelas.map(|n| n.get()), parcela);
        let rows = [
            ("Custo total (CET) ao ano", taxas.cet_aa.map(|taxa| rate(taxa.decimal(), "a.a."))),
            ("Custo total (CET) ao mês", taxas.cet_am.map(|taxa| rate(taxa.decimal(), "a.m."))),
            ("Juros ao mês", taxas.nominal_am.map(|taxa| rate(taxa.decimal(), "a.m."))),
            ("Valor solicitado", valores.solicitado.map(|valor| reais(valor.decimal()))),
            ("IOF", valores.iof.map(|valor| reais(valor.decimal()))),
            ("Valor financiado", valores.principal.map(|valor| reais(valor.decimal()))),
            ("Você recebe", valores.liquido.map(|valor| reais(valor.decimal()))),
            ("Parcelas", parcelas),
            ("Primeiro vencimento", prazos.primeiro_vencimento.map(day)),
            ("Último vencimento", prazos.ultimo_vencimento.map(day)),
            ("Total a pagar", valores.bruto.map(|valor| reais(valor.decimal()))),
        ];
        Self {
            first_name: dados.cliente.nome.first().to_owned(),
            cpf: dados.cliente.cpf.masked(),
            rows: rows.map(|(name, value)| (name, value.unwrap_or_else(|| ABSENT.to_owned()))).to_vec(),
        }
    }
}

fn result(proposta: &Proposta) -> Option<String> {
    let at = proposta.respondida_em()?;
    let verb = match proposta.status() {
        Status::AguardandoResposta => return None,
        Status::Aceito => "aceitou",
        Status::Recusado => "recusou",
    };
    let local = at - chrono::TimeDelta::hours(3);
    Some(format!(
        "Você {verb} a proposta em {} às {}.",
        today_in_brasilia(at).format("%d/%m/%Y"),
        local.format("%H:%M")
    ))
}
