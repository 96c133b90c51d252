//! The store in memory: one lock, held for a few map operations and never over an await.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use svc_core::{Delivery, EventoId, IdParceiro, Next, Proposta, PropostaId, Transition};

use crate::store::{CommitError, Inserted, Lease, StoreError};

#[derive(Debug)]
pub(super) struct Memory {
    max_proposals: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    propostas: HashMap<PropostaId, Proposta>,
    by_partner: HashMap<(String, IdParceiro), PropostaId>,
    deliveries: HashMap<EventoId, Row>,
    /// Pending deliveries by the time of their next attempt, leased ones by the end of their lease.
    due: BTreeSet<(DateTime<Utc>, EventoId)>,
}

#[derive(Debug)]
struct Row {
    delivery: Delivery,
    /// Where the row stands in `due`.
    due: Option<DateTime<Utc>>,
    /// Counts its leases: the last one's holder is the only one who may record.
    fence: u64,
}

impl Memory {
    pub(super) fn new(max_proposals: usize) -> Self {
        Self { max_proposals, inner: Mutex::default() }
    }

    pub(super) fn insert(&self, proposta: &Proposta) -> Result<Inserted, StoreError> {
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
        Ok(Inserted::New)
    }

    pub(super) fn find(&self, id: PropostaId) -> Option<Proposta> {
        self.lock().propostas.get(&id).cloned()
    }

    pub(super) fn commit(&self, transition: &Transition, delivery: Delivery) -> Result<(), CommitError> {
        let inner = &mut *self.lock();
        let next = &transition.proposta;
        match inner.propostas.get_mut(&next.id()) {
            Some(stored) if stored.version() + 1 == next.version() => *stored = next.clone(),
            Some(_) | None => return Err(CommitError::Conflict),
        }
        let id = delivery.evento().id();
        let due = due(&delivery);
        inner.deliveries.insert(id, Row { delivery, due: None, fence: 0 });
        inner.reschedule(id, due);
        Ok(())
    }

    pub(super) fn lease(&self, limit: usize, until: DateTime<Utc>, now: DateTime<Utc>) -> Vec<Lease> {
        let inner = &mut *self.lock();
        let due: Vec<_> = inner.due.iter().take_while(|(at, _)| *at <= now).take(limit).map(|(_, id)| *id).collect();
        let mut leases = Vec::with_capacity(due.len());
        for id in due {
            if let Some(row) = inner.deliveries.get_mut(&id) {
                row.fence += 1;
                leases.push(Lease { delivery: row.delivery.clone(), fence: row.fence });
            }
            inner.reschedule(id, Some(until));
        }
        leases
    }

    pub(super) fn record(&self, fence: u64, delivery: Delivery) -> bool {
        let inner = &mut *self.lock();
        let (id, due) = (delivery.evento().id(), due(&delivery));
        match inner.deliveries.get_mut(&id) {
            Some(row) if row.fence == fence => row.delivery = delivery,
            Some(_) | None => return false,
        }
        inner.reschedule(id, due);
        true
    }

    pub(super) fn next_due(&self) -> Option<DateTime<Utc>> {
        self.lock().due.first().map(|(at, _)| *at)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics between the first and the last write of a step, so a poisoned lock guards whole steps.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Moves a delivery to its new place in the row of what is due.
    fn reschedule(&mut self, id: EventoId, due: Option<DateTime<Utc>>) {
        if let Some(row) = self.deliveries.get_mut(&id) {
            if let Some(old) = std::mem::replace(&mut row.due, due) {
                self.due.remove(&(old, id));
            }
            self.due.extend(due.map(|at| (at, id)));
        }
    }
}

fn due(delivery: &Delivery) -> Option<DateTime<Utc>> {
    match delivery.next() {
        Next::At(at) => Some(at),
        Next::Done | Next::GiveUp => None,
    }
}
