//! C26, C27, C29, C32, C33: the partner is told, in bytes that they can verify.

use std::time::Duration;

use svc_core::{Notificacao, Received as Headers, Resposta, Schedule, Secret, Verifier};
use svc_server::DEMO_WEBHOOK_SECRET;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{Received, Receiver, Server, read, within};

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

/// The result of the first attempt, as the status shows it.
async fn first_result(server: &Server, id: &str) -> String {
    let token = server.token().await;
    within(async {
        loop {
            let (_, body) = read(server.get(&format!("/v1/propostas/{id}")).bearer_auth(&token)).await;
            if let Some(attempt) = body["webhook"]["tentativas"].get(0) {
                return attempt["resultado"].as_str().unwrap().to_owned();
            }
            // Lets a virtual clock move on.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn c32_the_status_line_decides_whatever_the_body_does() {
    let server = Server::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let id = server.create(&format!("http://{}/", listener.local_addr().unwrap())).await;
    read(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
    let (mut stream, _) = listener.accept().await.unwrap();
    stream
        .write_all(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc")
        .await
        .unwrap();
    // The rest never comes, and the deadline passes.
    assert_eq!(first_result(&server, &id).await, "200");
}

#[tokio::test]
async fn a_handshake_that_fails_is_told_as_tls_and_nothing_goes_in_clear() {
    let server = Server::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let body = crate::harness::TYPICAL
        .replace("https://parceiro.example.com/webhooks/svc", &format!("https://{}/", listener.local_addr().unwrap()));
    let (_, created) = read(server.post_proposta(&server.token().await, body)).await;
    let id = created["id_proposta_svc"].as_str().unwrap();
    read(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut hello = [0; 5];
    stream.read_exact(&mut hello).await.unwrap();
    assert_eq!(hello[0], 0x16, "a handshake, not a request");
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    assert_eq!(first_result(&server, id).await, "tls");
}

#[tokio::test]
async fn f38_an_attempt_that_is_under_way_at_the_end_finishes() {
    let server = Server::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let id = server.create(&format!("http://{}/", listener.local_addr().unwrap())).await;
    read(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
    let (mut stream, _) = listener.accept().await.unwrap();
    let stopping = tokio::spawn(server.stop());
    let mut request = [0; 6];
    within(stream.read_exact(&mut request)).await.unwrap();
    assert_eq!(&request, b"POST /");
    assert!(!stopping.is_finished(), "the attempt is waited for");
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    within(stopping).await.unwrap();
}

#[tokio::test]
async fn c41_an_answer_given_while_the_server_stops_is_still_delivered() {
    let server = Server::start().await;
    let mut receiver = Receiver::answering(&["HTTP/1.1 200 OK"]).await;
    let id = server.create(&receiver.url).await;
    let mut stream = tokio::net::TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
    let head =
        format!("POST /confirmar/{id} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 18\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    within(stream.read_exact(&mut interim)).await.unwrap();
    let stopping = server.begin_to_stop().await;
    stream.write_all(br#"{"acao":"aceitar"}"#).await.unwrap();
    assert_eq!(verify(&receiver.next().await).id_proposta_svc, id);
    within(stopping).await.unwrap();
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
    // The wait is counted from the attempt's end, which the status shows.
    assert_eq!(first_result(&server, &id).await, "500");
    server.clock.advance(6);
    let second: u64 = receiver.next().await.header("webhook-timestamp").parse().unwrap();
    assert_eq!(second - first, 6, "5 s and at most a tenth");
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
