//! A proposal read: `from_json`, which validates everything, beside a plain serde derive into floats and strings and
//! beside an untyped tree, which validate nothing. Same bytes; every iteration asserts what it read.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde::Deserialize;
use svc_core::{NovaProposta, Perfil, Policy, today_in_brasilia};

const TYPICAL: &[u8] = include_bytes!("../svc-core/tests/proposals/valid/02_tipica_12x.json");
const UNKNOWN_FIELDS: &[u8] = include_bytes!("../svc-core/tests/proposals/valid/07_campos_desconhecidos.json");

fn parse(c: &mut Criterion) {
    let today = today_in_brasilia("2026-11-27T20:31:44Z".parse().unwrap());
    for (name, body) in [("typical", TYPICAL), ("unknown_fields", UNKNOWN_FIELDS)] {
        let mut group = c.benchmark_group("parse");
        group.throughput(Throughput::Bytes(body.len() as u64));
        for perfil in [Perfil::Homologacao, Perfil::Producao] {
            let policy = Policy::new(perfil);
            group.bench_with_input(BenchmarkId::new(format!("svc_{perfil}"), name), body, |b, body| {
                b.iter(|| {
                    let nova = NovaProposta::from_json(black_box(body), &policy, today).unwrap();
                    assert!(nova.avisos().is_empty());
                    nova
                });
            });
        }
        group.bench_with_input(BenchmarkId::new("derive", name), body, |b, body| {
            b.iter(|| {
                let plain: Plain = serde_json::from_slice(black_box(body)).unwrap();
                assert!(plain.simulacao.valores.solicitado > 0.0);
                plain
            });
        });
        group.bench_with_input(BenchmarkId::new("value", name), body, |b, body| {
            b.iter(|| {
                let value: serde_json::Value = serde_json::from_slice(black_box(body)).unwrap();
                assert!(value.is_object());
                value
            });
        });
        group.finish();
    }
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read, as a plain service would, and not used")]
struct Plain {
    id_proposta_parceiro: String,
    data_solicitacao: String,
    cliente: Cliente,
    simulacao: Simulacao,
    webhook_url: String,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "see Plain")]
struct Cliente {
    nome: String,
    cpf: String,
    whatsapp: String,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "see Plain")]
struct Simulacao {
    valores: Valores,
    taxas: Taxas,
    prazos: Prazos,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "see Plain")]
struct Valores {
    solicitado: f64,
    iof: f64,
    principal: f64,
    parcela: f64,
    liquido: f64,
    bruto: f64,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "see Plain")]
struct Taxas {
    nominal_am: f64,
    cet_am: f64,
    cet_aa: f64,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "see Plain")]
struct Prazos {
    total_parcelas: u32,
    data_liberacao_estimada: String,
    primeiro_vencimento: String,
    ultimo_vencimento: String,
}

criterion_group!(benches, parse);
criterion_main!(benches);
