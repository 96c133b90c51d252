//! Row 11 of a proposal's way: due work is leased, attempted and recorded.

use std::collections::HashSet;

use svc_core::{Envio, Jitter, Next, Noticia, SendOutcome};
use tokio::task::JoinSet;

use super::*;
use crate::outbox::Lease;

fn ids<T: Task>(leases: &[Lease<T>]) -> Vec<PropostaId> {
    leases.iter().map(|lease| lease.task.id()).collect()
}

#[tokio::test]
async fn row_11_due_work_is_leased_once_and_recorded_by_its_holder_only() {
    for place in places().await {
        let bounds = Bounds::new(ROOMY);
        let proposta = place.answered(1, "a").await;
        let [first] = place.lease::<Delivery>(&bounds).await.try_into().unwrap();
        assert_eq!(first.task.evento().id().proposta(), proposta.id());
        assert!(place.lease::<Delivery>(&bounds).await.is_empty(), "leased");
        place.advance(29);
        assert!(place.lease::<Delivery>(&bounds).await.is_empty(), "still leased");
        place.advance(2);
        let [second] = place.lease::<Delivery>(&bounds).await.try_into().unwrap();
        assert!(second.fence > first.fence);
        // The first holder comes back late: nothing of it is stored.
        let late = place.attempted(first.task, 200);
        assert!(!place.store.record(first.fence, late.clone()).await.unwrap());
        place.store.put_back(first.fence, &late, Duration::ZERO).await.unwrap();
        assert!(place.lease::<Delivery>(&bounds).await.is_empty(), "the second holds it");
        let failed = place.attempted(second.task, 500);
        assert!(place.store.record(second.fence, failed.clone()).await.unwrap());
        let whole = place.store.look(proposta.id(), Whole::of).await.unwrap().unwrap();
        assert_eq!(whole.delivery, Some(failed));
        assert!(place.lease::<Delivery>(&bounds).await.is_empty(), "due in five seconds");
        place.advance(5);
        let [third] = place.lease::<Delivery>(&bounds).await.try_into().unwrap();
        let delivered = place.attempted(third.task, 200);
        assert_eq!(delivered.next(), Next::Done);
        assert!(place.store.record(third.fence, delivered).await.unwrap());
        place.advance(100_000);
        assert!(place.lease::<Delivery>(&bounds).await.is_empty(), "it has ended");
        assert_eq!(place.waiting().await, (0, 1));
    }
}

#[tokio::test]
async fn row_11_messages_are_leased_apart_from_webhooks() {
    for place in places().await {
        let bounds = Bounds::new(ROOMY);
        let proposta = place.stored(1, "a").await;
        assert!(place.lease::<Delivery>(&bounds).await.is_empty());
        let [lease] = place.lease::<Mensagem>(&bounds).await.try_into().unwrap();
        let sent = lease.task.after(SendOutcome::Sent, &Schedule::MENSAGEM, Jitter::NONE, place.now());
        assert!(place.store.record(lease.fence, sent.clone()).await.unwrap());
        assert_eq!(place.store.look(proposta.id(), Whole::of).await.unwrap().unwrap().mensagem, sent);
        assert_eq!(place.waiting().await, (0, 0));
    }
}

#[tokio::test]
async fn row_11_what_has_no_room_waits_and_hides_nothing_behind_it() {
    for place in places().await {
        for number in 0..6 {
            place.answered(number, if number < 4 { "slow" } else { "quick" }).await;
            place.advance(1);
        }
        let bounds = Bounds::new(Limits { per_host: 2, ..ROOMY });
        // Two places at each host; a store may find them in two looks.
        let mut held = place.lease::<Delivery>(&bounds).await;
        held.extend(place.lease::<Delivery>(&bounds).await);
        let expected = [0, 1, 4, 5].map(|number| PropostaId::from_random([number; 16]));
        assert_eq!(ids(&held).into_iter().collect::<HashSet<_>>(), expected.into_iter().collect());
        drop(held);
        let next = place.lease::<Delivery>(&bounds).await;
        assert_eq!(ids(&next), [2, 3].map(|number| PropostaId::from_random([number; 16])), "the longest due first");
    }
}

#[tokio::test]
async fn row_11_nothing_of_a_removed_partner_is_leased_and_it_is_counted_apart() {
    for place in places().await {
        let proposta = draft("P-1", "a").open(PropostaId::from_random([1; 16]), "removed", &digest_key(), place.now());
        place.insert(&proposta).await.unwrap();
        place.stored(2, "a").await;
        place.advance(7);
        assert_eq!(place.lease::<Mensagem>(&Bounds::new(ROOMY)).await.len(), 1);
        let messages = place.store.waiting(&partners()).await.unwrap().messages;
        assert_eq!((messages.count, messages.of_removed), (1, 1));
        assert!(messages.oldest >= Duration::from_secs(7) && messages.oldest < Duration::from_secs(60));
    }
}

#[tokio::test]
async fn row_11_of_many_workers_no_two_hold_one_row() {
    for place in places().await {
        for number in 0..40 {
            place.answered(number, "a").await;
        }
        let mut workers = JoinSet::new();
        for _ in 0..8 {
            let (store, bounds) = (Arc::clone(&place.store), Bounds::new(Limits { per_host: 7, ..ROOMY }));
            workers.spawn(async move {
                let mut held = Vec::new();
                for _ in 0..4 {
                    let leases = store.lease::<Delivery>(&bounds.room(&partners()), LEASE).await.unwrap().leases;
                    held.extend(leases);
                }
                ids(&held)
            });
        }
        let mut held = workers.join_all().await.concat();
        // What one of them looked at while the others did, is left.
        let (bounds, mut rest) = (Bounds::new(ROOMY), Vec::new());
        while held.len() + rest.len() < 40 {
            rest.extend(place.lease::<Delivery>(&bounds).await);
        }
        held.extend(ids(&rest));
        assert_eq!(held.iter().collect::<HashSet<_>>().len(), 40);
    }
}

#[tokio::test]
async fn row_11_what_is_given_back_is_due_again_after_the_wait_and_has_lost_no_attempt() {
    for place in places().await {
        let bounds = Bounds::new(ROOMY);
        place.answered(1, "a").await;
        let [lease] = place.lease::<Delivery>(&bounds).await.try_into().unwrap();
        place.store.put_back(lease.fence, &lease.task, Duration::from_secs(3)).await.unwrap();
        assert!(place.lease::<Delivery>(&bounds).await.is_empty());
        place.advance(3);
        let [again] = place.lease::<Delivery>(&bounds).await.try_into().unwrap();
        assert_eq!(again.task, lease.task);
    }
}

#[tokio::test]
async fn c19_a_resend_makes_a_task_due_unless_an_attempt_is_under_way() {
    for place in places().await {
        let bounds = Bounds::new(ROOMY);
        let id = place.answered(1, "a").await.id();
        let again = |delivery: Delivery| delivery.resend(&Schedule::HOMOLOGACAO, place.now());
        let resend = || place.store.change(id, again);
        let [held] = place.lease::<Delivery>(&bounds).await.try_into().unwrap();
        resend().await.unwrap();
        assert!(place.lease::<Delivery>(&bounds).await.is_empty(), "never two at once");
        let failed = place.attempted(held.task, 500);
        assert!(place.store.record(held.fence, failed).await.unwrap(), "and its holder keeps it");
        resend().await.unwrap();
        let [early] = place.lease::<Delivery>(&bounds).await.try_into().unwrap();
        assert_eq!(early.task.tentativas().len(), 1);
        assert!(place.store.record(early.fence, place.attempted(early.task, 204)).await.unwrap());
        assert!(place.lease::<Delivery>(&bounds).await.is_empty());
        resend().await.unwrap();
        let [anew] = place.lease::<Delivery>(&bounds).await.try_into().unwrap();
        assert_eq!(anew.task.evento().id().proposta(), id);
        // One whose holder never came back is nobody's.
        place.advance(31);
        resend().await.unwrap();
        let [after] = place.lease::<Delivery>(&bounds).await.try_into().unwrap();
        assert!(after.fence > anew.fence);
        assert!(!place.store.record(anew.fence, anew.task).await.unwrap());
        // Nothing to resend is no error.
        place.store.change(PropostaId::from_random([8; 16]), again).await.unwrap();
    }
}

#[tokio::test]
async fn c35_a_message_is_found_by_what_its_channel_calls_it_until_the_data_are_removed() {
    for place in places().await {
        let bounds = Bounds::new(ROOMY);
        let proposta = place.answered(1, "a").await;
        let taken = |envio: &str| {
            let conta = Some("5511900000018".to_owned());
            SendOutcome::Taken(Envio { id: envio.to_owned(), conta })
        };
        for envio in ["wamid.1", "wamid.2"] {
            let [lease] = place.lease::<Mensagem>(&bounds).await.try_into().unwrap();
            let sent = lease.task.after(taken(envio), &Schedule::MENSAGEM, Jitter::NONE, place.now());
            assert!(place.store.record(lease.fence, sent).await.unwrap());
            assert_eq!(place.store.proposta_of(envio).await.unwrap(), Some(proposta.id()));
            let again = |mensagem: Mensagem| mensagem.resend(&Schedule::MENSAGEM, place.now());
            place.store.change(proposta.id(), again).await.unwrap();
        }
        assert_eq!(place.store.proposta_of("wamid.1").await.unwrap(), None, "another has taken its place");
        let read = |mensagem: Mensagem| {
            mensagem.told("wamid.2", Noticia::Read, &Schedule::MENSAGEM, Jitter::NONE, place.now())
        };
        place.store.change(proposta.id(), read).await.unwrap();
        let whole = place.store.look(proposta.id(), Whole::of).await.unwrap().unwrap();
        assert_eq!(whole.mensagem.envio().unwrap().conta.as_deref(), Some("5511900000018"));

        place.advance(1);
        assert_eq!(place.store.forget(place.now()).await.unwrap(), 1);
        assert_eq!(place.store.look(proposta.id(), Whole::of).await.unwrap().unwrap().mensagem.envio(), None);
        assert_eq!(place.store.proposta_of("wamid.2").await.unwrap(), None);
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn row_11_what_somebody_holds_locked_is_passed_over_and_not_looked_for_at_once() {
    let Some(place) = places().await.into_iter().find(|place| place.database.is_some()) else { return };
    let bounds = Bounds::new(Limits { per_host: 2, ..ROOMY });
    place.answered(1, "a").await;
    let lock = place.database.as_ref().unwrap().hold("SELECT FROM webhooks FOR UPDATE");
    let other = place.answered(2, "a").await;
    let Leased { leases, next } = place.store.lease::<Delivery>(&bounds.room(&partners()), LEASE).await.unwrap();
    assert_eq!(ids(&leases), [other.id()]);
    assert!(next.is_some_and(|pause| !pause.is_zero()), "{next:?}");
    drop(leases);
    drop(lock);
    // The database lets it go in its own time.
    while place.lease::<Delivery>(&bounds).await.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn c34_a_partner_with_much_that_has_waited_long_leaves_the_next_its_turn() {
    for place in places().await {
        let bounds = Bounds::new(Limits { total: 16, per_partner: 16, per_host: 2 });
        // Of one partner forty, to twenty hosts; of another one, that has waited less.
        for number in 1..=40 {
            place.answered(number, &format!("h{}", number % 20)).await;
        }
        place.advance(1);
        let other = draft("P-1", "a").open(PropostaId::from_random([41; 16]), "p1", &digest_key(), place.now());
        place.insert(&other).await.unwrap();
        let (transition, delivery) = place.answer(&other, Acao::Aceitar);
        place.store.commit(&transition, delivery).await.unwrap();
        let leases = place.lease::<Delivery>(&bounds).await;
        assert!(ids(&leases).contains(&other.id()), "{:?}", ids(&leases));
        assert_eq!(leases.len(), 7, "and has as many places as the bounds give one that wants them all");
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn f49_what_was_stored_together_is_known_again_after_a_link_cut_at_its_commit() {
    let Some(place) = places().await.into_iter().find(|place| place.database.is_some()) else { return };
    let database = place.database.as_ref().unwrap();
    let proxy = proxy::Proxy::to(database.port()).await;
    let url = database.url_through(proxy.port) + "?sslmode=disable";
    let store = Store::postgres(&DatabaseUrl::parse(&url).unwrap(), Clock::system(), 2);
    assert!(store.prepare().await.unwrap());
    let insert = async |number: u8, id: &str| {
        let proposta = draft(id, "a").open(PropostaId::from_random([number; 16]), "p0", &digest_key(), place.now());
        let mensagem = Mensagem::of(&proposta, &Schedule::MENSAGEM, place.now());
        (store.insert(&proposta, mensagem).await.unwrap(), proposta)
    };
    let (_, first) = insert(1, "P-1").await;
    // Two that are new and one that is there, in one statement, whose end is never heard.
    let cut = proxy.cut_at("INSERT 0 2", 0);
    let (again, (second, answered), (third, _)) = tokio::join!(insert(2, "P-1"), insert(3, "P-3"), insert(4, "P-4"));
    assert!(cut.happened());
    assert!(matches!(again.0, Inserted::Exists(there) if there.id() == first.id()));
    assert!(matches!((second, third), (Inserted::New, Inserted::New)));
    // Two answers to one of them, and one to another: two events.
    let commit = async |proposta: &Proposta, acao| {
        let (transition, delivery) = place.answer(proposta, acao);
        store.commit(&transition, delivery).await
    };
    let cut = proxy.cut_at("INSERT 0 2", 0);
    let answers =
        tokio::join!(commit(&first, Acao::Aceitar), commit(&first, Acao::Recusar), commit(&answered, Acao::Aceitar));
    assert!(cut.happened());
    assert_eq!(answers.2, Ok(()));
    let stood = match (answers.0, answers.1) {
        (Ok(()), Err(CommitError::Conflict)) => Status::Aceito,
        (Err(CommitError::Conflict), Ok(())) => Status::Recusado,
        both => panic!("{both:?}"),
    };
    let whole = store.look(first.id(), Whole::of).await.unwrap().unwrap();
    assert_eq!(whole.proposta.status(), stood);
    let event = String::from_utf8(whole.delivery.unwrap().evento().body().to_vec()).unwrap();
    assert!(event.contains(&format!("\"status\":\"{stood}\"")), "{event}");
    assert_eq!(database.sql("SELECT count(*) FROM webhooks"), "2");
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn f51_a_locked_record_does_not_take_those_with_it_that_came_together() {
    let Some(place) = places().await.into_iter().find(|place| place.database.is_some()) else { return };
    let (locked, other) = (place.stored(1, "a").await, place.stored(2, "a").await);
    let lock =
        place.database.as_ref().unwrap().hold("SELECT FROM propostas WHERE id_proposta_parceiro = 'P-1' FOR UPDATE");
    let commit = async |proposta: &Proposta| {
        let (transition, delivery) = place.answer(proposta, Acao::Aceitar);
        place.store.commit(&transition, delivery).await
    };
    let (of_locked, of_other) = tokio::join!(commit(&locked), commit(&other));
    assert_eq!((of_locked, of_other), (Err(CommitError::Store(StoreError::Rejected)), Ok(())));
    drop(lock);
    assert_eq!(commit(&locked).await, Ok(()));
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn c34_of_a_partner_with_very_many_hosts_a_look_sees_some_and_each_gets_its_turn() {
    let Some(place) = places().await.into_iter().find(|place| place.database.is_some()) else { return };
    let database = place.database.as_ref().unwrap();
    // Nothing of five thousand hosts is due but that of the last, and of another partner.
    let last = place.answered(1, "z").await;
    let other = draft("P-1", "a").open(PropostaId::from_random([2; 16]), "p1", &digest_key(), place.now());
    place.insert(&other).await.unwrap();
    let (transition, delivery) = place.answer(&other, Acao::Aceitar);
    place.store.commit(&transition, delivery).await.unwrap();
    database.sql(
        "INSERT INTO propostas SELECT gen_random_uuid(), 'p0', n::text, 2, 'ACEITO', now(), now(), NULL, true, ''
            FROM generate_series(1, 5000) n;
        INSERT INTO webhooks SELECT id, client_id, 'h' || id_proposta_parceiro, now() + interval '1 h', NULL, NULL, 0, ''
            FROM propostas WHERE dados = '';
        ANALYZE webhooks",
    );
    let bounds = Bounds::new(ROOMY);
    let partners = partners();
    let mut seen = Vec::new();
    for look in 0..6 {
        let Leased { leases, next } = place.store.lease::<Delivery>(&bounds.room(&partners), LEASE).await.unwrap();
        seen.extend(ids(&leases).into_iter().map(|id| (look, id)));
        assert!(next.is_some(), "there is more to walk to, or to walk to again");
    }
    // A thousand hosts of each of two partners a look.
    assert_eq!(seen, [(0, other.id()), (5, last.id())]);
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn f55_claiming_looks_at_what_is_due_and_not_at_what_has_ended() {
    let Some(place) = places().await.into_iter().find(|place| place.database.is_some()) else { return };
    let database = place.database.as_ref().unwrap();
    // 30,000 rows that have ended, 30,000 that wait for a host without room, and 300 for others.
    database.sql(
        "INSERT INTO propostas SELECT gen_random_uuid(), 'p0', n::text, 2, 'ACEITO', now(), now(), NULL, true, ''
            FROM generate_series(1, 60300) n;
        INSERT INTO webhooks SELECT id, client_id,
            CASE WHEN n > 30000 AND n <= 60000 THEN 'full' ELSE 'h' || n % 3 END,
            CASE WHEN n > 30000 THEN now() END, NULL, NULL, 0, ''
            FROM (SELECT *, id_proposta_parceiro::int AS n FROM propostas) AS p;
        ANALYZE webhooks",
    );
    let mut claim = postgres::due::<Delivery>();
    for (parameter, value) in
        ["'{p0,p1}'", "'{NULL,NULL}'", "'{p0}'", "'{full}'", "256", "8", "1000"].iter().enumerate()
    {
        claim = claim.replace(&format!("${}", parameter + 1), value);
    }
    let plan = database.sql(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {claim}"));
    assert!(plan.contains("\"webhooks_due\"") && !plan.contains("Seq Scan"), "{plan}");
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let top = &plan[0]["Plan"];
    assert_eq!(top["Actual Rows"].as_f64(), Some(24.0), "eight of each host");
    let pages = top["Shared Hit Blocks"].as_u64().unwrap() + top["Shared Read Blocks"].as_u64().unwrap();
    // The table has some hundred pages; a step to a host costs three or four, and so does a row.
    assert!(pages < 150, "{pages} pages: {plan}");
}
