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
use crate::store::queue::{Queue, Row, row_of};
use crate::store::{CommitError, Inserted, StoreError, Task, Waiting};

#[derive(Debug)]
pub(crate) struct Memory {
    max_proposals: usize,
    clock: Clock,
    inner: Arc<Mutex<Inner>>,
}

/// Each proposal, and what happens to it.
pub(crate) type Records = HashMap<PropostaId, Box<Record>>;

/// In a place of its own: a table has room for twice as much as it holds.
#[derive(Debug)]
pub(crate) struct Record {
    pub(super) proposta: Proposta,
    pub(super) mensagem: Row<Mensagem>,
    pub(super) delivery: Option<Box<Row<Delivery>>>,
}

/// A record as a test looks at it.
#[cfg(test)]
#[cfg_attr(shuttle, expect(dead_code, reason = "a simulation looks at more of it"))]
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) proposta: Proposta,
    pub(crate) delivery: Option<Delivery>,
    /// When its next attempt is due, and until when somebody has it.
    pub(crate) due: Option<Duration>,
    pub(crate) leased_until: Option<Duration>,
    pub(crate) mensagem: Mensagem,
}

/// What is locked together.
#[derive(Debug, Default)]
pub(crate) struct Inner {
    records: Records,
    by_partner: HashMap<Box<str>, HashMap<IdParceiro, PropostaId>>,
    mensagens: Queue,
    deliveries: Queue,
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
    pub(crate) fn records(&self) -> Vec<Seen> {
        let inner = self.lock();
        let seen = |record: &Record| {
            let delivery = record.delivery.as_deref();
            let (due, leased_until) = delivery.map_or((None, None), Row::times);
            let (proposta, mensagem) = (record.proposta.clone(), record.mensagem.task.clone());
            Seen { proposta, delivery: delivery.map(|row| row.task.clone()), due, leased_until, mensagem }
        };
        let mut records: Vec<_> = inner.records.values().map(|record| seen(record)).collect();
        records.sort_by_key(|record| record.proposta.id());
        records
    }

    pub(super) fn insert(&self, proposta: &Proposta, mensagem: Mensagem) -> Result<Inserted, StoreError> {
        let (due, mut mensagem) = (self.due(mensagem.next()), Row::new(mensagem));
        let inner = &mut *self.lock();
        let (id, client_id, id_parceiro) = (proposta.id(), proposta.client_id(), proposta.id_proposta_parceiro());
        if let Some(first) = inner.of_partner(client_id, id_parceiro) {
            return Ok(Inserted::Exists(first.proposta.clone()));
        }
        if inner.records.len() >= self.max_proposals {
            return Err(StoreError::Full);
        }
        if !inner.by_partner.contains_key(client_id) {
            inner.by_partner.insert(client_id.into(), HashMap::new());
        }
        inner.by_partner.get_mut(client_id).and_then(|ids| ids.insert(id_parceiro.clone(), id));
        inner.mensagens.add(&mut mensagem, due);
        inner.records.insert(id, Box::new(Record { proposta: proposta.clone(), mensagem, delivery: None }));
        Ok(Inserted::New)
    }

    pub(crate) fn find(&self, id: PropostaId) -> Option<Proposta> {
        self.lock().records.get(&id).map(|record| record.proposta.clone())
    }

    pub(super) fn look<R>(
        &self,
        id: PropostaId,
        look: impl FnOnce(&Proposta, &Mensagem, Option<&Delivery>) -> R,
    ) -> Option<R> {
        self.lock().records.get(&id).map(|record| record.seen(look))
    }

    pub(super) fn look_by_partner<R>(
        &self,
        client_id: &str,
        id: &IdParceiro,
        look: impl FnOnce(&Proposta, &Mensagem, Option<&Delivery>) -> R,
    ) -> Option<R> {
        self.lock().of_partner(client_id, id).map(|record| record.seen(look))
    }

    pub(super) fn commit(&self, transition: &Transition, delivery: Delivery) -> Result<(), CommitError> {
        let (due, mut delivery) = (self.due(delivery.next()), Box::new(Row::new(delivery)));
        let inner = &mut *self.lock();
        let next = &transition.proposta;
        match inner.records.get_mut(&next.id()) {
            Some(record) if record.proposta.version() + 1 == next.version() => {
                inner.deliveries.add(&mut delivery, due);
                record.proposta = next.clone();
                record.delivery = Some(delivery);
                Ok(())
            }
            Some(_) | None => Err(CommitError::Conflict),
        }
    }

    pub(super) fn lease<T: Task>(&self, room: &Room<'_>, time: Duration) -> Leased<T> {
        let now = self.clock.monotonic();
        let inner = &mut *self.lock();
        let (records, queue) = T::queue(inner);
        queue.lease(records, room, now, time)
    }

    pub(super) fn record<T: Task>(&self, fence: u64, task: T) -> bool {
        let due = self.due(task.next());
        let (id, envio) = (task.id(), task.envio().map(str::to_owned));
        let inner = &mut *self.lock();
        let (records, queue) = T::queue(inner);
        let before = row_of(records, id).and_then(|row| queue.record(row, fence, task, due));
        let Some(before) = before else { return false };
        if before.envio() != envio.as_deref() {
            before.envio().map(|before| inner.by_envio.remove(before));
            inner.by_envio.extend(envio.map(|envio| (envio, id)));
        }
        true
    }

    pub(super) fn put_back<T: Task>(&self, fence: u64, task: &T, wait: Duration) {
        let at = self.clock.monotonic() + wait;
        let inner = &mut *self.lock();
        let (records, queue) = T::queue(inner);
        if let Some(row) = row_of::<T>(records, task.id()) {
            queue.put_back(row, fence, at);
        }
    }

    pub(super) fn change<T: Task>(&self, id: PropostaId, change: impl Fn(T) -> T) -> bool {
        let inner = &mut *self.lock();
        let (records, queue) = T::queue(inner);
        let Some(row) = row_of(records, id) else { return false };
        queue.change(row, self.clock.monotonic(), |task| {
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
        for record in inner.records.values_mut() {
            let proposta = &mut record.proposta;
            if proposta.dados().is_some() && proposta.respondida_em().is_some_and(|at| at < before) {
                *proposta = proposta.without_dados();
                record.mensagem.replace(|mensagem| mensagem.clone().without_dados());
                forgotten += 1;
            }
        }
        let records = &inner.records;
        inner.by_envio.retain(|_, id| records.get(id).is_some_and(|record| record.mensagem.task.envio().is_some()));
        forgotten
    }

    pub(super) fn waiting(&self, partners: &Partners) -> Waiting {
        let (now, inner) = (self.clock.monotonic(), self.lock());
        Waiting {
            webhooks: inner.deliveries.waiting::<Delivery>(&inner.records, partners, now),
            messages: inner.mensagens.waiting::<Mensagem>(&inner.records, partners, now),
        }
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

/// Where a kind of work is kept.
pub(crate) trait Kept: Sized {
    /// The records, and what waits of it.
    fn queue(inner: &mut Inner) -> (&mut Records, &mut Queue);
    fn row(record: &Record) -> Option<&Row<Self>>;
    fn row_mut(record: &mut Record) -> Option<&mut Row<Self>>;
}

impl Kept for Delivery {
    fn queue(inner: &mut Inner) -> (&mut Records, &mut Queue) {
        (&mut inner.records, &mut inner.deliveries)
    }

    fn row(record: &Record) -> Option<&Row<Self>> {
        record.delivery.as_deref()
    }

    fn row_mut(record: &mut Record) -> Option<&mut Row<Self>> {
        record.delivery.as_deref_mut()
    }
}

impl Kept for Mensagem {
    fn queue(inner: &mut Inner) -> (&mut Records, &mut Queue) {
        (&mut inner.records, &mut inner.mensagens)
    }

    fn row(record: &Record) -> Option<&Row<Self>> {
        Some(&record.mensagem)
    }

    fn row_mut(record: &mut Record) -> Option<&mut Row<Self>> {
        Some(&mut record.mensagem)
    }
}

impl Inner {
    fn of_partner(&self, client_id: &str, id: &IdParceiro) -> Option<&Record> {
        self.records.get(self.by_partner.get(client_id)?.get(id)?).map(|record| &**record)
    }
}

impl Record {
    fn seen<R>(&self, look: impl FnOnce(&Proposta, &Mensagem, Option<&Delivery>) -> R) -> R {
        look(&self.proposta, &self.mensagem.task, self.delivery.as_deref().map(|row| &row.task))
    }
}
