//! Tokens: one login for many calls, and none too many (T1 to T12).

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use svc_client::{Client, Clock, ErrorKind, Outcome};
use svc_server::fake::{Fake, FakeClock, Fault, Route};
use tokio::task::JoinSet;

use crate::{proposta, within};

/// Creates as many proposals at the same time.
async fn create_together(client: &Client, count: usize) -> Vec<Result<String, svc_client::Error>> {
    let mut calls = JoinSet::new();
    for i in 0..count {
        let client = client.clone();
        calls.spawn(async move {
            let created = client.create_proposta(&proposta(&format!("P-{i}"))).await?;
            Ok(created.id_proposta_svc.clone())
        });
    }
    within(calls.join_all()).await
}

#[tokio::test]
async fn t01_a_hundred_tasks_that_start_cold_share_one_login() {
    let fake = Fake::start();
    let created = create_together(&fake.client(), 100).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    assert_eq!((fake.logins(), fake.requests(Route::Create).len()), (1, 100));
    assert!((0..100).all(|i| fake.effects(&format!("P-{i}")) == 1));
}

#[tokio::test]
async fn t02_while_the_login_is_down_waiters_share_its_failure() {
    for failures in [1, 2] {
        let fake = Fake::start();
        fake.next(Route::Login, vec![Fault::status(503); failures]);
        let created = create_together(&fake.client(), 100).await;
        assert!(created.iter().all(Result::is_ok), "{created:?}");
        assert_eq!((fake.logins(), fake.requests(Route::Create).len()), (failures + 1, 100));
        // A second after the first failure, two after the next, and what is drawn beside them.
        let waited = [2, 5][failures - 1];
        assert!(fake.clock().ahead() <= Duration::from_secs(waited), "{:?}", fake.clock().ahead());
    }
    let fake = Fake::start();
    fake.always(Route::Login, Fault::status(503));
    let created = create_together(&fake.client(), 100).await;
    assert!(created.iter().all(|created| created.as_ref().unwrap_err().outcome() == Outcome::NotSent));
    assert!(fake.logins() <= 3, "{}", fake.logins());
    let error = created[0].as_ref().unwrap_err();
    assert_eq!((error.kind(), error.status().unwrap().as_u16(), error.attempts()), (ErrorKind::Login, 503, 3));
}

#[tokio::test]
async fn t04_the_old_token_serves_to_its_end_while_the_login_is_down() {
    let fake = Fake::start();
    let client = fake.client();
    client.login().await.unwrap();
    fake.always(Route::Login, Fault::hang_up());
    let create = async |id: &str| client.create_proposta(&proposta(id)).await;
    fake.advance(Duration::from_secs(3_299));
    create("P-1").await.unwrap();
    assert_eq!(fake.logins(), 1, "the last 300 s have not begun");
    fake.advance(Duration::from_secs(62));
    create("P-2").await.unwrap();
    create("P-3").await.unwrap();
    assert_eq!(fake.logins(), 2, "one tries, and the next not within a second");
    fake.advance(Duration::from_secs(230));
    create("P-4").await.unwrap();
    assert_eq!(fake.logins(), 3, "its last ten seconds");
    fake.advance(Duration::from_secs(10));
    let error = create("P-5").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome(), error.is_retryable()), (ErrorKind::Transport, Outcome::NotSent, true));
    assert_eq!(fake.requests(Route::Create).len(), 4);
    fake.always(Route::Login, None);
    create("P-5").await.unwrap();
}

#[tokio::test]
async fn t04_a_token_is_renewed_ahead_by_one_caller_while_the_rest_go_on() {
    let fake = Fake::start();
    let client = fake.client();
    client.login().await.unwrap();
    fake.advance(Duration::from_secs(3_361));
    fake.next(Route::Login, [Fault::hang()]);
    let renewing = tokio::spawn({
        let client = client.clone();
        async move { client.create_proposta(&proposta("P-slow")).await.unwrap() }
    });
    within(fake.arrived(Route::Login, 2)).await;
    // Nobody else waits for it.
    within(client.create_proposta(&proposta("P-quick"))).await.unwrap();
    fake.advance(Duration::from_secs(10));
    within(renewing).await.unwrap();
    assert_eq!((fake.logins(), fake.requests(Route::Create).len()), (2, 2));
}

/// A clock whose time of day can be set apart from the other.
#[derive(Clone)]
struct Set(FakeClock, Arc<Mutex<SystemTime>>);

impl Clock for Set {
    fn now(&self) -> SystemTime {
        *self.1.lock().unwrap()
    }

    fn elapsed(&self) -> Duration {
        Clock::elapsed(&self.0)
    }

    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.sleep_until(at)
    }

    fn pause_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.pause_until(at)
    }
}

#[tokio::test]
async fn t06_a_time_of_day_that_jumps_is_one_more_login_and_no_storm() {
    let fake = Fake::start();
    let clock = Set(fake.clock().clone(), Arc::new(Mutex::new(fake.clock().now())));
    let client = fake.client_builder().clock(clock.clone()).build().unwrap();
    client.login().await.unwrap();
    for (logins, jump) in [(2, 7_200), (3, -7_200), (4, -7_200)] {
        fake.advance(Duration::from_secs(2));
        let now = *clock.1.lock().unwrap();
        let jumped = if jump > 0 { now + Duration::from_secs(7_200) } else { now - Duration::from_secs(7_200) };
        *clock.1.lock().unwrap() = jumped;
        for i in 0..10 {
            client.create_proposta(&proposta(&format!("P-{logins}-{i}"))).await.unwrap();
        }
        assert_eq!(fake.logins(), logins);
    }
    // A few seconds are the work of every machine's time service.
    *clock.1.lock().unwrap() += Duration::from_secs(30);
    client.login().await.unwrap();
    assert_eq!(fake.logins(), 4);
}

#[tokio::test]
async fn t07_the_server_s_clock_may_be_off_and_the_token_is_never_read() {
    let fake = Fake::start();
    // By this machine's clock, which the fake's is ten minutes ahead of.
    fake.advance(Duration::from_secs(600));
    let client = Client::builder(fake.base_url(), fake.client_id(), fake.client_secret()).build().unwrap();
    client.create_proposta(&proposta("P-1")).await.unwrap();
    fake.advance(Duration::from_secs(600));
    client.create_proposta(&proposta("P-2")).await.unwrap();
    assert_eq!(fake.logins(), 1);
    // What is no JWT is sent all the same.
    let opaque = r#"{"access_token":"isto-nao-e-um-jwt","token_type":"Bearer","expires_in":3600,"novo":null}"#;
    fake.next(Route::Login, [Fault::body(opaque)]);
    let client = fake.client();
    client.login().await.unwrap();
    let created = client.create_proposta(&proposta("P-3")).await.unwrap();
    assert_eq!(created.attempts(), 2, "the service did not know it");
    assert_eq!(fake.requests(Route::Create)[2].headers()["authorization"], "Bearer isto-nao-e-um-jwt");
}

#[tokio::test]
async fn t08_a_401_is_one_login_and_the_same_bytes_once_more() {
    for expire in [Fake::expire_tokens, Fake::revoke_tokens] {
        let fake = Fake::start();
        let client = fake.client();
        client.login().await.unwrap();
        expire(&fake);
        let created = client.create_proposta(&proposta("P-1")).await.unwrap();
        assert_eq!((created.attempts(), created.replayed()), (2, false));
        let requests = fake.requests(Route::Create);
        assert_eq!((fake.logins(), requests.len(), fake.effects("P-1")), (2, 2, 1));
        assert_eq!(requests[0].body(), requests[1].body());
        assert_ne!(requests[0].headers()["authorization"], requests[1].headers()["authorization"]);
        assert_eq!(requests[0].headers()["x-request-id"], requests[1].headers()["x-request-id"]);
    }
}

#[tokio::test]
async fn t08_a_hundred_calls_with_a_dead_token_are_one_login() {
    let fake = Fake::start();
    let client = fake.client();
    client.login().await.unwrap();
    fake.expire_tokens();
    let created = create_together(&client, 100).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    assert_eq!(fake.logins(), 2);
}

#[tokio::test]
async fn t09_a_401_under_the_fresh_token_is_the_error() {
    let fake = Fake::start();
    let client = fake.client();
    client.login().await.unwrap();
    fake.always(Route::Create, Fault::status(401));
    let error = client.create_proposta(&proposta("P-1")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome(), error.code()),
        (ErrorKind::Api, Outcome::Rejected, Some("token_invalido"))
    );
    assert_eq!((fake.requests(Route::Create).len(), fake.logins()), (2, 2));
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn t11_refused_credentials_are_asked_about_once() {
    let fake = Fake::start();
    let client = Client::builder(fake.base_url(), fake.client_id(), "segredo-errado").clock(fake.clock().clone());
    let client = client.build().unwrap();
    let created = create_together(&client, 20).await;
    for error in created.into_iter().map(Result::unwrap_err) {
        assert_eq!(
            (error.kind(), error.outcome(), error.code(), error.attempts()),
            (ErrorKind::Login, Outcome::NotSent, Some("credenciais_invalidas"), 1)
        );
        assert!(!error.is_retryable());
        for text in [format!("{error}"), format!("{error:?}"), format!("{client:?}")] {
            assert!(!text.contains("segredo-errado"), "{text}");
        }
    }
    assert_eq!((fake.logins(), fake.requests(Route::Create).len()), (1, 0));
    // Each further try waits twice as long before it bothers the service.
    for (logins, seconds) in [(2, 1), (3, 2), (4, 4), (5, 8), (6, 16), (7, 30), (8, 30)] {
        fake.advance(Duration::from_millis(1_001));
        let before = fake.clock().ahead();
        assert_eq!(client.login().await.unwrap_err().code(), Some("credenciais_invalidas"));
        assert_eq!(fake.logins(), logins);
        let waited = fake.clock().ahead() - before;
        assert!(waited <= Duration::from_secs(seconds), "{logins}: {waited:?}");
        assert!(waited + Duration::from_millis(1_500) >= Duration::from_secs(seconds), "{logins}: {waited:?}");
    }
}

#[test]
fn t12_a_client_is_built_outside_a_runtime_and_used_in_two() {
    let fake = Fake::start();
    let client = fake.client();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // In turn, and both alive: a connection of the one is nobody's in the other.
    let runtimes = [runtime(), runtime()];
    for i in 0..6 {
        let created = runtimes[i % 2].block_on(client.create_proposta(&proposta(&format!("P-{i}")))).unwrap();
        assert_eq!(created.attempts(), 1);
    }
    drop(runtimes);
    for i in 6..12 {
        let created = runtime().block_on(client.create_proposta(&proposta(&format!("P-{i}")))).unwrap();
        assert_eq!(created.attempts(), 1);
    }
    assert_eq!(fake.logins(), 1);
}

#[tokio::test]
async fn a_login_s_retry_after_holds_for_every_caller() {
    let fake = Fake::start();
    fake.next(Route::Login, [Fault::status(429).retry_after("25")]);
    let client = fake.client_builder().max_retries(0).build().unwrap();
    assert_eq!(client.login().await.unwrap_err().retry_after(), Some(Duration::from_secs(25)));
    let began = fake.clock().now();
    fake.advance(Duration::from_secs(2));
    client.login().await.unwrap();
    let waited = fake.clock().now().duration_since(began).unwrap();
    assert!(waited >= Duration::from_secs(24), "{waited:?}");
}

#[tokio::test]
async fn a_caller_who_cannot_wait_for_the_next_login_is_told_what_the_last_one_came_to() {
    let fake = Fake::start();
    let client = Client::builder(fake.base_url(), fake.client_id(), "segredo-errado").clock(fake.clock().clone());
    let client = client.total_timeout(Duration::from_secs(3)).build().unwrap();
    for _ in 0..12 {
        assert_eq!(client.login().await.unwrap_err().code(), Some("credenciais_invalidas"));
        fake.advance(Duration::from_secs(2));
    }
    assert!(fake.logins() < 8, "{}", fake.logins());
}

#[tokio::test]
async fn a_renewal_that_hangs_takes_no_call_s_whole_time() {
    let fake = Fake::start();
    let client = fake.client_builder().total_timeout(Duration::from_secs(8)).build().unwrap();
    client.login().await.unwrap();
    fake.advance(Duration::from_secs(3_400));
    fake.always(Route::Login, Fault::hang());
    let call = tokio::spawn(async move { client.create_proposta(&proposta("P-1")).await });
    within(fake.arrived(Route::Login, 2)).await;
    fake.advance(Duration::from_secs(4));
    within(call).await.unwrap().unwrap();
}

#[tokio::test]
async fn logins_that_make_no_sense_are_the_login_s_failure_and_tell_nothing() {
    for body in [
        r#"{"access_token":"eyJ\nSEGREDO","token_type":"Bearer","expires_in":3600}"#,
        r#"{"access_token":"eyJSEGREDO","token_type":"Bearer","expires_in":-1}"#,
        r#"{"access_token":"eyJSEGREDO""#,
        "<html>portal</html>",
    ] {
        let fake = Fake::start();
        fake.always(Route::Login, Fault::body(body));
        let error = fake.client().create_proposta(&proposta("P-1")).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Login, Outcome::NotSent), "{body}");
        assert!(error.raw_body().is_empty() && !format!("{error} {error:?}").contains("SEGREDO"));
        // Passing: the next login is asked again.
        fake.advance(Duration::from_secs(60));
        fake.always(Route::Login, None);
        fake.client().create_proposta(&proposta("P-1")).await.unwrap();
    }
}

#[tokio::test]
async fn a_token_of_no_life_serves_whoever_waited_for_it() {
    let fake = Fake::start();
    let client = fake.client();
    fake.always(Route::Login, Fault::body(r#"{"access_token":"t","token_type":"Bearer","expires_in":0}"#));
    fake.always(Route::Show, Fault::body("{}"));
    let mut calls = JoinSet::new();
    for _ in 0..100 {
        let client = client.clone();
        calls.spawn(async move { client.login().await });
    }
    assert!(within(calls.join_all()).await.iter().all(Result::is_ok));
    assert!(fake.logins() <= 2, "{}", fake.logins());
}
