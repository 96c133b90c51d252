//! C26, C27, C29, C32, C33: the partner is told, in bytes that they can verify.

use std::time::Duration;

use svc_core::{Notificacao, Received as Headers, Resposta, Schedule, Secret, Verifier};
use svc_server::DEMO_WEBHOOK_SECRET;

use crate::harness::{Received, Receiver, Server, read};

/// Believes a delivery as a partner would, with every header asked for.
fn verify(received: &Received) -> Notificacao {
    let verifier = Verifier::new(&Secret::parse(DEMO_WEBHOOK_SECRET).unwrap()).tolerance(0).require_timestamp();
    let headers = Headers::from_pairs(received.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    let at = received.header("webhook-timestamp").parse().unwrap();
    verifier.verify(headers.unwrap(), &received.body, at).unwrap();
    Notificacao::from_json(&received.body).unwrap()
}

#[tokio::test]
async fn an_answer_reaches_its_partner_signed() {
    let server = Server::start().await;
    let mut receiver = Receiver::answering(&["HTTP/1.1 200 OK"]).await;
    let id = server.create(&receiver.url).await;
    read(server.get(&format!("/confirmar/{id}?acao=recusar"))).await;
    let received = receiver.next().await;
    assert_eq!(received.head, "POST /webhook?chave=x HTTP/1.1");
    assert_eq!(received.header("content-type"), "application/json");
    assert_eq!(received.header("webhook-id"), format!("evt_{id}"));
    assert_eq!(received.header("webhook-timestamp"), "1795811504");
    assert!(received.header("user-agent").starts_with("svc-server/"));
    assert_eq!(
        String::from_utf8_lossy(&received.body),
        format!(
            r#"{{"id_proposta_svc":"{id}","id_proposta_parceiro":"PARC-12345","status":"RECUSADO","timestamp":"2026-11-27T20:31:44.123Z"}}"#
        )
    );
    assert_eq!(verify(&received).status, Resposta::Recusado);
}

#[tokio::test]
async fn w20_a_failed_attempt_is_repeated_with_the_same_id_body_and_signature() {
    let server = Server::with(|config| config.schedule = Schedule::parse("0,0,0,0").unwrap()).await;
    let script = &["HTTP/1.1 500 Oops", "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/", "HTTP/1.1 200 OK"];
    let mut receiver = Receiver::answering(script).await;
    let id = server.create(&receiver.url).await;
    read(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
    let attempts = [receiver.next().await, receiver.next().await, receiver.next().await];
    for attempt in &attempts {
        verify(attempt);
        assert_eq!(attempt.body, attempts[0].body);
        for same in ["webhook-id", "x-svc-signature"] {
            assert_eq!(attempt.header(same), attempts[0].header(same));
        }
    }
    server.stop().await;
    assert!(receiver.is_empty(), "a 200 ends it");
}

#[tokio::test]
async fn a_410_ends_a_delivery() {
    let server = Server::with(|config| config.schedule = Schedule::parse("0,0,0").unwrap()).await;
    let mut receiver = Receiver::answering(&["HTTP/1.1 410 Gone"]).await;
    let id = server.create(&receiver.url).await;
    read(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
    verify(&receiver.next().await);
    // Another proposal's delivery, made later, comes next: the first one is not repeated.
    let body = crate::harness::TYPICAL.replace("https://parceiro.example.com/webhooks/svc", &receiver.url);
    let (_, other) = read(server.post_proposta(&server.token().await, body)).await;
    let other = other["id_proposta_svc"].as_str().unwrap();
    read(server.get(&format!("/confirmar/{other}?acao=aceitar"))).await;
    assert_eq!(verify(&receiver.next().await).id_proposta_svc, other);
    server.stop().await;
    assert!(receiver.is_empty());
}

#[tokio::test]
async fn the_wait_is_the_schedule_s_by_the_server_s_clock() {
    let server = Server::start().await;
    let mut receiver = Receiver::answering(&["HTTP/1.1 500 Oops", "HTTP/1.1 200 OK"]).await;
    let id = server.create(&receiver.url).await;
    read(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
    let first: u64 = receiver.next().await.header("webhook-timestamp").parse().unwrap();
    // The attempt ends at an instant that only the server knows, so time flows until the next one comes.
    let clock = server.clock.clone();
    let time = tokio::spawn(async move {
        loop {
            clock.advance(1);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let second: u64 = receiver.next().await.header("webhook-timestamp").parse().unwrap();
    time.abort();
    assert!(second - first >= 5, "{first} {second}");
}

#[tokio::test]
async fn a_name_that_resolves_to_this_machine_is_not_connected_to_unless_opened() {
    let server = Server::with(|config| {
        config.policy = svc_core::Policy::new(svc_core::Perfil::Homologacao);
        config.schedule = Schedule::parse("0").unwrap();
    })
    .await;
    let receiver = Receiver::answering(&["HTTP/1.1 200 OK"]).await;
    let id = server.create(&receiver.url.replace("127.0.0.1", "localhost")).await;
    read(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
    server.stop().await;
    assert!(receiver.is_empty());
}
