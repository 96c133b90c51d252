//! Where proposals, their messages and their deliveries are kept.
//!
//! The set of stores is closed, so it is an enum; whoever wants another embeds svc-core. Each call is one step that
//! happens whole or not at all.

#[cfg(all(test, shuttle))]
mod interleavings;
pub(crate) mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod task;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::time::Duration;

use chrono::{DateTime, Utc};
use svc_core::{Delivery, IdParceiro, Mensagem, Proposta, PropostaId, Transition};

use crate::bounds::Room;
use crate::outbox::Leased;
use crate::partners::Partners;
use crate::seams::Clock;
use crate::store::memory::Memory;
#[cfg(feature = "postgres")]
use crate::store::postgres::Postgres;
#[cfg(feature = "postgres")]
pub use crate::store::postgres::{BadDatabaseUrl, DatabaseUrl};
pub(crate) use crate::store::task::Task;

/// The place of all records.
#[derive(Debug)]
pub(crate) struct Store(Kind);

#[derive(Debug)]
enum Kind {
    Memory(Box<Memory>),
    #[cfg(feature = "postgres")]
    Postgres(Postgres),
    /// A server's way to a store that others share, with everything that can happen on it.
    #[cfg(all(test, not(shuttle)))]
    Simulated(crate::simulation::Link),
}

/// What became of a new record.
#[derive(Debug)]
pub(crate) enum Inserted {
    /// It was stored.
    New,
    /// The partner's id has a record already: this one (C9).
    Exists(Proposta),
}

/// Why a store does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "the store in memory is never away"))]
pub(crate) enum StoreError {
    /// As many records as it may hold.
    #[error("store is full")]
    Full,
    /// It cannot be reached, or does not answer in time. Nothing was acknowledged.
    #[error("store is away")]
    Away,
    /// It does not take what it was to store, or not while somebody holds the record locked.
    #[error("store takes no such record now")]
    Rejected,
    /// It holds what this version cannot read.
    #[error("stored bytes cannot be read")]
    Corrupt,
}

/// Why a store cannot be used, now or later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "the store in memory can always be used"))]
pub(crate) enum OpenError {
    /// The database does not let this server in: no such user, password or database. With its SQLSTATE.
    #[error("database refuses this server: SQLSTATE {0}")]
    Refused(String),
    /// Its schema is not one that this version can use.
    #[error("database's schema cannot be used: {0}")]
    Schema(String),
}

/// Why an answer was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommitError {
    /// Another answer came between: read again, and apply again.
    #[error("record has changed")]
    Conflict,
    /// The store does not serve.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What waits of each kind of work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) webhooks: Waits,
    pub(crate) messages: Waits,
}

/// What waits of one kind, attempts under way included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    pub(crate) count: usize,
    /// How long the longest due of it has been due.
    pub(crate) oldest: Duration,
    /// What belongs to partners that are none any more, and waits for them to come back (C24).
    pub(crate) of_removed: usize,
}

/// One call for all kinds of store; the one in memory answers at once, and a call of it has no room for what a database's
/// needs: that is in a place of its own.
macro_rules! each {
    ($store:expr, $memory:ident => $at_once:expr, $postgres:ident => $awaited:expr) => {
        match &$store.0 {
            Kind::Memory($memory) => $at_once,
            #[cfg(feature = "postgres")]
            Kind::Postgres($postgres) => Box::pin($awaited).await,
            #[cfg(all(test, not(shuttle)))]
            Kind::Simulated(link) => {
                link.before().await?;
                let $memory = link.memory();
                let result = $at_once;
                link.after().await?;
                result
            }
        }
    };
}

impl Store {
    /// In this process, lost at its end (interface section 1), for at most `max_proposals` records.
    pub(crate) fn memory(max_proposals: usize, clock: Clock) -> Self {
        Self(Kind::Memory(Box::new(Memory::new(max_proposals, clock))))
    }

    /// In a database that other servers can share, each with a number of its own. It is to be prepared before it serves.
    #[cfg(feature = "postgres")]
    pub(crate) fn postgres(url: &DatabaseUrl, clock: Clock, writer: u64) -> Self {
        Self(Kind::Postgres(Postgres::new(url, clock, writer)))
    }

    /// The store of a simulated server.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn simulated(link: crate::simulation::Link) -> Self {
        Self(Kind::Simulated(link))
    }

    /// Brings a database's schema up to date; `false` while it is away.
    pub(crate) async fn prepare(&self) -> Result<bool, OpenError> {
        match &self.0 {
            Kind::Memory(_) => Ok(true),
            #[cfg(feature = "postgres")]
            Kind::Postgres(postgres) => postgres.prepare().await,
            #[cfg(all(test, not(shuttle)))]
            Kind::Simulated(_) => Ok(true),
        }
    }

    /// Whether what it holds outlives this process.
    pub(crate) fn lasts(&self) -> bool {
        !matches!(self.0, Kind::Memory(_))
    }

    /// Whether it serves.
    pub(crate) async fn ping(&self) -> Result<(), StoreError> {
        each!(self, _memory => Ok(()), postgres => postgres.ping())
    }

    /// Stores a new record and its message together, unless the partner's id has one.
    pub(crate) async fn insert(&self, proposta: &Proposta, mensagem: Mensagem) -> Result<Inserted, StoreError> {
        each!(self, memory => memory.insert(proposta, mensagem), postgres => postgres.insert(proposta, &mensagem))
    }

    /// The record with this id.
    pub(crate) async fn find(&self, id: PropostaId) -> Result<Option<Proposta>, StoreError> {
        each!(self, memory => Ok(memory.find(id)), postgres => postgres.find(id))
    }

    /// What somebody sees who looks at the record with this id and at what happens to it (C22). In memory it is looked at
    /// under the store's lock, and nothing of it is copied.
    pub(crate) async fn look<R: Send>(
        &self,
        id: PropostaId,
        look: impl FnOnce(&Proposta, &Mensagem, Option<&Delivery>) -> R + Send,
    ) -> Result<Option<R>, StoreError> {
        each!(self, memory => Ok(memory.look(id, look)), postgres => postgres.look(id, look))
    }

    /// The same by a partner's own id.
    pub(crate) async fn look_by_partner<R: Send>(
        &self,
        client_id: &str,
        id: &IdParceiro,
        look: impl FnOnce(&Proposta, &Mensagem, Option<&Delivery>) -> R + Send,
    ) -> Result<Option<R>, StoreError> {
        each!(
            self,
            memory => Ok(memory.look_by_partner(client_id, id, look)),
            postgres => postgres.look_by_partner(client_id, id, look)
        )
    }

    /// Stores an answer and its delivery together, if the record is still the one that was answered.
    pub(crate) async fn commit(&self, transition: &Transition, delivery: Delivery) -> Result<(), CommitError> {
        each!(self, memory => memory.commit(transition, delivery), postgres => postgres.commit(transition, &delivery))
    }

    /// Hands out work that is due, as far as there is room. A worker that does not come back within `time` loses its lease.
    pub(crate) async fn lease<T: Task>(&self, room: &Room<'_>, time: Duration) -> Result<Leased<T>, StoreError> {
        each!(self, memory => Ok(memory.lease(room, time)), postgres => postgres.lease(room, time))
    }

    /// Stores a task after its attempt; `false`, and nothing stored, where the lease was lost.
    pub(crate) async fn record<T: Task>(&self, fence: u64, task: T) -> Result<bool, StoreError> {
        each!(self, memory => Ok(memory.record(fence, task)), postgres => postgres.record(fence, &task))
    }

    /// Gives a lease back without an attempt, due again after `wait`.
    pub(crate) async fn put_back<T: Task>(&self, fence: u64, task: &T, wait: Duration) -> Result<(), StoreError> {
        each!(
            self,
            memory => {
                memory.put_back(fence, task, wait);
                Ok(())
            },
            postgres => postgres.put_back(fence, task, wait)
        )
    }

    /// Changes a proposal's task, unless an attempt of it is under way: `false`. The change may be made more than once.
    pub(crate) async fn change<T: Task>(
        &self,
        id: PropostaId,
        change: impl Fn(T) -> T + Send + Sync,
    ) -> Result<bool, StoreError> {
        each!(self, memory => Ok(memory.change::<T>(id, change)), postgres => postgres.change::<T>(id, change))
    }

    /// The proposal whose message its channel knows by this.
    #[cfg(feature = "whatsapp")]
    pub(crate) async fn proposta_of(&self, envio: &str) -> Result<Option<PropostaId>, StoreError> {
        each!(self, memory => Ok(memory.proposta_of(envio)), postgres => postgres.proposta_of(envio))
    }

    /// Takes the data of persons out of records that were answered before this time; gives how many.
    pub(crate) async fn forget(&self, before: DateTime<Utc>) -> Result<usize, StoreError> {
        each!(self, memory => Ok(memory.forget(before)), postgres => postgres.forget(before))
    }

    /// How much waits, and for how long.
    pub(crate) async fn waiting(&self, partners: &Partners) -> Result<Waiting, StoreError> {
        each!(self, memory => Ok(memory.waiting(partners)), postgres => postgres.waiting(partners))
    }
}
