//! What is tried again and what is not (T13 to T18, T20, T23).

use std::pin::Pin;
use std::time::{Duration, SystemTime};

use svc_client::retry::{Idempotency, backoff};
use svc_client::{Acao, Client, Clock, ErrorKind, Outcome, defaults};
use svc_server::fake::{Fake, FakeClock, Fault, Route};
use tokio::net::TcpSocket;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::{named, proposta, within};

#[tokio::test]
async fn t13_without_the_promise_a_proposal_is_posted_once() {
    for fault in [
        Fault::hang_up(),
        Fault::hang_up().after_the_effect(),
        Fault::status(408),
        Fault::status(503).after_the_effect(),
        Fault::html(502),
    ] {
        let fake = Fake::start();
        fake.promise(false);
        fake.next(Route::Create, [fault.clone()]);
        let error = fake.client().create_proposta(&proposta("P-1")).await.unwrap_err();
        assert_eq!((error.outcome(), error.attempts()), (Outcome::Unknown, 1), "{fault:?}");
        assert!(error.is_retryable());
        assert!(error.request_id().is_some_and(|id| id.len() == 32), "known to the service, answered or not");
        assert_eq!(fake.requests(Route::Create).len(), 1);
    }
}

#[tokio::test]
async fn t14_under_the_promise_it_is_posted_again_with_the_same_bytes() {
    for (fault, replayed) in [
        (Fault::hang_up(), false),
        (Fault::hang_up().after_the_effect(), true),
        (Fault::status(408), false),
        (Fault::status(503).after_the_effect(), true),
        (Fault::html(502).after_the_effect(), true),
    ] {
        let fake = Fake::start();
        fake.next(Route::Create, [fault.clone()]);
        let created = fake.client().create_proposta(&proposta("P-1")).await.unwrap();
        assert_eq!((created.attempts(), created.replayed()), (2, replayed), "{fault:?}");
        let requests = fake.requests(Route::Create);
        assert_eq!((requests.len(), fake.effects("P-1")), (2, 1));
        assert_eq!(requests[0].body(), requests[1].body());
    }
}

#[tokio::test]
async fn t14_what_is_believed_of_the_promise_is_a_setting() {
    for (idempotency, promise, posts) in [
        (Idempotency::Auto, true, 2),
        (Idempotency::Auto, false, 1),
        (Idempotency::Guaranteed, false, 2),
        (Idempotency::None, true, 1),
    ] {
        let fake = Fake::start();
        fake.promise(promise);
        fake.next(Route::Create, [Fault::hang_up()]);
        let client = fake.client_builder().idempotency(idempotency).build().unwrap();
        let created = client.create_proposta(&proposta("P-1")).await;
        assert_eq!(created.is_ok(), posts == 2);
        assert_eq!(fake.requests(Route::Create).len(), posts, "{idempotency:?}, promise {promise}");
    }
}

/// The second fault, after a first in which the proposal was stored and nobody was told.
#[tokio::test]
async fn t14_whatever_comes_after_an_unknown_fate_it_stays_unknown() {
    for (second, login) in [
        (Fault::status(429).retry_after("999"), None),
        (Fault::status(400), None),
        (Fault::status(403), None),
        (Fault::status(404), None),
        (Fault::status(503), None),
        (Fault::hang_up(), None),
        (Fault::status(401), Some(Fault::status(503))),
        (Fault::status(401), Some(Fault::status(401))),
        (Fault::status(401), None),
    ] {
        let fake = Fake::start();
        let client = fake.client();
        client.login().await.unwrap();
        fake.always(Route::Login, login.clone());
        fake.next(Route::Create, [Fault::hang_up().after_the_effect()]);
        fake.always(Route::Create, second.clone());
        let error = client.create_proposta(&proposta("P-1")).await.unwrap_err();
        assert_eq!((error.outcome(), fake.effects("P-1")), (Outcome::Unknown, 1), "{second:?} {login:?}: {error}");
    }
    // That another proposal has this id settles it: ours was never stored.
    let fake = Fake::start();
    let client = fake.client();
    client.create_proposta(&named("P-1", "Bia")).await.unwrap();
    fake.next(Route::Create, [Fault::hang_up()]);
    let error = client.create_proposta(&named("P-1", "Ana")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome(), error.attempts()), (ErrorKind::Conflict, Outcome::Rejected, 2));
}

#[tokio::test]
async fn t13_the_promise_is_that_of_the_login_which_an_attempt_goes_out_under() {
    // Made by the login before, and not by the one that the second attempt needs.
    let fake = Fake::start();
    let client = fake.client();
    client.login().await.unwrap();
    fake.promise(false);
    fake.next(Route::Create, [Fault::hang().after_the_effect()]);
    let posted = tokio::spawn(async move { client.create_proposta(&proposta("P-1")).await });
    within(async {
        while fake.effects("P-1") == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    fake.revoke_tokens();
    fake.advance(defaults::ATTEMPT_TIMEOUT);
    let error = within(posted).await.unwrap().unwrap_err();
    assert_eq!((error.outcome(), fake.effects("P-1")), (Outcome::Unknown, 1));
    // The revoked token may be tried; the fresh one carries no promise, and no proposal.
    let under = fake.requests(Route::Create);
    assert!(under.iter().all(|request| request.headers()["authorization"] == under[0].headers()["authorization"]));
}

/// A port of this machine at which nobody listens, as long as it is held.
fn nobody() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let base = format!("http://{}", socket.local_addr().unwrap());
    (socket, base)
}

#[tokio::test]
async fn t15_without_a_connection_it_is_tried_three_times() {
    let (_held, refused) = nobody();
    // A name that no resolver has (RFC 6761).
    for base in [refused, "http://nao-existe.invalid".to_owned()] {
        for idempotency in [Idempotency::Guaranteed, Idempotency::None] {
            let fake = Fake::start();
            let client = fake.client_builder().base_url(&base).allow_http(true).idempotency(idempotency);
            let error = client.build().unwrap().create_proposta(&proposta("P-1")).await.unwrap_err();
            assert_eq!((error.kind(), error.outcome(), error.attempts()), (ErrorKind::Connect, Outcome::NotSent, 3));
            assert!(error.is_retryable());
            assert!(error.to_string().starts_with("no connection to the service: "), "{error}");
        }
    }
}

#[tokio::test]
async fn t17_without_retries_every_failure_is_the_first() {
    async fn create(client: Client) -> svc_client::Error {
        client.create_proposta(&proposta("P-1")).await.unwrap_err()
    }
    for (route, fault) in [
        (Route::Login, Fault::status(503)),
        (Route::Login, Fault::hang_up()),
        (Route::Create, Fault::status(401)),
        (Route::Create, Fault::status(429).retry_after("0")),
        (Route::Create, Fault::status(408)),
        (Route::Create, Fault::status(503)),
        (Route::Create, Fault::html(502)),
        (Route::Create, Fault::hang_up()),
        (Route::Create, Fault::broken_json()),
    ] {
        let fake = Fake::start();
        fake.always(route, fault.clone());
        let error = create(fake.client_builder().max_retries(0).build().unwrap()).await;
        assert_eq!((error.attempts(), fake.requests(route).len()), (1, 1), "{fault:?}");
    }
    let (fake, (_held, refused)) = (Fake::start(), nobody());
    assert_eq!(create(fake.client_builder().base_url(refused).max_retries(0).build().unwrap()).await.attempts(), 1);
    let fake = Fake::start();
    fake.always(Route::Create, Fault::hang());
    let client = fake.client_builder().max_retries(0).build().unwrap();
    let call = tokio::spawn(async move { create(client).await });
    within(fake.arrived(Route::Create, 1)).await;
    fake.advance(defaults::ATTEMPT_TIMEOUT);
    assert_eq!((within(call).await.unwrap().attempts(), fake.requests(Route::Create).len()), (1, 1));
}

#[tokio::test]
async fn t18_retry_after_is_waited_for_and_too_long_is_an_error_at_once() {
    let date = |fake: &Fake, ahead: u64| {
        let at: chrono::DateTime<chrono::Utc> = (fake.clock().now() + Duration::from_secs(ahead)).into();
        at.format("%a, %d %b %Y %H:%M:%S GMT").to_string()
    };
    for (value, seconds) in [("2", 2), ("DATE", 2), ("0", 0), ("-1", 0), ("abc", 0), ("30", 30)] {
        for status in [429, 503] {
            let fake = Fake::start();
            let value = value.replace("DATE", &date(&fake, 3));
            fake.next(Route::Create, [Fault::status(status).retry_after(&value)]);
            let began = fake.clock().now();
            let created = fake.client().create_proposta(&proposta("P-1")).await.unwrap();
            assert_eq!(created.attempts(), 2);
            let waited = fake.clock().now().duration_since(began).unwrap();
            assert!(waited >= Duration::from_secs(seconds), "{value}: {waited:?}");
            let most = Duration::from_secs(seconds + 1) + defaults::BACKOFF_BASE;
            assert!(fake.clock().ahead() <= most, "{value}: {:?}", fake.clock().ahead());
        }
    }
    for value in ["31", "999999", "DATE"] {
        let fake = Fake::start();
        let value = value.replace("DATE", &date(&fake, 3_600));
        fake.next(Route::Create, [Fault::status(429).retry_after(&value)]);
        let error = fake.client().create_proposta(&proposta("P-1")).await.unwrap_err();
        assert_eq!(
            (error.outcome(), error.code(), error.attempts()),
            (Outcome::Rejected, Some("muitas_tentativas"), 1)
        );
        assert!(error.retry_after().unwrap() >= Duration::from_secs(31));
        assert!(error.is_retryable(), "later");
        assert!(error.to_string().contains(", retry after "), "{error}");
        assert_eq!((fake.clock().ahead(), fake.requests(Route::Create).len()), (Duration::ZERO, 1));
    }
}

/// A clock that notes how long the client wants to wait between two attempts.
struct Noting(FakeClock, UnboundedSender<Duration>);

impl Clock for Noting {
    fn now(&self) -> SystemTime {
        self.0.now()
    }

    fn elapsed(&self) -> Duration {
        Clock::elapsed(&self.0)
    }

    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.sleep_until(at)
    }

    fn pause_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.1.send(at.saturating_sub(self.elapsed())).unwrap();
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test]
async fn t20_a_thousand_waits_are_spread_and_the_first_send_has_none() {
    let fake = Fake::start();
    let (note, mut noted) = unbounded_channel();
    let client = fake.client_builder().clock(Noting(fake.clock().clone(), note)).retry_budget(100, 0).max_retries(1);
    let client = client.build().unwrap();
    client.login().await.unwrap();
    assert!(noted.is_empty(), "no wait before the first send");
    fake.always(Route::Show, Fault::status(503));
    let mut tenths = [0; 10];
    for _ in 0..1_000 {
        client.proposta("07070707-0707-4707-8707-070707070707").await.unwrap_err();
        let wait = noted.try_recv().unwrap();
        assert!(wait <= defaults::BACKOFF_BASE, "{wait:?}");
        tenths[(wait.as_micros() as usize * 10 / 500_001).min(9)] += 1;
    }
    // A hundred each, and more than six deviations of ten from it either way in none.
    assert!(tenths.iter().all(|count| (40..=160).contains(count)), "{tenths:?}");
    for (retry, most) in [(2, 1_000), (3, 2_000), (4, 4_000), (5, 5_000), (40, 5_000)] {
        let longest = backoff(defaults::BACKOFF_BASE, defaults::BACKOFF_CAP, retry, u64::MAX);
        assert_eq!(longest, Duration::from_millis(most), "retry {retry}");
    }
}

#[tokio::test]
async fn the_budget_ends_retries_in_an_outage() {
    let fake = Fake::start();
    let client = fake.client();
    fake.always(Route::Create, Fault::status(503));
    let mut attempts = 0;
    for i in 0..50 {
        attempts += client.create_proposta(&proposta(&format!("P-{i}"))).await.unwrap_err().attempts();
    }
    // Ten retries for the first calls, and none more for a fifth of fifty is ten too.
    assert_eq!((attempts, fake.requests(Route::Create).len()), (60, 60));
    fake.advance(Duration::from_secs(60));
    assert_eq!(client.create_proposta(&proposta("P-1")).await.unwrap_err().attempts(), 3);
}

#[tokio::test]
async fn t23_another_proposal_under_the_same_id_is_a_conflict_and_the_same_one_a_replay() {
    let fake = Fake::start();
    let client = fake.client();
    let first = client.create_proposta(&named("P-1", "Ana")).await.unwrap();
    assert_eq!((first.status().as_u16(), first.replayed(), first.attempts()), (200, false, 1));
    assert_eq!(first.request_id().map(str::len), Some(32));
    let again = client.create_proposta(&named("P-1", "Ana")).await.unwrap();
    assert!(again.replayed());
    assert_eq!(again.id_proposta_svc, first.id_proposta_svc);
    let error = client.create_proposta(&named("P-1", "Bia")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::Rejected));
    assert_eq!((error.code(), error.attempts()), (Some("id_proposta_parceiro_em_uso"), 1));
    let text = error.to_string();
    let start =
        "another proposal has this id_proposta_parceiro, status 409, code id_proposta_parceiro_em_uso, request ";
    assert!(text.starts_with(start), "{text}");
}

#[tokio::test]
async fn every_status_has_its_row_of_the_table() {
    for (status, outcome, tries) in [
        (400, Outcome::Rejected, 1),
        (401, Outcome::Rejected, 2),
        (403, Outcome::Rejected, 1),
        (404, Outcome::Rejected, 1),
        (409, Outcome::Rejected, 1),
        (413, Outcome::Rejected, 1),
        (415, Outcome::Rejected, 1),
        (408, Outcome::Unknown, 3),
        (429, Outcome::Rejected, 3),
        (500, Outcome::Unknown, 3),
        (502, Outcome::Unknown, 3),
        (503, Outcome::Unknown, 3),
        (504, Outcome::Unknown, 3),
        (302, Outcome::Unknown, 1),
    ] {
        for promise in [true, false] {
            let fake = Fake::start();
            fake.promise(promise);
            fake.always(Route::Create, Fault::status(status));
            let error = fake.client().create_proposta(&proposta("P-1")).await.unwrap_err();
            let tries = if outcome == Outcome::Unknown && !promise { 1 } else { tries };
            assert_eq!((error.outcome(), error.attempts()), (outcome, tries), "{status}, promise {promise}");
            assert_eq!((fake.requests(Route::Create).len(), fake.effects("P-1")), (tries as usize, 0));
        }
    }
    // Stored, and said so: never posted again.
    for promise in [true, false] {
        let fake = Fake::start();
        fake.promise(promise);
        fake.always(Route::Create, Fault::broken_json());
        let error = fake.client().create_proposta(&proposta("P-1")).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome(), error.attempts()), (ErrorKind::Decode, Outcome::Accepted, 1));
        assert_eq!((fake.requests(Route::Create).len(), fake.effects("P-1")), (1, 1));
    }
}

#[tokio::test]
async fn the_other_calls_are_repeated_with_or_without_the_promise() {
    let fake = Fake::start();
    fake.promise(false);
    let client = fake.client();
    let id = client.create_proposta(&proposta("P-1")).await.unwrap().id_proposta_svc.clone();
    for route in [Route::Show, Route::Find, Route::Confirm, Route::ResendWebhook] {
        fake.next(route, [Fault::hang_up().after_the_effect()]);
    }
    assert_eq!(client.proposta(&id).await.unwrap().attempts(), 2);
    assert_eq!(client.proposta_by_partner_id("P-1").await.unwrap().attempts(), 2);
    let answer = client.simulate_answer(&id, Acao::Aceitar).await.unwrap();
    assert_eq!((answer.attempts(), answer.ja_respondida), (2, true));
    let resent = client.resend_webhook(&id).await.unwrap();
    assert_eq!((resent.attempts(), resent.status().as_u16()), (2, 202));
}
