//! What WhatsApp tells of messages that it took: `GET` and `POST /whatsapp/webhook`, off unless both settings are given.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use hyper::Request;
use hyper::body::Incoming;
use serde::Deserialize;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use svc_core::{Mensagem, Noticia};
use tokio::sync::Semaphore;

use super::{judge_late, text_code};
use crate::app::{App, in_time};
use crate::key::ServerKey;
use crate::message;
use crate::reply::{Problem, Reply, text};
use crate::request::{field, read_body_up_to};

/// Meta sends up to this in one request.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Bodies that are read at a time: whose they are is known only at their end.
const BODIES: usize = 8;

/// How WhatsApp's statuses are told from anybody else's.
pub struct WhatsAppWebhook {
    app_secret: ServerKey,
    verify_token: String,
    bodies: Semaphore,
}

impl WhatsAppWebhook {
    /// The app's secret at Meta, and the token that was made up for its subscription.
    pub fn new(app_secret: ServerKey, verify_token: impl Into<String>) -> Self {
        Self { app_secret, verify_token: verify_token.into(), bodies: Semaphore::new(BODIES) }
    }

    /// The challenge of a subscription, if it is ours.
    fn challenge(&self, query: &str) -> Option<String> {
        let one = |name| field(query, name).ok().flatten();
        let token = one("hub.verify_token")?;
        let is_ours =
            one("hub.mode")? == "subscribe" && bool::from(token.as_bytes().ct_eq(self.verify_token.as_bytes()));
        one("hub.challenge").filter(|_| is_ours)
    }

    /// Whether a body is signed with the app's secret, over the bytes as they came.
    fn is_signed(&self, signature: Option<&str>, body: &[u8]) -> bool {
        let mac = Hmac::<Sha256>::new_from_slice(self.app_secret.bytes());
        let given = signature.and_then(|signature| unhex(signature.strip_prefix("sha256=")?));
        mac.is_ok_and(|mac| given.is_some_and(|given| mac.chain_update(body).verify_slice(&given).is_ok()))
    }
}

impl fmt::Debug for WhatsAppWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WhatsAppWebhook(***)")
    }
}

impl App {
    /// `GET /whatsapp/webhook`: Meta asks whether the subscription is wanted.
    pub(crate) fn whatsapp_challenge(&self, request: &Request<Incoming>) -> Result<Reply, Problem> {
        let webhook = self.config.whatsapp_webhook.as_ref().ok_or(Problem::RouteNotFound)?;
        webhook.challenge(request.uri().query().unwrap_or_default()).map(text).ok_or(Problem::Credentials)
    }

    /// `POST /whatsapp/webhook`: news of messages. What is not known is taken and left alone, for it would be sent again.
    pub(crate) async fn whatsapp_statuses(self: Arc<Self>, request: Request<Incoming>) -> Result<Reply, Problem> {
        let webhook = self.config.whatsapp_webhook.as_ref().ok_or(Problem::RouteNotFound)?;
        let _reading = webhook.bodies.try_acquire().map_err(|_| Problem::Unavailable(1))?;
        let (head, body) = request.into_parts();
        let signature = head.headers.get("x-hub-signature-256").and_then(|signature| signature.to_str().ok());
        let body = read_body_up_to(MAX_BODY_BYTES, &head.headers, body).await?;
        if !webhook.is_signed(signature, &body) {
            return Err(Problem::Credentials);
        }
        let news: News = serde_json::from_slice(&body).unwrap_or_default();
        in_time(async {
            for status in news.statuses() {
                self.told(&status).await?;
            }
            Ok(text(String::new()))
        })
        .await
    }

    /// One of them. It changes what is stored of the message, unless that says more already.
    async fn told(&self, status: &Status) -> Result<(), Problem> {
        let noticia = match status.status.as_str() {
            "delivered" => Noticia::Delivered,
            "read" => Noticia::Read,
            "failed" => Noticia::Failed(judge_late(status.errors.first().and_then(|error| text_code(&error.code)))),
            _ => return Ok(()),
        };
        let Some(id) = self.store.proposta_of(&status.id).await? else { return Ok(()) };
        let (jitter, now) = (self.jitter(), self.config.clock.now());
        let change = |mensagem: Mensagem| mensagem.told(&status.id, noticia.clone(), &message::SCHEDULE, jitter, now);
        self.store.change(id, change).await?;
        if let Noticia::Failed(_) = noticia {
            self.wake_messages.notify_one();
            tracing::warn!(proposta = self.links.log_name(id), "WhatsApp says that a message did not come");
        }
        Ok(())
    }
}

/// As much of Meta's envelope as is needed; all of it may be absent.
#[derive(Debug, Default, Deserialize)]
struct News {
    #[serde(default)]
    entry: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(default)]
    changes: Vec<Change>,
}

#[derive(Debug, Deserialize)]
struct Change {
    #[serde(default)]
    value: Value,
}

#[derive(Debug, Default, Deserialize)]
struct Value {
    #[serde(default)]
    statuses: Vec<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Status {
    id: String,
    status: String,
    #[serde(default)]
    errors: Vec<StatusError>,
}

#[derive(Debug, Deserialize)]
struct StatusError {
    #[serde(default)]
    code: serde_json::Value,
}

impl News {
    /// Those that can be read; one that cannot is no reason to leave the others.
    fn statuses(self) -> impl Iterator<Item = Status> {
        let changes = self.entry.into_iter().flat_map(|entry| entry.changes);
        let statuses = changes.flat_map(|change| change.value.statuses);
        statuses.filter_map(|status| serde_json::from_value(status).ok())
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks_exact(2);
    let is_even = digits.remainder().is_empty() && text.is_ascii();
    let bytes = digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect();
    is_even.then_some(bytes).flatten()
}
