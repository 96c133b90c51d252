//! The store in memory under thousands of orders in which its callers' threads may run, drawn by shuttle:
//! `RUSTFLAGS="--cfg shuttle" cargo test -p svc-server --no-default-features --lib interleavings`

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use shuttle::thread;
use svc_core::{
    Acao, Delivery, DigestKey, Jitter, Mensagem, NotApplied, NovaProposta, Outcome, Proposta, PropostaId, Schedule,
    Tentativa,
};

use crate::bounds::{Bounds, Limits};
use crate::outbox::Leased;
use crate::partners::{DEMO_CLIENT_ID, Partners};
use crate::seams::Clock;
use crate::store::memory::Memory;
use crate::store::{CommitError, Inserted};

const ORDERS: usize = 3_000;

fn proposta(byte: u8) -> Proposta {
    let nova = NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018");
    let nova = nova.webhook_url("https://example.com/").build().unwrap();
    nova.open(
        PropostaId::from_random([byte; 16]),
        DEMO_CLIENT_ID,
        &DigestKey::derive(&[7; 32]).unwrap(),
        DateTime::UNIX_EPOCH,
    )
}

/// Inserts under one partner's id, answers both ways, and works off what is due, all at the same time.
fn story() {
    let now = DateTime::UNIX_EPOCH;
    let memory = Arc::new(Memory::new(10, Clock::from_fn(|| DateTime::UNIX_EPOCH)));
    let inserts = [1, 2].map(|byte| {
        let memory = Arc::clone(&memory);
        thread::spawn(move || {
            let proposta = proposta(byte);
            let mensagem = Mensagem::of(&proposta, &Schedule::MENSAGEM, now);
            match memory.insert(&proposta, mensagem).unwrap() {
                Inserted::New => proposta.id(),
                Inserted::Exists(first) => first.id(),
            }
        })
    });
    let answers = [Acao::Aceitar, Acao::Recusar, Acao::Aceitar].map(|acao| {
        let memory = Arc::clone(&memory);
        thread::spawn(move || {
            loop {
                // Whichever of the two is there, once one is.
                let found = [1, 2].iter().find_map(|byte| memory.find(proposta(*byte).id()));
                let Some(found) = found else {
                    thread::yield_now();
                    continue;
                };
                match found.apply(acao, now) {
                    Ok(transition) => {
                        let delivery = Delivery::of(&transition, &Schedule::HOMOLOGACAO, now);
                        match memory.commit(&transition, delivery) {
                            Ok(()) => return true,
                            Err(CommitError::Conflict) => {}
                            Err(CommitError::Store(error)) => panic!("{error}"),
                        }
                    }
                    Err(NotApplied::AlreadySo | NotApplied::Refused { .. }) => return false,
                }
            }
        })
    });
    let workers = [0, 1].map(|_| {
        let memory = Arc::clone(&memory);
        thread::spawn(move || {
            let (partners, bounds) =
                (Partners::demonstration(), Bounds::new(Limits { total: 8, per_partner: 8, per_host: 8 }));
            let mut made = 0;
            for _ in 0..4 {
                let Leased { leases, .. } = memory.lease::<Delivery>(&bounds.room(&partners), Duration::from_secs(30));
                for lease in leases {
                    let resultado = Outcome::Status { code: 200, retry_after: None };
                    let attempt = Tentativa { em: now, duracao_ms: 1, resultado };
                    let task = lease.task.after(attempt, &Schedule::HOMOLOGACAO, Jitter::NONE, now);
                    assert!(memory.record(lease.fence, task), "nobody else has it");
                    made += 1;
                }
                thread::yield_now();
            }
            made
        })
    });
    let ids = inserts.map(|thread| thread.join().unwrap());
    assert_eq!(ids[0], ids[1], "one record for a partner's id");
    let won = answers.map(|thread| usize::from(thread.join().unwrap()));
    assert_eq!(won.iter().sum::<usize>(), 1, "one answer wins");
    let made: usize = workers.map(|thread| thread.join().unwrap()).iter().sum();
    let records = memory.records();
    assert_eq!(records.len(), 1);
    let attempts = records[0].delivery.as_ref().unwrap().tentativas().len();
    // Both may have looked before there was anything.
    assert!(made <= 1 && attempts == made, "{made} attempts were made, {attempts} are recorded");
}

#[test]
fn whatever_order_threads_run_in_one_record_one_winner_one_attempt() {
    shuttle::check_random(story, ORDERS);
    // Few switches at well chosen places find other faults than many at random.
    shuttle::check_pct(story, ORDERS, 3);
}
