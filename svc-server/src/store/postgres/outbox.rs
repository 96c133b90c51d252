//! Work that waits in a table: leased for a time by the database's clock, with a number that fences off whoever comes late.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use deadpool_postgres::Object;
use svc_core::{Delivery, Mensagem, PropostaId, Schedule};
use uuid::Uuid;

use super::call::{Failed, call, parameters};
use super::together::{Call, column};
use super::{Postgres, uuid};
use crate::bounds::{Look, Permit, Room};
use crate::outbox::{Lease, Leased};
use crate::store::{StoreError, Task};

/// After a look at rows that others took, or hold locked.
const CONTENDED_PAUSE: Duration = Duration::from_millis(10);

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
        let Look { of_host, hosts } = room.look(partners.len());
        let limits = [hosts, of_host].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        let ((full_partners, full_hosts), time): ((Vec<String>, Vec<String>), _) =
            (room.full_hosts().into_iter().unzip(), micros(time));
        let (leases, next) = call!(self.database, db => {
            let due = db.prepare_cached(&due).await?;
            let rows = db.query(&due, parameters![partners, full_partners, full_hosts, limits[0], limits[1]]).await?;
            let mut permits = HashMap::<Uuid, Permit>::new();
            let mut found = HashMap::<(&str, &str), usize>::new();
            for row in &rows {
                let (id, partner, host) = (row.get(0), row.get(1), row.get(2));
                *found.entry((partner, host)).or_default() += 1;
                permits.extend(room.take(partner, host).map(|permit| (id, permit)));
            }
            // Whether something found no place, or was not looked at for what came before it.
            let more = rows.len() > permits.len()
                || found.len() == hosts
                || found.values().any(|found| *found == of_host);
            let mut leases = Vec::with_capacity(permits.len());
            if permits.is_empty() {
                return Ok((leases, None));
            }
            let ids: Vec<Uuid> = permits.keys().copied().collect();
            for row in db.query(&db.prepare_cached(&take).await?, parameters![ids, time]).await? {
                let (id, fence, dados): (Uuid, i64, &[u8]) = (row.get(0), row.get(1), row.get(2));
                match (T::from_stored(dados), permits.remove(&id)) {
                    (Ok(task), Some(permit)) => {
                        leases.push(Lease { task, fence: fence.unsigned_abs(), permit });
                    }
                    // The others go out; this one comes again when its lease ends, and is said again.
                    _ => tracing::error!(table = T::TABLE, "a stored task cannot be read"),
                }
            }
            // Somebody else had the rest, or holds it locked.
            let contended = leases.len() < ids.len();
            Ok((leases, if contended { Some(CONTENDED_PAUSE) } else { more.then_some(Duration::ZERO) }))
        })?;
        Ok(Leased { leases, next })
    }

    pub(in crate::store) async fn record<T: Task>(&self, fence: u64, task: &T) -> Result<bool, StoreError> {
        let (id, fence) = (uuid(task.id()), fence.cast_signed());
        let record = Record { table: T::TABLE, id, fence, wait: self.wait(task.next()), dados: task.to_stored() };
        self.records.call(record).await
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
    pub(in crate::store) async fn resend<T: Task>(
        &self,
        id: PropostaId,
        schedule: &Schedule,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let idle = format!(
            "SELECT dados FROM {} WHERE id = $1 AND (leased_until IS NULL OR leased_until <= now()) FOR UPDATE",
            T::TABLE
        );
        let change = format!(
            "UPDATE {} SET due = now() + $2::bigint * interval '1 microsecond',
                since = now() + $2::bigint * interval '1 microsecond',
                leased_until = NULL, fence = fence + 1, dados = $3
            WHERE id = $1",
            T::TABLE
        );
        let id = uuid(id);
        call!(self.database, db => {
            let (idle, change) = (db.prepare_cached(&idle).await?, db.prepare_cached(&change).await?);
            let transaction = db.transaction().await?;
            if let Some(row) = transaction.query_opt(&idle, parameters![id]).await? {
                let task = T::from_stored(row.get(0))?.resend(schedule, now);
                transaction.execute(&change, parameters![id, self.wait(task.next()), task.to_stored()]).await?;
            }
            transaction.commit().await?;
            Ok(())
        })
    }
}

/// A task after its attempt.
pub(super) struct Record {
    table: &'static str,
    id: Uuid,
    fence: i64,
    wait: Option<i64>,
    dados: Vec<u8>,
}

impl Call for Record {
    /// Whether the lease was still held.
    type Answer = bool;

    async fn make(calls: &[Self], db: &mut Object) -> Result<Vec<Self::Answer>, Failed> {
        let mut recorded = HashSet::<(Uuid, i64)>::new();
        for table in [Delivery::TABLE, Mensagem::TABLE] {
            let calls: Vec<&Self> = calls.iter().filter(|call| call.table == table).collect();
            if calls.is_empty() {
                continue;
            }
            let record = format!(
                "UPDATE {table} t SET due = w, since = w, leased_until = NULL, dados = r.dados
                FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bytea[]) AS r (id, fence, wait, dados),
                    LATERAL (SELECT now() + wait * interval '1 microsecond') AS d (w)
                WHERE t.id = r.id AND t.fence = r.fence RETURNING t.id, t.fence"
            );
            let parameters = parameters![
                column(&calls, |call| call.id),
                column(&calls, |call| call.fence),
                column(&calls, |call| call.wait),
                column(&calls, |call| &*call.dados),
            ];
            let rows = db.query(&db.prepare_cached(&record).await?, parameters).await?;
            recorded.extend(rows.iter().map(|row| (row.get(0), row.get(1))));
        }
        Ok(column(calls, |call| recorded.contains(&(call.id, call.fence))))
    }
}

/// Of the hosts of the partners $1 that have anything due, and are none of the hosts $3 of the partners $2, the $4 that have
/// waited longest; of each the first $5 rows. It steps from host to host by the index, so that what waits for a host
/// without room costs nothing.
pub(in crate::store) fn due<T: Task>() -> String {
    format!(
        "WITH RECURSIVE hosts (client_id, host, due) AS (
            SELECT p, first.host, first.due FROM unnest($1::text[]) AS p CROSS JOIN LATERAL (
                SELECT host, due FROM {table} WHERE client_id = p AND due IS NOT NULL ORDER BY host, due LIMIT 1) first
            UNION ALL
            SELECT h.client_id, next.host, next.due FROM hosts h CROSS JOIN LATERAL (
                SELECT host, due FROM {table} WHERE client_id = h.client_id AND host > h.host AND due IS NOT NULL
                ORDER BY host, due LIMIT 1) next)
        SELECT w.id, h.client_id, h.host FROM (
            SELECT client_id, host FROM hosts
            WHERE due <= now() AND (client_id, host) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
            ORDER BY due LIMIT $4) h
        CROSS JOIN LATERAL (
            SELECT id, due FROM {table} WHERE client_id = h.client_id AND host = h.host AND due <= now()
            ORDER BY due LIMIT $5) w
        ORDER BY w.due",
        table = T::TABLE
    )
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 2)
}
