//! Work that waits in a table: leased for a time by the database's clock, with a number that fences off whoever comes late.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use deadpool_postgres::Object;
use svc_core::{PropostaId, Schedule};
use uuid::Uuid;

use tokio::time::{Instant, timeout_at};

use tokio_postgres::types::ToSql;

use super::{BUDGET, Hidden, Postgres, judge, uuid};
use crate::bounds::{Permit, Room};
use crate::outbox::{Lease, Leased};
use crate::store::{StoreError, Task};

impl Postgres {
    /// Of each partner that has room, what is due the longest and goes to a host that has room. Rows that another server
    /// looks at are passed over; those that find no place in the end are let go with the transaction.
    pub(in crate::store) async fn lease<T: Task>(
        &self,
        room: &Room<'_>,
        time: Duration,
    ) -> Result<Leased<T>, StoreError> {
        let due = due::<T>();
        let lease = format!(
            "UPDATE {table} SET fence = fence + 1, due = now() + $2::bigint * interval '1 microsecond',
                leased_until = now() + $2::bigint * interval '1 microsecond'
            WHERE id = ANY ($1) RETURNING id, fence, dados",
            table = T::TABLE
        );
        let partners = room.partners();
        if partners.is_empty() {
            return Ok(Leased { leases: Vec::new(), next: None });
        }
        let share = i64::try_from(room.share(partners.len())).unwrap_or(i64::MAX);
        let ((full_partners, full_hosts), time): ((Vec<String>, Vec<String>), _) =
            (room.full_hosts().into_iter().unzip(), micros(time));
        let (leases, more) = call!(self, db => {
            let (due, lease) = (db.prepare_cached(&due).await?, db.prepare_cached(&lease).await?);
            let transaction = db.transaction().await?;
            let rows = transaction.query(&due, parameters![partners, share, full_partners, full_hosts]).await?;
            let mut permits = HashMap::<Uuid, Permit>::new();
            for row in &rows {
                if let Some(permit) = room.take(row.get(1), row.get(2)) {
                    permits.insert(row.get(0), permit);
                }
            }
            let mut leases = Vec::with_capacity(permits.len());
            let ids: Vec<Uuid> = permits.keys().copied().collect();
            if !ids.is_empty() {
                for row in transaction.query(&lease, parameters![ids, time]).await? {
                    let (id, fence, dados): (Uuid, i64, &[u8]) = (row.get(0), row.get(1), row.get(2));
                    match (T::from_stored(dados), permits.remove(&id)) {
                        (Ok(task), Some(permit)) => {
                            leases.push(Lease { task, fence: fence.unsigned_abs(), permit });
                        }
                        // The others go out; this one comes again when its lease ends, and is said again.
                        _ => tracing::error!(table = T::TABLE, "a stored task cannot be read"),
                    }
                }
            }
            transaction.commit().await?;
            // What found no place hid what lies behind it, and what filled a host's share may have more behind it: both
            // are to be seen at once, now that those places are taken.
            let mut found = HashMap::<(&str, &str), i64>::new();
            rows.iter().for_each(|row| *found.entry((row.get(1), row.get(2))).or_default() += 1);
            Ok((leases, rows.len() > ids.len() || found.values().any(|found| *found == share)))
        })?;
        Ok(Leased { leases, next: more.then_some(Duration::ZERO) })
    }

    pub(in crate::store) async fn record<T: Task>(&self, fence: u64, task: &T) -> Result<bool, StoreError> {
        let record = format!(
            "UPDATE {} SET due = now() + $3::bigint * interval '1 microsecond',
                since = now() + $3::bigint * interval '1 microsecond', leased_until = NULL, dados = $4
            WHERE id = $1 AND fence = $2",
            T::TABLE
        );
        let (id, fence, wait, dados) = (uuid(task.id()), fence.cast_signed(), self.wait(task.next()), task.to_stored());
        call!(self, db => {
            let record = db.prepare_cached(&record).await?;
            Ok(db.execute(&record, parameters![id, fence, wait, dados]).await? == 1)
        })
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
        call!(self, db => {
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
        call!(self, db => {
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

/// Of each host of the partners $1 that has anything to come, and is none of the hosts $4 of the partners $3, the first $2 that
/// are due. It steps from host to host by the index, so that what waits for a host without room costs nothing.
pub(in crate::store) fn due<T: Task>() -> String {
    format!(
        "WITH RECURSIVE hosts (client_id, host) AS (
            SELECT p, (SELECT min(host) FROM {table} WHERE client_id = p AND due IS NOT NULL)
            FROM unnest($1::text[]) AS p
            UNION ALL
            SELECT h.client_id,
                (SELECT min(host) FROM {table} WHERE client_id = h.client_id AND host > h.host AND due IS NOT NULL)
            FROM hosts h WHERE h.host IS NOT NULL)
        SELECT w.id, w.client_id, w.host FROM hosts h
        CROSS JOIN LATERAL (
            SELECT id, client_id, host, due FROM {table}
            WHERE client_id = h.client_id AND host = h.host AND due <= now()
            ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) w
        WHERE (h.client_id, h.host) NOT IN (SELECT * FROM unnest($3::text[], $4::text[]))
        ORDER BY w.due",
        table = T::TABLE
    )
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 2)
}
