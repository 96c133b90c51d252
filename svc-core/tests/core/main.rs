//! What svc-core promises, shown from outside.

mod address;
mod delivery;
mod iana;
mod machine;
mod mensagem;
mod proposals;
mod reader;
mod rules;
mod shape;
mod signature;
mod vectors;

use chrono::{DateTime, NaiveDate, Utc};
use svc_core::{DigestKey, NovaProposta, Perfil, Policy, Proposta, PropostaId, Violacao};

/// The clock of the test data, 17:31:44.123 in Brasília.
fn now() -> DateTime<Utc> {
    "2026-11-27T20:31:44.123456789Z".parse().unwrap()
}

fn today() -> NaiveDate {
    svc_core::today_in_brasilia(now())
}

fn in_homologacao(body: &str) -> Result<NovaProposta, Vec<String>> {
    read(body.as_bytes(), &Policy::new(Perfil::Homologacao))
}

fn in_producao(body: &str) -> Result<NovaProposta, Vec<String>> {
    read(body.as_bytes(), &Policy::new(Perfil::Producao))
}

/// The violations as `pointer code rule` lines.
fn read(body: &[u8], policy: &Policy) -> Result<NovaProposta, Vec<String>> {
    NovaProposta::from_json(body, policy, today()).map_err(|invalid| lines(invalid.violacoes()))
}

fn lines(violacoes: &[Violacao]) -> Vec<String> {
    violacoes.iter().map(ToString::to_string).collect()
}

/// A typical proposal that both profiles accept.
const TYPICAL: &str = include_str!("../proposals/valid/02_tipica_12x.json");

fn typical() -> NovaProposta {
    in_producao(TYPICAL).unwrap()
}

fn stored() -> Proposta {
    typical().open(PropostaId::from_random([0x0b; 16]), "parceiro-teste", &key(), now())
}

fn key() -> DigestKey {
    DigestKey::derive(b"chave de teste com pelo menos trinta e dois bytes").unwrap()
}
