//! Proposals stored, found and answered, each by one statement for all that are asked of it together.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use deadpool_postgres::Object;
use uuid::Uuid;

use super::call::{Failed, parameters};
use super::together::{Call, column};

/// A new record and its message.
pub(super) struct Insert {
    pub(super) id: Uuid,
    pub(super) client_id: String,
    pub(super) id_proposta_parceiro: String,
    pub(super) versao: i32,
    pub(super) status: &'static str,
    pub(super) criada_em: DateTime<Utc>,
    pub(super) dados: Vec<u8>,
    pub(super) mensagem: Task,
}

/// The record with this id.
pub(super) struct Find(pub(super) Uuid);

/// An answer and its event.
pub(super) struct Commit {
    pub(super) id: Uuid,
    pub(super) versao: i32,
    pub(super) status: &'static str,
    pub(super) respondida_em: Option<DateTime<Utc>>,
    pub(super) dados: Vec<u8>,
    /// Names this write among those of all servers.
    pub(super) escrita: Uuid,
    pub(super) webhook: Task,
}

/// A new row of a table of tasks, due after microseconds.
pub(super) struct Task {
    pub(super) host: String,
    pub(super) wait: Option<i64>,
    pub(super) dados: Vec<u8>,
}

impl Call for Insert {
    /// The first record of the partner's id, where it is another.
    type Answer = Option<Vec<u8>>;

    fn order(&self, other: &Self) -> Ordering {
        let by_id = || self.id_proposta_parceiro.cmp(&other.id_proposta_parceiro);
        self.client_id.cmp(&other.client_id).then_with(by_id)
    }

    /// Made again after an unknown outcome, a call finds its own record, which is then new.
    async fn make(calls: &[Self], db: &mut Object) -> Result<Vec<Self::Answer>, Failed> {
        const INSERT: &str = "WITH new AS (
                INSERT INTO propostas (id, client_id, id_proposta_parceiro, versao, status, criada_em, dados)
                SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::timestamptz[],
                    $7::bytea[])
                ON CONFLICT (client_id, id_proposta_parceiro) DO NOTHING RETURNING id)
            INSERT INTO mensagens (id, client_id, host, due, since, dados)
            SELECT id, client_id, host, w, w, dados
            FROM unnest($1::uuid[], $2::text[], $8::text[], $9::bigint[], $10::bytea[])
                AS m (id, client_id, host, wait, dados),
                LATERAL (SELECT now() + wait * interval '1 microsecond') AS t (w)
            WHERE id IN (SELECT id FROM new) RETURNING id";
        const FIRST: &str = "SELECT c.id, p.id, p.dados
            FROM unnest($1::uuid[], $2::text[], $3::text[]) AS c (id, client_id, id_proposta_parceiro)
            JOIN propostas p USING (client_id, id_proposta_parceiro)";
        let (ids, client_ids, theirs) = (
            column(calls, |call| call.id),
            column(calls, |call| &*call.client_id),
            column(calls, |call| &*call.id_proposta_parceiro),
        );
        let insert = db.prepare_cached(INSERT).await?;
        let parameters = parameters![
            ids,
            client_ids,
            theirs,
            column(calls, |call| call.versao),
            column(calls, |call| call.status),
            column(calls, |call| call.criada_em),
            column(calls, |call| &*call.dados),
            column(calls, |call| &*call.mensagem.host),
            column(calls, |call| call.mensagem.wait),
            column(calls, |call| &*call.mensagem.dados),
        ];
        let new: HashSet<Uuid> = db.query(&insert, parameters).await?.iter().map(|row| row.get(0)).collect();
        if ids.iter().all(|id| new.contains(id)) {
            return Ok(calls.iter().map(|_| None).collect());
        }
        let first = db.query(&db.prepare_cached(FIRST).await?, parameters![ids, client_ids, theirs]).await?;
        let first: HashMap<Uuid, (Uuid, &[u8])> =
            first.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect();
        let answer = |id| match first.get(id) {
            Some((first, dados)) => Ok((first != id).then(|| dados.to_vec())),
            None => Err(Failed::Gone),
        };
        ids.iter().map(answer).collect()
    }
}

impl Call for Find {
    type Answer = Option<Vec<u8>>;

    async fn make(calls: &[Self], db: &mut Object) -> Result<Vec<Self::Answer>, Failed> {
        let found = db.prepare_cached("SELECT id, dados FROM propostas WHERE id = ANY ($1)").await?;
        let rows = db.query(&found, parameters![column(calls, |Find(id)| *id)]).await?;
        let found: HashMap<Uuid, &[u8]> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        Ok(calls.iter().map(|Find(id)| found.get(id).map(|dados| dados.to_vec())).collect())
    }
}

impl Call for Commit {
    /// Whether it is the answer that was stored.
    type Answer = bool;

    fn order(&self, other: &Self) -> Ordering {
        self.id.cmp(&other.id)
    }

    /// Guarded by the version. Made again after an unknown outcome, a call finds its own mark in the record; the same answer
    /// in the same millisecond, given elsewhere, has another. Of two answers to one proposal that come together, one is
    /// stored, with its own event.
    async fn make(calls: &[Self], db: &mut Object) -> Result<Vec<Self::Answer>, Failed> {
        const COMMIT: &str = "WITH moved AS (
                UPDATE propostas p SET versao = a.versao, status = a.status, respondida_em = a.respondida_em,
                    dados = a.dados, escrita = a.escrita
                FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::timestamptz[], $5::bytea[], $6::uuid[], $7::text[],
                    $8::bigint[], $9::bytea[])
                    AS a (id, versao, status, respondida_em, dados, escrita, host, wait, webhook)
                WHERE p.id = a.id AND p.versao = a.versao - 1
                RETURNING p.id, p.client_id, p.escrita, a.host, a.wait, a.webhook)
            INSERT INTO webhooks (id, client_id, host, due, since, dados)
            SELECT id, client_id, host, w, w, webhook
            FROM moved, LATERAL (SELECT now() + wait * interval '1 microsecond') AS t (w)
            RETURNING (SELECT escrita FROM moved WHERE moved.id = webhooks.id)";
        let (ids, escritas) = (column(calls, |call| call.id), column(calls, |call| call.escrita));
        let commit = db.prepare_cached(COMMIT).await?;
        let parameters = parameters![
            ids,
            column(calls, |call| call.versao),
            column(calls, |call| call.status),
            column(calls, |call| call.respondida_em),
            column(calls, |call| &*call.dados),
            escritas,
            column(calls, |call| &*call.webhook.host),
            column(calls, |call| call.webhook.wait),
            column(calls, |call| &*call.webhook.dados),
        ];
        let mut ours: HashSet<Uuid> = db.query(&commit, parameters).await?.iter().map(|row| row.get(0)).collect();
        if ours.len() < calls.len() {
            let marked = db.prepare_cached("SELECT escrita FROM propostas WHERE id = ANY ($1) AND escrita = ANY ($2)");
            ours.extend(
                db.query(&marked.await?, parameters![ids, escritas]).await?.iter().map(|row| row.get::<_, Uuid>(0)),
            );
        }
        Ok(escritas.iter().map(|escrita| ours.contains(escrita)).collect())
    }
}
