//! A proposal read: `from_json`, which checks everything, beside a plain serde derive into floats and strings and beside an
//! untyped tree, which check nothing. Same bytes, the files as they are; every iteration asserts what it read. At the end a
//! table of ratios from this run.
//!
//! `cargo bench -p svc-benches --bench parse`

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use chrono::NaiveDate;
use criterion::{Criterion, Throughput};
use serde::Deserialize;
use svc_benches::table::Table;
use svc_core::{NovaProposta, Perfil, Policy, today_in_brasilia};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../svc-core/tests/proposals/valid");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let today = today_in_brasilia("2026-11-27T20:31:44Z".parse().unwrap());
    let table = Table::begin();
    let mut criterion = Criterion::default()
        .output_directory(table.folder())
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let name = |file: &Path| format!("parse {}", file.file_stem().unwrap().display());
    for file in &files {
        measure(&mut criterion, &name(file), &std::fs::read(file).unwrap(), today);
    }
    criterion.final_summary();
    table.print(files.iter().map(|file| name(file)), "serde derive");
}

fn measure(criterion: &mut Criterion, name: &str, body: &[u8], today: NaiveDate) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(body.len() as u64));
    let plain: serde_json::Value = serde_json::from_slice(body).unwrap();
    let id = plain["id_proposta_parceiro"].as_str().unwrap();
    for perfil in [Perfil::Homologacao, Perfil::Producao] {
        let policy = Policy::new(perfil);
        let (refused, told) = match NovaProposta::from_json(body, &policy, today) {
            Ok(nova) if nova.avisos().is_empty() => (None, "accepted".to_owned()),
            Ok(nova) => (None, format!("{} avisos", nova.avisos().len())),
            Err(invalid) => (Some(invalid), "refused".to_owned()),
        };
        group.bench_function(format!("svc, {perfil}, {told}"), |b| {
            b.iter(|| {
                let read = NovaProposta::from_json(black_box(body), &policy, today);
                match &read {
                    Ok(nova) => assert!(nova.id_proposta_parceiro().as_str() == id && refused.is_none()),
                    Err(invalid) => assert_eq!(Some(invalid), refused.as_ref()),
                }
                read
            });
        });
    }
    group.bench_function("serde derive", |b| {
        b.iter(|| {
            let plain: Plain = serde_json::from_slice(black_box(body)).unwrap();
            assert_eq!(plain.id_proposta_parceiro, id);
            plain
        });
    });
    group.bench_function("serde_json::Value", |b| {
        b.iter(|| {
            let value: serde_json::Value = serde_json::from_slice(black_box(body)).unwrap();
            assert_eq!(value["id_proposta_parceiro"], id);
            value
        });
    });
    group.finish();
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read, as a plain service would, and not used")]
struct Plain {
    id_proposta_parceiro: String,
    data_solicitacao: Option<String>,
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
    valores: Option<Valores>,
    taxas: Option<Taxas>,
    prazos: Option<Prazos>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "see Plain")]
struct Valores {
    solicitado: Option<f64>,
    iof: Option<f64>,
    principal: Option<f64>,
    parcela: Option<f64>,
    liquido: Option<f64>,
    bruto: Option<f64>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "see Plain")]
struct Taxas {
    nominal_am: Option<f64>,
    cet_am: Option<f64>,
    cet_aa: Option<f64>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "see Plain")]
struct Prazos {
    total_parcelas: Option<u32>,
    data_liberacao_estimada: Option<String>,
    primeiro_vencimento: Option<String>,
    ultimo_vencimento: Option<String>,
}
