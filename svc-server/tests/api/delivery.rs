//! F56 to F62: where an attempt goes, and how it ends (C31, C32).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use serde_json::Value;
use svc_core::Schedule;
use svc_server::{Resolver, Transport};

use crate::harness::{Receiver, Server, results};
use crate::network::{Network, Peer, pass};

const PUBLIC: &str = "93.184.215.14";

/// When an attempt began, and how many milliseconds it took.
fn times(webhook: &Value) -> Vec<(DateTime<Utc>, i64)> {
    let attempts = webhook["tentativas"].as_array().unwrap().iter();
    attempts.map(|a| (a["em"].as_str().unwrap().parse().unwrap(), a["duracao_ms"].as_i64().unwrap())).collect()
}

/// Milliseconds from the end of each attempt to the begin of the next.
fn waits(webhook: &Value) -> Vec<i64> {
    let times = times(webhook);
    times.windows(2).map(|pair| (pair[1].0 - pair[0].0).num_milliseconds() - pair[0].1).collect()
}

fn public(port: u16) -> SocketAddr {
    SocketAddr::new(PUBLIC.parse().unwrap(), port)
}

#[tokio::test]
async fn f56_silence_ends_at_its_deadline_and_holds_up_nobody() {
    let mut network = Network::new(|address, _| match address.port() {
        80 => Peer::answers("HTTP/1.1 200 OK"),
        82 => Peer::Silent,
        _ => Peer::Mute,
    })
    .name("parceiro.example", &[PUBLIC]);
    let server = Server::with(|config| network.hold(config)).await;
    let token = server.token().await;
    let mut ids = Vec::new();
    for (i, url) in [
        "http://parceiro.example:81/", // accepts, and never answers
        "https://parceiro.example/",   // a handshake that stalls
        "http://mudo.example/",        // a name server that is silent
        "http://parceiro.example:82/", // neither accepts nor refuses
        "http://parceiro.example/",
    ]
    .into_iter()
    .enumerate()
    {
        ids.push(server.answered(&token, url, &format!("P-{i}")).await);
    }
    pass(16).await;
    let mut webhooks = Vec::new();
    for id in &ids {
        webhooks.push(server.webhook(&token, id).await);
    }
    for (webhook, result, deadline) in [
        (&webhooks[0], "tempo_esgotado", 15_000),
        (&webhooks[1], "tempo_esgotado", 15_000),
        (&webhooks[2], "dns", 3_000),
        (&webhooks[3], "tempo_esgotado", 5_000),
    ] {
        assert_eq!(webhook["estado"], "pendente");
        assert_eq!(results(webhook)[0], result);
        let (_, took) = times(webhook)[0];
        assert!((deadline..deadline + 200).contains(&took), "{result} after {took} ms");
    }
    assert_eq!((&webhooks[4]["estado"], results(&webhooks[4])), (&"entregue".into(), vec!["200"]));
    assert!(times(&webhooks[4])[0].1 < 1_000);
    let arrived = network.arrived();
    assert_eq!((arrived.len(), arrived[0].request.header("webhook-id")), (1, format!("evt_{}", ids[4]).as_str()));
    assert!(String::from_utf8_lossy(&arrived[0].request.body).contains(&ids[4]));
    // A silent name server costs 3 s, then the schedule's 5 s: by now the second attempt is made.
    assert!(waits(&webhooks[2]).iter().all(|wait| (5_000..5_700).contains(wait)), "{:?}", waits(&webhooks[2]));
}

/// Connects as usual, and counts who to.
fn counted() -> (Transport, Arc<Mutex<Vec<SocketAddr>>>) {
    let connections = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&connections);
    let transport = Transport::from_fn(move |address| {
        log.lock().unwrap().push(address);
        tokio::net::TcpStream::connect(address)
    });
    (transport, connections)
}

#[tokio::test]
async fn f59_a_redirect_is_a_failure_and_is_not_followed() {
    let script = &[
        "HTTP/1.1 301 Moved\r\nlocation: http://169.254.169.254/latest/",
        "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest/",
        "HTTP/1.1 307 Temporary\r\nlocation: http://169.254.169.254/latest/",
        "HTTP/1.1 308 Permanent\r\nlocation: http://169.254.169.254/latest/",
    ];
    let mut receiver = Receiver::answering(script).await;
    let (transport, connections) = counted();
    let server = Server::with(|config| {
        config.schedule = Schedule::parse("0,0,0,0").unwrap();
        config.transport = transport;
    })
    .await;
    let token = server.token().await;
    let id = server.answered(&token, &receiver.url, "P-1").await;
    let webhook = server.ended(&token, &id).await;
    assert_eq!((&webhook["estado"], results(&webhook)), (&"falhou".into(), vec!["301", "302", "307", "308"]));
    let first = receiver.next().await;
    for _ in 0..3 {
        let again = receiver.next().await;
        assert_eq!((again.header("webhook-id"), &again.body), (format!("evt_{id}").as_str(), &first.body));
    }
    let own: SocketAddr = receiver.url.split('/').nth(2).unwrap().parse().unwrap();
    assert_eq!(*connections.lock().unwrap(), [own; 4]);
}

#[tokio::test]
async fn f60_the_status_decides_whether_and_when_it_is_tried_again() {
    let mut network = Network::new(|address, before| {
        let script = [
            "HTTP/1.1 429 Slow down\r\nretry-after: 60\r\nconnection: close",
            "HTTP/1.1 503 Away\r\nretry-after: 1\r\nconnection: close",
            "HTTP/1.1 404 Not here\r\nretry-after: 900\r\nconnection: close",
            "HTTP/1.1 500 Oops\r\nconnection: close",
        ];
        match address.port() {
            410 => Peer::answers("HTTP/1.1 410 Gone"),
            _ => Peer::answers(script.get(before).unwrap_or(&"HTTP/1.1 400 No\r\nconnection: close")),
        }
    })
    .name("parceiro.example", &[PUBLIC]);
    let server = Server::with(|config| network.hold(config)).await;
    let token = server.token().await;
    let retried = server.answered(&token, "http://parceiro.example/", "P-1").await;
    pass(1_000).await;
    let webhook = server.webhook(&token, &retried).await;
    assert_eq!((&webhook["estado"], results(&webhook)), (&"falhou".into(), vec!["429", "503", "404", "500", "400"]));
    // The longer of the schedule's 5, 30, 120 and 600 s and what was asked for, and at most a tenth more.
    for (wait, least) in waits(&webhook).into_iter().zip([60_000, 30_000, 120_000, 600_000]) {
        assert!((least..=least * 11 / 10 + 100).contains(&wait), "{wait} for {least}");
    }
    let arrived = network.arrived();
    assert_eq!(arrived.len(), 5);
    for other in &arrived {
        assert_eq!(other.request.header("webhook-id"), format!("evt_{retried}"));
        assert_eq!(other.request.body, arrived[0].request.body);
    }
    let gone = server.answered(&token, "http://parceiro.example:410/", "P-2").await;
    pass(1_000).await;
    let webhook = server.webhook(&token, &gone).await;
    assert_eq!((&webhook["estado"], results(&webhook)), (&"falhou".into(), vec!["410"]));
    assert_eq!(network.arrived().len(), 1);
}

#[tokio::test]
async fn f61_a_name_s_bad_addresses_are_never_connected_to() {
    let mut network = Network::new(|_, _| Peer::answers("HTTP/1.1 200 OK"));
    let bad = [
        ("loopback.example", "127.0.0.1"),
        ("metadata.example", "169.254.169.254"),
        ("mapped.example", "::ffff:10.0.0.1"),
        ("nat64.example", "64:ff9b::a00:1"),
    ];
    for (name, address) in bad {
        network = network.name(name, &[address]);
    }
    network = network.name("both.example", &["10.0.0.1", PUBLIC, "::1"]);
    let server = Server::with(|config| {
        network.hold(config);
        config.schedule = Schedule::parse("0,0").unwrap();
    })
    .await;
    let token = server.token().await;
    for (name, _) in bad {
        let id = server.answered(&token, &format!("http://{name}/"), name).await;
        let webhook = server.ended(&token, &id).await;
        assert_eq!((&webhook["estado"], results(&webhook)), (&"falhou".into(), vec!["bloqueado"; 2]), "{name}");
    }
    assert_eq!(network.connections(), []);
    let id = server.answered(&token, "http://both.example:8080/", "both").await;
    assert_eq!(results(&server.ended(&token, &id).await), ["200"]);
    assert_eq!(network.connections(), [public(8_080)]);
    let request = network.next().await.request;
    assert_eq!(
        (request.header("host"), request.header("webhook-id")),
        ("both.example:8080", format!("evt_{id}").as_str())
    );
    assert!(String::from_utf8_lossy(&request.body).contains(&id));
}

#[tokio::test]
async fn f62_what_is_connected_to_is_what_was_vetted_however_a_name_changes() {
    let mut network = Network::new(|_, _| Peer::answers("HTTP/1.1 500 Oops\r\nconnection: close"));
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let server = Server::with(|config| {
        network.hold(config);
        config.schedule = Schedule::parse("0,0,0,0").unwrap();
        // Good when it is asked first, bad the next time: who asks twice in one attempt connects to the second.
        config.resolver = Resolver::from_fn(move |_| {
            let mut count = count.lock().unwrap();
            *count += 1;
            let address = if *count % 2 == 1 { PUBLIC } else { "127.0.0.1" };
            async move { Ok(vec![address.parse().unwrap()]) }
        });
    })
    .await;
    let token = server.token().await;
    let id = server.answered(&token, "http://rebinds.example/", "P-1").await;
    let webhook = server.ended(&token, &id).await;
    assert_eq!(results(&webhook), ["500", "bloqueado", "500", "bloqueado"]);
    assert_eq!(*asked.lock().unwrap(), 4, "once for each attempt");
    assert_eq!(network.connections(), [public(80); 2]);
    let arrived = network.arrived();
    assert_eq!(arrived[0].request.body, arrived[1].request.body);
    assert!(arrived.iter().all(|arrived| arrived.request.header("webhook-id") == format!("evt_{id}")));
}

#[tokio::test]
async fn f61_a_name_with_a_thousand_addresses_is_no_way_to_call_on_them_all() {
    let many: Vec<String> = (0..1_000).map(|i| format!("93.184.{}.{}", i / 250, i % 250)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let network = Network::new(|_, _| Peer::Refuses).name("muitos.example", &many);
    let server = Server::with(|config| {
        network.hold(config);
        config.schedule = Schedule::parse("0").unwrap();
    })
    .await;
    let token = server.token().await;
    let id = server.answered(&token, "http://muitos.example/", "P-1").await;
    assert_eq!(results(&server.ended(&token, &id).await), ["conexao"]);
    assert_eq!(network.connections().len(), 8);
}

#[tokio::test]
async fn a_name_s_next_address_is_tried_when_one_refuses_or_says_nothing() {
    let network = Network::new(|address, _| match address.ip().to_string().as_str() {
        "93.184.215.15" => Peer::Refuses,
        "93.184.215.16" => Peer::Silent,
        _ => Peer::answers("HTTP/1.1 200 OK"),
    });
    let network = network.name("parceiro.example", &["93.184.215.15", "93.184.215.16", PUBLIC]);
    let server = Server::with(|config| network.hold(config)).await;
    let token = server.token().await;
    let id = server.answered(&token, "http://parceiro.example/", "P-1").await;
    assert_eq!(results(&server.ended(&token, &id).await), ["200"]);
    assert_eq!(network.connections().last(), Some(&public(80)));
    // The connection was kept, and serves again.
    let id = server.answered(&token, "http://parceiro.example/", "P-2").await;
    assert_eq!(results(&server.ended(&token, &id).await), ["200"]);
    assert_eq!(network.connections().len(), 3);
}

#[tokio::test]
async fn a_kept_connection_is_let_go_after_four_idle_seconds_and_after_a_minute_of_work() {
    let network = Network::new(|_, _| Peer::answers("HTTP/1.1 200 OK")).name("parceiro.example", &[PUBLIC]);
    let server = Server::with(|config| network.hold(config)).await;
    let token = server.token().await;
    let mut connections = Vec::new();
    // One a second for seventy seconds, then one after five.
    for i in 0..=70 {
        let id = server.answered(&token, "http://parceiro.example/", &format!("P-{i}")).await;
        assert_eq!(results(&server.ended(&token, &id).await), ["200"]);
        connections.push(network.connections().len());
        pass(if i == 69 { 5 } else { 1 }).await;
    }
    assert_eq!((connections[50], connections[69], connections[70]), (1, 2, 3));
}
