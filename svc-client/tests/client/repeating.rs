//! Notifications that come late, spoiled, or more than once.

use std::time::{Duration, SystemTime};

use svc_client::webhook::{CLAIM, Claim, Deduper, Header, MemoryDeduper, REMEMBERED, Secret, Verifier, VerifyError};
use svc_core::{Perfil, Policy};
use svc_server::fake::{Fake, WebhookFault};

use crate::verifying::got;
use crate::within;

#[tokio::test]
async fn what_is_spoiled_on_its_way_is_refused_and_comes_again_right() {
    for (fault, error) in [
        (WebhookFault::WrongSignature, VerifyError::Mismatch(Header::SvcSignature)),
        (WebhookFault::AlteredBody, VerifyError::Mismatch(Header::SvcSignature)),
        (WebhookFault::StaleTimestamp, VerifyError::TooOld),
    ] {
        let got = got("P-1", Some(fault)).await;
        let verdict = got.fake.verifier().verify_at(&got.headers, &got.body, got.fake.clock().now());
        assert_eq!(verdict, Err(error), "{fault:?}");
    }
}

#[tokio::test]
async fn a_repetition_is_recognised() {
    let mut got = got("P-1", Some(WebhookFault::Duplicate)).await;
    let deduper = MemoryDeduper::new();
    let verifier = got.fake.verifier();
    let first = verifier.parse(&got.headers, &got.body).unwrap();
    assert_eq!(deduper.claim(first.dedup_key(), got.at()).await, Ok(Claim::New));
    let (headers, body) = within(got.received.recv()).await.unwrap();
    let second = verifier.parse(&headers, &body).unwrap();
    assert_eq!(deduper.claim(second.dedup_key(), got.at()).await, Ok(Claim::InProgress));
    deduper.done(first.dedup_key(), got.at()).await.unwrap();
    assert_eq!(deduper.claim(second.dedup_key(), got.at()).await, Ok(Claim::Done));
    // Asked for again, two hours later: other headers, the same event.
    got.fake.advance(Duration::from_secs(7_200));
    got.fake.client().resend_webhook(&first.id_proposta_svc).await.unwrap();
    let (headers, body) = within(got.received.recv()).await.unwrap();
    assert_ne!(headers["webhook-timestamp"], got.headers["webhook-timestamp"]);
    let third = verifier.parse_at(&headers, &body, got.fake.clock().now()).unwrap();
    assert_eq!(deduper.claim(third.dedup_key(), got.fake.clock().now()).await, Ok(Claim::Done));
    assert_eq!(deduper.len(), 1);
}

#[tokio::test]
async fn a_late_notification_is_believed_at_its_own_time() {
    let got = got("P-1", Some(WebhookFault::Late(Duration::from_secs(3_600)))).await;
    let told = got.fake.verifier().parse_at(&got.headers, &got.body, got.fake.clock().now()).unwrap();
    let attempted = told.attempted_at().unwrap();
    let answered: SystemTime = told.timestamp.into();
    assert!(attempted.duration_since(answered).unwrap() >= Duration::from_secs(3_598));
}

#[tokio::test]
async fn a_claim_ends_by_itself_and_what_was_done_is_forgotten_after_days() {
    let (deduper, now) = (MemoryDeduper::new(), SystemTime::now());
    let second = Duration::from_secs(1);
    assert_eq!(deduper.claim("a", now).await, Ok(Claim::New));
    assert_eq!(deduper.claim("a", now + CLAIM - second).await, Ok(Claim::InProgress));
    // Its handler was dropped, or panicked.
    assert_eq!(deduper.claim("a", now + CLAIM).await, Ok(Claim::New));
    deduper.done("a", now + CLAIM).await.unwrap();
    deduper.release("a").await.unwrap();
    assert_eq!(deduper.claim("a", now + REMEMBERED).await, Ok(Claim::Done), "done stays done");
    assert_eq!(deduper.claim("a", now + CLAIM + REMEMBERED).await, Ok(Claim::New));
    // A time of day that was wrong holds nothing else up, and claims that come and go leave nothing.
    let deduper = MemoryDeduper::new();
    deduper.claim("future", now + 10 * REMEMBERED).await.unwrap();
    for i in 0..1_000 {
        let key = format!("evt_{i}");
        deduper.claim(&key, now).await.unwrap();
        deduper.release(&key).await.unwrap();
    }
    assert_eq!(deduper.len(), 1);
    deduper.done("b", now).await.unwrap();
    assert_eq!(deduper.claim("b", now + REMEMBERED).await, Ok(Claim::New));
}

#[tokio::test]
async fn the_fake_answers_for_the_customer_in_production_too() {
    let fake = Fake::with(|config| config.policy = Policy::new(Perfil::Producao));
    let body = include_bytes!("../../../svc-core/tests/proposals/valid/02_tipica_12x.json");
    let proposta = svc_client::NovaProposta::from_json_to_send(body).unwrap();
    let created = fake.client().create_proposta(&proposta).await.unwrap();
    let id = created.id_proposta_svc.as_str();
    // The customer's link has a key, which the partner does not have.
    assert_eq!(fake.client().simulate_answer(id, svc_client::Acao::Aceitar).await.unwrap_err().status().unwrap(), 404);
    let webhook = fake.refuse(id).await.unwrap();
    let told = fake.verifier().parse_at(&webhook.headers, &webhook.body, fake.clock().now()).unwrap();
    assert_eq!((told.id_proposta_svc.as_str(), told.status.as_str()), (id, "RECUSADO"));
    assert_eq!(fake.accept(id).await.unwrap_err().code, "proposta_ja_respondida");
    assert_eq!(fake.accept("07070707-0707-4707-8707-070707070707").await.unwrap_err().status, 404);
}

#[tokio::test]
async fn a_webhook_secret_is_changed_without_loss_as_the_recipe_says() {
    const NEW: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let fake = Fake::start();
    let old = fake.webhook_secret();
    let [with_old, with_new] = [old, NEW].map(|secret| {
        let clock = fake.clock().clone();
        Verifier::new(&Secret::parse(secret).unwrap()).clock(move || clock.now())
    });
    let with_both = with_new.clone().also(&Secret::parse(old).unwrap());
    // Who believes what the service sends: a receiver with the old secret, with both, with the new one.
    for (step, secrets, believed) in [
        ("before", &[old][..], [true, true, false]),
        ("both are live", &[NEW, old], [true, true, false]),
        ("the old one is gone", &[NEW], [false, true, true]),
    ] {
        fake.webhook_secrets(secrets);
        fake.advance(Duration::from_secs(3_600));
        let created = fake.client().create_proposta(&crate::proposta(step)).await.unwrap();
        let webhook = fake.accept(&created.id_proposta_svc).await.unwrap();
        let verdicts = [&with_old, &with_both, &with_new].map(|it| it.parse(&webhook.headers, &webhook.body).is_ok());
        assert_eq!(verdicts, believed, "{step}");
    }
}
