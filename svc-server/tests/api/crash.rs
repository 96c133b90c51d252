//! Servers as processes of their own on one database, killed and replaced.

use std::collections::HashMap;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::canary;
use crate::cluster::{Database, free_port};
use crate::harness::{Api, Receiver, proposal_to, read, read_request, results, within};
use crate::program::{program, signal, start_at};

struct Process {
    child: Child,
    api: Api,
}

impl Process {
    async fn start(database: &Database, schedule: &str, listen: &str) -> Self {
        let mut command = program();
        command.env("SVC_DATABASE_URL", database.url_text()).env("SVC_RETRY_SCHEDULE", schedule);
        command.env("SVC_TOKEN_KEY", "a token key of the tests, long enough");
        command.env("SVC_LINK_KEY", "a link key of the tests, long enough.");
        let (child, base) = start_at(&mut command, listen).await;
        Self { child, api: Api::at(base) }
    }

    async fn on(database: &Database, schedule: &str) -> Self {
        Self::start(database, schedule, "127.0.0.1:0").await
    }

    /// SIGKILL: nothing of it runs any more.
    async fn kill(mut self) {
        self.child.kill().await.unwrap();
        self.log().await;
    }

    async fn terminate(mut self) {
        signal(&self.child, "-TERM").await;
        assert_eq!(within(self.child.wait()).await.unwrap().code(), Some(0));
        self.log().await;
    }

    /// What it wrote is looked at like the logs of this process.
    async fn log(&mut self) {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
        canary::look_at(&log);
    }
}

#[tokio::test]
async fn f34_a_server_killed_between_answer_and_webhook_loses_no_event() {
    let Some(database) = Database::fresh() else { return };
    let mut receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    // The first attempt is due a while after the answer, and the server is gone by then.
    let first = Process::on(&database, "2s,1s").await;
    let token = first.api.token().await;
    let id = first.api.answered(&token, &receiver.url, "PARC-12345").await;
    first.kill().await;
    assert!(receiver.is_empty());
    let second = Process::on(&database, "0,1s").await;
    let event = receiver.next().await;
    assert_eq!(event.header("webhook-id"), format!("evt_{id}"));
    assert_eq!(results(&second.api.ended(&token, &id).await), ["200"]);
    assert_eq!(read(second.api.get(&format!("/confirmar/{id}?acao=aceitar"))).await.1["ja_respondida"], true);
    second.terminate().await;
    assert!(receiver.is_empty());
}

#[tokio::test]
async fn f35_a_server_killed_before_it_recorded_a_delivery_delivers_the_same_again() {
    let Some(database) = Database::fresh() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let first = Process::on(&database, "0,1s").await;
    let token = first.api.token().await;
    let id = first.api.answered(&token, &url, "PARC-12345").await;
    let mut stream = BufReader::new(within(listener.accept()).await.unwrap().0);
    let received = within(read_request(&mut stream)).await.unwrap();
    first.kill().await;
    // The killed server's lease lasts half a minute; its end is brought about here.
    assert_eq!(database.sql("UPDATE webhooks SET due = now() WHERE leased_until > now() RETURNING fence"), "1");
    let second = Process::on(&database, "0,1s").await;
    let mut stream = BufReader::new(within(listener.accept()).await.unwrap().0);
    let again = within(read_request(&mut stream)).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    assert_eq!((again.header("webhook-id"), &again.body), (received.header("webhook-id"), &received.body));
    assert_eq!(results(&second.api.ended(&token, &id).await), ["200"]);
    second.terminate().await;
}

#[tokio::test]
async fn f36_a_server_killed_while_it_stores_leaves_all_or_nothing() {
    let Some(database) = Database::fresh() else { return };
    let receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let first = Process::on(&database, "0,1s").await;
    let token = first.api.token().await;
    // Within the statement.
    let lock = database.hold("LOCK TABLE propostas IN SHARE MODE");
    let request = first.api.post_proposta(&token, proposal_to(&receiver.url, "P-locked")).send();
    let request = tokio::spawn(request);
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock' AND query LIKE 'WITH new%'";
    database.until(blocked, "1").await;
    first.kill().await;
    assert!(request.await.unwrap().is_err());
    drop(lock);
    let both = "SELECT (SELECT count(*) FROM propostas) || ' ' || (SELECT count(*) FROM mensagens)";
    assert!(["0 0", "1 1"].contains(&database.sql(both).as_str()));

    // Anywhere, with many under way.
    let second = Process::on(&database, "0,1s").await;
    let mut posts = JoinSet::new();
    let (acknowledged, mut seen) = watch::channel(0);
    for i in 0..200 {
        let request = second.api.post_proposta(&token, proposal_to(&receiver.url, &format!("P-{i}")));
        let acknowledged = acknowledged.clone();
        posts.spawn(async move {
            let answer = request.send().await.ok()?;
            let body: serde_json::Value = serde_json::from_slice(&answer.bytes().await.ok()?).ok()?;
            acknowledged.send_modify(|count| *count += 1);
            Some((i, body["id_proposta_svc"].as_str()?.to_owned()))
        });
    }
    within(seen.wait_for(|count| *count >= 20)).await.unwrap();
    second.kill().await;
    let acknowledged: HashMap<_, _> = posts.join_all().await.into_iter().flatten().collect();
    let third = Process::on(&database, "0,1s").await;
    for i in 0..200 {
        let (status, body) = read(third.api.post_proposta(&token, proposal_to(&receiver.url, &format!("P-{i}")))).await;
        assert_eq!(status, 200);
        if let Some(id) = acknowledged.get(&i) {
            assert_eq!(body["id_proposta_svc"], *id, "what was acknowledged stands");
        }
    }
    assert_eq!(read(third.api.post_proposta(&token, proposal_to(&receiver.url, "P-locked"))).await.0, 200);
    assert_eq!(database.sql(both), "201 201");
    third.terminate().await;
}

#[tokio::test]
async fn three_servers_replaced_one_by_one_under_load_fail_no_request() {
    let Some(database) = Database::fresh() else { return };
    let mut receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Process::start(&database, "0,1s", &format!("127.0.0.1:{}", free_port())).await);
    }
    let bases: Vec<_> = servers.iter().map(|server| server.api.base.clone()).collect();
    let token = servers[0].api.token().await;
    let (over, is_over) = watch::channel(false);
    let (answered, mut progress) = watch::channel(0);
    let mut customers = JoinSet::new();
    for worker in 0..8 {
        let (mut apis, token, is_over) =
            (bases.clone().into_iter().map(Api::at).collect::<Vec<_>>(), token.clone(), is_over.clone());
        let answered = answered.clone();
        let body = proposal_to(&receiver.url, "P-WORKER-NUMBER").replace("WORKER", &worker.to_string());
        customers.spawn(async move {
            let mut number = 0;
            while !*is_over.borrow() {
                let body = body.replace("NUMBER", &number.to_string());
                let created = anywhere(&mut apis, |api| api.post_proposta(&token, body.clone())).await;
                let id = created["id_proposta_svc"].as_str().unwrap();
                let answer = anywhere(&mut apis, |api| api.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
                assert_eq!(answer["ja_respondida"], false);
                number += 1;
                answered.send_modify(|count| *count += 1);
            }
        });
    }
    for base in &bases {
        let before = *progress.borrow();
        within(progress.wait_for(|count| *count >= before + 20)).await.unwrap();
        let old = servers.remove(0);
        old.terminate().await;
        servers.push(Process::start(&database, "0,1s", base.trim_start_matches("http://")).await);
    }
    over.send_replace(true);
    within(customers.join_all()).await;
    let answered = *progress.borrow();
    for _ in 0..answered {
        receiver.next().await;
    }
    for server in servers {
        server.terminate().await;
    }
    assert!(receiver.is_empty(), "each event once");
}

/// As a proxy does: the next server, where one does not let in. Any other failure is one.
async fn anywhere(apis: &mut [Api], request: impl Fn(&Api) -> reqwest::RequestBuilder) -> serde_json::Value {
    loop {
        apis.rotate_left(1);
        match request(&apis[0]).send().await {
            Ok(answer) => {
                assert_eq!(answer.status(), 200);
                return serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
            }
            Err(error) => assert!(error.is_connect(), "{error:?}"),
        }
    }
}
