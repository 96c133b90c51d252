//! The store in memory: one lock, held for a few map operations and never over an await.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use svc_core::{Delivery, IdParceiro, Mensagem, Next, Proposta, PropostaId, Schedule, Transition};

use crate::bounds::Room;
use crate::outbox::Leased;
use crate::partners::Partners;
use crate::seams::Clock;
use crate::store::queue::Queue;
use crate::store::{CommitError, Inserted, StoreError, Waiting, Whole};

#[derive(Debug)]
pub(super) struct Memory {
    max_proposals: usize,
    clock: Clock,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    propostas: HashMap<PropostaId, Proposta>,
    by_partner: HashMap<(String, IdParceiro), PropostaId>,
    mensagens: Queue<Mensagem>,
    deliveries: Queue<Delivery>,
}

impl Memory {
    pub(super) fn new(max_proposals: usize, clock: Clock) -> Self {
        Self { max_proposals, clock, inner: Mutex::default() }
    }

    pub(super) fn insert(&self, proposta: &Proposta, mensagem: Mensagem) -> Result<Inserted, StoreError> {
        let inner = &mut *self.lock();
        let key = (proposta.client_id().to_owned(), proposta.id_proposta_parceiro().clone());
        if let Some(first) = inner.by_partner.get(&key).and_then(|id| inner.propostas.get(id)) {
            return Ok(Inserted::Exists(first.clone()));
        }
        if inner.propostas.len() >= self.max_proposals {
            return Err(StoreError::Full);
        }
        inner.by_partner.insert(key, proposta.id());
        inner.propostas.insert(proposta.id(), proposta.clone());
        let due = self.due(mensagem.next());
        inner.mensagens.add(mensagem, due);
        Ok(Inserted::New)
    }

    pub(super) fn find(&self, id: PropostaId) -> Option<Proposta> {
        self.lock().propostas.get(&id).cloned()
    }

    pub(super) fn whole(&self, id: PropostaId) -> Option<Whole> {
        self.lock().whole(id)
    }

    pub(super) fn whole_by_partner(&self, client_id: &str, id: &IdParceiro) -> Option<Whole> {
        let inner = self.lock();
        inner.whole(*inner.by_partner.get(&(client_id.to_owned(), id.clone()))?)
    }

    pub(super) fn commit(&self, transition: &Transition, delivery: Delivery) -> Result<(), CommitError> {
        let inner = &mut *self.lock();
        let next = &transition.proposta;
        match inner.propostas.get_mut(&next.id()) {
            Some(stored) if stored.version() + 1 == next.version() => *stored = next.clone(),
            Some(_) | None => return Err(CommitError::Conflict),
        }
        let due = self.due(delivery.next());
        inner.deliveries.add(delivery, due);
        Ok(())
    }

    pub(super) fn lease_webhooks(&self, room: &Room<'_>, time: Duration) -> Leased<Delivery> {
        let now = self.clock.monotonic();
        self.lock().deliveries.lease(room, now, time)
    }

    pub(super) fn record_webhook(&self, fence: u64, delivery: Delivery) -> bool {
        let due = self.due(delivery.next());
        self.lock().deliveries.record(fence, delivery, due)
    }

    pub(super) fn put_back_webhook(&self, fence: u64, id: PropostaId, wait: Duration) {
        let at = self.clock.monotonic() + wait;
        self.lock().deliveries.put_back(fence, id, at);
    }

    pub(super) fn resend_webhook(&self, id: PropostaId, schedule: &Schedule, now: DateTime<Utc>) {
        self.lock().deliveries.change(id, self.clock.monotonic(), |delivery| {
            let delivery = delivery.resend(schedule, now);
            let due = self.due(delivery.next());
            (delivery, due)
        });
    }

    pub(super) fn lease_messages(&self, room: &Room<'_>, time: Duration) -> Leased<Mensagem> {
        let now = self.clock.monotonic();
        self.lock().mensagens.lease(room, now, time)
    }

    pub(super) fn record_message(&self, fence: u64, mensagem: Mensagem) -> bool {
        let due = self.due(mensagem.next());
        self.lock().mensagens.record(fence, mensagem, due)
    }

    pub(super) fn resend_message(&self, id: PropostaId, schedule: &Schedule, now: DateTime<Utc>) {
        self.lock().mensagens.change(id, self.clock.monotonic(), |mensagem| {
            let mensagem = mensagem.resend(schedule, now);
            let due = self.due(mensagem.next());
            (mensagem, due)
        });
    }

    pub(super) fn waiting(&self, partners: &Partners) -> Waiting {
        let (now, inner) = (self.clock.monotonic(), self.lock());
        Waiting { webhooks: inner.deliveries.waiting(partners, now), messages: inner.mensagens.waiting(partners, now) }
    }

    /// When the next attempt is due, by the clock that never jumps.
    fn due(&self, next: Next) -> Option<Duration> {
        match next {
            Next::At(at) => {
                let wait = at.signed_duration_since(self.clock.now()).to_std().unwrap_or_default();
                Some(self.clock.monotonic() + wait)
            }
            Next::Done | Next::GiveUp => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics between the first and the last write of a step, so a poisoned lock guards whole steps.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn whole(&self, id: PropostaId) -> Option<Whole> {
        Some(Whole {
            proposta: self.propostas.get(&id)?.clone(),
            mensagem: self.mensagens.get(id)?.clone(),
            delivery: self.deliveries.get(id).cloned(),
        })
    }
}
