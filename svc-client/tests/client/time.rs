//! Deadlines, idle connections, calls that are dropped (T21, T22, T24).

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use svc_client::transport::{Body, SendError, Transport};
use svc_client::{Client, ErrorKind, Outcome, defaults};
use svc_server::fake::{Fake, Fault, Route};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::{proposta, within};

/// A call of its own task, which has reached the server.
async fn begun(fake: &Fake, client: &Client) -> JoinHandle<svc_client::Error> {
    let client = client.clone();
    let call = tokio::spawn(async move { client.create_proposta(&proposta("P-1")).await.unwrap_err() });
    within(fake.arrived(Route::Create, 1)).await;
    call
}

#[tokio::test]
async fn t21_a_server_that_never_answers_is_left_at_the_attempt_s_time_out() {
    let fake = Fake::start();
    fake.promise(false);
    fake.always(Route::Create, Fault::hang());
    let call = begun(&fake, &fake.client()).await;
    fake.advance(defaults::ATTEMPT_TIMEOUT);
    let error = within(call).await.unwrap();
    assert_eq!((error.kind(), error.outcome(), error.attempts()), (ErrorKind::Timeout, Outcome::Unknown, 1));
}

#[tokio::test]
async fn t21_an_answer_that_trickles_is_left_at_the_attempt_s_time_out() {
    let fake = Fake::start();
    fake.promise(false);
    fake.next(Route::Create, [Fault::trickle()]);
    let error = within(fake.client().create_proposta(&proposta("P-1"))).await.unwrap_err();
    // Its status is known if its first bytes were read before its last second.
    let ends = [(ErrorKind::Decode, Outcome::Accepted), (ErrorKind::Timeout, Outcome::Unknown)];
    assert!(ends.contains(&(error.kind(), error.outcome())), "{error:?}");
    assert_eq!((error.attempts(), fake.effects("P-1")), (1, 1));
}

/// The recipe of a partner's own reqwest client, which says here when an answer's headers have come.
struct Own(reqwest::Client, UnboundedSender<()>);

impl Transport for Own {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, SendError> {
        let request = reqwest::Request::try_from(request).map_err(SendError::not_sent)?;
        let answer = self.0.execute(request).await.map_err(|error| match error.is_connect() {
            true => SendError::not_sent(error.without_url()),
            false => SendError::broken(error.without_url()),
        })?;
        self.1.send(()).unwrap();
        Ok(Response::<reqwest::Body>::from(answer).map(Body::new))
    }
}

#[tokio::test]
async fn t21_an_answer_that_stalls_after_its_headers_keeps_its_status() {
    let fake = Fake::start();
    fake.next(Route::Create, [Fault::stall()]);
    let (tell, mut told) = unbounded_channel();
    let own = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let own = Own(own, tell);
    let client = fake.client_builder().transport(own).build().unwrap();
    let call = begun(&fake, &client).await;
    for _login_and_create in 0..2 {
        within(told.recv()).await.unwrap();
    }
    fake.advance(defaults::ATTEMPT_TIMEOUT);
    let error = within(call).await.unwrap();
    assert_eq!((error.kind(), error.outcome(), error.attempts()), (ErrorKind::Decode, Outcome::Accepted, 1));
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "answer did not end in time");
}

#[tokio::test]
async fn t21_nothing_goes_past_the_total_deadline() {
    let fake = Fake::start();
    fake.always(Route::Create, Fault::hang());
    let client = fake.client_builder().total_timeout(Duration::from_secs(20)).build().unwrap();
    let call = begun(&fake, &client).await;
    fake.advance(Duration::from_secs(15));
    within(fake.arrived(Route::Create, 2)).await;
    assert!(fake.clock().ahead() < Duration::from_secs(20), "the second attempt has what is left");
    fake.advance(Duration::from_secs(20) - fake.clock().ahead());
    let error = within(call).await.unwrap();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Timeout, 2));
    // A wait that would end behind it is not begun.
    let fake = Fake::start();
    fake.always(Route::Create, Fault::status(429).retry_after("25"));
    let client = fake.client_builder().total_timeout(Duration::from_secs(20)).build().unwrap();
    let error = client.create_proposta(&proposta("P-1")).await.unwrap_err();
    assert_eq!((error.attempts(), error.retry_after()), (1, Some(Duration::from_secs(25))));
    assert_eq!(fake.clock().ahead(), Duration::ZERO);
    // A login that hangs takes its own ten seconds of it, and no proposal was sent.
    let fake = Fake::start();
    fake.always(Route::Login, Fault::hang());
    let client = fake.client_builder().max_retries(0).build().unwrap();
    let call = tokio::spawn(async move { client.create_proposta(&proposta("P-1")).await.unwrap_err() });
    within(fake.arrived(Route::Login, 1)).await;
    fake.advance(defaults::LOGIN_TIMEOUT);
    let error = within(call).await.unwrap();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::NotSent));
}

#[tokio::test]
async fn t22_connections_that_the_server_closed_meanwhile_do_no_harm() {
    let fake = Fake::start();
    let client = fake.client();
    for i in 0..50 {
        let id = format!("P-{i}");
        client.create_proposta(&proposta(&id)).await.unwrap();
        assert_eq!(fake.effects(&id), 1);
        fake.advance(Duration::from_secs(6));
        // Races with the next call on purpose.
        fake.close_connections();
    }
    // The worst of it, each time: the server takes the request and closes the connection that was idle before.
    let fake = Fake::start();
    let client = fake.client_builder().retry_budget(100, 0).build().unwrap();
    client.login().await.unwrap();
    for i in 0..50 {
        let id = format!("P-{i}");
        fake.next(Route::Create, [Fault::hang_up()]);
        assert_eq!(client.create_proposta(&proposta(&id)).await.unwrap().attempts(), 2);
        assert_eq!(fake.effects(&id), 1);
    }
}

#[test]
fn t24_a_call_that_is_dropped_leaves_nothing_behind() {
    let fake = Fake::start();
    // The pool's own task goes with its last connection, and looks that often.
    let client = fake.client_builder().pool_idle_timeout(Duration::from_millis(50)).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(client.login()).unwrap();
    fake.next(Route::Create, [Fault::hang().after_the_effect()]);
    runtime.block_on(async {
        let proposta = proposta("P-1");
        tokio::select! {
            _ = client.create_proposta(&proposta) => panic!("it hangs"),
            () = within(fake.arrived(Route::Create, 1)) => {}
        }
    });
    // The connection that it had ends with it.
    runtime.block_on(within(async {
        while runtime.metrics().num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    }));
    fake.advance(Duration::from_secs(60));
    assert_eq!(fake.requests(Route::Create).len(), 1, "nothing was sent again");
    runtime.block_on(within(async {
        while fake.effects("P-1") == 0 {
            tokio::task::yield_now().await;
        }
    }));
    let created = runtime.block_on(client.create_proposta(&proposta("P-1"))).unwrap();
    assert!(created.replayed());
    assert_eq!((fake.requests(Route::Create).len(), fake.logins()), (2, 1));
}

#[tokio::test]
async fn t24_a_caller_that_goes_away_in_its_login_leaves_it_to_the_next() {
    let fake = Fake::start();
    let client = fake.client();
    fake.next(Route::Login, [Fault::hang()]);
    tokio::select! {
        _ = client.login() => panic!("it hangs"),
        () = within(fake.arrived(Route::Login, 1)) => {}
    }
    within(client.create_proposta(&proposta("P-1"))).await.unwrap();
    assert_eq!(fake.logins(), 2);
}
