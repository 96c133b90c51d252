//! C34: what one partner's receivers do, no other partner feels.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use svc_core::Schedule;
use svc_server::{NewPartner, Partners, Random};
use tokio::time::Instant;

use crate::harness::{Server, read, results, two_partners, two_partners_file};
use crate::network::{Arrived, Network, Peer, pass};

const PUBLIC: &str = "93.184.215.14";

/// Answers a proposal of the other partner, and gives the time until its notification arrives.
async fn delay_of_another(server: &Server, network: &mut Network) -> f64 {
    let other = server.token_of("outro", "outro-segredo").await;
    let id = server.answered(&other, "http://rapido.example/", "O-1").await;
    let answered = Instant::now();
    // Time stands still but for what is waited for: a delay would be seen to the millisecond.
    tokio::time::pause();
    let Arrived { at, request } = network.next().await;
    tokio::time::resume();
    assert_eq!(request.header("webhook-id"), format!("evt_{id}"));
    at.saturating_duration_since(answered).as_secs_f64()
}

#[tokio::test]
async fn f65_ten_thousand_hanging_events_of_one_partner_delay_no_other() {
    const EVENTS: usize = 10_000;
    const HOSTS: usize = 100;
    let mut network = Network::new(|address, _| match address.port() {
        80 => Peer::answers("HTTP/1.1 200 OK"),
        _ => Peer::Mute,
    })
    .name("rapido.example", &[PUBLIC]);
    for host in 0..HOSTS {
        network = network.name(&format!("lento-{host}.example"), &[PUBLIC]);
    }
    let server = Server::with(|config| network.hold(config)).await;
    let token = server.token().await;
    let mut last = String::new();
    for i in 0..EVENTS {
        last = server.answered(&token, &format!("http://lento-{}.example:81/", i % HOSTS), &format!("L-{i}")).await;
    }
    assert!(network.connections().len() >= 64, "as many as one partner may");
    assert!(delay_of_another(&server, &mut network).await < 1.0);
    // Of the partner itself 64 hang at a time, one set after the other.
    let before = network.connections().iter().filter(|address| address.port() == 81).count();
    pass(29).await;
    let hung = network.connections().iter().filter(|address| address.port() == 81).count() - before;
    assert!((64..=128).contains(&hung), "{hung} in two deadlines");
    assert_eq!(server.webhook(&token, &last).await["estado"], "pendente");
}

#[tokio::test]
async fn f65_a_host_that_two_partners_share_is_not_one_s_to_use_up() {
    let mut network = Network::new(|address, _| match address.port() {
        80 => Peer::answers("HTTP/1.1 200 OK"),
        _ => Peer::Mute,
    })
    .name("rapido.example", &[PUBLIC]);
    let server = Server::with(|config| network.hold(config)).await;
    let token = server.token().await;
    for i in 0..100 {
        server.answered(&token, "http://rapido.example:81/", &format!("L-{i}")).await;
    }
    assert!(delay_of_another(&server, &mut network).await < 1.0);
}

#[tokio::test]
async fn f65_however_many_partners_hang_there_is_a_place_for_another() {
    const HANGING: usize = 12;
    let mut network = Network::new(|address, _| match address.port() {
        80 => Peer::answers("HTTP/1.1 200 OK"),
        _ => Peer::Mute,
    })
    .name("rapido.example", &[PUBLIC]);
    let mut entries: Vec<String> = serde_json::from_str::<Vec<serde_json::Value>>(&two_partners_file())
        .unwrap()
        .iter()
        .map(serde_json::Value::to_string)
        .collect();
    let hanging: Vec<_> =
        (0..HANGING).map(|i| NewPartner::draw(&format!("lento-{i}"), &Random::system()).unwrap()).collect();
    entries.extend(hanging.iter().map(|partner| partner.entry.clone()));
    let partners = Partners::from_json(format!("[{}]", entries.join(",")).as_bytes()).unwrap();
    for host in 0..10 {
        network = network.name(&format!("lento-{host}.example"), &[PUBLIC]);
    }
    let server = Server::with(|config| {
        network.hold(config);
        config.partners.replace(partners);
    })
    .await;
    for (i, partner) in hanging.iter().enumerate() {
        let token = server.token_of(&format!("lento-{i}"), &partner.client_secret).await;
        for event in 0..80 {
            let url = format!("http://lento-{}.example:81/", event % 10);
            server.answered(&token, &url, &format!("L-{event}")).await;
        }
    }
    let connected = network.connections().len();
    assert!((200..250).contains(&connected), "{connected} hang");
    assert!(delay_of_another(&server, &mut network).await < 1.0);
}

#[tokio::test]
async fn f65_one_slow_host_has_eight_at_a_time_and_its_partner_s_others_go_on() {
    let at_a_time = Arc::new(Mutex::new(HashMap::<u16, usize>::new()));
    let count = Arc::clone(&at_a_time);
    let mut network = Network::new(move |address, _| {
        *count.lock().unwrap().entry(address.port()).or_default() += 1;
        if address.port() == 80 { Peer::answers("HTTP/1.1 200 OK") } else { Peer::Mute }
    })
    .name("lento.example", &[PUBLIC])
    .name("rapido.example", &[PUBLIC]);
    let server = Server::with(|config| network.hold(config)).await;
    let token = server.token().await;
    for i in 0..100 {
        server.answered(&token, "http://lento.example:81/", &format!("L-{i}")).await;
    }
    let quick = server.answered(&token, "http://rapido.example/", "R-1").await;
    assert_eq!(network.next().await.request.header("webhook-id"), format!("evt_{quick}"));
    assert_eq!(at_a_time.lock().unwrap()[&81], 8);
    pass(16).await;
    assert_eq!(at_a_time.lock().unwrap()[&81], 16, "the next eight after the deadline of the first");
}

#[tokio::test]
async fn f65_sixty_four_hosts_on_a_silent_name_server_delay_no_other_partner_and_spend_no_attempt() {
    let mut network = Network::new(|_, _| Peer::answers("HTTP/1.1 200 OK")).name("rapido.example", &[PUBLIC]);
    let server = Server::with(|config| network.hold(config)).await;
    let token = server.token().await;
    let mut ids = Vec::new();
    for i in 0..64 {
        ids.push(server.answered(&token, &format!("http://mudo-{i}.example/"), &format!("M-{i}")).await);
    }
    assert!(delay_of_another(&server, &mut network).await < 1.0);
    pass(60).await;
    let mut failed = 0;
    for id in &ids {
        let webhook = server.webhook(&token, id).await;
        assert_eq!(webhook["estado"], "pendente");
        assert!(results(&webhook).iter().all(|result| *result == "dns"));
        failed += usize::from(!results(&webhook).is_empty());
    }
    // These look-ups never end, and keep their four places: what found none is still to be attempted.
    assert_eq!(failed, 4);
    assert_eq!(network.connections().len(), 1);
}

#[tokio::test]
async fn c24_a_removed_partner_s_events_stay_pending_and_go_out_when_it_is_back() {
    let mut shared = None;
    let mut network = Network::new(|_, _| Peer::answers("HTTP/1.1 500 Oops")).name("rapido.example", &[PUBLIC]);
    let server = Server::with(|config| {
        network.hold(config);
        config.schedule = Schedule::parse("0,5s,5s").unwrap();
        shared = Some(config.partners.clone());
    })
    .await;
    let other = server.token_of("outro", "outro-segredo").await;
    let id = server.answered(&other, "http://rapido.example/", "O-1").await;
    pass(1).await;
    let shared = shared.unwrap();
    shared.replace(svc_server::Partners::demonstration());
    pass(3_000).await;
    assert_eq!(network.arrived().len(), 1, "the one before it was removed");
    shared.replace(two_partners());
    pass(20).await;
    let arrived = network.arrived();
    assert_eq!(arrived.len(), 2);
    assert!(arrived.iter().all(|arrived| arrived.request.header("webhook-id") == format!("evt_{id}")));
    let other = server.token_of("outro", "outro-segredo").await;
    let (_, body) = read(server.get(&format!("/v1/propostas/{id}")).bearer_auth(&other)).await;
    assert_eq!(results(&body["webhook"]), ["500", "500", "500"]);
}
