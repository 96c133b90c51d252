//! How a partner tests programs of their own: the functions of [partner.rs](partner.rs) and the receiver of
//! [receiver_axum.rs](receiver_axum.rs), against the service's own rules and without a network.
//!
//! `cargo test -p svc-examples --test tests-with-fake`. In your crate, under `[dev-dependencies]`:
//! `svc-server = { version = "0.1", default-features = false, features = ["fake"] }`.

#[expect(dead_code, reason = "its main is the program's")]
#[path = "partner.rs"]
mod partner;
#[expect(dead_code, reason = "its main is the program's")]
#[path = "receiver_axum.rs"]
mod receiver;

use std::time::Duration;

use svc_client::{ErrorKind, NovaProposta, Outcome};
use svc_server::fake::{Fake, Fault, Route, WebhookFault};
use tokio::net::TcpListener;

fn proposta() -> NovaProposta {
    NovaProposta::from_json_to_send(include_bytes!("proposta.json")).unwrap()
}

/// The same proposal, told to another address.
fn proposta_told_to(webhook_url: &str) -> NovaProposta {
    let text = include_str!("proposta.json").replace("http://127.0.0.1:3000/webhooks/svc", webhook_url);
    NovaProposta::from_json_to_send(text.as_bytes()).unwrap()
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_effect_makes_no_second_proposal() {
    let fake = Fake::start();
    // It is stored, and we are never told.
    fake.next(Route::Create, [Fault::hang_up().after_the_effect()]);
    let id = partner::create(&fake.client(), &proposta()).await.unwrap();
    assert_eq!(fake.requests(Route::Create).len(), 2, "the client posts the same bytes again");
    assert_eq!(fake.effects("PARC-0001"), 1, "and the service keeps one");
    assert_eq!(fake.client().proposta(&id).await.unwrap().status, "AGUARDANDO_RESPOSTA");
}

#[tokio::test]
async fn where_the_service_makes_no_promise_our_function_asks_instead_of_posting_again() {
    let fake = Fake::start();
    fake.promise(false);
    fake.next(Route::Create, [Fault::html(504).after_the_effect()]);
    partner::create(&fake.client(), &proposta()).await.unwrap();
    assert_eq!((fake.requests(Route::Create).len(), fake.requests(Route::Find).len()), (1, 1));
}

#[tokio::test]
async fn an_outage_is_over_before_our_function_gives_up_and_no_test_waits_for_it() {
    let fake = Fake::start();
    fake.next(Route::Create, [Fault::status(503).retry_after("20")]);
    let began = fake.clock().now();
    partner::create(&fake.client(), &proposta()).await.unwrap();
    assert!(fake.clock().now() >= began + Duration::from_secs(20), "by the fake's clock");
}

#[tokio::test]
async fn a_refused_proposal_says_what_to_put_right() {
    let fake = Fake::start();
    let error = partner::create(&fake.client(), &proposta_told_to("http://10.0.0.1/")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Api, Outcome::Rejected));
    assert_eq!(error.violations()[0].propriedade, "/webhook_url");
}

#[tokio::test]
async fn the_customer_s_answer_is_waited_for() {
    let fake = Fake::start();
    let id = partner::create(&fake.client(), &proposta()).await.unwrap();
    fake.refuse(&id).await.unwrap();
    assert_eq!(partner::answer(&fake.client(), &id).await.unwrap().status, "RECUSADO");
}

#[tokio::test]
async fn our_receiver_takes_the_service_s_notification_and_nobody_else_s() {
    let fake = Fake::start();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/webhooks/svc", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, receiver::router(fake.verifier())).into_future());
    // The service posts it, spoiled on its way; we refuse that, so it comes again five seconds later, and is taken.
    fake.next_webhook(WebhookFault::WrongSignature);
    let id = partner::create(&fake.client(), &proposta_told_to(&url)).await.unwrap();
    let webhook = fake.accept(&id).await.unwrap();
    let delivery = async || fake.client().proposta(&id).await.unwrap().into_body().webhook.unwrap();
    while delivery().await.tentativas.is_empty() {
        tokio::task::yield_now().await;
    }
    fake.advance(Duration::from_secs(6));
    while delivery().await.estado == "pendente" {
        tokio::task::yield_now().await;
    }
    let results: Vec<_> = delivery().await.tentativas.into_iter().map(|attempt| attempt.resultado).collect();
    assert_eq!(results, ["401", "204"]);
    // By hand, as a unit test of a handler would: the same headers and bytes, whole or spoiled.
    let post = async |webhook: svc_server::fake::Webhook| {
        let mut request = reqwest::Client::builder().no_proxy().build().unwrap().post(&url).body(webhook.body);
        for (name, value) in webhook.headers {
            request = request.header(name, value);
        }
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(post(webhook.clone().with(WebhookFault::AlteredBody)).await, 401);
    assert_eq!(post(webhook.clone().with(WebhookFault::StaleTimestamp)).await, 401);
    assert_eq!(post(webhook).await, 204, "a repetition is a success too");
}
