//! The store that lasts: what holds in memory holds on PostgreSQL, on several servers, and after their end.

use std::collections::HashSet;

use svc_core::{Perfil, Policy, Schedule};
use svc_server::{Config, DatabaseUrl, ServerKey};

use crate::canary;
use crate::cluster::Database;
use crate::harness::{Receiver, Server, TYPICAL, WALKTHROUGH, read, results, within};

fn url(database: &Database) -> DatabaseUrl {
    DatabaseUrl::parse(&database.url_text()).unwrap()
}

/// Servers that share a database share their keys.
pub(crate) fn shared(config: &mut Config, database: &Database) {
    config.database = Some(url(database));
    config.clock = svc_server::Clock::system();
    config.token_key = ServerKey::new(vec![1; 32]).unwrap();
    config.link_key = ServerKey::new(vec![2; 32]).unwrap();
}

pub(crate) async fn server(database: &Database) -> Server {
    Server::with(|config| shared(config, database)).await
}

#[tokio::test]
async fn a_proposal_its_answer_and_its_delivery_outlive_the_server() {
    let Some(database) = Database::fresh() else { return };
    let mut receiver = Receiver::answering(["HTTP/1.1 500 Oops", "HTTP/1.1 200 OK"]).await;
    let first = Server::with(|config| {
        shared(config, &database);
        config.schedule = Schedule::parse("0,1h").unwrap();
    })
    .await;
    let token = first.token().await;
    let id = first.answered(&token, &receiver.url, "PARC-12345").await;
    let attempt = receiver.next().await;
    within(async { while results(&first.webhook(&token, &id).await).is_empty() {} }).await;
    first.stop().await;

    let second = server(&database).await;
    let webhook = second.webhook(&token, &id).await;
    assert_eq!((&webhook["estado"], results(&webhook)), (&"pendente".into(), vec!["500"]));
    let (status, body) = read(second.get("/v1/propostas?id_proposta_parceiro=PARC-12345").bearer_auth(&token)).await;
    assert_eq!((status, &body["status"], &body["mensagem"]["estado"]), (200, &"ACEITO".into(), &"enviada".into()));
    let again = WALKTHROUGH.replace("https://parceiro.example.com/webhooks/svc", &receiver.url);
    let replayed = second.post_proposta(&token, again).send().await.unwrap();
    assert_eq!((replayed.status().as_u16(), &replayed.headers()["x-svc-replayed"]), (200, &"true".parse().unwrap()));
    assert_eq!(read(second.get(&format!("/confirmar/{id}?acao=recusar"))).await.0, 409);
    assert_eq!(read(second.post(&format!("/v1/propostas/{id}/reenviar-webhook"), &token)).await.0, 202);
    let resent = receiver.next().await;
    assert_eq!((resent.header("webhook-id"), &resent.body), (attempt.header("webhook-id"), &attempt.body));
    let webhook = second.ended(&token, &id).await;
    assert_eq!((&webhook["estado"], results(&webhook)), (&"entregue".into(), vec!["500", "200"]));
    assert_eq!(read(second.get("/saude")).await.0, 200);
}

#[tokio::test]
async fn f72_f73_f74_the_same_proposal_on_three_servers_at_once_is_one_row_one_message_one_id() {
    let Some(database) = Database::fresh() else { return };
    let mut servers = [server(&database).await, server(&database).await, server(&database).await];
    let token = servers[0].token().await;
    let mut posts = tokio::task::JoinSet::new();
    for i in 0..60 {
        let body = if i % 20 == 19 { WALKTHROUGH.replace("João", "Outro") } else { WALKTHROUGH.to_owned() };
        posts.spawn(read(servers[i % 3].post_proposta(&token, body)));
    }
    let (mut ids, mut refused) = (HashSet::new(), 0);
    for (status, body) in posts.join_all().await {
        match status {
            200 => drop(ids.insert(body["id_proposta_svc"].as_str().unwrap().to_owned())),
            409 => refused += 1,
            _ => panic!("{status} {body}"),
        }
    }
    assert_eq!(ids.len(), 1);
    // Whichever content came first, the other one is refused.
    assert!(matches!(refused, 3 | 57), "{refused}");
    let other = servers[1].token_of("outro", "outro-segredo").await;
    assert_eq!(read(servers[2].post_proposta(&other, WALKTHROUGH)).await.0, 200);
    assert_eq!(database.sql("SELECT count(*), count(DISTINCT client_id) FROM propostas"), "2|2");
    database.until("SELECT count(*) FROM mensagens WHERE due IS NOT NULL", "0").await;
    let told: usize =
        servers.iter_mut().map(|server| std::iter::from_fn(|| server.links.try_recv().ok()).count()).sum();
    assert_eq!(told, 2, "one message a proposal");
}

#[tokio::test]
async fn f71_conflicting_answers_on_three_servers_have_one_winner_and_one_event() {
    let Some(database) = Database::fresh() else { return };
    // All answers in one millisecond: what tells them apart is who wrote them.
    let one = || {
        Server::with(|config| {
            shared(config, &database);
            config.clock = svc_server::Clock::from_fn(|| "2026-11-27T20:31:44.123Z".parse().unwrap());
        })
    };
    let servers = [one().await, one().await, one().await];
    let mut receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let token = servers[0].token().await;
    for round in 0..10 {
        let body = WALKTHROUGH
            .replace("https://parceiro.example.com/webhooks/svc", &receiver.url)
            .replace("PARC-12345", &format!("P-{round}"));
        let (_, created) = read(servers[0].post_proposta(&token, body)).await;
        let id = created["id_proposta_svc"].as_str().unwrap().to_owned();
        let mut answers = tokio::task::JoinSet::new();
        for i in 0..30 {
            let acao = if i % 2 == 0 { "aceitar" } else { "recusar" };
            answers.spawn(read(servers[i % 3].get(&format!("/confirmar/{id}?acao={acao}"))));
        }
        let answers = answers.join_all().await;
        let first = answers.iter().filter(|(status, body)| *status == 200 && body["ja_respondida"] == false);
        let winner = first.clone().next().unwrap().1["status"].clone();
        assert_eq!(first.count(), 1);
        for (status, body) in &answers {
            let stands = if *status == 200 { &body["status"] } else { &body["status_proposta"] };
            assert!(matches!(status, 200 | 409) && *stands == winner, "{status} {body}");
        }
        let received = receiver.next().await;
        assert_eq!(received.header("webhook-id"), format!("evt_{id}"));
    }
    assert_eq!(database.sql("SELECT count(*) FROM webhooks"), "10");
    for server in servers {
        server.stop().await;
    }
    assert!(receiver.is_empty(), "each event once");
}

#[tokio::test]
async fn f75_two_hundred_events_on_three_servers_go_out_once_each() {
    let Some(database) = Database::fresh() else { return };
    let servers = [server(&database).await, server(&database).await, server(&database).await];
    let mut receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let token = servers[0].token().await;
    let mut expected = HashSet::new();
    for i in 0..200 {
        expected.insert(format!("evt_{}", servers[i % 3].answered(&token, &receiver.url, &format!("P-{i}")).await));
    }
    let mut received = HashSet::new();
    for _ in 0..200 {
        assert!(received.insert(receiver.next().await.header("webhook-id").to_owned()));
    }
    assert_eq!(received, expected);
    for server in servers {
        server.stop().await;
    }
    assert!(receiver.is_empty());
    assert_eq!(database.sql("SELECT count(*) FROM webhooks WHERE due IS NOT NULL"), "0");
}

#[tokio::test]
async fn f37_servers_that_start_together_bring_the_schema_up_to_date_once_and_a_newer_one_is_left_alone() {
    let Some(database) = Database::fresh() else { return };
    let (a, b, c) = tokio::join!(server(&database), server(&database), server(&database));
    for server in [&a, &b, &c] {
        assert_eq!(read(server.get("/saude")).await.0, 200);
    }
    assert_eq!(database.sql("SELECT string_agg(version::text, ',') FROM refinery_schema_history"), "1,2");
    // As the first version left it: what it holds is there in the second.
    let id = a.create("https://parceiro.example.com/webhooks/svc").await;
    for server in [a, b, c] {
        server.stop().await;
    }
    database.sql("ALTER TABLE mensagens DROP COLUMN envio; DELETE FROM refinery_schema_history WHERE version = 2");
    let later = server(&database).await;
    let token = later.token().await;
    assert_eq!(read(later.get(&format!("/v1/propostas/{id}")).bearer_auth(&token)).await.0, 200);
    assert_eq!(database.sql("SELECT max(version) FROM refinery_schema_history"), "2");

    database.sql("INSERT INTO refinery_schema_history VALUES (3, 'later', '2026-11-28T00:00:00Z', '1')");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::homologacao(svc_server::Partners::demonstration()).unwrap();
    shared(&mut config, &database);
    let ended = within(svc_server::run(listener, config, std::future::pending())).await;
    assert!(ended.unwrap_err().to_string().starts_with("database's schema cannot be used"));
}

#[tokio::test]
async fn w32_a_full_run_at_trace_on_postgresql_shows_no_secret_and_no_person() {
    for perfil in [Perfil::Homologacao, Perfil::Producao] {
        let Some(database) = Database::fresh() else { return };
        canary::full_run(perfil, |config| config.database = Some(url(&database))).await;
    }
}

#[tokio::test]
async fn the_data_of_persons_go_after_their_time_and_leave_no_copy() {
    let Some(database) = Database::fresh() else { return };
    let first = server(&database).await;
    let receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let token = first.token().await;
    let answered = first.answered(&token, &receiver.url, "P-1").await;
    first.ended(&token, &answered).await;
    let (_, waiting) = read(first.post_proposta(&token, TYPICAL)).await;
    first.stop().await;
    database.sql("UPDATE propostas SET respondida_em = now() - interval '8 days' WHERE respondida_em IS NOT NULL");

    let second = Server::with(|config| {
        shared(config, &database);
        config.retention = Some(std::time::Duration::from_secs(7 * 24 * 60 * 60));
    })
    .await;
    database.until("SELECT count(*) FROM propostas WHERE NOT tem_dados", "1").await;
    for table in ["propostas", "webhooks", "mensagens"] {
        let dump = database.sql(&format!("SELECT convert_from(dados, 'UTF8') FROM {table} WHERE id = '{answered}'"));
        for datum in ["João", "111.444.777-35", "5511900000018", "2042.93", "2027-01-01"] {
            assert!(!dump.contains(datum), "{datum} in {table}: {dump}");
        }
    }
    let page = second.get(&format!("/confirmar/{answered}")).header("accept", "text/html").send().await.unwrap();
    assert!(page.text().await.unwrap().contains("dados desta proposta foram removidos"));
    let again =
        WALKTHROUGH.replace("https://parceiro.example.com/webhooks/svc", &receiver.url).replace("PARC-12345", "P-1");
    assert_eq!(
        read(second.post_proposta(&token, again)).await.1["id_proposta_svc"],
        answered,
        "a replay is still known"
    );
    assert_eq!(read(second.post(&format!("/v1/propostas/{answered}/reenviar-webhook"), &token)).await.0, 202);
    assert_eq!(second.ended(&token, &answered).await["estado"], "entregue");
    let id = waiting["id_proposta_svc"].as_str().unwrap();
    let page = second.get(&format!("/confirmar/{id}")).header("accept", "text/html").send().await.unwrap();
    assert!(page.text().await.unwrap().contains("Beltrano"), "what waits for its answer stays");
}

#[tokio::test]
async fn a_server_in_production_runs_on_it_too() {
    let Some(database) = Database::fresh() else { return };
    let mut server = Server::with(|config| {
        shared(config, &database);
        config.policy = Policy::new(Perfil::Producao);
    })
    .await;
    let (status, body) = read(server.post_proposta(&server.token().await, TYPICAL)).await;
    assert_eq!(status, 200, "{body}");
    let link = within(server.next_link()).await;
    let page = server.http.get(&link).header("accept", "text/html").send().await.unwrap();
    assert_eq!(page.status(), 200);
}
