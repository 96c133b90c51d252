//! The customer's page (C17): what a proposal says, as a person reads it.

use std::sync::LazyLock;

use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use sha2::{Digest, Sha256};
use svc_core::{Dados, Proposta, Status};

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
    let note = Some("A resposta já registrada não pode ser mudada.");
    let page = Page { result: result(proposta), note, ..Page::titled("Proposta já respondida", creditor) };
    page.html(StatusCode::CONFLICT)
}

/// Nothing stands behind the link.
pub(crate) fn not_found() -> Html {
    let note = Some("Confira se o endereço está completo, como veio na mensagem.");
    Page { note, ..Page::titled("Proposta não encontrada", "") }.html(StatusCode::NOT_FOUND)
}

/// Something else than an answer came of it: for a while, or because of what was asked.
pub(crate) fn error(status: StatusCode) -> Html {
    let passes = status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT;
    let title = if passes { "Tente de novo em instantes" } else { "Pedido não entendido" };
    // An answer may have been stored before this; the page knows.
    let note = Some("Abra de novo o link da mensagem: ele mostra se a sua resposta já foi registrada.");
    Page { note, ..Page::titled(title, "") }.html(status)
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
            ("Custo Efetivo Total (CET) ao ano", taxas.cet_aa.map(|taxa| rate(taxa.decimal(), "a.a."))),
            ("Custo Efetivo Total (CET) ao mês", taxas.cet_am.map(|taxa| rate(taxa.decimal(), "a.m."))),
            ("Taxa de juros ao mês", taxas.nominal_am.map(|taxa| rate(taxa.decimal(), "a.m."))),
            ("Valor solicitado", valores.solicitado.map(|valor| reais(valor.decimal()))),
            ("IOF", valores.iof.map(|valor| reais(valor.decimal()))),
            ("Valor financiado", valores.principal.map(|valor| reais(valor.decimal()))),
            ("Você recebe", valores.liquido.map(|valor| reais(valor.decimal()))),
            ("Parcelas", parcelas),
            ("Primeiro vencimento", prazos.primeiro_vencimento.map(day)),
            ("Último vencimento", prazos.ultimo_vencimento.map(day)),
            // Both sums, as consumer law asks (CDC, art. 52, V).
            ("Total a pagar, com financiamento", valores.bruto.map(|valor| reais(valor.decimal()))),
            ("Total, sem financiamento", valores.solicitado.map(|valor| reais(valor.decimal()))),
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
    Some(format!("Você {verb} a proposta em {} (horário de Brasília).", local.format("%d/%m/%Y às %H:%M")))
}

#[cfg(test)]
mod tests {
    use rust_decimal::Decimal;
    use svc_core::{DigestKey, Nome, NovaProposta, PropostaId};

    use super::*;

    /// What the stylesheet gives a selector, as `#rrggbb` or `#rgb` within it.
    fn colour(selector: &str, property: &str) -> [f64; 3] {
        let rule = STYLE.lines().find_map(|line| line.strip_prefix(selector)?.strip_prefix('{')).expect(selector);
        let value =
            rule.trim_end_matches('}').split(';').find_map(|pair| pair.strip_prefix(property)?.strip_prefix(':'));
        let (_, hex) = value.expect(property).split_once('#').expect("a colour");
        let hex: String = hex.chars().take_while(char::is_ascii_hexdigit).collect();
        let wide: String = if hex.len() == 3 { hex.chars().flat_map(|digit| [digit, digit]).collect() } else { hex };
        [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&wide[at..at + 2], 16).unwrap()) / 255.0)
    }

    /// WCAG 2.2: relative luminance, and the contrast of two.
    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let linear = |c: f64| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
        let luminance = |[r, g, b]: [f64; 3]| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn c17_text_has_the_contrast_of_aa_and_so_have_edges_that_mean_something() {
        assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 1e-9, "black on white");
        let text = [
            (("body", "color"), ("body", "background")),
            (("header p", "color"), ("body", "background")),
            (("body", "color"), ("dl", "background")),
            (("dt", "color"), ("dl", "background")),
            (("body", "color"), (".resultado", "background")),
            (("button", "color"), ("button", "background")),
            (("button", "color"), ("button:hover", "background")),
        ];
        for ((of, what), (on, ground)) in text {
            let contrast = contrast(colour(of, what), colour(on, ground));
            assert!(contrast >= 4.5, "{of} on {on}: {contrast:.2}");
        }
        for ((of, what), (on, ground)) in [
            (("button", "border"), ("body", "background")),
            (("button:focus-visible", "outline"), ("body", "background")),
            ((".resultado", "border-left"), ("body", "background")),
        ] {
            let contrast = contrast(colour(of, what), colour(on, ground));
            assert!(contrast >= 3.0, "{of} on {on}: {contrast:.2}");
        }
        let named = STYLE.split('#').skip(1).filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit())).count();
        assert_eq!(
            STYLE.matches("color:#").count() + STYLE.matches("background:#").count() + STYLE.matches("solid #").count(),
            named
        );
    }

    #[test]
    fn c17_the_longest_page_has_eight_kib_at_most_and_shows_names_as_they_are() {
        let nova = |nome: String| {
            let nova = NovaProposta::builder("P").nome(&nome).cpf("111.444.777-35").whatsapp("5511900000018");
            let (valor, taxa) = (Decimal::new(99_999_999_999, 2), Decimal::new(999_999_999, 6));
            let nova = nova.solicitado(valor).iof(valor).principal(valor).parcela(valor).liquido(valor).bruto(valor);
            let nova = nova.nominal_am(taxa).cet_am(taxa).cet_aa(taxa).total_parcelas(1_000_000);
            let nova = nova.primeiro_vencimento("2199-12-31").ultimo_vencimento("2199-12-31");
            let nova = nova.webhook_url("https://example.com/").build().unwrap();
            let key = DigestKey::derive(&[7; 32]).unwrap();
            nova.open(PropostaId::from_random([7; 16]), "p", &key, chrono::DateTime::UNIX_EPOCH)
        };
        // As many characters as a name may have, each of which takes five bytes in a page; and so the creditor's.
        let longest = offer(&nova("'".repeat(Nome::MAX_CHARS)), &"\"".repeat(Nome::MAX_CHARS)).text;
        assert!(longest.contains("1000000x de R$\u{a0}999.999.999,99") && longest.contains("999,999999% a.a."));
        assert!(longest.len() <= 8 * 1024, "{} bytes", longest.len());
        for (name, shown) in
            [("D'Ávila <b> Souza", "D&#39;Ávila ("), ("Ana🦆 de Souza", "Ana🦆 ("), ("<b>", "&#60;b&#62; (")]
        {
            let page = offer(&nova(name.to_owned()), "Credora").text;
            assert!(page.contains(shown), "{shown} in {page}");
        }
    }
}
