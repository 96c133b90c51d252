//! The store in PostgreSQL: each call one statement or one short transaction, within one budget of time, so that a database
//! that is away costs a caller no more than that (D20 to D23).

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use chrono::{DateTime, Utc};
use deadpool_postgres::{Object, Pool};
use svc_core::{Corrupt, Delivery, IdParceiro, Mensagem, Next, Proposta, PropostaId, Transition};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use crate::partners::Partners;
use crate::seams::Clock;
use crate::store::{CommitError, Inserted, OpenError, StoreError, Task, Waiting, Waits, Whole};
pub use connect::{BadDatabaseUrl, DatabaseUrl};

/// Over the wait for a connection, connecting and the statements of one call.
const BUDGET: Duration = Duration::from_millis(2_500);
/// How often a call is made that failed for what passes: a serialisation, a deadlock, a connection that ended.
const MAX_TRIES: u32 = 3;
/// Records whose data are removed in one transaction.
const FORGOTTEN_AT_ONCE: i64 = 50;

/// One call: a connection and what is asked of it, in time. It may be made again, so it must come to the same.
///
/// A macro, for a closure that lends its connection to a future of its own cannot be sent between threads.
macro_rules! call {
    ($store:expr, $db:ident => $body:block) => {{
        let deadline = Instant::now() + BUDGET;
        let mut tries = 0;
        loop {
            tries += 1;
            let mut object = $store.connection(deadline).await?;
            let $db = &mut object;
            match judge(timeout_at(deadline, async { $body }).await, tries) {
                Ok(Some(value)) => break Ok(value),
                Ok(None) => {}
                Err(error) => {
                    // What it was in the middle of is not known; a new one is.
                    drop(Object::take(object));
                    break Err(error);
                }
            }
        }
    }};
}

/// The parameters of a statement.
macro_rules! parameters {
    ($($value:expr),+ $(,)?) => { &[$(&Hidden(&$value) as &(dyn ToSql + Sync)),+] };
}

mod connect;
mod outbox;
#[cfg(test)]
pub(super) use outbox::due;

#[derive(Debug)]
pub(super) struct Postgres {
    pool: Pool,
    /// Whether the schema is known to be this version's. Nothing is asked of it before.
    prepared: AtomicBool,
    clock: Clock,
    /// Drawn by this process, and how many answers it has written: together they name one write among those of all servers.
    writer: u64,
    written: AtomicU64,
}

/// Why a call did not come to its end.
#[derive(Debug)]
enum Failed {
    Database(tokio_postgres::Error),
    Corrupt,
}

impl Postgres {
    pub(super) fn new(url: &DatabaseUrl, clock: Clock, writer: u64) -> Self {
        Self { pool: url.pool(), prepared: AtomicBool::new(false), clock, writer, written: AtomicU64::new(0) }
    }

    pub(super) async fn prepare(&self) -> Result<bool, OpenError> {
        if !self.prepared.load(Ordering::Acquire) && connect::migrate(&self.pool).await? {
            self.prepared.store(true, Ordering::Release);
        }
        Ok(self.prepared.load(Ordering::Acquire))
    }

    pub(super) async fn ping(&self) -> Result<(), StoreError> {
        call!(self, db => {
            db.query_one(&db.prepare_cached("SELECT 1").await?, &[]).await?;
            Ok(())
        })
    }

    /// Both rows in one statement. Made again after an unknown outcome, it finds its own record, which is then new.
    pub(super) async fn insert(&self, proposta: &Proposta, mensagem: &Mensagem) -> Result<Inserted, StoreError> {
        const INSERT: &str = "WITH new AS (
                INSERT INTO propostas (id, client_id, id_proposta_parceiro, versao, status, criada_em, dados)
                VALUES ($1, $2, $3, $4, $5, $6, $7)
                ON CONFLICT (client_id, id_proposta_parceiro) DO NOTHING RETURNING id)
            INSERT INTO mensagens (id, client_id, host, due, since, dados)
            SELECT id, $2, $8, w, w, $10 FROM new, (SELECT now() + $9::bigint * interval '1 microsecond') AS t (w)";
        const FIRST: &str = "SELECT dados FROM propostas WHERE client_id = $1 AND id_proposta_parceiro = $2";
        let (id, client_id, theirs) =
            (uuid(proposta.id()), proposta.client_id(), proposta.id_proposta_parceiro().as_str());
        let (versao, status, criada_em) = (version(proposta), proposta.status().as_str(), proposta.criada_em());
        let (dados, task) = (proposta.to_stored(), mensagem.to_stored());
        let (host, wait) = (mensagem.host(), self.wait(mensagem.next()));
        call!(self, db => {
            let insert = db.prepare_cached(INSERT).await?;
            let inserted = db
                .execute(
                    &insert,
                    parameters![id, client_id, theirs, versao, status, criada_em, dados, host, wait, task],
                )
                .await?;
            if inserted == 1 {
                return Ok(Inserted::New);
            }
            let first = db.query_one(&db.prepare_cached(FIRST).await?, parameters![client_id, theirs]).await?;
            let first = Proposta::from_stored(first.get(0))?;
            Ok(if first.id() == proposta.id() { Inserted::New } else { Inserted::Exists(first) })
        })
    }

    pub(super) async fn find(&self, id: PropostaId) -> Result<Option<Proposta>, StoreError> {
        let id = uuid(id);
        call!(self, db => {
            let found = db.prepare_cached("SELECT dados FROM propostas WHERE id = $1").await?;
            let row = db.query_opt(&found, parameters![id]).await?;
            Ok(row.map(|row| Proposta::from_stored(row.get(0))).transpose()?)
        })
    }

    pub(super) async fn whole(&self, id: PropostaId) -> Result<Option<Whole>, StoreError> {
        const WHOLE: &str = "SELECT p.dados, m.dados, w.dados FROM propostas p
            JOIN mensagens m USING (id) LEFT JOIN webhooks w USING (id) WHERE p.id = $1";
        let id = uuid(id);
        call!(self, db => { Ok(whole(db.query_opt(&db.prepare_cached(WHOLE).await?, parameters![id]).await?)?) })
    }

    pub(super) async fn whole_by_partner(&self, client_id: &str, id: &IdParceiro) -> Result<Option<Whole>, StoreError> {
        const WHOLE: &str = "SELECT p.dados, m.dados, w.dados FROM propostas p
            JOIN mensagens m USING (id) LEFT JOIN webhooks w USING (id)
            WHERE p.client_id = $1 AND p.id_proposta_parceiro = $2";
        call!(self, db => {
            Ok(whole(db.query_opt(&db.prepare_cached(WHOLE).await?, parameters![client_id, id.as_str()]).await?)?)
        })
    }

    /// Answer and event in one statement, guarded by the version. Made again after an unknown outcome, it finds its own mark
    /// in the record; the same answer in the same millisecond, given elsewhere, has another.
    pub(super) async fn commit(&self, transition: &Transition, delivery: &Delivery) -> Result<(), CommitError> {
        const COMMIT: &str = "WITH moved AS (
                UPDATE propostas SET versao = $2, status = $3, respondida_em = $4, dados = $5, escrita = $10
                WHERE id = $1 AND versao = $2 - 1 RETURNING id)
            INSERT INTO webhooks (id, client_id, host, due, since, dados)
            SELECT id, $6, $7, w, w, $9 FROM moved, (SELECT now() + $8::bigint * interval '1 microsecond') AS t (w)";
        let next = &transition.proposta;
        let (id, versao, status) = (uuid(next.id()), version(next), next.status().as_str());
        let (respondida_em, dados, task) = (next.respondida_em(), next.to_stored(), delivery.to_stored());
        let (client_id, host, wait) = (next.client_id(), Task::host(delivery), self.wait(delivery.next()));
        let escrita = Uuid::from_u64_pair(self.writer, self.written.fetch_add(1, Ordering::Relaxed));
        let committed = call!(self, db => {
            let commit = db.prepare_cached(COMMIT).await?;
            let parameters =
                parameters![id, versao, status, respondida_em, dados, client_id, host, wait, task, escrita];
            if db.execute(&commit, parameters).await? == 1 {
                return Ok(true);
            }
            let ours = db.prepare_cached("SELECT FROM propostas WHERE id = $1 AND escrita = $2").await?;
            Ok(db.query_opt(&ours, parameters![id, escrita]).await?.is_some())
        })?;
        if committed { Ok(()) } else { Err(CommitError::Conflict) }
    }

    /// Row by row in batches, each under its version. One that cannot be read is passed over.
    pub(super) async fn forget(&self, before: DateTime<Utc>) -> Result<usize, StoreError> {
        const OLD: &str = "SELECT id, versao, dados, respondida_em FROM propostas
            WHERE tem_dados AND respondida_em < $1 AND (respondida_em, id) > ($2, $3)
            ORDER BY respondida_em, id LIMIT $4";
        const FORGET: &str = "UPDATE propostas SET versao = $3, dados = $4, tem_dados = false
            WHERE id = $1 AND versao = $2";
        let (mut forgotten, mut last) = (0, (DateTime::UNIX_EPOCH, Uuid::nil()));
        loop {
            let (batch, seen) = call!(self, db => {
                let (old, forget) = (db.prepare_cached(OLD).await?, db.prepare_cached(FORGET).await?);
                let rows = db.query(&old, parameters![before, last.0, last.1, FORGOTTEN_AT_ONCE]).await?;
                let transaction = db.transaction().await?;
                let mut batch = 0;
                for row in &rows {
                    let (id, versao): (Uuid, i32) = (row.get(0), row.get(1));
                    let Ok(stored) = Proposta::from_stored(row.get(2)) else {
                        tracing::error!(table = "propostas", "a stored record cannot be read, and keeps a person's data");
                        continue;
                    };
                    let removed = stored.without_dados();
                    let parameters = parameters![id, versao, version(&removed), removed.to_stored()];
                    batch += transaction.execute(&forget, parameters).await?;
                }
                transaction.commit().await?;
                let seen: Option<(DateTime<Utc>, Uuid)> = rows.last().map(|row| (row.get(3), row.get(0)));
                Ok((usize::try_from(batch).unwrap_or(usize::MAX), seen))
            })?;
            forgotten += batch;
            match seen {
                Some(seen) => last = seen,
                None => return Ok(forgotten),
            }
        }
    }

    pub(super) async fn waiting(&self, partners: &Partners) -> Result<Waiting, StoreError> {
        let known: Vec<&str> = partners.client_ids().collect();
        call!(self, db => {
            let mut found = [Waits::default(); 2];
            for (found, table) in found.iter_mut().zip([Delivery::TABLE, Mensagem::TABLE]) {
                let waiting = format!(
                    "SELECT count(*) FILTER (WHERE known), count(*) FILTER (WHERE NOT known),
                        coalesce(extract(epoch FROM now() - min(since) FILTER (WHERE known)), 0)::float8
                    FROM (SELECT since, client_id = ANY ($1) AS known FROM {table} WHERE due IS NOT NULL) AS w"
                );
                let row = db.query_one(&db.prepare_cached(&waiting).await?, parameters![known]).await?;
                let [count, of_removed] = [row.get::<_, i64>(0), row.get(1)].map(|n| usize::try_from(n).unwrap_or(0));
                let oldest = Duration::try_from_secs_f64(row.get(2)).unwrap_or_default();
                *found = Waits { count, oldest, of_removed };
            }
            let [webhooks, messages] = found;
            Ok(Waiting { webhooks, messages })
        })
    }

    async fn connection(&self, deadline: Instant) -> Result<Object, StoreError> {
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

    /// Microseconds until something is due; the database adds them to its own clock.
    fn wait(&self, next: Next) -> Option<i64> {
        match next {
            Next::At(at) => {
                let wait = at.signed_duration_since(self.clock.now());
                Some(wait.num_microseconds().unwrap_or(i64::MAX / 2).max(0))
            }
            Next::Done | Next::GiveUp => None,
        }
    }
}

/// What follows from the end of a call: its value, another try, or an error.
fn judge<T>(ended: Result<Result<T, Failed>, Elapsed>, tries: u32) -> Result<Option<T>, StoreError> {
    let (code, late) = match ended {
        Ok(Ok(value)) => return Ok(Some(value)),
        Ok(Err(Failed::Corrupt)) => {
            tracing::error!("a stored record cannot be read");
            return Err(StoreError::Corrupt);
        }
        Ok(Err(Failed::Database(error))) if tries < MAX_TRIES && passes(&error) => return Ok(None),
        Ok(Err(Failed::Database(error))) => (error.code().map_or("-", SqlState::code).to_owned(), false),
        Err(_) => ("-".to_owned(), true),
    };
    tracing::warn!(sqlstate = code, late, tries, "database call failed");
    Err(StoreError::Away)
}

/// Whether the same call can succeed in a moment: another transaction came between, or this connection ended and the next
/// one need not.
fn passes(error: &tokio_postgres::Error) -> bool {
    let transient = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::ADMIN_SHUTDOWN];
    error.code().map_or_else(|| error.is_closed() || is_io(error), |code| transient.contains(code))
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(|source| source.is::<std::io::Error>())
}

fn whole(row: Option<Row>) -> Result<Option<Whole>, Corrupt> {
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Whole {
        proposta: Proposta::from_stored(row.get(0))?,
        mensagem: Mensagem::from_stored(row.get(1))?,
        delivery: row.get::<_, Option<&[u8]>>(2).map(Delivery::from_stored).transpose()?,
    }))
}

fn uuid(id: PropostaId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

fn version(proposta: &Proposta) -> i32 {
    i32::try_from(proposta.version()).unwrap_or(i32::MAX)
}

/// A parameter that keeps itself out of the logs of the crate below, whatever their level: they hold each one's value (D20b).
struct Hidden<'a, T>(&'a T);

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
