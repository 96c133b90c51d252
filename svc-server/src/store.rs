//! Where proposals and their deliveries are kept.
//!
//! The set of stores is closed, so it is an enum; whoever wants another embeds svc-core. Each call is one step that
//! happens whole or not at all.

mod memory;
mod queue;

use std::time::Duration;

use chrono::{DateTime, Utc};
use svc_core::{Delivery, IdParceiro, Mensagem, Proposta, PropostaId, Schedule, Transition};

use crate::bounds::Room;
use crate::outbox::Leased;
use crate::partners::Partners;
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

impl Store {
    /// In this process, lost at its end (interface section 1), for at most `max_proposals` records.
    pub(crate) fn memory(max_proposals: usize, clock: Clock) -> Self {
        Self(Kind::Memory(Memory::new(max_proposals, clock)))
    }

    /// Stores a new record and its message together, unless the partner's id has one.
    pub(crate) async fn insert(&self, proposta: &Proposta, mensagem: Mensagem) -> Result<Inserted, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => memory.insert(proposta, mensagem),
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

    /// Stores an answer and its delivery together, if the record is still the one that was answered.
    pub(crate) async fn commit(&self, transition: &Transition, delivery: Delivery) -> Result<(), CommitError> {
        match &self.0 {
            Kind::Memory(memory) => memory.commit(transition, delivery),
        }
    }

    /// Hands out deliveries that are due, as far as there is room. A worker that does not come back within `time` loses its
    /// lease.
    pub(crate) async fn lease_webhooks(&self, room: &Room<'_>, time: Duration) -> Result<Leased<Delivery>, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.lease_webhooks(room, time)),
        }
    }

    /// Stores a delivery after its attempt; `false`, and nothing stored, where the lease was lost.
    pub(crate) async fn record_webhook(&self, fence: u64, delivery: Delivery) -> Result<bool, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.record_webhook(fence, delivery)),
        }
    }

    /// Gives a lease back without an attempt, due again after `wait`.
    pub(crate) async fn put_back_webhook(&self, fence: u64, id: PropostaId, wait: Duration) -> Result<(), StoreError> {
        match &self.0 {
            Kind::Memory(memory) => {
                memory.put_back_webhook(fence, id, wait);
                Ok(())
            }
        }
    }

    /// Makes a proposal's delivery due again (C19), unless an attempt of it is under way.
    pub(crate) async fn resend_webhook(
        &self,
        id: PropostaId,
        schedule: &Schedule,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        match &self.0 {
            Kind::Memory(memory) => {
                memory.resend_webhook(id, schedule, now);
                Ok(())
            }
        }
    }

    /// Hands out messages that are due, likewise.
    pub(crate) async fn lease_messages(&self, room: &Room<'_>, time: Duration) -> Result<Leased<Mensagem>, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.lease_messages(room, time)),
        }
    }

    /// Stores a message after its attempt; `false`, and nothing stored, where the lease was lost.
    pub(crate) async fn record_message(&self, fence: u64, mensagem: Mensagem) -> Result<bool, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.record_message(fence, mensagem)),
        }
    }

    /// Makes a proposal's message due again (C19), unless it is being sent.
    pub(crate) async fn resend_message(
        &self,
        id: PropostaId,
        schedule: &Schedule,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        match &self.0 {
            Kind::Memory(memory) => {
                memory.resend_message(id, schedule, now);
                Ok(())
            }
        }
    }

    /// How much waits, and for how long.
    pub(crate) async fn waiting(&self, partners: &Partners) -> Result<Waiting, StoreError> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.waiting(partners)),
        }
    }
}
