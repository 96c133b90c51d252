//! What must be true, after every step and at the end.

use std::time::Duration;

use svc_core::{Delivery, Next, Outcome, Status};

use super::{LAG, World};
use crate::store::memory::Seen;

impl World {
    /// After every step of the store, everything is looked at.
    pub(in crate::simulation) fn check(&self) {
        for record in self.memory.records() {
            if let Err(why) = self.check_record(&record) {
                self.violate(format!("{}: {why}", record.proposta.id()));
            }
        }
    }

    fn check_record(&self, record: &Seen) -> Result<(), String> {
        let now = self.elapsed();
        let state = &mut *self.state();
        let exact = state.exact;
        let seen = state.seen.entry(record.proposta.id()).or_default();
        let status = record.proposta.status();
        match seen.status {
            Some(before) if before != Status::AguardandoResposta && before != status => {
                return Err(format!("was {before} and is {status}"));
            }
            _ => seen.status = Some(status),
        }
        let answered = status != Status::AguardandoResposta;
        let Some(delivery) = &record.delivery else {
            return if answered { Err("is answered and has no event".to_owned()) } else { Ok(()) };
        };
        if !answered {
            return Err("has an event and no answer".to_owned());
        }
        if delivery.evento().id().proposta() != record.proposta.id() {
            return Err("has another's event".to_owned());
        }
        let body = seen.body.get_or_insert_with(|| delivery.evento().body().to_vec());
        if body != delivery.evento().body() {
            return Err("its event's bytes have changed".to_owned());
        }
        let results: Vec<Outcome> = delivery.tentativas().iter().map(|attempt| attempt.resultado).collect();
        if !results.starts_with(&seen.results) {
            return Err(format!("attempts {:?} became {results:?}", seen.results));
        }
        let grown = results.len() > seen.results.len();
        let ended = !matches!(delivery.next(), Next::At(_));
        if seen.ended && !ended {
            seen.resends.1 += 1;
            if seen.resends.1 > seen.resends.0 {
                return Err("had ended and is due again, and nobody asked".to_owned());
            }
        }
        if grown {
            let last = results[results.len() - 1];
            let retries = results.len() - seen.results.len() == 1 && seen.resends.0 == 0;
            // By servers whose clocks went on as they should.
            let undisturbed = state.servers.iter().all(|life| life.disturbed.is_none());
            if let (Some(due), Next::At(_), true, true) = (record.due, delivery.next(), retries, undisturbed) {
                let wait = self.wait_after(results.len(), last);
                let left = due.saturating_sub(now);
                let lag = if exact { Duration::from_millis(1) } else { LAG };
                if left + lag < wait || left > wait.mul_f64(1.1) + Duration::from_millis(1) {
                    return Err(format!("is due in {left:?} after attempt {}, not in {wait:?}", results.len()));
                }
                if exact {
                    state.unspread.1 += 1;
                    state.unspread.0 += u32::from(left == wait);
                }
            }
        }
        (seen.results, seen.ended) = (results, ended);
        // What is leased was due; when it is due next is known when it is recorded.
        seen.due = if record.leased_until.is_none() && seen.resends.0 == 0 { record.due } else { seen.due };
        if seen.resends.0 > 0 {
            seen.due = None;
        }
        if state.unspread.1 >= 4 && state.unspread.0 == state.unspread.1 {
            return Err("waits are not spread".to_owned());
        }
        Ok(())
    }

    /// What the schedule says after so many attempts, the last of which ended so.
    fn wait_after(&self, attempts: usize, last: Outcome) -> Duration {
        let asked = match last {
            Outcome::Status { code: 429 | 503, retry_after: Some(asked) } => asked,
            _ => Duration::ZERO,
        };
        self.schedule.wait(u32::try_from(attempts).unwrap()).unwrap_or_default().max(asked)
    }

    /// What must be true when nothing is left to be done.
    pub(in crate::simulation) fn check_end(&self) {
        let records = self.memory.records();
        for record in &records {
            let id = record.proposta.id();
            let estado = record.mensagem.estado();
            if estado != "enviada" {
                self.violate(format!("{id}: the customer's message is {estado:?}"));
            }
            let Some(delivery) = &record.delivery else { continue };
            let (taken, refused) = {
                let state = self.state();
                state.seen.get(&id).map_or((false, false), |seen| (seen.taken, seen.refused))
            };
            match delivery.next() {
                Next::Done if taken => {}
                Next::GiveUp if refused || self.is_used_up(delivery) => self.count(|counts| counts.given_up += 1),
                next => self.violate(format!("{id}: is {next:?}; a receiver took it: {taken}, refused it: {refused}")),
            }
        }
        let mut ids: Vec<_> = records.iter().map(|record| record.proposta.id_proposta_parceiro().clone()).collect();
        ids.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        ids.dedup();
        if ids.len() != records.len() {
            self.violate("a partner's id has two proposals".to_owned());
        }
    }

    /// Whether every attempt of the schedule was made.
    fn is_used_up(&self, delivery: &Delivery) -> bool {
        self.schedule.wait(u32::try_from(delivery.tentativas().len()).unwrap()).is_none()
    }
}
