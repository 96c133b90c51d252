//! The store in PostgreSQL: each call one statement or one short transaction, within one budget of time, so that a database
//! that is away costs a caller no more than that (D20 to D23).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use svc_core::{Corrupt, Delivery, IdParceiro, Mensagem, Next, Proposta, PropostaId, Transition};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::partners::Partners;
use crate::seams::Clock;
use crate::store::{CommitError, Inserted, OpenError, StoreError, Task, Waiting, Waits};
use call::{Database, call, corrupt, parameters};
pub use connect::{BadDatabaseUrl, DatabaseUrl};
pub(crate) use outbox::Record;
use propostas::{Commit, Find, Insert};
pub(crate) use together::Together;

/// The end of an attempt is stored with those of others that end about then: its place is free already, and nobody waits.
const RECORDS_GATHER: Duration = Duration::from_millis(2);
/// Records whose data are removed in one transaction.
const FORGOTTEN_AT_ONCE: i64 = 50;

mod call;
mod connect;
mod outbox;
mod propostas;
mod together;
#[cfg(test)]
pub(super) use outbox::due;

#[derive(Debug)]
pub(crate) struct Postgres {
    database: Arc<Database>,
    inserts: Arc<Together<Insert>>,
    finds: Arc<Together<Find>>,
    commits: Arc<Together<Commit>>,
    pub(super) webhook_records: Arc<Together<Record<Delivery>>>,
    pub(super) message_records: Arc<Together<Record<Mensagem>>>,
    /// The last host of a table that a look came to, of partners with more than one look sees.
    walked: Mutex<HashMap<(&'static str, String), String>>,
    clock: Clock,
    /// Drawn by this process, and how many answers it has written: together they name one write among those of all servers.
    writer: u64,
    written: AtomicU64,
}

impl Postgres {
    pub(super) fn new(url: &DatabaseUrl, clock: Clock, writer: u64) -> Self {
        let database = Arc::new(Database { pool: url.pool(), prepared: AtomicBool::new(false) });
        Self {
            inserts: Together::new(&database, Duration::ZERO),
            finds: Together::new(&database, Duration::ZERO),
            commits: Together::new(&database, Duration::ZERO),
            webhook_records: Together::new(&database, RECORDS_GATHER),
            message_records: Together::new(&database, RECORDS_GATHER),
            walked: Mutex::default(),
            database,
            clock,
            writer,
            written: AtomicU64::new(0),
        }
    }

    pub(super) async fn prepare(&self) -> Result<bool, OpenError> {
        let Database { pool, prepared } = &*self.database;
        if !prepared.load(Ordering::Acquire) && connect::migrate(pool).await? {
            prepared.store(true, Ordering::Release);
        }
        Ok(prepared.load(Ordering::Acquire))
    }

    pub(super) async fn ping(&self) -> Result<(), StoreError> {
        call!(self.database, db => {
            db.query_one(&db.prepare_cached("SELECT 1").await?, &[]).await?;
            Ok(())
        })
    }

    pub(super) async fn insert(&self, proposta: &Proposta, mensagem: &Mensagem) -> Result<Inserted, StoreError> {
        let insert = Insert {
            id: uuid(proposta.id()),
            client_id: proposta.client_id().to_owned(),
            id_proposta_parceiro: proposta.id_proposta_parceiro().as_str().to_owned(),
            versao: version(proposta),
            status: proposta.status().as_str(),
            criada_em: proposta.criada_em(),
            dados: proposta.to_stored(),
            mensagem: self.task(mensagem),
        };
        match self.inserts.call(insert).await? {
            None => Ok(Inserted::New),
            Some(first) => Ok(Inserted::Exists(Proposta::from_stored(&first).map_err(|Corrupt| corrupt())?)),
        }
    }

    pub(super) async fn find(&self, id: PropostaId) -> Result<Option<Proposta>, StoreError> {
        let found = self.finds.call(Find(uuid(id))).await?;
        found.map(|dados| Proposta::from_stored(&dados)).transpose().map_err(|Corrupt| corrupt())
    }

    pub(super) async fn look<R: Send>(
        &self,
        id: PropostaId,
        look: impl FnOnce(&Proposta, &Mensagem, Option<&Delivery>) -> R + Send,
    ) -> Result<Option<R>, StoreError> {
        const WHOLE: &str = "SELECT p.dados, m.dados, w.dados FROM propostas p
            JOIN mensagens m USING (id) LEFT JOIN webhooks w USING (id) WHERE p.id = $1";
        let id = uuid(id);
        let row =
            call!(self.database, db => { Ok(db.query_opt(&db.prepare_cached(WHOLE).await?, parameters![id]).await?) })?;
        row.map(|row| seen(&row, look)).transpose().map_err(|Corrupt| corrupt())
    }

    pub(super) async fn look_by_partner<R: Send>(
        &self,
        client_id: &str,
        id: &IdParceiro,
        look: impl FnOnce(&Proposta, &Mensagem, Option<&Delivery>) -> R + Send,
    ) -> Result<Option<R>, StoreError> {
        const WHOLE: &str = "SELECT p.dados, m.dados, w.dados FROM propostas p
            JOIN mensagens m USING (id) LEFT JOIN webhooks w USING (id)
            WHERE p.client_id = $1 AND p.id_proposta_parceiro = $2";
        let row = call!(self.database, db => {
            Ok(db.query_opt(&db.prepare_cached(WHOLE).await?, parameters![client_id, id.as_str()]).await?)
        })?;
        row.map(|row| seen(&row, look)).transpose().map_err(|Corrupt| corrupt())
    }

    pub(super) async fn commit(&self, transition: &Transition, delivery: &Delivery) -> Result<(), CommitError> {
        let next = &transition.proposta;
        let commit = Commit {
            id: uuid(next.id()),
            versao: version(next),
            status: next.status().as_str(),
            respondida_em: next.respondida_em(),
            dados: next.to_stored(),
            escrita: Uuid::from_u64_pair(self.writer, self.written.fetch_add(1, Ordering::Relaxed)),
            webhook: self.task(delivery),
        };
        if self.commits.call(commit).await? { Ok(()) } else { Err(CommitError::Conflict) }
    }

    /// Row by row in batches, each under its version. One that cannot be read is passed over.
    pub(super) async fn forget(&self, before: DateTime<Utc>) -> Result<usize, StoreError> {
        const OLD: &str = "SELECT id, versao, dados, respondida_em FROM propostas
            WHERE tem_dados AND respondida_em < $1 AND (respondida_em, id) > ($2, $3)
            ORDER BY respondida_em, id LIMIT $4";
        const FORGET: &str = "UPDATE propostas SET versao = $3, dados = $4, tem_dados = false
            WHERE id = $1 AND versao = $2";
        const TAKEN: &str = "SELECT id, dados FROM mensagens 
            WHERE id = ANY ($1) AND (envio IS NOT NULL OR leased_until IS NOT NULL) ORDER BY id FOR UPDATE";
        // Whoever holds one has an older copy of it, which must not come back.
        const NAMELESS: &str = "UPDATE mensagens SET envio = NULL, dados = $2, fence = fence + 1 WHERE id = $1";
        let (mut forgotten, mut last) = (0, (DateTime::UNIX_EPOCH, Uuid::nil()));
        loop {
            let (batch, seen) = call!(self.database, db => {
                let (old, forget) = (db.prepare_cached(OLD).await?, db.prepare_cached(FORGET).await?);
                let (taken, nameless) = (db.prepare_cached(TAKEN).await?, db.prepare_cached(NAMELESS).await?);
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
                let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
                for row in transaction.query(&taken, parameters![ids]).await? {
                    let Ok(mensagem) = Mensagem::from_stored(row.get(1)) else {
                        tracing::error!(table = "mensagens", "a stored record cannot be read, and keeps a person's data");
                        continue;
                    };
                    let parameters = parameters![row.get::<_, Uuid>(0), mensagem.without_dados().to_stored()];
                    transaction.execute(&nameless, parameters).await?;
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
        call!(self.database, db => {
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

    fn task<T: Task>(&self, task: &T) -> propostas::Task {
        propostas::Task { host: task.host().into_owned(), wait: self.wait(task.next()), dados: task.to_stored() }
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

/// What is seen in a proposal's row, its message's and its delivery's.
fn seen<R>(row: &Row, look: impl FnOnce(&Proposta, &Mensagem, Option<&Delivery>) -> R) -> Result<R, Corrupt> {
    let (proposta, mensagem) = (Proposta::from_stored(row.get(0))?, Mensagem::from_stored(row.get(1))?);
    let delivery = row.get::<_, Option<&[u8]>>(2).map(Delivery::from_stored).transpose()?;
    Ok(look(&proposta, &mensagem, delivery.as_ref()))
}

fn uuid(id: PropostaId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

fn version(proposta: &Proposta) -> i32 {
    i32::try_from(proposta.version()).unwrap_or(i32::MAX)
}
