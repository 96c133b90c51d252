//! What the SDK adds to a call: a proposal posted by it, beside the same bytes posted by reqwest alone.
//!
//! `cargo build --release && cargo run --release -p svc-benches --bin sdk -- target/release/svc-server`
//!
//! All post to the same server, ours, in turn: one call each, in every order, so that none has the fuller store or the warmer
//! caches. Server and client have a processor each. A server with a constant answer would make the ratio larger,
//! and of a call that nobody makes: a proposal is to be stored whoever posts it. What is added in microseconds stands beside
//! the ratio, since that stays the same where server and network take longer.
//!
//! In the SDK's time is what stands before the sending: the proposal's bytes are read, checked, and written anew. Beside it a
//! call with a proposal that was read and checked before. reqwest alone sends the bytes as they are, with the SDK's settings,
//! an address that is parsed and a token that it was given, reads status and id of the answer, and has no deadline.

use std::time::{Duration, Instant};

use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use serde::Deserialize;
use svc_benches::load::pin_client;
use svc_benches::{Http, median, start_pinned};
use svc_client::defaults::{CONNECT_TIMEOUT, POOL_IDLE_TIMEOUT, POOL_MAX_IDLE};
use svc_client::{Client, NovaProposta, PropostaId};

const ROUNDS: usize = 5;
const TURNS: usize = 4_000;
/// Who is first, and who comes behind whom, changes.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1], [2, 0, 1], [1, 0, 2]];
const CLIENT_ID: &str = "parceiro-demo";
const CLIENT_SECRET: &str = "segredo-demo";
const TYPICAL: &str = include_str!("../svc-core/tests/proposals/valid/02_tipica_12x.json");
const PARTNERS_ID: &str = "PX-2026-000002";

fn main() {
    pin_client();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure());
}

async fn measure() {
    let (_server, address) = start_pinned(&[]).await;
    let sdk = Client::builder(format!("http://{address}"), CLIENT_ID, CLIENT_SECRET).build().expect("a client");
    let raw = Raw::new(&address).await;
    let mut bodies = bodies();
    println!("        sdk µs  ratio  more    call µs  ratio  more    raw µs");
    let mut all = Vec::new();
    // The first round warms up.
    for round in 0..=ROUNDS {
        let mut times = [const { Vec::new() }; 3];
        for turn in 0..TURNS {
            for which in ORDERS[turn % ORDERS.len()] {
                let body = bodies.next().expect("endless");
                times[which].push(match which {
                    0 => from_bytes(&sdk, &body).await,
                    1 => checked_before(&sdk, &body).await,
                    _ => raw.post(body).await,
                });
            }
        }
        if round > 0 {
            all.push(Figures::of(&times));
            all[round - 1].print(&format!("round {round}"));
        }
    }
    Figures::median(&all).print("median");
}

/// Typical proposals as the SDK writes them, each with an id of its own.
fn bodies() -> impl Iterator<Item = Vec<u8>> {
    let proposta = NovaProposta::from_json_to_send(TYPICAL.as_bytes()).expect("a proposal");
    let body = String::from_utf8(proposta.to_json()).expect("text");
    (0..).map(move |number| body.replace(PARTNERS_ID, &format!("PX-{number:011}")).into_bytes())
}

/// A call of the SDK, from the bytes to the id.
async fn from_bytes(sdk: &Client, body: &[u8]) -> Duration {
    let began = Instant::now();
    let proposta = NovaProposta::from_json_to_send(body).expect("a proposal");
    post(sdk, &proposta, began).await
}

/// The call alone.
async fn checked_before(sdk: &Client, body: &[u8]) -> Duration {
    let proposta = NovaProposta::from_json_to_send(body).expect("a proposal");
    post(sdk, &proposta, Instant::now()).await
}

async fn post(sdk: &Client, proposta: &NovaProposta, began: Instant) -> Duration {
    let answer = sdk.create_proposta(proposta).await.expect("an answer");
    let took = began.elapsed();
    assert!(PropostaId::parse(&answer.id_proposta_svc).is_some() && !answer.replayed() && answer.attempts() == 1);
    took
}

/// reqwest alone.
struct Raw {
    client: reqwest::Client,
    url: Url,
    token: String,
}

#[derive(Deserialize)]
struct Received {
    id_proposta_svc: String,
}

impl Raw {
    async fn new(address: &str) -> Self {
        let client = reqwest::Client::builder()
            .redirect(Policy::none())
            .retry(reqwest::retry::never().max_retries_per_request(0))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .pool_max_idle_per_host(POOL_MAX_IDLE)
            .no_proxy();
        let token = Http::connect(address).await.login(CLIENT_ID, CLIENT_SECRET).await;
        let url = format!("http://{address}/v1/propostas").parse().expect("a URL");
        Self { client: client.build().expect("a client"), url, token }
    }

    async fn post(&self, body: Vec<u8>) -> Duration {
        let began = Instant::now();
        let request =
            self.client.post(self.url.clone()).bearer_auth(&self.token).header(CONTENT_TYPE, "application/json");
        let answer = request.body(body).send().await.expect("an answer");
        let status = answer.status();
        let body = answer.bytes().await.expect("a body");
        assert_eq!(status, 200);
        let received: Received = serde_json::from_slice(&body).expect("an answer of the service");
        let took = began.elapsed();
        assert!(PropostaId::parse(&received.id_proposta_svc).is_some());
        took
    }
}

/// What one round came to: medians, in microseconds, of the three ways.
struct Figures([f64; 3]);

impl Figures {
    fn of(times: &[Vec<Duration>; 3]) -> Self {
        Self(times.each_ref().map(|times| median(times.iter().map(|time| time.as_secs_f64() * 1e6).collect())))
    }

    fn median(all: &[Self]) -> Self {
        Self([0, 1, 2].map(|which| median(all.iter().map(|Self(times)| times[which]).collect())))
    }

    fn print(&self, name: &str) {
        let Self([sdk, call, raw]) = self;
        println!(
            "{name:8}{sdk:6.1}  {:.3}  {:4.1}     {call:6.1}  {:.3}  {:4.1}    {raw:6.1}",
            sdk / raw,
            sdk - raw,
            call / raw,
            call - raw
        );
    }
}
