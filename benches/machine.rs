//! What happens to a proposal between request and response: the customer's answer applied, its delivery signed, and the
//! reckoning of when to try again. No peers: beside each other, so that it shows which of them would be worth mending.
//! Every iteration asserts its result. At the end a table of ratios from this run.
//!
//! `cargo bench -p svc-benches --bench machine`

use std::hint::black_box;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion};
use svc_benches::table::Table;
use svc_core::{
    Acao, Delivery, DigestKey, Jitter, Next, NotApplied, NovaProposta, Outcome, PropostaId, Schedule, Secret, Signer,
    Status, Tentativa, Transition, retry_after,
};

const TYPICAL: &[u8] = include_bytes!("../svc-core/tests/proposals/valid/02_tipica_12x.json");
const GROUP: &str = "machine";
const FIRST_ANSWER: &str = "apply, the first answer";
const SCHEDULE: Schedule = Schedule::PRODUCAO;
/// Its share is the whole tenth that it can be.
const JITTER: Jitter = Jitter::from_random(u32::MAX);

type Group<'c> = BenchmarkGroup<'c, WallTime>;

fn main() {
    let table = Table::begin();
    let mut criterion = Criterion::default()
        .output_directory(table.folder())
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let now = DateTime::from_timestamp(1_795_811_504, 0).unwrap();
    let mut group = criterion.benchmark_group(GROUP);
    let transition = answers(&mut group, now);
    let delivery = Delivery::of(&transition, &SCHEDULE, now);
    signatures(&mut group, &delivery, now);
    attempts(&mut group, &delivery, now);
    group.finish();
    criterion.final_summary();
    table.print([GROUP], FIRST_ANSWER);
}

/// A customer's answers to the typical proposal, and the delivery of the one that counts, which is given back.
fn answers(group: &mut Group<'_>, now: DateTime<Utc>) -> Transition {
    let nova = NovaProposta::from_json_to_send(TYPICAL).unwrap();
    let key = DigestKey::derive(&[7; 32]).unwrap();
    let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &key, now);
    let transition = proposta.apply(Acao::Aceitar, now).unwrap();
    let answered = &transition.proposta;
    group.bench_function(FIRST_ANSWER, |b| {
        b.iter(|| {
            let transition = black_box(&proposta).apply(Acao::Aceitar, now).unwrap();
            assert_eq!(transition.proposta.status(), Status::Aceito);
            transition
        });
    });
    let stored = Status::Aceito;
    for (name, acao, expected) in [
        ("apply, the same again", Acao::Aceitar, NotApplied::AlreadySo),
        ("apply, the other one", Acao::Recusar, NotApplied::Refused { stored }),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| assert_eq!(black_box(answered).apply(acao, now).unwrap_err(), expected));
        });
    }
    group.bench_function("delivery of an answer", |b| {
        b.iter(|| {
            let delivery = Delivery::of(black_box(&transition), &SCHEDULE, now);
            assert_eq!(delivery.next(), Next::At(now));
            delivery
        });
    });
    transition
}

/// The request of an attempt, under as many secrets as a partner has live.
fn signatures(group: &mut Group<'_>, delivery: &Delivery, now: DateTime<Utc>) {
    let [old, new] = [[7; 32], [8; 32]].map(|key| Secret::from_raw_key_bytes(&key).unwrap());
    for (name, signer) in [
        ("request, signed under one secret", Signer::new(&old)),
        ("request, signed under two secrets", Signer::new(&new).also(&old)),
    ] {
        let expected = delivery.request(&signer, now);
        group.bench_function(name, |b| {
            b.iter(|| {
                let request = black_box(delivery).request(&signer, now);
                assert!(request == expected);
                request
            });
        });
    }
}

/// What follows from an attempt.
fn attempts(group: &mut Group<'_>, delivery: &Delivery, now: DateTime<Utc>) {
    let attempt =
        |code, retry_after| Tentativa { em: now, duracao_ms: 3, resultado: Outcome::Status { code, retry_after } };
    let failed = attempt(503, None);
    let (mut last, mut waits) = (delivery.clone(), 1);
    while SCHEDULE.wait(waits).is_some() {
        (last, waits) = (last.after(failed, &SCHEDULE, JITTER, now), waits + 1);
    }
    let asked = attempt(503, Some(Duration::from_secs(60)));
    let at = |millis| Next::At(now + TimeDelta::milliseconds(millis));
    for (name, delivery, attempt, expected) in [
        ("after a success", delivery, attempt(204, None), Next::Done),
        // 5 s or a minute, and the tenth.
        ("after a failure", delivery, failed, at(5_500)),
        ("after a failure with Retry-After", delivery, asked, at(66_000)),
        ("after the last failure of ten", &last, failed, Next::GiveUp),
    ] {
        group.bench_function(name, |b| {
            b.iter_batched(
                || delivery.clone(),
                |delivery| {
                    let after = delivery.after(black_box(attempt), &SCHEDULE, JITTER, now);
                    assert_eq!(after.next(), expected);
                    after
                },
                BatchSize::SmallInput,
            );
        });
    }
    // A minute after `now`.
    let date = b"Fri, 27 Nov 2026 20:32:44 GMT";
    for (name, header) in [("Retry-After, seconds", &b"60"[..]), ("Retry-After, a date", date)] {
        group.bench_function(name, |b| {
            b.iter(|| assert_eq!(retry_after(black_box(header), now), Some(Duration::from_secs(60))));
        });
    }
}
