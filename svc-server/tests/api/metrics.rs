//! What an operator sees on the metrics' own listener.

use crate::harness::{Receiver, Server, WALKTHROUGH, read, results};
use crate::network::{Network, Peer, pass};

async fn metrics_listener() -> (tokio::net::TcpListener, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    (listener, url)
}

/// The value of a sample, by its name and labels as they are written.
fn sample(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test]
async fn requests_proposals_deliveries_messages_and_logins_are_counted() {
    let (listener, url) = metrics_listener().await;
    let server = Server::with(|config| config.metrics = Some(listener)).await;
    let token = server.token().await;
    let receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let id = server.answered(&token, &receiver.url, "P-1").await;
    server.ended(&token, &id).await;
    read(server.post_proposta(&token, WALKTHROUGH)).await;
    assert_eq!(read(server.post_proposta(&token, WALKTHROUGH)).await.0, 200, "the same again is no new proposal");
    assert_eq!(server.login("parceiro-demo", "errado").await.0, 401);
    assert_eq!(read(server.get("/nada")).await.0, 404);

    let answer = server.http.get(&url).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let text = answer.text().await.unwrap();
    for (name, value) in [
        (r#"svc_requests_total{route="/v1/login",status="200"}"#, 1.0),
        (r#"svc_requests_total{route="/v1/login",status="401"}"#, 1.0),
        (r#"svc_requests_total{route="/v1/propostas",status="200"}"#, 3.0),
        (r#"svc_requests_total{route="/confirmar/{id_proposta_svc}",status="200"}"#, 1.0),
        (r#"svc_requests_total{route="-",status="404"}"#, 1.0),
        (r#"svc_request_seconds_count{route="/v1/propostas"}"#, 3.0),
        (r#"svc_propostas_total{status="AGUARDANDO_RESPOSTA"}"#, 2.0),
        (r#"svc_propostas_total{status="ACEITO"}"#, 1.0),
        (r#"svc_webhook_attempts_total{resultado="2xx"}"#, 1.0),
        (r#"svc_webhooks_total{estado="entregue"}"#, 1.0),
        (r#"svc_webhooks_total{estado="falhou"}"#, 0.0),
        (r#"svc_waiting_of_removed{work="webhooks"}"#, 0.0),
        ("svc_webhooks_put_back_total", 0.0),
        ("svc_webhook_attempt_seconds_count", 1.0),
        ("svc_webhook_lag_seconds_count", 1.0),
        (r#"svc_messages_total{estado="enviada"}"#, 2.0),
        ("svc_login_failures_total", 1.0),
        (r#"svc_waiting{work="webhooks"}"#, 0.0),
        (r#"svc_oldest_due_seconds{work="webhooks"}"#, 0.0),
    ] {
        assert_eq!(sample(&text, name), Some(value), "{name} in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));

    let base = url.trim_end_matches("/metrics");
    assert_eq!(read(server.http.get(format!("{base}/v1/propostas"))).await.0, 404);
    assert_eq!(read(server.http.post(&url)).await.0, 405);
    assert_eq!(read(server.get("/metrics")).await.0, 404, "not where the world comes");
}

#[tokio::test]
async fn what_waits_is_seen_with_the_age_of_the_oldest() {
    let (listener, url) = metrics_listener().await;
    let network = Network::new(|_, _| Peer::Mute).name("parceiro.example", &["93.184.215.14"]);
    let server = Server::with(|config| {
        network.hold(config);
        config.metrics = Some(listener);
    })
    .await;
    let token = server.token().await;
    let mut ids = Vec::new();
    for i in 0..20 {
        ids.push(server.answered(&token, "http://parceiro.example/", &format!("P-{i}")).await);
    }
    pass(10).await;
    // Eight hang, which is all that one host may have; twelve have been due for ten seconds.
    let text = server.http.get(&url).send().await.unwrap().text().await.unwrap();
    assert_eq!(sample(&text, r#"svc_waiting{work="webhooks"}"#), Some(20.0));
    let oldest = sample(&text, r#"svc_oldest_due_seconds{work="webhooks"}"#).unwrap();
    assert!((10.0..11.0).contains(&oldest), "{oldest}");
    pass(6).await;
    let text = server.http.get(&url).send().await.unwrap().text().await.unwrap();
    assert_eq!(sample(&text, r#"svc_webhook_attempts_total{resultado="tempo_esgotado"}"#), Some(8.0));
    assert_eq!(results(&server.webhook(&token, &ids[0]).await), ["tempo_esgotado"]);
}
