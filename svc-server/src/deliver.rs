//! Webhooks on their way out: lease what is due, sign, POST to vetted addresses, record what came of it (C29–C33).

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy as Redirects;
use svc_core::{Falha, Jitter, Next, Outcome, Policy, SignedRequest, Tentativa, retry_after};
use tokio::task::JoinSet;

use crate::app::App;
use crate::seams::{Clock, Resolver};
use crate::store::{Lease, StoreError};

/// Most attempts in flight (C34).
const MAX_IN_FLIGHT: usize = 256;
/// One deadline over a whole attempt (C32).
const ATTEMPT_DEADLINE: Duration = Duration::from_secs(15);
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
const DNS_DEADLINE: Duration = Duration::from_secs(3);
/// Of an answer's body no more is read.
const MAX_ANSWER_BYTES: usize = 4 * 1024;
/// A lease outlives its attempt by this.
const LEASE_RESERVE: Duration = Duration::from_secs(15);
/// Idle connections are kept for the next webhook to the same host.
const POOL_IDLE: Duration = Duration::from_secs(10);
const MAX_IDLE_PER_HOST: usize = 8;
/// How often to look although nobody rang.
const POLL: Duration = Duration::from_secs(1);

/// The task that delivers.
pub(crate) struct Deliverer {
    app: Arc<App>,
    client: Client,
    attempts: JoinSet<()>,
}

impl Deliverer {
    pub(crate) fn new(app: Arc<App>) -> Self {
        let client = client(&app.config.policy, &app.config.resolver);
        Self { app, client, attempts: JoinSet::new() }
    }

    /// Delivers until told to stop; then attempts what is due and waits for what is in flight, until `stop` gives a time.
    pub(crate) async fn run(mut self, stop: impl Future<Output = Instant>) {
        let mut stop = pin!(stop);
        let deadline = loop {
            let wait = match self.step().await {
                Ok(wait) => wait,
                Err(error) => {
                    tracing::warn!(%error, "deliveries wait for the store");
                    POLL
                }
            };
            tokio::select! {
                deadline = &mut stop => break deadline,
                () = self.app.wake.notified() => {}
                () = tokio::time::sleep(wait) => {}
                Some(_) = self.attempts.join_next() => {}
            }
        };
        let drained = async {
            loop {
                let stepped = self.step().await;
                if self.attempts.join_next().await.is_none() || stepped.is_err() {
                    break;
                }
            }
        };
        if tokio::time::timeout_at(deadline.into(), drained).await.is_err() {
            tracing::warn!("attempts cut off at the end");
        }
        if let Ok(Some(_)) = self.app.store.next_due().await {
            tracing::warn!("deliveries are pending at the end");
        }
    }

    /// Starts an attempt for each delivery that is due, as far as there is room; gives the time until the next is.
    async fn step(&mut self) -> Result<Duration, StoreError> {
        while self.attempts.try_join_next().is_some() {}
        let room = MAX_IN_FLIGHT.saturating_sub(self.attempts.len());
        for lease in self.app.store.lease(room, ATTEMPT_DEADLINE + LEASE_RESERVE).await? {
            self.attempts.spawn(attempt(Arc::clone(&self.app), self.client.clone(), lease));
        }
        if self.attempts.len() >= MAX_IN_FLIGHT {
            return Ok(POLL);
        }
        let wait = self.app.store.next_due().await?.unwrap_or(POLL);
        Ok(wait.clamp(Duration::from_millis(1), POLL))
    }
}

/// One attempt from its lease to its record.
async fn attempt(app: Arc<App>, client: Client, lease: Lease) {
    let Lease { delivery, fence } = lease;
    let name = app.links.log_name(delivery.evento().id().proposta());
    // Without its partner there is no secret to sign with: it stays pending (C24).
    let partners = app.config.partners.current();
    let Some(partner) = partners.get(delivery.client_id()) else { return };
    let (em, began) = (app.config.clock.now(), Instant::now());
    // A range that was open when the proposal came may be closed today.
    let resultado = if delivery.url().host_allowed(&app.config.policy) {
        post(&client, delivery.request(partner.signer(), em), &app.config.clock).await
    } else {
        Outcome::Failed(Falha::Bloqueado)
    };
    let duracao_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    // Jitter without randomness is no jitter, and no reason to stop.
    let jitter = app.config.random.bytes().map_or(Jitter::NONE, |bytes| Jitter::from_random(u32::from_ne_bytes(bytes)));
    let tentativa = Tentativa { em, duracao_ms, resultado };
    let delivery = delivery.after(tentativa, &app.config.schedule, jitter, app.config.clock.now());
    let next = match delivery.next() {
        Next::Done => "delivered",
        Next::GiveUp => "given up",
        Next::At(_) => "to be repeated",
    };
    tracing::info!(proposta = name, %resultado, duracao_ms, next, "webhook sent");
    match app.store.record(fence, delivery).await {
        Ok(true) => {}
        Ok(false) => tracing::warn!(proposta = name, "another worker took over; this attempt is not recorded"),
        Err(error) => tracing::warn!(proposta = name, %error, "attempt not recorded; it is repeated after its lease"),
    }
}

/// Sends a request and sorts what comes back. An error's own text may hold the URL, and is not kept.
async fn post(client: &Client, request: SignedRequest<'_>, clock: &Clock) -> Outcome {
    let mut builder = client.post(request.url).body(request.body.to_vec());
    for (name, value) in request.headers {
        builder = builder.header(name, value);
    }
    let deadline = tokio::time::Instant::now() + ATTEMPT_DEADLINE;
    let mut response = match tokio::time::timeout_at(deadline, builder.send()).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Outcome::Failed(falha(&error)),
        Err(_) => return Outcome::Failed(Falha::TempoEsgotado),
    };
    let header = response.headers().get("retry-after").map(|value| value.as_bytes().to_vec());
    let retry_after = header.and_then(|header| retry_after(&header, clock.now()));
    let outcome = Outcome::Status { code: response.status().as_u16(), retry_after };
    // The status line decides, whatever the body does: it is read only so that the connection can serve again.
    let drained = async {
        let mut read = 0;
        while let Ok(Some(chunk)) = response.chunk().await {
            read += chunk.len();
            if read > MAX_ANSWER_BYTES {
                break;
            }
        }
    };
    let _ = tokio::time::timeout_at(deadline, drained).await;
    outcome
}

/// The kind of a failure, by what caused it.
fn falha(error: &reqwest::Error) -> Falha {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    for cause in causes {
        if let Some(unresolved) = cause.downcast_ref::<Unresolved>() {
            return match unresolved {
                Unresolved::Refused => Falha::Bloqueado,
                Unresolved::Failed | Unresolved::Late => Falha::Dns,
            };
        }
        if is_handshake_error(cause) {
            return Falha::Tls;
        }
    }
    if error.is_timeout() { Falha::TempoEsgotado } else { Falha::Conexao }
}

/// What a TLS handshake fails with, and a plain connection never. Wrapped ones are no sources of their wrappers.
fn is_handshake_error(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| {
        error.kind() == io::ErrorKind::InvalidData || error.get_ref().is_some_and(|inner| is_handshake_error(inner))
    })
}

/// The client of all attempts: no redirects, no proxy, no cookies, no decompression, vetted addresses only.
fn client(policy: &Policy, resolver: &Resolver) -> Client {
    let builder = || {
        Client::builder()
            .user_agent(concat!("svc-server/", env!("CARGO_PKG_VERSION")))
            .redirect(Redirects::none())
            .no_proxy()
            .connect_timeout(CONNECT_DEADLINE)
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
            .dns_resolver(Vetted { policy: policy.clone(), resolver: resolver.clone() })
    };
    builder().build().unwrap_or_else(|_| {
        tracing::warn!("no certificate authorities on this machine: https webhooks will fail as tls");
        builder().tls_certs_only([]).build().expect("nothing is looked for on the machine any more")
    })
}

/// Resolves names to the addresses that the policy lets through (C31). Literals were judged before.
struct Vetted {
    policy: Policy,
    resolver: Resolver,
}

impl Resolve for Vetted {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, resolver) = (self.policy.clone(), self.resolver.clone());
        Box::pin(async move {
            let found = tokio::time::timeout(DNS_DEADLINE, resolver.resolve(name.as_str())).await;
            let found = found.map_err(|_| Unresolved::Late)?.map_err(|_| Unresolved::Failed)?;
            if found.is_empty() {
                return Err(Unresolved::Failed.into());
            }
            // The port is the URL's; 0 stands for it.
            let vetted = found.into_iter().filter(|address| policy.may_reach(*address));
            let vetted: Vec<_> = vetted.map(|address| SocketAddr::new(address, 0)).collect();
            if vetted.is_empty() { Err(Unresolved::Refused.into()) } else { Ok(Box::new(vetted.into_iter()) as Addrs) }
        })
    }
}

/// Why a name has no address to connect to.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum Unresolved {
    #[error("name was not resolved")]
    Failed,
    #[error("name was not resolved in time")]
    Late,
    #[error("all addresses are refused; see --webhook-allow")]
    Refused,
}
