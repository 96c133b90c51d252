//! The server for a partner's tests: the real rules, on a free port of this machine, with nothing of the network.
//!
//! It is this crate's own server behind a front that counts, and breaks what it is told to break. Each test starts one of
//! its own; it ends when it is dropped.
//!
//! ```
//! use svc_client::{NovaProposta, webhook::Resposta};
//! use svc_server::fake::Fake;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! let fake = Fake::start();
//! let proposta = NovaProposta::builder("PARC-1")
//!     .nome("Ana Exemplo")
//!     .cpf("111.444.777-35")
//!     .whatsapp("5511900000018")
//!     .webhook_url("https://parceiro.example.com/webhooks/svc")
//!     .build()
//!     .unwrap();
//! let created = fake.client().create_proposta(&proposta).await.unwrap();
//!
//! // What your receiver would get, for a test of it: headers, and the body's bytes.
//! let webhook = fake.accept(&created.id_proposta_svc).await.unwrap();
//! let told = fake.verifier().parse(&webhook.headers, &webhook.body).unwrap();
//! assert_eq!(told.status, Resposta::Aceito);
//! assert_eq!((fake.logins(), fake.effects("PARC-1")), (1, 1));
//! # });
//! ```
//!
//! Where a proposal's `webhook_url` is `http://` on this machine, the notification is posted there too, as ever.
//!
//! # Faults
//!
//! [`Fake::next`] orders a [`Fault`] for the next request of a [`Route`], [`Fake::always`] one for all of them, and
//! [`Fake::next_webhook`] a [`WebhookFault`] for the next notification.
//!
//! # Time
//!
//! The fake's [`clock`](Fake::clock) runs with this machine's and can be put forward. Server and
//! [`client`](Fake::client) both live by it. While the client waits between two attempts the clock jumps to the end of the
//! wait, so no test sleeps (compare two times of [`FakeClock::now`] to see how long it waited); deadlines pass when the test moves the clock, or in their real time.

mod clock;
mod fault;
mod front;
mod webhook;
pub use clock::FakeClock;
pub use fault::{Fault, Route};
pub use webhook::{Webhook, WebhookFault};

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use svc_client::webhook::{Secret, Verifier};
use svc_client::{Client, ClientBuilder};
use svc_core::{Acao, PropostaId, Signer, TOKEN_LIFE_SECONDS};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::app::App;
use crate::config::Config;
use crate::confirmar::Decided;
use crate::fake::front::Front;
use crate::fake::webhook::Mail;
use crate::partners::{DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_WEBHOOK_SECRET, Partners};
use crate::seams::{Clock, Resolver};
use crate::sender::Sender;
use crate::server;

/// A server of one test's own, with a partner that may log in.
pub struct Fake {
    base_url: String,
    clock: FakeClock,
    app: Arc<App>,
    front: Arc<Front>,
    mail: Arc<Mail>,
    runtime: Handle,
    /// Ends the thread when it is dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why a proposal has no answer to be told: what the server said instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fake answered with status {status}, code {code}")]
#[non_exhaustive]
pub struct NotAnswered {
    /// The HTTP status.
    pub status: u16,
    /// The server's code, such as `proposta_nao_encontrada`.
    pub code: String,
}

impl Fake {
    /// Starts a test server (`homologacao`) with proposals in memory. Needs no runtime: it brings a thread of its own.
    ///
    /// # Panics
    ///
    /// Where this machine gives no port, no thread or no random numbers.
    pub fn start() -> Self {
        Self::with(|_| ())
    }

    /// The same with other settings.
    ///
    /// ```
    /// use svc_core::{Perfil, Policy};
    /// use svc_server::fake::Fake;
    /// let fake = Fake::with(|config| config.policy = Policy::new(Perfil::Producao)); // every rule refuses
    /// ```
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start), and where the settings name a store that cannot be used.
    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        let clock = FakeClock::new();
        let mail = Arc::new(Mail::new(clock.clone()));
        let mut config = Config::homologacao(Partners::demonstration()).expect("random numbers");
        let (sender, messages) = tokio::sync::mpsc::unbounded_channel();
        config.sender = Sender::Channel(sender);
        let now = clock.clone();
        config.clock = Clock::from_fn(move || now.now().into());
        config.transport = mail.transport();
        // No name but this machine's: a test asks nobody.
        config.resolver = Resolver::from_fn(|name| async move {
            match &*name {
                "localhost" => Ok(vec![std::net::Ipv4Addr::LOCALHOST.into()]),
                _ => Err(std::io::Error::other("the fake knows no other names")),
            }
        });
        change(&mut config);
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let (of_thread, mail_of_thread) = ((clock.clone(), messages), Arc::clone(&mail));
        let thread = std::thread::Builder::new().name("svc-fake".to_owned()).spawn(move || {
            let (clock, _messages) = of_thread;
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let [public, inner] = [bind().await, bind().await];
                let base_url = format!("http://{}", public.local_addr().expect("a bound port"));
                config.base_url.get_or_insert_with(|| base_url.clone());
                let app = server::prepare(&inner, config).await.expect("a store that can be used");
                mail_of_thread.of(Arc::clone(&app));
                let front = Arc::new(Front::new(inner.local_addr().expect("a bound port"), clock.clone()));
                tokio::spawn(server::work(Arc::clone(&app), inner, None, std::future::pending()));
                tokio::spawn(Arc::clone(&front).serve(public));
                tokio::spawn(ring(Arc::clone(&app), clock));
                let _ = tell.send((base_url, app, front, Handle::current()));
                // Until the fake is dropped, one way or the other.
                let _ = stopped.await;
            });
        });
        let thread = thread.expect("a thread");
        let (base_url, app, front, runtime) = told.recv().expect("the fake's thread starts");
        Self { base_url, clock, app, front, mail, runtime, stop: Some(stop), thread: Some(thread) }
    }

    /// Its address.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// A client of its partner that lives by its clock.
    ///
    /// # Panics
    ///
    /// Where a client cannot be built for `http://127.0.0.1`: where a machine has no certificate authorities.
    pub fn client(&self) -> Client {
        self.client_builder().build().expect("a client for this machine")
    }

    /// The same with settings still to be made.
    pub fn client_builder(&self) -> ClientBuilder {
        Client::builder(&self.base_url, self.client_id(), self.client_secret()).clock(self.clock.clone())
    }

    /// Its partner's `client_id`.
    pub fn client_id(&self) -> &'static str {
        DEMO_CLIENT_ID
    }

    /// Its partner's `client_secret`.
    pub fn client_secret(&self) -> &'static str {
        DEMO_CLIENT_SECRET
    }

    /// Its partner's webhook secret, `whsec_…`.
    pub fn webhook_secret(&self) -> &'static str {
        DEMO_WEBHOOK_SECRET
    }

    /// A verifier of its partner's notifications that lives by its clock, with the secret of its start.
    pub fn verifier(&self) -> Verifier {
        let clock = self.clock.clone();
        let secret = Secret::parse(DEMO_WEBHOOK_SECRET).expect("a constant of this crate");
        Verifier::new(&secret).clock(move || clock.now())
    }

    /// Changes its partner's webhook secrets, newest first, as the service's operator does step by step.
    ///
    /// ```
    /// use svc_server::fake::Fake;
    /// let (fake, new) = (Fake::start(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    /// fake.webhook_secrets(&[new, fake.webhook_secret()]); // both are live
    /// fake.webhook_secrets(&[new]); // the old one is gone
    /// ```
    ///
    /// # Panics
    ///
    /// For none at all, and for a text that is no webhook secret.
    pub fn webhook_secrets(&self, newest_first: &[&str]) {
        let secrets = newest_first.iter().map(|text| Secret::parse(text).expect("a webhook secret"));
        let signer = secrets.fold(None, |signer: Option<Signer>, secret| match signer {
            None => Some(Signer::new(&secret)),
            Some(signer) => Some(signer.also(&secret)),
        });
        let signer = signer.expect("one webhook secret at least");
        self.app.config.partners.replace(Partners::demonstration_signing(signer));
    }

    /// Its clock.
    pub fn clock(&self) -> &FakeClock {
        &self.clock
    }

    /// Puts its clock forward: webhooks become due, tokens end, deadlines pass.
    pub fn advance(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Answers for the customer: accepts. The notification is posted, and handed back as it is signed.
    ///
    /// # Errors
    ///
    /// [`NotAnswered`] for an unknown proposal, 404, or one that was refused, 409.
    pub async fn accept(&self, id_proposta_svc: &str) -> Result<Webhook, NotAnswered> {
        self.answer(id_proposta_svc, Acao::Aceitar).await
    }

    /// The same, but refuses.
    ///
    /// # Errors
    ///
    /// [`NotAnswered`] for an unknown proposal, 404, or one that was accepted, 409.
    pub async fn refuse(&self, id_proposta_svc: &str) -> Result<Webhook, NotAnswered> {
        self.answer(id_proposta_svc, Acao::Recusar).await
    }

    /// Not by the front's door: what a test orders and counts is its partner's.
    async fn answer(&self, id_proposta_svc: &str, acao: Acao) -> Result<Webhook, NotAnswered> {
        let not = |status, code: &str| NotAnswered { status, code: code.to_owned() };
        let unknown = move || not(404, "proposta_nao_encontrada");
        let id = PropostaId::parse(id_proposta_svc).ok_or_else(unknown)?;
        let (app, clock) = (Arc::clone(&self.app), self.clock.clone());
        let answered = self.runtime.spawn(async move {
            let found = app.store.find(id).await.ok().flatten().ok_or_else(unknown)?;
            match app.decide(found, acao).await {
                Ok(Decided::Now(_) | Decided::Before(_)) => {}
                Ok(Decided::Otherwise(_)) => return Err(not(409, "proposta_ja_respondida")),
                Err(_) => return Err(not(503, "indisponivel")),
            }
            let delivery = app.store.look(id, |_, _, delivery| delivery.cloned()).await.ok().flatten().flatten();
            let delivery = delivery.ok_or_else(unknown)?;
            let partners = app.config.partners.current();
            let signer = partners.get(delivery.client_id()).ok_or_else(unknown)?.signer();
            Ok(Webhook::of(&delivery, signer, clock.now()))
        });
        answered.await.expect("the fake's thread lives as long as the fake")
    }

    /// Orders faults for the next requests of a route, one each.
    pub fn next(&self, route: Route, faults: impl IntoIterator<Item = Fault>) {
        self.front.next(route, faults);
    }

    /// Orders a fault for every request of a route that has no other; `None` takes it back.
    pub fn always(&self, route: Route, fault: impl Into<Option<Fault>>) {
        self.front.always(route, fault.into());
    }

    /// Orders a fault for the next notification that is posted to an `http://` address; over TLS nobody can spoil one.
    pub fn next_webhook(&self, fault: WebhookFault) {
        self.mail.next(fault);
    }

    /// Lets every token that was given out so far be expired, as far as the server goes; clients do not know.
    pub fn expire_tokens(&self) {
        let long_ago = self.clock.now() - Duration::from_secs(2 * u64::from(TOKEN_LIFE_SECONDS));
        let token = self.app.tokens.issue(DEMO_CLIENT_ID, [0; 16], long_ago.into()).expect("a token is signed");
        self.front.replace_tokens(&token);
    }

    /// Lets every token that was given out so far be invalid.
    pub fn revoke_tokens(&self) {
        self.front.replace_tokens("revogado");
    }

    /// Whether the server promises that repeating a proposal is harmless (C9); it does unless told not to.
    pub fn promise(&self, promises: bool) {
        self.front.promise(promises);
    }

    /// Closes every connection that is idle, as a server does after a while.
    pub fn close_connections(&self) {
        self.front.close_connections();
    }

    /// The requests of a route so far, as they came.
    pub fn requests(&self, route: Route) -> Vec<Request<Bytes>> {
        self.front.requests(route)
    }

    /// How often anybody tried to log in.
    pub fn logins(&self) -> usize {
        self.requests(Route::Login).len()
    }

    /// How many proposals were stored under a partner's id: 1 at most, or the service has a fault.
    pub fn effects(&self, id_proposta_parceiro: &str) -> usize {
        self.front.effects(id_proposta_parceiro)
    }

    /// The notifications that were posted so far, as they went out.
    pub fn webhooks(&self) -> Vec<Webhook> {
        self.mail.sent()
    }

    /// Waits until a route has had so many requests.
    pub async fn arrived(&self, route: Route, requests: usize) {
        self.front.arrived(route, requests).await;
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // What went wrong there has been seen by whoever called.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fake").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

async fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a free port")
}

/// Lets the server see that the clock was moved.
async fn ring(app: Arc<App>, clock: FakeClock) {
    let mut moved = clock.moved();
    while moved.changed().await.is_ok() {
        app.wake_webhooks.notify_one();
        app.wake_messages.notify_one();
    }
}
