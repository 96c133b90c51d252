//! C26, C27, C29, C32, C33: the partner is told, in bytes that they can verify.

use std::time::Duration;

use svc_core::{Notificacao, Received as Headers, Resposta, Schedule, Secret, Verifier};
use svc_server::DEMO_WEBHOOK_SECRET;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};

use crate::harness::{Received, Receiver, Server, read, read_request, results, within};
use crate::network::{Network, Peer, pass};

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
    let mut receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let id = server.create(&receiver.url).await;
    read(server.get(&format!("/confirmar/{id}?acao=recusar"))).await;
    let received = receiver.next().await;
    assert_eq!(received.head, "POST /webhook?k=canario-da-query HTTP/1.1");
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
async fn w20_a_failed_attempt_is_repeated_with_the_same_id_body_and_signature_at_a_time_of_its_own() {
    let mut network = Network::new(|_, before| {
        Peer::answers(if before == 0 { "HTTP/1.1 500 Oops\r\nconnection: close" } else { "HTTP/1.1 200 OK" })
    })
    .name("parceiro.example", &["93.184.215.14"]);
    let server = Server::with(|config| network.hold(config)).await;
    let token = server.token().await;
    let id = server.answered(&token, "http://parceiro.example/webhook?k=canario-da-query", "P-1").await;
    pass(3_000).await;
    let arrived = network.arrived();
    let [first, second] = [&arrived[0].request, &arrived[1].request];
    assert_eq!(arrived.len(), 2, "a 200 ends it");
    // Both are believed, each at its own time.
    assert_eq!(verify(first), verify(second));
    assert_eq!((first.body.clone(), first.head.clone()), (second.body.clone(), second.head.clone()));
    for same in ["webhook-id", "x-svc-signature", "host", "user-agent", "content-type"] {
        assert_eq!(first.header(same), second.header(same));
    }
    assert_eq!(first.header("webhook-id"), format!("evt_{id}"));
    let time = |received: &Received| received.header("webhook-timestamp").parse::<u64>().unwrap();
    assert!((5..=6).contains(&(time(second) - time(first))));
    assert_ne!(first.header("webhook-signature"), second.header("webhook-signature"));
}

#[tokio::test]
async fn w22_a_final_2xx_delivers_and_everything_else_is_tried_again() {
    let server = Server::with(|config| config.schedule = Schedule::parse("0,0").unwrap()).await;
    let token = server.token().await;
    for (i, (answer, result)) in [
        ("HTTP/1.1 200 OK", "200"),
        ("HTTP/1.1 201 Created", "201"),
        ("HTTP/1.1 204 No Content", "204"),
        ("HTTP/1.1 299 Fine", "299"),
        ("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 200 OK", "200"),
        ("HTTP/1.1 301 Moved\r\nlocation: /", "301"),
        ("HTTP/1.1 400 No", "400"),
        ("HTTP/1.1 404 Not here", "404"),
        ("HTTP/1.1 429 Slow down", "429"),
        ("HTTP/1.1 500 Oops", "500"),
        ("HTTP/0.9", "conexao"),
        ("HTTP/1.1 abc", "conexao"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut receiver = Receiver::answering(vec![answer]).await;
        let id = server.answered(&token, &receiver.url, &format!("P-{i}")).await;
        let webhook = server.ended(&token, &id).await;
        let first = receiver.next().await;
        verify(&first);
        if result.starts_with('2') {
            assert_eq!((&webhook["estado"], results(&webhook)), (&"entregue".into(), vec![result]), "{answer}");
        } else {
            assert_eq!((&webhook["estado"], results(&webhook)), (&"falhou".into(), vec![result; 2]), "{answer}");
            let second = receiver.next().await;
            assert_eq!((second.header("webhook-id"), &second.body), (first.header("webhook-id"), &first.body));
        }
        assert!(receiver.is_empty(), "{answer}");
    }
}

#[tokio::test]
async fn f67_a_receiver_that_resets_after_reading_gets_the_same_again() {
    let server = Server::with(|config| config.schedule = Schedule::parse("0,0").unwrap()).await;
    let token = server.token().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let id = server.answered(&token, &format!("http://{}/", listener.local_addr().unwrap()), "P-1").await;
    let mut read = Vec::new();
    for answers in [false, true] {
        let (stream, _) = within(listener.accept()).await.unwrap();
        let mut stream = BufReader::new(stream);
        read.push(within(read_request(&mut stream)).await.unwrap());
        if answers {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        } else {
            stream.get_ref().set_zero_linger().unwrap();
        }
    }
    let webhook = server.ended(&token, &id).await;
    assert_eq!((&webhook["estado"], results(&webhook)), (&"entregue".into(), vec!["conexao", "200"]));
    let times: Vec<_> = webhook["tentativas"].as_array().unwrap().iter().map(|attempt| attempt["em"].clone()).collect();
    assert_eq!(times, ["2026-11-27T20:31:44.123Z"; 2], "at once, by this schedule and a clock that stands still");
    assert_eq!(read[0].body, read[1].body);
    for same in ["webhook-id", "x-svc-signature"] {
        assert_eq!(read[0].header(same), read[1].header(same));
    }
    assert_eq!(verify(&read[1]).id_proposta_svc, id);
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_it() {
    let server = Server::with(|config| config.schedule = Schedule::parse("0").unwrap()).await;
    let token = server.token().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let id = server.answered(&token, &format!("http://{}/", listener.local_addr().unwrap()), "P-1").await;
    let (stream, _) = within(listener.accept()).await.unwrap();
    let mut stream = BufReader::new(stream);
    within(read_request(&mut stream)).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 99999999\r\n\r\n").await.unwrap();
    // Until the other side has enough, and closes.
    within(async { while stream.write_all(&[0x1f; 4_096]).await.is_ok() {} }).await;
    let webhook = server.ended(&token, &id).await;
    assert_eq!((&webhook["estado"], results(&webhook)), (&"entregue".into(), vec!["200"]));
}

/// The result of the first attempt, as the status shows it.
async fn first_result(server: &Server, id: &str) -> String {
    let token = server.token().await;
    within(async {
        loop {
            let webhook = server.webhook(&token, id).await;
            if let [first, ..] = results(&webhook)[..] {
                return first.to_owned();
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
    let mut receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
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
    let mut receiver = Receiver::answering(["HTTP/1.1 410 Gone"]).await;
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
    let mut receiver = Receiver::answering(["HTTP/1.1 500 Oops", "HTTP/1.1 200 OK"]).await;
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
    let receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let id = server.create(&receiver.url.replace("127.0.0.1", "localhost")).await;
    read(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
    server.stop().await;
    assert!(receiver.is_empty());
}
