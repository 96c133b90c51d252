//! Where proposals and their deliveries are kept.
//!
//! The set of stores is closed, so it is an enum; whoever wants another embeds svc-core. Each call is one step that
//! happens whole or not at all.

mod memory;

use std::time::Duration;

use svc_core::{Delivery, IdParceiro, Mensagem, Proposta, PropostaId, Transition};

use crate::seams::Clock;
use crate::store::memory::Memory;

/// The place of all records.
#[derive(Debug)]
pub(crate) struct Store(Kind);

#[derive(Debug)]
enum Kind {
    Memory(Memory),
}

/// What became of a new record.
#[derive(Debug)]
pub(crate) enum Inserted {
    /// It was stored.
    New,
    /// The partner's id has a record already: this one (C9).
    Exists(Proposta),
}

/// A record with all that happens to it (C22).
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) proposta: Proposta,
    pub(crate) mensagem: Mensagem,
    pub(crate) delivery: Option<Delivery>,
}

/// Why a store does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
    /// As many records as it may hold.
    #[error("store is full")]
    Full,
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

/// A due delivery, given to one worker. Whoever holds an older number than the row's has lost it.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) delivery: Delivery,
    pub(crate) fence: u64,
}

impl Store {
    /// In this process, lost at its end (interface section 1), for at most `max_proposals` records.
    pub(crate) fn memory(max_proposals: usize, clock: Clock) -> Self {
        Self(Kind::Memory(Memory::new(max_proposals, clock)))
    }

    /// Stores a new record unless the partner's id has one.
    pub(crate) async fn insert(&self, proposta: &Proposta) -> Result<Inserted, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => memory.insert(proposta),
        }
    }

    /// The record with this id.
    pub(crate) async fn find(&self, id: PropostaId) -> Result<Option<Proposta>, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.find(id)),
        }
    }

    /// The record with this id, and what happens to it.
    pub(crate) async fn whole(&self, id: PropostaId) -> Result<Option<Whole>, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.whole(id)),
        }
    }

    /// The same by a partner's own id.
    pub(crate) async fn whole_by_partner(&self, client_id: &str, id: &IdParceiro) -> Result<Option<Whole>, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.whole_by_partner(client_id, id)),
        }
    }

    /// Stores how the customer's message fares.
    pub(crate) async fn record_message(&self, id: PropostaId, mensagem: Mensagem) -> Result<(), StoreError> {
        match &self.0 {
            Kind::Memory(memory) => {
                memory.record_message(id, mensagem);
                Ok(())
            }
        }
    }

    /// Stores an answer and its delivery together, if the record is still the one that was answered.
    pub(crate) async fn commit(&self, transition: &Transition, delivery: Delivery) -> Result<(), CommitError> {
        match &self.0 {
            Kind::Memory(memory) => memory.commit(transition, delivery),
        }
    }

    /// Hands out at most `limit` deliveries that are due. A worker that does not come back within `time` loses its lease.
    pub(crate) async fn lease(&self, limit: usize, time: Duration) -> Result<Vec<Lease>, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.lease(limit, time)),
        }
    }

    /// Stores a delivery after its attempt; `false`, and nothing stored, where the lease was lost.
    pub(crate) async fn record(&self, fence: u64, delivery: Delivery) -> Result<bool, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.record(fence, delivery)),
        }
    }

    /// The time until the next delivery is due, or a lease ends.
    pub(crate) async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.next_due()),
        }
    }
}
