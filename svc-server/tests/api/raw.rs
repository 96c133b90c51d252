//! Hostile and unlucky clients, byte by byte. Where a row is about time, the clock of the runtime is virtual: it moves on
//! when everybody waits.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::canary;
use crate::harness::{Server, WALKTHROUGH, read, within};

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap()
}

/// All that comes until the server closes; a reset counts as closed.
async fn to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if status(&text) >= 400 {
        canary::look_at(&text);
    }
    text
}

/// The first status of an answer, 0 for none.
fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// How many answers there are in what came.
fn answers(text: &str) -> usize {
    text.matches("HTTP/1.1 ").count()
}

async fn post_head(server: &Server, length: usize) -> String {
    let token = server.token().await;
    format!(
        "POST /v1/propostas HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn f01_a_declared_length_over_the_limit_is_refused_unread() {
    let server = Server::start().await;
    let mut stream = connect(&server).await;
    stream.write_all(post_head(&server, 10 << 20).await.as_bytes()).await.unwrap();
    // Not a byte of the body was sent: the answer does not wait for it, and the connection ends.
    let answer = within(to_end(&mut stream)).await;
    assert_eq!(status(&answer), 413);
    assert!(answer.contains("corpo_grande_demais"));
}

#[tokio::test(start_paused = true)]
async fn f03_half_a_body_and_silence_end_at_the_deadline_with_nothing_stored() {
    let server = Server::start().await;
    let mut stream = connect(&server).await;
    stream.write_all(post_head(&server, WALKTHROUGH.len()).await.as_bytes()).await.unwrap();
    stream.write_all(&WALKTHROUGH.as_bytes()[..50]).await.unwrap();
    let began = Instant::now();
    let answer = to_end(&mut stream).await;
    let took = began.elapsed();
    assert_eq!(status(&answer), 408, "{answer}");
    assert!((Duration::from_secs(9)..Duration::from_secs(12)).contains(&took), "{took:?}");
    let find = server.get("/v1/propostas?id_proposta_parceiro=PARC-12345").bearer_auth(server.token().await);
    assert_eq!(read(find).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn f26_an_idle_connection_is_closed_before_and_after_a_request() {
    let server = Server::start().await;
    let (mut mute, mut idle) = (connect(&server).await, connect(&server).await);
    idle.write_all(b"GET /saude HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let began = Instant::now();
    assert_eq!(to_end(&mut mute).await, "");
    assert_eq!(status(&to_end(&mut idle).await), 200);
    let took = began.elapsed();
    assert!((Duration::from_secs(19)..Duration::from_secs(25)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn f27_slow_headers_slow_bodies_and_slow_readers_end_at_their_deadlines() {
    let server = Server::start().await;
    let began = Instant::now();
    let mut headers = connect(&server).await;
    while headers.write_all(b"G").await.is_ok() && began.elapsed() < Duration::from_secs(60) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!((Duration::from_secs(19)..Duration::from_secs(30)).contains(&began.elapsed()), "{:?}", began.elapsed());

    let mut body = connect(&server).await;
    body.write_all(post_head(&server, 1_000).await.as_bytes()).await.unwrap();
    let began = Instant::now();
    while body.write_all(b" ").await.is_ok() && began.elapsed() < Duration::from_secs(60) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!((Duration::from_secs(9)..Duration::from_secs(20)).contains(&began.elapsed()), "{:?}", began.elapsed());

    // More answers than the sockets hold, and nobody reads them.
    let mut reader = connect(&server).await;
    let began = Instant::now();
    let request = b"GET /openapi.yaml HTTP/1.1\r\nhost: x\r\n\r\n";
    while began.elapsed() < Duration::from_secs(120) {
        if let Ok(Err(_)) = tokio::time::timeout(Duration::from_secs(1), reader.write_all(request)).await {
            break;
        }
    }
    assert!((Duration::from_secs(29)..Duration::from_secs(60)).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn f23_no_second_request_is_read_out_of_a_body() {
    let server = Server::start().await;
    let smuggled = "GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    for head in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "content-length: 0\r\ncontent-length: 5\r\n\r\n",
        "content-length: 0, 5\r\n\r\n",
        "transfer-encoding: xchunked\r\n\r\n",
        "transfer-encoding: chunked, identity\r\n\r\n",
        "transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        "x: a\r\n content-length: 5\r\n\r\n",
        "x: a\rcontent-length: 5\r\n\r\n",
        "content-length: +5\r\n\r\n",
        "content-length: 0x5\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n5\nhello\n0\n\n",
    ] {
        let mut stream = connect(&server).await;
        let request = format!("POST /v1/login HTTP/1.1\r\nhost: x\r\n{head}{smuggled}");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = within(to_end(&mut stream)).await;
        assert!(answers(&answer) <= 1, "{head:?}: {answer}");
        assert!(!answer.contains("rota_nao_encontrada"), "{head:?}: {answer}");
        assert!(matches!(status(&answer), 0 | 400), "{head:?}: {answer}");
    }
}

#[tokio::test]
async fn c37_a_body_that_breaks_off_or_is_not_in_its_chunks_is_a_400() {
    let server = Server::start().await;
    for rest in ["content-length: 50\r\n\r\n{", "transfer-encoding: chunked\r\n\r\nzz\r\n"] {
        let mut stream = connect(&server).await;
        stream.write_all(format!("POST /v1/login HTTP/1.1\r\nhost: x\r\n{rest}").as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = within(to_end(&mut stream)).await;
        assert!(matches!(status(&answer), 0 | 400), "{rest:?}: {answer}");
    }
}

#[tokio::test]
async fn c18_a_host_that_is_none_is_refused() {
    let server = Server::start().await;
    for head in ["", "host: a\r\nhost: a\r\n", "host: user@a\r\n", "host: a b\r\n", "host:\r\n"] {
        let mut stream = connect(&server).await;
        stream.write_all(format!("GET /saude HTTP/1.1\r\n{head}connection: close\r\n\r\n").as_bytes()).await.unwrap();
        let answer = within(to_end(&mut stream)).await;
        assert_eq!(status(&answer), 400, "{head:?}: {answer}");
        assert!(answer.contains("host_invalido") && answer.contains("x-request-id"), "{answer}");
    }
}

#[tokio::test]
async fn f30_a_client_that_leaves_leaves_a_whole_proposal_or_none() {
    let mut server = Server::start().await;
    let head = post_head(&server, WALKTHROUGH.len()).await;
    for i in 0..50 {
        let body = WALKTHROUGH.replace("PARC-12345", &format!("PARC-{i:05}"));
        let mut stream = connect(&server).await;
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        drop(stream);
    }
    // Sent again, each is there once, and each customer was told once.
    let token = server.token().await;
    for i in 0..50 {
        let body = WALKTHROUGH.replace("PARC-12345", &format!("PARC-{i:05}"));
        assert_eq!(read(server.post_proposta(&token, body)).await.0, 200);
    }
    let mut told = std::collections::HashSet::new();
    for _ in 0..50 {
        assert!(told.insert(within(server.next_link()).await), "told twice");
    }
    let find = server.get("/v1/propostas?id_proposta_parceiro=PARC-00000").bearer_auth(&token);
    assert_eq!(read(find).await.1["mensagem"]["estado"], "enviada");
    assert!(server.links.is_empty());
}

#[tokio::test]
async fn f33_at_twice_its_capacity_the_server_serves_what_it_can_and_sheds_the_rest() {
    const CAPACITY: usize = 4;
    let server = Server::with(|config| config.max_in_flight = CAPACITY).await;
    let body = r#"{"client_id":"parceiro-demo","client_secret":"segredo-demo"}"#;
    let head = format!(
        "POST /v1/login HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    // Round after round as many as fit are served: shedding costs the others nothing.
    for _ in 0..20 {
        let mut served = Vec::new();
        for _ in 0..CAPACITY {
            let mut stream = connect(&server).await;
            stream.write_all(head.as_bytes()).await.unwrap();
            // The server asks for the body: the request is in flight.
            let mut interim = [0; 25];
            within(stream.read_exact(&mut interim)).await.unwrap();
            assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
            served.push(stream);
        }
        for _ in 0..CAPACITY {
            let shed = server.get("/saude").send().await.unwrap();
            assert_eq!((shed.status().as_u16(), &shed.headers()["retry-after"]), (503, &"1".parse().unwrap()));
        }
        for stream in &mut served {
            stream.write_all(body.as_bytes()).await.unwrap();
            assert_eq!(status(&within(to_end(stream)).await), 200);
        }
    }
    assert_eq!(server.get("/saude").send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn at_the_connection_cap_the_listener_pauses_and_goes_on() {
    let server = Server::with(|config| config.max_connections = 2).await;
    let (mut first, second) = (connect(&server).await, connect(&server).await);
    // Both are being served before the third comes: an answer proves it.
    first.write_all(b"GET /saude HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut part = [0; 12];
    within(first.read_exact(&mut part)).await.unwrap();
    let mut third = connect(&server).await;
    third.write_all(b"GET /saude HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    drop((first, second));
    assert_eq!(status(&within(to_end(&mut third)).await), 200);
}

#[tokio::test]
async fn f39_at_the_end_the_listener_closes_first_and_no_answer_is_cut() {
    let server = Server::start().await;
    let mut stream = connect(&server).await;
    let head =
        post_head(&server, WALKTHROUGH.len()).await.replace("content-length", "expect: 100-continue\r\ncontent-length");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    within(stream.read_exact(&mut interim)).await.unwrap();
    let stopping = server.begin_to_stop().await;
    stream.write_all(WALKTHROUGH.as_bytes()).await.unwrap();
    let answer = within(to_end(&mut stream)).await;
    assert_eq!(status(&answer), 200, "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    within(stopping).await.unwrap();
}
