//! A server's way to the store that all of them share: late, cut before or after, and gone with its server.

use std::sync::Arc;

use crate::simulation::world::{ServerId, World};
use crate::store::StoreError;
use crate::store::memory::Memory;

/// The way of one server, from its start to its crash.
#[derive(Debug)]
pub(crate) struct Link {
    memory: Memory,
    world: Arc<World>,
    server: ServerId,
}

impl Link {
    pub(super) fn new(memory: Memory, world: Arc<World>, server: ServerId) -> Self {
        Self { memory, world, server }
    }

    /// What stands behind it.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The way there.
    pub(crate) async fn before(&self) -> Result<(), StoreError> {
        self.world.on_the_way(self.server).await;
        let faults = self.world.faults();
        if self.world.draw.per_mille(faults.away) { Err(StoreError::Away) } else { Ok(()) }
    }

    /// The way back. What was done is done, whoever hears of it.
    pub(crate) async fn after(&self) -> Result<(), StoreError> {
        self.world.check();
        self.world.on_the_way(self.server).await;
        let faults = self.world.faults();
        if self.world.draw.per_mille(faults.torn) {
            self.world.count(|counts| counts.torn += 1);
            return Err(StoreError::Away);
        }
        Ok(())
    }
}
