//! W25, F66: attempts on a virtual clock, at the schedule and never earlier (C33).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use svc_core::Schedule;
use tokio::time::Instant;

use crate::harness::{Server, results};
use crate::network::{Arrived, Network, Peer, pass};

const PUBLIC: &str = "93.184.215.14";

/// The times of arrival, event by event.
fn by_event(arrived: Vec<Arrived>) -> HashMap<String, Vec<Instant>> {
    let (mut events, mut bodies) = (HashMap::<_, Vec<_>>::new(), HashMap::new());
    for Arrived { at, request } in arrived {
        let first = bodies.entry(request.header("webhook-id").to_owned()).or_insert_with(|| request.body.clone());
        assert_eq!(*first, request.body, "one body an event");
        events.entry(request.header("webhook-id").to_owned()).or_default().push(at);
    }
    events
}

#[tokio::test]
async fn w25_attempts_keep_to_the_schedule_and_those_that_failed_together_are_spread() {
    const EVENTS: usize = 1_000;
    let mut network = Network::new(|_, _| Peer::answers("HTTP/1.1 500 Oops")).name("parceiro.example", &[PUBLIC]);
    let server = Server::with(|config| network.hold(config)).await;
    let token = server.token().await;
    let mut last = String::new();
    for i in 0..EVENTS {
        last = server.answered(&token, "http://parceiro.example/", &format!("P-{i}")).await;
    }
    pass(2_000).await;
    let events = by_event(network.arrived());
    assert_eq!(events.len(), EVENTS);
    let mut tenths = BTreeMap::<u128, usize>::new();
    for times in events.values() {
        assert_eq!(times.len(), 5, "five attempts are all");
        let waits = times.windows(2).map(|pair| pair[1] - pair[0]);
        for (i, (wait, least)) in waits.zip([5, 30, 120, 600]).enumerate() {
            let least = Duration::from_secs(least);
            assert!(wait >= least, "{wait:?} is too early for {least:?}");
            // Jitter, and a moment for what is due at the same time.
            assert!(wait <= least + least / 10 + Duration::from_millis(500), "{wait:?} is late for {least:?}");
            if i == 3 {
                *tenths.entry((wait - least).as_millis() / 6_000).or_default() += 1;
            }
        }
    }
    assert!((0..10).all(|tenth| tenths.get(&tenth).is_some_and(|count| (40..200).contains(count))), "{tenths:?}");
    let webhook = server.webhook(&token, &last).await;
    assert_eq!((&webhook["estado"], results(&webhook)), (&"falhou".into(), vec!["500"; 5]));
}

#[tokio::test]
async fn f66_a_receiver_that_was_away_for_a_day_gets_everything_and_not_at_once() {
    const EVENTS: usize = 200;
    let start = Instant::now();
    let back = start + Duration::from_secs(24 * 3_600);
    let mut network =
        Network::new(move |_, _| if Instant::now() < back { Peer::Refuses } else { Peer::answers("HTTP/1.1 200 OK") })
            .name("parceiro.example", &[PUBLIC]);
    let server = Server::with(|config| {
        network.hold(config);
        config.schedule = Schedule::PRODUCAO;
    })
    .await;
    let mut token = server.token().await;
    let mut ids = HashSet::new();
    for i in 0..EVENTS {
        ids.insert(server.answered(&token, "http://parceiro.example/", &format!("P-{i}")).await);
    }
    pass(36 * 3_600).await;
    let events = by_event(network.arrived());
    assert_eq!(events.len(), EVENTS);
    assert!(events.values().all(|times| times.len() == 1), "each once");
    let mut times: Vec<_> = events.values().map(|times| times[0]).collect();
    times.sort_unstable();
    assert!(times[0] >= back);
    let spread = times[EVENTS - 1] - times[0];
    assert!(spread > Duration::from_secs(3_600), "{spread:?}");
    let most = times
        .iter()
        .map(|from| times.iter().filter(|at| **at >= *from && **at < *from + Duration::from_secs(60)).count())
        .max();
    assert!(most < Some(EVENTS / 10), "{most:?} of {EVENTS} within a minute");
    token = server.token().await;
    for id in ids {
        let webhook = server.webhook(&token, &id).await;
        let mut expected = vec!["conexao"; 7];
        expected.push("200");
        assert_eq!((&webhook["estado"], results(&webhook)), (&"entregue".into(), expected));
    }
}
