//! What every store does, row by row of a proposal's way: one suite, run on the store in memory and on PostgreSQL.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use chrono::TimeDelta;
use svc_core::{Acao, DigestKey, Jitter, NovaProposta, Outcome, Schedule, Status, Tentativa};
use tokio::task::JoinSet;

use super::*;
use crate::bounds::{Bounds, Limits};
use crate::{NewPartner, Random};

mod outbox;

#[cfg(feature = "postgres")]
#[path = "../../tests/api/cluster.rs"]
#[expect(dead_code, reason = "these tests need less of it than those of the whole server")]
pub(super) mod cluster;

#[cfg(feature = "postgres")]
#[path = "../../tests/api/proxy.rs"]
#[expect(dead_code, reason = "these tests need less of it too")]
mod proxy;

const LEASE: Duration = Duration::from_secs(30);
const ROOMY: Limits = Limits { total: 256, per_partner: 64, per_host: 64 };

/// A store, and the time that it goes by.
struct Place {
    store: Arc<Store>,
    now: Arc<Mutex<DateTime<Utc>>>,
    #[cfg(feature = "postgres")]
    database: Option<cluster::Database>,
}

/// One of each kind.
async fn places() -> Vec<Place> {
    let now = Arc::new(Mutex::new("2026-11-28T12:00:00Z".parse().unwrap()));
    let clock = {
        let now = Arc::clone(&now);
        Clock::from_fn(move || *now.lock().unwrap())
    };
    let place = |store| Place {
        store: Arc::new(store),
        now: Arc::clone(&now),
        #[cfg(feature = "postgres")]
        database: None,
    };
    let mut places = vec![place(Store::memory(1_000, clock.clone()))];
    #[cfg(feature = "postgres")]
    if let Some(database) = cluster::Database::fresh() {
        let store = Store::postgres(&DatabaseUrl::parse(&database.url_text()).unwrap(), clock, 1);
        assert!(store.prepare().await.unwrap());
        places.push(Place { database: Some(database), ..place(store) });
    }
    places
}

impl Place {
    fn now(&self) -> DateTime<Utc> {
        *self.now.lock().unwrap()
    }

    /// Lets time pass: here for one kind of store, and in the database for the other.
    fn advance(&self, seconds: u32) {
        *self.now.lock().unwrap() += TimeDelta::seconds(seconds.into());
        #[cfg(feature = "postgres")]
        if let Some(database) = &self.database {
            for table in ["webhooks", "mensagens"] {
                database.sql(&format!(
                    "UPDATE {table} SET due = due - interval '{seconds} s', since = since - interval '{seconds} s',
                        leased_until = leased_until - interval '{seconds} s'"
                ));
            }
        }
    }

    fn nova(&self, number: u8, host: &str) -> Proposta {
        let id = PropostaId::from_random([number; 16]);
        draft(&format!("P-{number}"), host).open(id, "p0", &digest_key(), self.now())
    }

    async fn insert(&self, proposta: &Proposta) -> Result<Inserted, StoreError> {
        self.store.insert(proposta, Mensagem::of(proposta, &Schedule::MENSAGEM, self.now())).await
    }

    /// A stored proposal.
    async fn stored(&self, number: u8, host: &str) -> Proposta {
        let proposta = self.nova(number, host);
        assert!(matches!(self.insert(&proposta).await, Ok(Inserted::New)));
        proposta
    }

    fn answer(&self, proposta: &Proposta, acao: Acao) -> (Transition, Delivery) {
        let transition = proposta.apply(acao, self.now()).unwrap();
        let delivery = Delivery::of(&transition, &Schedule::HOMOLOGACAO, self.now());
        (transition, delivery)
    }

    /// A stored and answered proposal.
    async fn answered(&self, number: u8, host: &str) -> Proposta {
        let proposta = self.stored(number, host).await;
        let (transition, delivery) = self.answer(&proposta, Acao::Aceitar);
        self.store.commit(&transition, delivery).await.unwrap();
        transition.proposta
    }

    async fn lease<T: Task>(&self, bounds: &Bounds) -> Vec<crate::outbox::Lease<T>> {
        self.store.lease(&bounds.room(&partners()), LEASE).await.unwrap().leases
    }

    fn attempted(&self, delivery: Delivery, code: u16) -> Delivery {
        let resultado = Outcome::Status { code, retry_after: None };
        let attempt = Tentativa { em: self.now(), duracao_ms: 5, resultado };
        delivery.after(attempt, &Schedule::HOMOLOGACAO, Jitter::NONE, self.now())
    }

    async fn waiting(&self) -> (usize, usize) {
        let waiting = self.store.waiting(&partners()).await.unwrap();
        (waiting.webhooks.count, waiting.messages.count)
    }
}

/// p0 and p1; nobody else is one.
fn partners() -> Partners {
    static FILE: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        let entries = ["p0", "p1"].map(|id| NewPartner::draw(id, &Random::system()).unwrap().entry);
        format!("[{}]", entries.join(","))
    });
    Partners::from_json(FILE.as_bytes()).unwrap()
}

fn draft(id_proposta_parceiro: &str, host: &str) -> NovaProposta {
    let nova = NovaProposta::builder(id_proposta_parceiro).nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018");
    nova.webhook_url(format!("https://{host}.example/")).build().unwrap()
}

fn digest_key() -> DigestKey {
    DigestKey::derive(&[7; 32]).unwrap()
}

/// A record with all that happens to it.
#[derive(Debug)]
struct Whole {
    proposta: Proposta,
    mensagem: Mensagem,
    delivery: Option<Delivery>,
}

impl Whole {
    fn of(proposta: &Proposta, mensagem: &Mensagem, delivery: Option<&Delivery>) -> Self {
        Self { proposta: proposta.clone(), mensagem: mensagem.clone(), delivery: delivery.cloned() }
    }
}

#[tokio::test]
async fn row_4_a_record_and_its_message_are_stored_once_for_a_partners_id() {
    for place in places().await {
        let first = place.stored(1, "a").await;
        // Another record under the same id of the partner's, whatever it holds.
        let nova = draft("P-1", "b");
        let other = nova.clone().open(PropostaId::from_random([9; 16]), "p0", &digest_key(), place.now());
        assert!(matches!(place.insert(&other).await, Ok(Inserted::Exists(stored)) if stored == first));
        assert!(place.store.find(other.id()).await.unwrap().is_none());
        let of_another = nova.open(PropostaId::from_random([9; 16]), "p1", &digest_key(), place.now());
        assert!(matches!(place.insert(&of_another).await, Ok(Inserted::New)));
        let whole = place.store.look(first.id(), Whole::of).await.unwrap().unwrap();
        assert_eq!((whole.proposta, whole.delivery), (first.clone(), None));
        assert_eq!(whole.mensagem, Mensagem::of(&first, &Schedule::MENSAGEM, place.now()));
        assert_eq!(place.waiting().await, (0, 2));
    }
}

#[tokio::test]
async fn row_4_of_fifty_at_once_one_is_stored() {
    for place in places().await {
        let mut inserts = JoinSet::new();
        for number in 0..50 {
            let id = PropostaId::from_random([number; 16]);
            let proposta = draft("P-1", "a").open(id, "p0", &digest_key(), place.now());
            let (store, mensagem) =
                (Arc::clone(&place.store), Mensagem::of(&proposta, &Schedule::MENSAGEM, place.now()));
            inserts.spawn(async move {
                match store.insert(&proposta, mensagem).await.unwrap() {
                    Inserted::New => (true, proposta.id()),
                    Inserted::Exists(first) => (false, first.id()),
                }
            });
        }
        let results = inserts.join_all().await;
        assert_eq!(results.iter().filter(|(new, _)| *new).count(), 1);
        assert_eq!(results.iter().map(|(_, id)| id).collect::<HashSet<_>>().len(), 1);
        assert_eq!(place.waiting().await, (0, 1));
    }
}

#[tokio::test]
async fn row_6_a_record_is_found_by_its_id_and_by_its_partners() {
    for place in places().await {
        let proposta = place.stored(1, "a").await;
        assert_eq!(place.store.find(proposta.id()).await.unwrap().unwrap(), proposta);
        assert!(place.store.find(PropostaId::from_random([2; 16])).await.unwrap().is_none());
        assert!(place.store.look(PropostaId::from_random([2; 16]), Whole::of).await.unwrap().is_none());
        let theirs = proposta.id_proposta_parceiro();
        let whole = place.store.look_by_partner("p0", theirs, Whole::of).await.unwrap().unwrap();
        assert_eq!(whole.proposta, proposta);
        assert!(place.store.look_by_partner("p1", theirs, Whole::of).await.unwrap().is_none());
        assert_eq!(place.store.ping().await, Ok(()));
    }
}

#[tokio::test]
async fn row_8_an_answer_and_its_event_are_stored_together_and_the_first_stands() {
    for place in places().await {
        let proposta = place.stored(1, "a").await;
        let (accepted, event) = place.answer(&proposta, Acao::Aceitar);
        let (refused, other) = place.answer(&proposta, Acao::Recusar);
        place.store.commit(&accepted, event.clone()).await.unwrap();
        assert_eq!(place.store.commit(&refused, other).await, Err(CommitError::Conflict));
        // The same once more, by somebody else at the same time: a conflict too.
        assert_eq!(place.store.commit(&accepted, event.clone()).await, Err(CommitError::Conflict));
        let whole = place.store.look(proposta.id(), Whole::of).await.unwrap().unwrap();
        assert_eq!((whole.proposta, whole.delivery), (accepted.proposta, Some(event)));
        let (nobodys, event) = place.answer(&place.nova(2, "a"), Acao::Aceitar);
        assert_eq!(place.store.commit(&nobodys, event).await, Err(CommitError::Conflict));
        assert_eq!(place.waiting().await, (1, 1));
    }
}

#[tokio::test]
async fn row_8_of_twenty_answers_at_once_one_is_stored() {
    for place in places().await {
        let proposta = place.stored(1, "a").await;
        let mut commits = JoinSet::new();
        for number in 0..20 {
            let acao = if number % 2 == 0 { Acao::Aceitar } else { Acao::Recusar };
            let ((transition, delivery), store) = (place.answer(&proposta, acao), Arc::clone(&place.store));
            commits.spawn(async move { (store.commit(&transition, delivery).await, transition.proposta) });
        }
        let results = commits.join_all().await;
        let mut stored = results.iter().filter(|(result, _)| result.is_ok());
        let winner = &stored.next().unwrap().1;
        assert!(stored.next().is_none());
        assert!(results.iter().all(|(result, _)| matches!(result, Ok(()) | Err(CommitError::Conflict))));
        assert_eq!(place.store.find(proposta.id()).await.unwrap().unwrap(), *winner);
    }
}

#[tokio::test]
async fn c9_the_data_of_persons_go_from_what_was_answered_before_and_from_nothing_else() {
    for place in places().await {
        let old = place.answered(1, "a").await;
        let waiting = place.stored(2, "a").await;
        place.advance(100);
        let recent = place.answered(3, "a").await;
        let before = place.now() - TimeDelta::seconds(50);
        #[cfg(feature = "postgres")]
        if let Some(database) = &place.database {
            // One that cannot be read holds up no other.
            database.sql(
                "INSERT INTO propostas SELECT gen_random_uuid(), 'p1', 'P-unreadable', 2, 'ACEITO', '2020-01-01',
                    '2020-01-01', NULL, true, 'unreadable'",
            );
        }
        assert_eq!(place.store.forget(before).await, Ok(1));
        assert_eq!(place.store.forget(before).await, Ok(0), "once");
        let forgotten = place.store.find(old.id()).await.unwrap().unwrap();
        assert!(forgotten.dados().is_none());
        assert_eq!((forgotten.status(), forgotten.digest()), (Status::Aceito, old.digest()));
        for kept in [waiting, recent] {
            assert_eq!(place.store.find(kept.id()).await.unwrap().unwrap(), kept);
        }
        let again = draft("P-1", "a").open(PropostaId::from_random([9; 16]), "p0", &digest_key(), place.now());
        assert!(matches!(place.insert(&again).await, Ok(Inserted::Exists(stored)) if stored == forgotten));
        assert_eq!(place.waiting().await, (2, 3), "its event still goes out");
    }
}

#[tokio::test]
async fn c38_the_store_in_memory_takes_so_many_and_loses_none_for_another() {
    let place = places().await.remove(0);
    let clock = Clock::from_fn(|| DateTime::UNIX_EPOCH);
    let place = Place { store: Arc::new(Store::memory(2, clock)), ..place };
    let first = place.stored(1, "a").await;
    place.stored(2, "a").await;
    assert_eq!(place.insert(&place.nova(3, "a")).await.unwrap_err(), StoreError::Full);
    assert!(place.store.find(first.id()).await.unwrap().is_some());
}

#[tokio::test]
async fn c19_who_comes_after_its_lease_does_not_undo_what_was_asked_for_meanwhile() {
    for place in places().await {
        let bounds = Bounds::new(Limits { total: 8, per_partner: 8, per_host: 1 });
        let id = place.answered(0, "a").await.id();
        // A lease that is over at once, and whoever has it does not know yet.
        let partners = partners();
        let room = bounds.room(&partners);
        let leases = place.store.lease::<Delivery>(&room, Duration::ZERO).await.unwrap().leases;
        let [late] = <[_; 1]>::try_from(leases).unwrap();
        let now = place.now();
        let resend = |delivery: Delivery| delivery.resend(&Schedule::HOMOLOGACAO, now);
        assert!(place.store.change(id, resend).await.unwrap());
        assert!(!place.store.record(late.fence, place.attempted(late.task, 410)).await.unwrap());
        drop(late.permit);
        assert_eq!(place.lease::<Delivery>(&bounds).await.len(), 1, "it is still to be sent");
    }
}
