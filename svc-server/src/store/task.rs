//! What waits in a store until it is due: a delivery, or a message.

use std::borrow::Cow;
#[cfg(feature = "postgres")]
use std::sync::Arc;

use svc_core::{Corrupt, Delivery, Mensagem, Next, PropostaId};

use crate::store::memory::Kept;
#[cfg(feature = "postgres")]
use crate::store::postgres::{Postgres, Record, Together};

/// A kind of work. A proposal has one event and one message, so its id is the task's.
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "the store in memory keeps values, not bytes"))]
pub(crate) trait Task: Kept + Clone + Send + Sync + 'static {
    /// Where a database keeps it, and its name in logs.
    const TABLE: &str;
    /// Whether its channel tells of it later.
    const IS_TOLD_OF: bool = false;

    fn id(&self) -> PropostaId;
    fn client_id(&self) -> &str;
    /// Who is called on, for the bound on a host.
    fn host(&self) -> Cow<'_, str>;
    fn next(&self) -> Next;
    /// By which its channel tells of it later.
    fn envio(&self) -> Option<&str> {
        None
    }
    fn to_stored(&self) -> Vec<u8>;
    fn from_stored(bytes: &[u8]) -> Result<Self, Corrupt>;
    /// Where a database's records of it gather.
    #[cfg(feature = "postgres")]
    fn records(postgres: &Postgres) -> &Arc<Together<Record<Self>>>;
}

impl Task for Delivery {
    const TABLE: &str = "webhooks";

    fn id(&self) -> PropostaId {
        self.evento().id().proposta()
    }

    fn client_id(&self) -> &str {
        Delivery::client_id(self)
    }

    fn host(&self) -> Cow<'_, str> {
        self.url().host()
    }

    fn next(&self) -> Next {
        Delivery::next(self)
    }

    fn to_stored(&self) -> Vec<u8> {
        Delivery::to_stored(self)
    }

    fn from_stored(bytes: &[u8]) -> Result<Self, Corrupt> {
        Delivery::from_stored(bytes)
    }

    #[cfg(feature = "postgres")]
    fn records(postgres: &Postgres) -> &Arc<Together<Record<Self>>> {
        &postgres.webhook_records
    }
}

impl Task for Mensagem {
    const TABLE: &str = "mensagens";
    const IS_TOLD_OF: bool = true;

    fn id(&self) -> PropostaId {
        self.proposta()
    }

    fn client_id(&self) -> &str {
        Mensagem::client_id(self)
    }

    /// All go the same way.
    fn host(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn next(&self) -> Next {
        Mensagem::next(self)
    }

    fn envio(&self) -> Option<&str> {
        Mensagem::envio(self).map(|envio| &*envio.id)
    }

    fn to_stored(&self) -> Vec<u8> {
        Mensagem::to_stored(self)
    }

    fn from_stored(bytes: &[u8]) -> Result<Self, Corrupt> {
        Mensagem::from_stored(bytes)
    }

    #[cfg(feature = "postgres")]
    fn records(postgres: &Postgres) -> &Arc<Together<Record<Self>>> {
        &postgres.message_records
    }
}
