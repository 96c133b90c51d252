//! Work that waits in a table: leased for a time by the database's clock, with a number that fences off whoever comes late.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::sync::PoisonError;
use std::time::Duration;

use deadpool_postgres::Object;
use svc_core::PropostaId;
use uuid::Uuid;

use super::call::{Failed, call, parameters};
use super::together::{Call, column};
use super::{Postgres, uuid};
use crate::bounds::{Permit, Room};
use crate::outbox::{Lease, Leased};
use crate::store::{StoreError, Task};

/// After a look at rows that others took, or hold locked.
const CONTENDED_PAUSE: Duration = Duration::from_millis(50);
/// Hosts that one look steps to, of all partners together, and of one however many partners there are. A partner has hosts as
/// many as it likes to name: those of one that has more are seen by turns, so that it holds up no other.
const STEPS: usize = 2_000;
const LEAST_STEPS: usize = 100;
/// Between two turns.
const WALK_PAUSE: Duration = Duration::from_millis(100);

impl Postgres {
    /// Looks what is due the longest where there is room, and takes what is still there. Two servers that have seen the same
    /// rows do not wait for each other: what one takes the other passes over.
    pub(in crate::store) async fn lease<T: Task>(
        &self,
        room: &Room<'_>,
        time: Duration,
    ) -> Result<Leased<T>, StoreError> {
        let due = due::<T>();
        let take = format!(
            "UPDATE {table} SET fence = fence + 1, due = now() + $2::bigint * interval '1 microsecond',
                leased_until = now() + $2::bigint * interval '1 microsecond'
            WHERE id IN (SELECT id FROM {table} WHERE id = ANY ($1) AND due <= now() FOR UPDATE SKIP LOCKED)
            RETURNING id, fence, dados",
            table = T::TABLE
        );
        let partners = room.partners();
        if partners.is_empty() {
            return Ok(Leased { leases: Vec::new(), next: None });
        }
        let after: Vec<Option<String>> = {
            let walked = self.walked.lock().unwrap_or_else(PoisonError::into_inner);
            partners.iter().map(|partner| walked.get(&(T::TABLE, (*partner).to_owned())).cloned()).collect()
        };
        let steps = (STEPS / partners.len()).max(LEAST_STEPS);
        let (free, per_host) = room.look();
        let [free_limit, host_limit, step_limit] =
            [free, per_host, steps].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        let (full_partners, full_hosts): (Vec<String>, Vec<String>) = room.full_hosts().into_iter().unzip();
        let time = micros(time);
        let (leases, next, cut) = call!(self.database, db => {
            let due = db.prepare_cached(&due).await?;
            let parameters =
                parameters![partners, after, full_partners, full_hosts, free_limit, host_limit, step_limit];
            let rows = db.query(&due, parameters).await?;
            let mut permits = HashMap::<Uuid, Permit>::new();
            let mut found = HashMap::<(&str, &str), usize>::new();
            let mut cut = HashMap::<String, String>::new();
            for row in &rows {
                let (id, partner, host) = (row.get(0), row.get(1), row.get(2));
                let Some(id) = id else {
                    cut.insert(String::from(partner), String::from(host));
                    continue;
                };
                *found.entry((partner, host)).or_default() += 1;
                permits.extend(room.take(partner, host).map(|permit| (id, permit)));
            }
            // Whether something found no place, or was not looked at for what came before it.
            let of_host = free.checked_div(found.len()).unwrap_or_default().clamp(1, per_host);
            let seen: usize = found.values().sum();
            let more = seen > permits.len() || found.len() >= free || found.values().any(|found| *found >= of_host);
            let mut leases = Vec::with_capacity(permits.len());
            let ids: Vec<Uuid> = permits.keys().copied().collect();
            let taken = match ids.is_empty() {
                true => Vec::new(),
                false => db.query(&db.prepare_cached(&take).await?, parameters![ids, time]).await?,
            };
            for row in &taken {
                let (id, fence, dados): (Uuid, i64, &[u8]) = (row.get(0), row.get(1), row.get(2));
                match (T::from_stored(dados), permits.remove(&id)) {
                    (Ok(task), Some(permit)) => {
                        leases.push(Lease { task, fence: fence.unsigned_abs(), permit });
                    }
                    // The others go out; this one comes again when its lease ends, and is said again.
                    _ => tracing::error!(table = T::TABLE, "a stored task cannot be read"),
                }
            }
            let next = match () {
                // Somebody else had the rest, or holds it locked.
                () if taken.len() < ids.len() => Some(CONTENDED_PAUSE),
                () if more && !ids.is_empty() => Some(Duration::ZERO),
                () if !cut.is_empty() || after.iter().any(Option::is_some) => Some(WALK_PAUSE),
                () => None,
            };
            Ok((leases, next, cut))
        })?;
        let mut walked = self.walked.lock().unwrap_or_else(PoisonError::into_inner);
        for partner in partners {
            walked.remove(&(T::TABLE, partner.to_owned()));
        }
        walked.extend(cut.into_iter().map(|(partner, host)| ((T::TABLE, partner), host)));
        Ok(Leased { leases, next })
    }

    pub(in crate::store) async fn record<T: Task>(&self, fence: u64, task: &T) -> Result<bool, StoreError> {
        let (id, wait, dados) = (uuid(task.id()), self.wait(task.next()), task.to_stored());
        let (fence, envio) = (fence.cast_signed(), task.envio().map(str::to_owned));
        T::records(self).call(Record { id, fence, wait, dados, envio, of: PhantomData }).await
    }

    pub(in crate::store) async fn put_back<T: Task>(
        &self,
        fence: u64,
        task: &T,
        wait: Duration,
    ) -> Result<(), StoreError> {
        let put_back = format!(
            "UPDATE {} SET due = now() + $3::bigint * interval '1 microsecond', leased_until = NULL
            WHERE id = $1 AND fence = $2",
            T::TABLE
        );
        let (id, fence, wait) = (uuid(task.id()), fence.cast_signed(), micros(wait));
        call!(self.database, db => {
            db.execute(&db.prepare_cached(&put_back).await?, parameters![id, fence, wait]).await?;
            Ok(())
        })
    }

    /// One that is leased stays as it is: its attempt is under way.
    pub(in crate::store) async fn change<T: Task>(
        &self,
        id: PropostaId,
        change: impl Fn(T) -> T + Send + Sync,
    ) -> Result<bool, StoreError> {
        let idle = format!(
            "SELECT dados FROM {} WHERE id = $1 AND (leased_until IS NULL OR leased_until <= now()) FOR UPDATE",
            T::TABLE
        );
        let update = format!(
            "UPDATE {} SET due = now() + $2::bigint * interval '1 microsecond',
                since = now() + $2::bigint * interval '1 microsecond',
                leased_until = NULL, fence = fence + 1, dados = $3
            WHERE id = $1",
            T::TABLE
        );
        let id = uuid(id);
        call!(self.database, db => {
            let (idle, update) = (db.prepare_cached(&idle).await?, db.prepare_cached(&update).await?);
            let transaction = db.transaction().await?;
            let Some(row) = transaction.query_opt(&idle, parameters![id]).await? else { return Ok(false) };
            let task = change(T::from_stored(row.get(0))?);
            transaction.execute(&update, parameters![id, self.wait(task.next()), task.to_stored()]).await?;
            transaction.commit().await?;
            Ok(true)
        })
    }

    #[cfg(feature = "whatsapp")]
    pub(in crate::store) async fn proposta_of(&self, envio: &str) -> Result<Option<PropostaId>, StoreError> {
        call!(self.database, db => {
            let found = db.prepare_cached("SELECT id FROM mensagens WHERE envio = $1 LIMIT 1").await?;
            let row = db.query_opt(&found, parameters![envio]).await?;
            Ok(row.and_then(|row| PropostaId::from_bytes(*row.get::<_, Uuid>(0).as_bytes())))
        })
    }
}

/// A task after its attempt.
pub(crate) struct Record<T> {
    id: Uuid,
    fence: i64,
    wait: Option<i64>,
    dados: Vec<u8>,
    envio: Option<String>,
    of: PhantomData<T>,
}

impl<T: Task> Call for Record<T> {
    /// Whether the lease was still held.
    type Answer = bool;

    fn order(&self, other: &Self) -> Ordering {
        self.id.cmp(&other.id)
    }

    async fn make(calls: &[Self], db: &mut Object) -> Result<Vec<Self::Answer>, Failed> {
        let record = format!(
            "UPDATE {table} t SET due = w, since = w, leased_until = NULL, dados = r.dados{envio}
            FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bytea[], $5::text[])
                AS r (id, fence, wait, dados, envio),
                LATERAL (SELECT now() + wait * interval '1 microsecond') AS d (w)
            WHERE t.id = r.id AND t.fence = r.fence RETURNING t.id, t.fence",
            table = T::TABLE,
            envio = if T::IS_TOLD_OF { ", envio = r.envio" } else { "" }
        );
        let parameters = parameters![
            column(calls, |call| call.id),
            column(calls, |call| call.fence),
            column(calls, |call| call.wait),
            column(calls, |call| &*call.dados),
            column(calls, |call| call.envio.as_deref()),
        ];
        let rows = db.query(&db.prepare_cached(&record).await?, parameters).await?;
        let recorded: HashSet<(Uuid, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        Ok(column(calls, |call| recorded.contains(&(call.id, call.fence))))
    }
}

/// What is due for the partners $1 at hosts that are none of $4 of the partners $3: at most $5 rows, by turns of the partners, the
/// longest due first; of a host at most $6, and less where many hosts have something due. It steps from host to host by
/// the index, each partner's at most $7, behind the host $2 where the look before was cut. A row without an id says where this
/// one is.
pub(in crate::store) fn due<T: Task>() -> String {
    format!(
        "WITH RECURSIVE hosts (client_id, host, due, step) AS (
            SELECT p, first.host, first.due, 1::bigint FROM unnest($1::text[], $2::text[]) AS a (p, after)
            CROSS JOIN LATERAL (
                (SELECT host, due FROM {table} WHERE client_id = p AND after IS NULL AND due IS NOT NULL
                ORDER BY host, due LIMIT 1)
                UNION ALL
                (SELECT host, due FROM {table} WHERE client_id = p AND host > after AND due IS NOT NULL
                ORDER BY host, due LIMIT 1)) first
            UNION ALL
            SELECT h.client_id, next.host, next.due, step + 1 FROM hosts h CROSS JOIN LATERAL (
                SELECT host, due FROM {table} WHERE client_id = h.client_id AND host > h.host AND due IS NOT NULL
                ORDER BY host, due LIMIT 1) next
            WHERE step < $7),
        chosen AS (
            SELECT client_id, host, row_number() OVER (PARTITION BY client_id ORDER BY due) AS turn FROM hosts
            WHERE due <= now() AND (client_id, host) NOT IN (SELECT * FROM unnest($3::text[], $4::text[]))
            ORDER BY turn, due LIMIT $5)
        (SELECT w.id, c.client_id, c.host FROM chosen c CROSS JOIN LATERAL (
            SELECT id, due FROM {table} WHERE client_id = c.client_id AND host = c.host AND due <= now()
            ORDER BY due LIMIT (SELECT greatest(1, least($6, $5 / count(*))) FROM chosen)) w
        ORDER BY row_number() OVER (PARTITION BY c.client_id ORDER BY w.due), w.due)
        UNION ALL
        SELECT NULL, client_id, host FROM hosts WHERE step = $7",
        table = T::TABLE
    )
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 2)
}
