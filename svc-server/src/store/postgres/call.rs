//! One call of the database: a connection and what is asked of it, within one budget of time (D20 to D23).

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use deadpool_postgres::{Object, Pool};
use svc_core::Corrupt;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::store::StoreError;

/// Over the wait for a connection, connecting and the statements of one call.
pub(super) const BUDGET: Duration = Duration::from_millis(2_500);
/// How often a call is made that failed for what passes: a serialisation, a deadlock, a connection that ended.
const MAX_TRIES: u32 = 3;

/// One call: a connection and what is asked of it, in time. It may be made again, so it must come to the same.
///
/// A macro, for a closure that lends its connection to a future of its own cannot be sent between threads.
macro_rules! call {
    ($database:expr, $db:ident => $body:block) => {{
        let deadline = tokio::time::Instant::now() + $crate::store::postgres::call::BUDGET;
        let mut tries = 0;
        loop {
            tries += 1;
            let mut object = $database.connection(deadline).await?;
            let $db = &mut object;
            match $crate::store::postgres::call::judge(tokio::time::timeout_at(deadline, async { $body }).await, tries)
            {
                Ok(Some(value)) => break Ok(value),
                Ok(None) => {}
                Err(error) => {
                    // What it was in the middle of is not known; a new one is.
                    drop(deadpool_postgres::Object::take(object));
                    break Err(error);
                }
            }
        }
    }};
}

/// The parameters of a statement.
macro_rules! parameters {
    ($($value:expr),+ $(,)?) => {
        &[$(&$crate::store::postgres::call::Hidden(&$value) as &(dyn tokio_postgres::types::ToSql + Sync)),+]
    };
}

pub(super) use {call, parameters};

/// The way to a database whose schema is, or is not yet, known to be this version's. Nothing is asked of it before.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) pool: Pool,
    pub(super) prepared: AtomicBool,
}

impl Database {
    pub(super) async fn connection(&self, deadline: Instant) -> Result<Object, StoreError> {
        if !self.prepared.load(Ordering::Acquire) {
            return Err(StoreError::Away);
        }
        match timeout_at(deadline, self.pool.get()).await {
            Ok(Ok(object)) => Ok(object),
            Ok(Err(_)) => {
                tracing::warn!("database gives no connection");
                Err(StoreError::Away)
            }
            Err(_) => {
                tracing::warn!("no connection to the database in time");
                Err(StoreError::Away)
            }
        }
    }
}

/// Why a call did not come to its end.
#[derive(Debug)]
pub(crate) enum Failed {
    Database(tokio_postgres::Error),
    Corrupt,
    /// A row that was there a moment ago is not any more.
    Gone,
}

/// What follows from the end of a call: its value, another try, or an error.
pub(super) fn judge<T>(ended: Result<Result<T, Failed>, Elapsed>, tries: u32) -> Result<Option<T>, StoreError> {
    let (code, late) = match ended {
        Ok(Ok(value)) => return Ok(Some(value)),
        Ok(Err(Failed::Corrupt)) => return Err(corrupt()),
        Ok(Err(failed)) if tries < MAX_TRIES && failed.passes() => return Ok(None),
        Ok(Err(Failed::Database(error))) => (error.code().map_or("-", SqlState::code).to_owned(), false),
        Ok(Err(Failed::Gone)) => ("-".to_owned(), false),
        Err(_) => ("-".to_owned(), true),
    };
    tracing::warn!(sqlstate = code, late, tries, "database call failed");
    // Data that it does not take (22, 23), or a lock that did not come in time (55): of other data the same can succeed.
    let rejected = ["22", "23", "55"].iter().any(|class| code.starts_with(class));
    Err(if rejected { StoreError::Rejected } else { StoreError::Away })
}

pub(super) fn corrupt() -> StoreError {
    tracing::error!("a stored record cannot be read");
    StoreError::Corrupt
}

impl Failed {
    /// Whether the same call can succeed in a moment: another transaction came between, or this connection ended and the
    /// next one need not.
    fn passes(&self) -> bool {
        let transient =
            [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::ADMIN_SHUTDOWN];
        match self {
            Self::Database(error) => {
                let is_io = || error.source().is_some_and(|source| source.is::<std::io::Error>());
                error.code().map_or_else(|| error.is_closed() || is_io(), |code| transient.contains(code))
            }
            Self::Corrupt => false,
            Self::Gone => true,
        }
    }
}

/// A parameter that keeps itself out of the logs of the crate below, whatever their level: they hold each one's value (D20b).
pub(super) struct Hidden<'a, T>(pub(super) &'a T);

impl<T> fmt::Debug for Hidden<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T: ToSql> ToSql for Hidden<'_, T> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        T::accepts(ty)
    }

    to_sql_checked!();
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Corrupt> for Failed {
    fn from(_: Corrupt) -> Self {
        Self::Corrupt
    }
}
