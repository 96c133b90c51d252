//! The store in memory: one lock, held for a few map operations and never over an await.

use std::collections::HashMap;
use std::sync::PoisonError;
#[cfg(not(shuttle))]
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, Utc};
#[cfg(shuttle)]
use shuttle::sync::{Arc, Mutex, MutexGuard};
use svc_core::{Delivery, IdParceiro, Mensagem, Next, Proposta, PropostaId, Transition};

use crate::bounds::Room;
use crate::outbox::Leased;
use crate::partners::Partners;
use crate::seams::Clock;
use crate::store::queue::Queue;
use crate::store::{CommitError, Inserted, StoreError, Task, Waiting, Whole};

#[derive(Debug)]
pub(crate) struct Memory {
    max_proposals: usize,
    clock: Clock,
    inner: Arc<Mutex<Inner>>,
}

/// A record as a test looks at it.
#[cfg(test)]
#[cfg_attr(shuttle, expect(dead_code, reason = "a simulation looks at more of it"))]
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) proposta: Proposta,
    pub(crate) delivery: Option<Delivery>,
    /// When its next attempt is due, and until when somebody has it.
    pub(crate) due: Option<Duration>,
    pub(crate) leased_until: Option<Duration>,
    pub(crate) mensagem: Option<Mensagem>,
}

/// What is locked together.
#[derive(Debug, Default)]
pub(crate) struct Inner {
    propostas: HashMap<PropostaId, Proposta>,
    by_partner: HashMap<(String, IdParceiro), PropostaId>,
    mensagens: Queue<Mensagem>,
    deliveries: Queue<Delivery>,
    /// Of messages, by what their channel calls them.
    by_envio: HashMap<String, PropostaId>,
}

impl Memory {
    pub(crate) fn new(max_proposals: usize, clock: Clock) -> Self {
        Self { max_proposals, clock, inner: Arc::default() }
    }

    /// The same for a server with another time of day, as simulated servers share it.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn shared_with(&self, clock: Clock) -> Self {
        Self { clock, inner: Arc::clone(&self.inner), ..*self }
    }

    /// All records, with what waits of them.
    #[cfg(test)]
    pub(crate) fn records(&self) -> Vec<Record> {
        let inner = self.lock();
        let record = |proposta: &Proposta| {
            let id = proposta.id();
            let delivery = inner.deliveries.get(id).cloned();
            let (due, leased_until) = inner.deliveries.times(id);
            let mensagem = inner.mensagens.get(id).cloned();
            Record { proposta: proposta.clone(), delivery, due, leased_until, mensagem }
        };
        let mut records: Vec<_> = inner.propostas.values().map(record).collect();
        records.sort_by_key(|record| record.proposta.id());
        records
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

    pub(crate) fn find(&self, id: PropostaId) -> Option<Proposta> {
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

    pub(super) fn lease<T: Task>(&self, room: &Room<'_>, time: Duration) -> Leased<T> {
        let now = self.clock.monotonic();
        T::queue(&mut self.lock()).lease(room, now, time)
    }

    pub(super) fn record<T: Task>(&self, fence: u64, task: T) -> bool {
        let due = self.due(task.next());
        let (id, envio) = (task.id(), task.envio().map(str::to_owned));
        let inner = &mut *self.lock();
        let before = T::queue(inner).get(id).and_then(Task::envio).map(str::to_owned);
        let recorded = T::queue(inner).record(fence, task, due);
        if recorded && envio != before {
            before.map(|before| inner.by_envio.remove(&before));
            inner.by_envio.extend(envio.map(|envio| (envio, id)));
        }
        recorded
    }

    pub(super) fn put_back<T: Task>(&self, fence: u64, task: &T, wait: Duration) {
        let at = self.clock.monotonic() + wait;
        T::queue(&mut self.lock()).put_back(fence, task.id(), at);
    }

    pub(super) fn change<T: Task>(&self, id: PropostaId, change: impl Fn(T) -> T) -> bool {
        T::queue(&mut self.lock()).change(id, self.clock.monotonic(), |task| {
            let task = change(task);
            let due = self.due(task.next());
            (task, due)
        })
    }

    #[cfg(feature = "whatsapp")]
    pub(super) fn proposta_of(&self, envio: &str) -> Option<PropostaId> {
        self.lock().by_envio.get(envio).copied()
    }

    pub(super) fn forget(&self, before: DateTime<Utc>) -> usize {
        let mut forgotten = 0;
        let inner = &mut *self.lock();
        for proposta in inner.propostas.values_mut() {
            if proposta.dados().is_some() && proposta.respondida_em().is_some_and(|at| at < before) {
                *proposta = proposta.without_dados();
                inner.mensagens.replace(proposta.id(), Mensagem::without_dados);
                forgotten += 1;
            }
        }
        let (mensagens, by_envio) = (&inner.mensagens, &mut inner.by_envio);
        by_envio.retain(|_, id| mensagens.get(*id).is_some_and(|mensagem| mensagem.envio().is_some()));
        forgotten
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

/// Which of the queues a kind of work waits in.
pub(crate) trait Kept: Sized {
    fn queue(inner: &mut Inner) -> &mut Queue<Self>;
}

impl Kept for Delivery {
    fn queue(inner: &mut Inner) -> &mut Queue<Self> {
        &mut inner.deliveries
    }
}

impl Kept for Mensagem {
    fn queue(inner: &mut Inner) -> &mut Queue<Self> {
        &mut inner.mensagens
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
