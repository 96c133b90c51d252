//! A database that is stopped, restarted, frozen, cut off, locked, in conflict or full: requests are refused in time, nothing
//! that was acknowledged is lost, and all goes on by itself when it is back.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use reqwest::RequestBuilder;
use svc_core::Schedule;
use svc_server::{Clock, DatabaseUrl};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::cluster::{Cluster, Database};
use crate::harness::{Api, Receiver, Server, proposal_to, read, results, within};
use crate::postgres::{server, shared};

/// Asserts that a request is refused for now, and says when to come back: within 3 s, and a bit for a machine that is busy with
/// other tests; the wait for two calls of the store would be longer.
async fn refused(request: RequestBuilder) {
    let answer = timeout(Duration::from_secs(4), request.send()).await.expect("three seconds").unwrap();
    assert_eq!(answer.status(), 503);
    assert!(answer.headers().contains_key("retry-after"));
}

/// Repeats a request until it is served; nothing but 503 may come before.
async fn served(request: impl Fn() -> RequestBuilder) -> serde_json::Value {
    loop {
        match read(request()).await {
            (200, body) => return body,
            (503, _) => tokio::time::sleep(Duration::from_millis(20)).await,
            (status, body) => panic!("{status} {body}"),
        }
    }
}

#[tokio::test]
async fn f48_a_database_that_is_away_is_503_in_three_seconds_and_costs_no_attempt() {
    let Some(cluster) = Cluster::own() else { return };
    let database = cluster.database();
    let mut receiver = Receiver::answering(["HTTP/1.1 500 Oops", "HTTP/1.1 200 OK"]).await;
    let server = Server::with(|config| {
        shared(config, &database);
        config.schedule = Schedule::parse("0,1s").unwrap();
    })
    .await;
    let token = server.token().await;
    for (round, away) in ["stopped", "frozen"].into_iter().enumerate() {
        let id = server.answered(&token, &receiver.url, &format!("P-{round}")).await;
        let waiting = served(|| server.post_proposta(&token, proposal_to(&receiver.url, &format!("W-{round}")))).await;
        let waiting = waiting["id_proposta_svc"].as_str().unwrap();
        if round == 0 {
            receiver.next().await;
            within(async { while results(&server.webhook(&token, &id).await).is_empty() {} }).await;
        } else {
            server.ended(&token, &id).await;
            receiver.next().await;
        }
        match away {
            "stopped" => cluster.stop("immediate"),
            _ => cluster.signal("STOP"),
        }
        // Longer than the wait before the second attempt.
        tokio::join!(
            refused(server.post_proposta(&token, proposal_to(&receiver.url, "P-new"))),
            refused(server.get(&format!("/confirmar/{waiting}?acao=aceitar"))),
            refused(server.get(&format!("/v1/propostas/{id}")).bearer_auth(&token)),
            refused(server.post(&format!("/v1/propostas/{id}/reenviar-webhook"), &token)),
            refused(server.get("/saude")),
            tokio::time::sleep(Duration::from_millis(1_500)),
        );
        assert!(receiver.is_empty());
        match away {
            "stopped" => cluster.start(),
            _ => cluster.signal("CONT"),
        }
        let healed = served(|| server.get(&format!("/confirmar/{waiting}?acao=aceitar")));
        timeout(Duration::from_secs(5), healed).await.expect("five seconds");
        let expected = if round == 0 { vec!["500", "200"] } else { vec!["200"] };
        assert_eq!(results(&server.ended(&token, &id).await), expected);
        assert_eq!(results(&server.ended(&token, waiting).await), ["200"]);
        for _ in 0..if round == 0 { 2 } else { 1 } {
            receiver.next().await;
        }
        assert_eq!(read(server.get("/saude")).await.0, 200);
    }
    // A frozen database had heard of it, and may have stored it once it went on; whoever asks again gets that one.
    served(|| server.post_proposta(&token, proposal_to(&receiver.url, "P-new"))).await;
    assert_eq!(database.sql("SELECT count(*) FROM propostas"), "5");
}

#[tokio::test]
async fn f48_a_server_that_starts_before_its_database_serves_once_it_comes() {
    let Some(cluster) = Cluster::own() else { return };
    let database = cluster.database();
    cluster.stop("fast");
    let server = server(&database).await;
    let token = server.token().await;
    let receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    refused(server.get("/saude")).await;
    refused(server.post_proposta(&token, proposal_to(&receiver.url, "P-1"))).await;
    cluster.start();
    let created = served(|| server.post_proposta(&token, proposal_to(&receiver.url, "P-1")));
    timeout(Duration::from_secs(5), created).await.expect("five seconds");
    server.stop().await;
}

#[tokio::test]
async fn a_database_that_refuses_the_server_ends_it_with_the_reason() {
    let Some(database) = Database::fresh() else { return };
    for (url, said) in [
        (database.url_text() + "_other", "database refuses this server: SQLSTATE 3D000"),
        (database.url_text().replace("svc@", "nobody@"), "database refuses this server: SQLSTATE 28000"),
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = svc_server::Config::homologacao(svc_server::Partners::demonstration()).unwrap();
        config.database = Some(DatabaseUrl::parse(&url).unwrap());
        let ended = within(svc_server::run(listener, config, std::future::pending())).await;
        assert_eq!(ended.unwrap_err().to_string(), said);
    }
}

#[tokio::test]
async fn f47_a_database_restarted_under_load_loses_nothing_that_was_acknowledged() {
    let Some(cluster) = Cluster::own() else { return };
    let database = cluster.database();
    let servers = [server(&database).await, server(&database).await];
    let mut receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let token = servers[0].token().await;
    let over = Arc::new(AtomicBool::new(false));
    let (answered, mut progress) = watch::channel(0);
    let mut customers = JoinSet::new();
    for worker in 0..8 {
        let (api, token, over): (Api, _, _) = (Api::clone(&servers[worker % 2]), token.clone(), Arc::clone(&over));
        let answered = answered.clone();
        let body = proposal_to(&receiver.url, "P-WORKER-NUMBER").replace("WORKER", &worker.to_string());
        customers.spawn(async move {
            let mut acknowledged = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let body = body.replace("NUMBER", &acknowledged.len().to_string());
                let created = served(|| api.post_proposta(&token, body.clone())).await;
                let id = created["id_proposta_svc"].as_str().unwrap().to_owned();
                let answer = served(|| api.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
                acknowledged.push((id, answer["timestamp"].as_str().unwrap().to_owned()));
                answered.send_modify(|count| *count += 1);
            }
            acknowledged
        });
    }
    for restart in 1..=3 {
        within(progress.wait_for(|count| *count >= restart * 20)).await.unwrap();
        let stopping = Arc::clone(&cluster);
        tokio::task::spawn_blocking(move || (stopping.stop("immediate"), stopping.start())).await.unwrap();
        let healed = served(|| servers[0].get("/saude"));
        timeout(Duration::from_secs(5), healed).await.expect("five seconds");
    }
    over.store(true, Ordering::Relaxed);
    let acknowledged: Vec<_> = within(customers.join_all()).await.concat();
    // What is cut off while its lease is taken comes again after the lease; that end is brought about here.
    // Beside the servers of this thread, whose locks it may wait for.
    let database = tokio::task::spawn_blocking(move || {
        database.sql("UPDATE webhooks SET due = now() WHERE due > now()");
        database
    });
    let database = database.await.unwrap();
    let mut received = HashMap::new();
    while acknowledged.iter().any(|(id, _)| !received.contains_key(&format!("evt_{id}"))) {
        let event = receiver.next().await;
        let (id, body) = (event.header("webhook-id").to_owned(), event.body.clone());
        assert_eq!(*received.entry(id).or_insert(event.body), body, "one body an event");
    }
    for (id, timestamp) in &acknowledged {
        let body: serde_json::Value = serde_json::from_slice(&received[&format!("evt_{id}")]).unwrap();
        assert_eq!((&body["timestamp"], &body["status"]), (&timestamp.as_str().into(), &"ACEITO".into()));
    }
    let counts = database.sql("SELECT count(*), count(*) FILTER (WHERE status = 'ACEITO') FROM propostas");
    assert_eq!(counts, format!("{0}|{0}", acknowledged.len()), "as many as there were, each answered");
    assert_eq!(database.sql("SELECT count(*) FROM webhooks"), acknowledged.len().to_string());
    assert_eq!(database.sql("SELECT count(*) FROM mensagens"), acknowledged.len().to_string());
}

#[tokio::test]
async fn f51_a_long_lock_and_an_exhausted_pool_are_503_in_three_seconds() {
    let Some(database) = Database::fresh() else { return };
    let server = server(&database).await;
    let receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let token = server.token().await;
    let lock = database.hold("LOCK TABLE propostas IN ACCESS EXCLUSIVE MODE");
    // More than there are connections: the first wait for the lock, the others for a connection.
    let mut requests = JoinSet::new();
    for i in 0..40 {
        requests.spawn(refused(server.post_proposta(&token, proposal_to(&receiver.url, &format!("P-{i}")))));
    }
    requests.join_all().await;
    drop(lock);
    for i in 0..40 {
        let created = served(|| server.post_proposta(&token, proposal_to(&receiver.url, &format!("P-{i}"))));
        timeout(Duration::from_secs(5), created).await.expect("five seconds");
    }
    assert_eq!(database.sql("SELECT count(*) FROM propostas"), "40");
}

#[tokio::test]
async fn f51_a_row_that_somebody_holds_locked_holds_up_no_other() {
    let Some(database) = Database::fresh() else { return };
    let server = server(&database).await;
    let (token, receiver) = (server.token().await, Receiver::answering(["HTTP/1.1 200 OK"]).await);
    let mut ids = Vec::new();
    for id in ["P-1", "P-2"] {
        let (_, created) = read(server.post_proposta(&token, proposal_to(&receiver.url, id))).await;
        ids.push(created["id_proposta_svc"].as_str().unwrap().to_owned());
    }
    // The cluster is shared with other tests.
    const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND datname = current_database()";
    let answer = |id: &str| server.get(&format!("/confirmar/{id}?acao=aceitar"));
    let lock = database.hold("SELECT FROM propostas WHERE id_proposta_parceiro = 'P-1' FOR UPDATE");
    let held = tokio::spawn(refused(answer(&ids[0])));
    database.until(WAITING, "1").await;
    assert_eq!(read(answer(&ids[1])).await.0, 200);
    held.await.unwrap();
    drop(lock);
    served(|| answer(&ids[0])).await;
}

#[tokio::test]
async fn f52_conflicts_between_transactions_are_tried_three_times_and_then_503() {
    let Some(database) = Database::fresh() else { return };
    let server = server(&database).await;
    let receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let token = server.token().await;
    // A sequence keeps its count when a transaction goes back.
    database.sql("CREATE SEQUENCE faults; CREATE TABLE planned (code text, until bigint)");
    database.sql(
        "CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('faults') <= (SELECT until FROM planned)
            THEN RAISE EXCEPTION USING ERRCODE = (SELECT code FROM planned); END IF;
            RETURN NEW; END $$",
    );
    database.sql("CREATE TRIGGER fault BEFORE INSERT OR UPDATE ON propostas FOR EACH ROW EXECUTE FUNCTION fault()");
    let plan = |code: &str, count: u32| {
        database.sql("ALTER SEQUENCE faults RESTART; DELETE FROM planned");
        database.sql(&format!("INSERT INTO planned VALUES ('{code}', {count})"));
    };
    for code in ["40001", "40P01"] {
        plan(code, 2);
        let (status, created) = read(server.post_proposta(&token, proposal_to(&receiver.url, code))).await;
        assert_eq!(status, 200, "the third try is served");
        let id = created["id_proposta_svc"].as_str().unwrap();
        plan(code, 3);
        refused(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
        assert_eq!(database.sql("SELECT last_value FROM faults"), "3", "three tries and no more");
        plan(code, 2);
        let (status, body) = read(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
        assert_eq!((status, &body["ja_respondida"]), (200, &false.into()));
    }
    // What will not pass is not tried again.
    plan("23514", 9);
    refused(server.post_proposta(&token, proposal_to(&receiver.url, "P-check"))).await;
    assert_eq!(database.sql("SELECT last_value FROM faults"), "1");
}

#[tokio::test]
async fn f43_servers_whose_clocks_are_ten_minutes_apart_share_the_databases() {
    let Some(database) = Database::fresh() else { return };
    let off_by = |minutes: i64| {
        let database = &database;
        Server::with(move |config| {
            shared(config, database);
            config.clock = Clock::from_fn(move || Utc::now() + TimeDelta::minutes(minutes));
            config.schedule = Schedule::parse("0,1s,1h").unwrap();
        })
    };
    let servers = [off_by(5).await, off_by(-5).await];
    let tokens = [servers[0].token().await, servers[1].token().await];
    let mut receiver = Receiver::answering(["HTTP/1.1 500 Oops", "HTTP/1.1 200 OK"]).await;
    let id = servers[0].answered(&tokens[0], &receiver.url, "P-retried").await;
    // Its second attempt is due by the database's clock, and is made by either server.
    assert_eq!(receiver.next().await.body, receiver.next().await.body);
    assert_eq!(results(&servers[1].ended(&tokens[1], &id).await), ["500", "200"]);
    // Nobody takes over what is held, however late one server thinks it is.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    servers[1].answered(&tokens[1], &url, "P-held").await;
    let (_held, _) = within(silent.accept()).await.unwrap();
    for i in 0..20 {
        servers[i % 2].answered(&tokens[i % 2], &receiver.url, &format!("P-{i}")).await;
        receiver.next().await;
    }
    database.until("SELECT count(*) FROM webhooks WHERE leased_until IS NOT NULL", "1").await;
    let held = "SELECT leased_until BETWEEN now() AND now() + interval '30 s' FROM webhooks WHERE due IS NOT NULL";
    assert_eq!(database.sql(held), "t");
    assert!(timeout(Duration::ZERO, silent.accept()).await.is_err() && receiver.is_empty());
}

#[tokio::test]
async fn f44_a_full_disk_acknowledges_nothing_that_is_not_there_and_is_left_behind() {
    let Some(cluster) = Cluster::own() else { return };
    let Some(folder) = cluster.small("16m") else {
        let _ = writeln!(std::io::stderr(), "left out: this user cannot mount a small file system to fill (F44)");
        return;
    };
    let database = cluster.database();
    database.sql(&format!("CREATE TABLESPACE small LOCATION '{}'", folder.display()));
    database.sql("CREATE TABLE ballast (bytes text) TABLESPACE small");
    let name = database.sql("SELECT current_database()");
    database.sql(&format!("ALTER DATABASE {name} SET default_tablespace = small"));
    let server = server(&database).await;
    let receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let token = server.token().await;
    let first = served(|| server.post_proposta(&token, proposal_to(&receiver.url, "P-first"))).await;
    // All that is left, block by block.
    database.sql(
        "DO $$ BEGIN LOOP INSERT INTO ballast SELECT repeat(md5(random()::text), 200); END LOOP;
            EXCEPTION WHEN disk_full THEN NULL; END $$;
        DO $$ BEGIN FOR i IN 1..100000 LOOP
            BEGIN INSERT INTO ballast SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 60);
            EXCEPTION WHEN disk_full THEN EXIT; END; END LOOP; END $$",
    );
    let mut acknowledged = Vec::new();
    let refused_one = loop {
        let id = format!("P-{}", acknowledged.len());
        match read(server.post_proposta(&token, proposal_to(&receiver.url, &id))).await {
            (200, _) => acknowledged.push(id),
            (503, _) => break id,
            (status, body) => panic!("{status} {body}"),
        }
        assert!(acknowledged.len() < 20_000, "it never fills");
    };
    let known = database.sql("SELECT id_proposta_parceiro FROM propostas ORDER BY criada_em");
    let expected: Vec<_> = std::iter::once("P-first").chain(acknowledged.iter().map(String::as_str)).collect();
    assert_eq!(known.lines().collect::<Vec<_>>(), expected);
    assert_eq!(read(server.get("/saude")).await.0, 200, "it can still be asked");
    database.sql("DROP TABLE ballast");
    served(|| server.post_proposta(&token, proposal_to(&receiver.url, &refused_one))).await;
    let id = first["id_proposta_svc"].as_str().unwrap();
    served(|| server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
    assert_eq!(server.ended(&token, id).await["estado"], "entregue");
}
