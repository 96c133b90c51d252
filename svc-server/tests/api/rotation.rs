//! C27, C29: a partner's webhook secret is changed while events go out, and no receiver that keeps step refuses one.

use serde_json::{Value, json};
use svc_core::{Received as Headers, Schedule, Secret, Signer, Verifier};
use svc_server::{NewPartner, Partners, Random};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::harness::{Received, Receiver, Server, WALKTHROUGH, read, within};
use crate::network::{Network, Peer, pass};
use crate::program;

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_plJ3nmyCDGBKInavdOK15jsl8XWC9tCNIJ3pPBaRiIs";

/// A partner's file with these webhook secrets, newest first.
fn file(partner: &NewPartner, secrets: &[&str]) -> String {
    let mut entry: Value = serde_json::from_str(&partner.entry).unwrap();
    entry["webhook_secrets"] = json!(secrets);
    json!([entry]).to_string()
}

fn secret(text: &str) -> Secret {
    Secret::parse(text).unwrap()
}

/// Whether a receiver that holds these secrets believes a delivery, every header asked for.
fn believes(secrets: &[&str], received: &Received) -> bool {
    let mut verifier = Verifier::new(&secret(secrets[0])).require_timestamp();
    for other in &secrets[1..] {
        verifier = verifier.also(&secret(other));
    }
    let headers = Headers::from_pairs(received.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    let at = received.header("webhook-timestamp").parse().unwrap();
    verifier.verify(headers.unwrap(), &received.body, at).is_ok()
}

/// Whether a library of Standard Webhooks that holds one secret does; it does not know `x-svc-signature`.
fn standard_believes(text: &str, received: &Received) -> bool {
    let at = received.header("webhook-timestamp").parse().unwrap();
    let expected = Signer::new(&secret(text)).webhook_signature(received.header("webhook-id"), at, &received.body);
    received.header("webhook-signature").split(' ').any(|item| item == expected)
}

#[tokio::test]
async fn c27_one_event_tried_under_the_old_both_and_the_new_secret_is_believed_each_time() {
    let partner = NewPartner::draw("parceiro", &Random::system()).unwrap();
    let partners = |secrets: &[&str]| Partners::from_json(file(&partner, secrets).as_bytes()).unwrap();
    let mut shared = None;
    let mut network =
        Network::new(|_, _| Peer::answers("HTTP/1.1 500 Oops")).name("parceiro.example", &["93.184.215.14"]);
    let server = Server::with(|config| {
        network.hold(config);
        config.schedule = Schedule::parse("0,60s,60s").unwrap();
        config.partners.replace(partners(&[OLD]));
        shared = Some(config.partners.clone());
    })
    .await;
    let token = server.token_of("parceiro", &partner.client_secret).await;
    let id = server.answered(&token, "http://parceiro.example/", "P-1").await;
    pass(1).await;
    let shared = shared.unwrap();
    shared.replace(partners(&[NEW, OLD]));
    pass(70).await;
    shared.replace(partners(&[NEW]));
    pass(70).await;
    let attempts: Vec<_> = network.arrived().into_iter().map(|arrived| arrived.request).collect();
    let [old, both, new] = &attempts[..] else { panic!("{} attempts", attempts.len()) };
    for attempt in &attempts {
        assert_eq!((attempt.header("webhook-id"), &attempt.body), (format!("evt_{id}").as_str(), &old.body));
        assert!(believes(&[OLD, NEW], attempt), "a receiver that has added the new one");
    }
    assert!(believes(&[OLD], old) && believes(&[OLD], both), "one that does not know the new one yet");
    assert!(believes(&[NEW], new), "one that has dropped the old one after the server did");
    assert_eq!(old.header("x-svc-signature"), both.header("x-svc-signature"));
    assert!(standard_believes(OLD, both) && standard_believes(NEW, both), "either, by Standard Webhooks");
    assert!(!believes(&[OLD], new) && !standard_believes(OLD, new), "the old one is worth nothing any more");
}

#[tokio::test]
async fn c27_hangup_changes_the_secret_under_way() {
    let partner = NewPartner::draw("parceiro", &Random::system()).unwrap();
    let path = std::env::temp_dir().join(format!("svc-server-rotation-{}.json", std::process::id()));
    std::fs::write(&path, file(&partner, &[OLD])).unwrap();
    let (mut child, address) = program::start(program::program().env("SVC_PARTNERS", &path)).await;
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let http = reqwest::Client::new();
    let login = json!({"client_id": "parceiro", "client_secret": *partner.client_secret}).to_string();
    let (_, body) = read(http.post(format!("{address}/v1/login")).body(login)).await;
    let token = body["access_token"].as_str().unwrap().to_owned();
    let event = async |receiver: &mut Receiver, name: String| {
        let proposta = WALKTHROUGH
            .replace("https://parceiro.example.com/webhooks/svc", &receiver.url)
            .replace("PARC-12345", &name);
        let created = http.post(format!("{address}/v1/propostas")).bearer_auth(&token).body(proposta);
        let (_, created) = read(created).await;
        let id = created["id_proposta_svc"].as_str().unwrap();
        assert_eq!(read(http.get(format!("{address}/confirmar/{id}?acao=aceitar"))).await.0, 200);
        let received = receiver.next().await;
        assert_eq!(received.header("webhook-id"), format!("evt_{id}"));
        assert!(believes(&[OLD, NEW], &received), "{name}: a receiver that has both");
        received
    };
    for (phase, (secrets, alone)) in [(vec![OLD], OLD), (vec![NEW, OLD], OLD), (vec![NEW], NEW)].into_iter().enumerate()
    {
        if phase > 0 {
            std::fs::write(&path, file(&partner, &secrets)).unwrap();
            program::signal(&child, "-HUP").await;
            // While it may be read or not: whoever has both believes all of them, and so does the old one until it goes.
            for i in 0..10 {
                let received = event(&mut receiver, format!("P-{phase}-agora-{i}")).await;
                assert!(phase == 2 || believes(&[OLD], &received));
            }
            while !within(log.next_line()).await.unwrap().unwrap().contains("partners read again") {}
        }
        for i in 0..10 {
            let received = event(&mut receiver, format!("P-{phase}-{i}")).await;
            assert!(believes(&[alone], &received), "phase {phase}: a receiver with one secret");
        }
    }
    program::signal(&child, "-TERM").await;
    assert_eq!(within(child.wait()).await.unwrap().code(), Some(0));
    assert!(receiver.is_empty());
    std::fs::remove_file(path).unwrap();
}
