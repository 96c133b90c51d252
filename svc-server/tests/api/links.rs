//! Links to the database that break, or are slow at each answer.

use std::time::Duration;

use svc_server::DatabaseUrl;

use crate::cluster::Database;
use crate::harness::{Receiver, Server, proposal_to, read, results, within};
use crate::postgres::shared;
use crate::proxy::Proxy;

/// A server whose way to its database leads through this.
async fn server_through(proxy: &Proxy, database: &Database) -> Server {
    Server::with(|config| {
        shared(config, database);
        let url = database.url_through(proxy.port) + "?sslmode=disable";
        config.database = Some(DatabaseUrl::parse(&url).unwrap());
    })
    .await
}

#[tokio::test]
async fn f49_a_link_cut_after_the_commit_changes_no_answer() {
    let Some(database) = Database::fresh() else { return };
    let proxy = Proxy::to(database.port()).await;
    let mut server = server_through(&proxy, &database).await;
    let mut receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let token = server.token().await;
    let cut = |tag, passed| proxy.cut_at(tag, passed);
    let answered = cut("INSERT 0 1", 0);
    let request = server.post_proposta(&token, proposal_to(&receiver.url, "P-1"));
    let created = request.send().await.unwrap();
    assert!(answered.happened());
    assert_eq!((created.status().as_u16(), created.headers().get("x-svc-replayed")), (200, None));
    let created: serde_json::Value = serde_json::from_slice(&created.bytes().await.unwrap()).unwrap();
    let id = created["id_proposta_svc"].as_str().unwrap();
    within(server.next_link()).await;
    database.until("SELECT count(*) FROM mensagens WHERE due IS NULL", "1").await;

    let answered = cut("INSERT 0 1", 0);
    let (status, body) = read(server.get(&format!("/confirmar/{id}?acao=recusar"))).await;
    assert!(answered.happened());
    assert_eq!((status, &body["status"], &body["ja_respondida"]), (200, &"RECUSADO".into(), &false.into()));
    assert_eq!(receiver.next().await.header("webhook-id"), format!("evt_{id}"));
    assert_eq!(results(&server.ended(&token, id).await), ["200"]);

    // A resend cut at its change, then at its COMMIT, then at the record of its attempt: each is made again, or found done.
    let mut attempts = vec!["200"];
    for (tag, passed) in [("UPDATE 1", 0), ("COMMIT", 0), ("UPDATE 1", 2)] {
        let answered = cut(tag, passed);
        assert_eq!(read(server.post(&format!("/v1/propostas/{id}/reenviar-webhook"), &token)).await.0, 202);
        assert_eq!(receiver.next().await.header("webhook-id"), format!("evt_{id}"));
        attempts.push("200");
        within(async {
            while results(&server.webhook(&token, id).await) != attempts {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        assert!(answered.happened(), "{tag} after {passed}");
    }
    assert_eq!(database.sql("SELECT count(*) FROM propostas"), "1");
    assert_eq!(database.sql("SELECT count(*) FROM webhooks"), "1");
    server.stop().await;
    assert!(receiver.is_empty());
}

#[tokio::test]
async fn f48_a_request_of_several_statements_has_one_deadline() {
    let Some(database) = Database::fresh() else { return };
    let proxy = Proxy::to(database.port()).await;
    let server = server_through(&proxy, &database).await;
    let (token, receiver) = (server.token().await, Receiver::answering(["HTTP/1.1 200 OK"]).await);
    let (status, created) = read(server.post_proposta(&token, proposal_to(&receiver.url, "P-1"))).await;
    assert_eq!(status, 200);
    let id = created["id_proposta_svc"].as_str().unwrap();
    database.until("SELECT count(*) FROM mensagens WHERE due IS NULL", "1").await;
    // In time for each statement, and not for two.
    proxy.delay(Duration::from_millis(1_700));
    let answer = || server.get(&format!("/confirmar/{id}?acao=aceitar"));
    let before = proxy.stored();
    assert_eq!(read(answer()).await.0, 503);
    assert_eq!(proxy.stored(), before, "the answer was not waited for to its end");
    proxy.delay(Duration::ZERO);
    database.until("SELECT status FROM propostas", "ACEITO").await;
    let (status, body) = read(answer()).await;
    assert_eq!((status, &body["ja_respondida"]), (200, &true.into()), "what was begun has come to its end");
}
