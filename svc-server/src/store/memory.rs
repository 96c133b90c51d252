//! The store in memory: one lock, held for a few map operations and never over an await.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use svc_core::{Delivery, IdParceiro, Mensagem, Next, Proposta, PropostaId, Transition};

use crate::seams::Clock;
use crate::store::{CommitError, Inserted, Lease, StoreError, Whole};

#[derive(Debug)]
pub(super) struct Memory {
    max_proposals: usize,
    clock: Clock,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    propostas: HashMap<PropostaId, Record>,
    by_partner: HashMap<(String, IdParceiro), PropostaId>,
    /// Each proposal has one event, and that one delivery.
    deliveries: HashMap<PropostaId, Row>,
    /// Pending deliveries by the time of their next attempt, leased ones by the end of their lease; on the clock that never
    /// jumps.
    due: BTreeSet<(Duration, PropostaId)>,
}

#[derive(Debug)]
struct Record {
    proposta: Proposta,
    mensagem: Mensagem,
}

#[derive(Debug)]
struct Row {
    delivery: Delivery,
    /// Where the row stands in `due`.
    due: Option<Duration>,
    /// Counts its leases: the last one's holder is the only one who may record.
    fence: u64,
}

impl Memory {
    pub(super) fn new(max_proposals: usize, clock: Clock) -> Self {
        Self { max_proposals, clock, inner: Mutex::default() }
    }

    pub(super) fn insert(&self, proposta: &Proposta) -> Result<Inserted, StoreError> {
        let inner = &mut *self.lock();
        let key = (proposta.client_id().to_owned(), proposta.id_proposta_parceiro().clone());
        if let Some(first) = inner.by_partner.get(&key).and_then(|id| inner.propostas.get(id)) {
            return Ok(Inserted::Exists(first.proposta.clone()));
        }
        if inner.propostas.len() >= self.max_proposals {
            return Err(StoreError::Full);
        }
        inner.by_partner.insert(key, proposta.id());
        let record = Record { proposta: proposta.clone(), mensagem: Mensagem::pendente() };
        inner.propostas.insert(proposta.id(), record);
        Ok(Inserted::New)
    }

    pub(super) fn find(&self, id: PropostaId) -> Option<Proposta> {
        self.lock().propostas.get(&id).map(|record| record.proposta.clone())
    }

    pub(super) fn whole(&self, id: PropostaId) -> Option<Whole> {
        self.lock().whole(id)
    }

    pub(super) fn whole_by_partner(&self, client_id: &str, id: &IdParceiro) -> Option<Whole> {
        let inner = self.lock();
        inner.whole(*inner.by_partner.get(&(client_id.to_owned(), id.clone()))?)
    }

    pub(super) fn record_message(&self, id: PropostaId, mensagem: Mensagem) {
        if let Some(record) = self.lock().propostas.get_mut(&id) {
            record.mensagem = mensagem;
        }
    }

    pub(super) fn commit(&self, transition: &Transition, delivery: Delivery) -> Result<(), CommitError> {
        let inner = &mut *self.lock();
        let next = &transition.proposta;
        match inner.propostas.get_mut(&next.id()) {
            Some(stored) if stored.proposta.version() + 1 == next.version() => stored.proposta = next.clone(),
            Some(_) | None => return Err(CommitError::Conflict),
        }
        let id = delivery.evento().id().proposta();
        let due = self.due(&delivery);
        inner.deliveries.insert(id, Row { delivery, due: None, fence: 0 });
        inner.reschedule(id, due);
        Ok(())
    }

    pub(super) fn lease(&self, limit: usize, time: Duration) -> Vec<Lease> {
        let now = self.clock.monotonic();
        let inner = &mut *self.lock();
        let due: Vec<_> = inner.due.iter().take_while(|(at, _)| *at <= now).take(limit).map(|(_, id)| *id).collect();
        let mut leases = Vec::with_capacity(due.len());
        for id in due {
            if let Some(row) = inner.deliveries.get_mut(&id) {
                row.fence += 1;
                leases.push(Lease { delivery: row.delivery.clone(), fence: row.fence });
            }
            inner.reschedule(id, Some(now + time));
        }
        leases
    }

    pub(super) fn record(&self, fence: u64, delivery: Delivery) -> bool {
        let inner = &mut *self.lock();
        let (id, due) = (delivery.evento().id().proposta(), self.due(&delivery));
        match inner.deliveries.get_mut(&id) {
            Some(row) if row.fence == fence => row.delivery = delivery,
            Some(_) | None => return false,
        }
        inner.reschedule(id, due);
        true
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        let now = self.clock.monotonic();
        self.lock().due.first().map(|(at, _)| at.saturating_sub(now))
    }

    /// When the next attempt is due, by the clock that never jumps.
    fn due(&self, delivery: &Delivery) -> Option<Duration> {
        match delivery.next() {
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
        let Record { proposta, mensagem } = self.propostas.get(&id)?;
        let delivery = self.deliveries.get(&id).map(|row| row.delivery.clone());
        Some(Whole { proposta: proposta.clone(), mensagem: mensagem.clone(), delivery })
    }

    /// Moves a delivery to its new place in the row of what is due.
    fn reschedule(&mut self, id: PropostaId, due: Option<Duration>) {
        if let Some(row) = self.deliveries.get_mut(&id) {
            if let Some(old) = std::mem::replace(&mut row.due, due) {
                self.due.remove(&(old, id));
            }
            self.due.extend(due.map(|at| (at, id)));
        }
    }
}
