//! What WhatsApp tells of messages that it took: `GET` and `POST /whatsapp/webhook`, off unless both settings are given.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use hyper::Request;
use hyper::body::{Body, Incoming};
use serde_json::Value;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use svc_core::{Mensagem, Noticia, SendOutcome};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::is_id;
use crate::app::App;
use crate::detached::detached;
use crate::key::ServerKey;
use crate::message;
use crate::reply::{Problem, Reply, text};
use crate::request::{field, read_body_up_to};
use crate::sender::Sender;
use crate::store::StoreError;

/// Meta sends up to this in one request.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Larger bodies than any other route takes are read so many at a time.
const SMALL_BODY_BYTES: u64 = 64 * 1024;
const LARGE_BODIES: usize = 8;
/// For a place, and for the record of a message that news have overtaken.
const PATIENCE: Duration = Duration::from_secs(1);

/// How WhatsApp's statuses are told from anybody else's.
pub struct WhatsAppWebhook {
    app_secret: ServerKey,
    verify_token: String,
    large_bodies: Semaphore,
}

impl WhatsAppWebhook {
    /// The app's secret at Meta, and the token that was made up for its subscription.
    pub fn new(app_secret: ServerKey, verify_token: impl Into<String>) -> Self {
        Self { app_secret, verify_token: verify_token.into(), large_bodies: Semaphore::new(LARGE_BODIES) }
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
    fn is_signed(&self, signature: &[u8], body: &[u8]) -> bool {
        let mac = Hmac::<Sha256>::new_from_slice(self.app_secret.bytes());
        mac.is_ok_and(|mac| mac.chain_update(body).verify_slice(signature).is_ok())
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

    /// `POST /whatsapp/webhook`: news of messages. What is not understood is taken and left alone, for it would be sent again;
    /// what could not be stored is refused, so that it is.
    pub(crate) async fn whatsapp_statuses(self: Arc<Self>, request: Request<Incoming>) -> Result<Reply, Problem> {
        let webhook = self.config.whatsapp_webhook.as_ref().ok_or(Problem::RouteNotFound)?;
        let (head, body) = request.into_parts();
        let signature = head.headers.get("x-hub-signature-256").and_then(|signature| signature.to_str().ok());
        let signature = signature.and_then(|signature| unhex(signature.strip_prefix("sha256=")?));
        let signature = signature.ok_or(Problem::Credentials)?;
        // Whose a body is is known only at its end, so large ones wait for each other, and for nobody long.
        let is_small = body.size_hint().upper().is_some_and(|length| length <= SMALL_BODY_BYTES);
        let _reading = match is_small {
            true => None,
            false => {
                Some(timeout(PATIENCE, webhook.large_bodies.acquire()).await.map_err(|_| Problem::Unavailable(1))?)
            }
        };
        let body = read_body_up_to(MAX_BODY_BYTES, &head.headers, body).await?;
        if !webhook.is_signed(&signature, &body) {
            return Err(Problem::Credentials);
        }
        let news: Value = serde_json::from_slice(&body).unwrap_or_default();
        let app = Arc::clone(&self);
        let all_stored = detached(async move {
            let (mut all_stored, mut patience) = (true, true);
            for status in statuses(&news) {
                match app.told(status, &mut patience).await {
                    Ok(stored) => all_stored &= stored,
                    // One record is no reason to leave the others.
                    Err(StoreError::Corrupt | StoreError::Rejected) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(all_stored)
        });
        if all_stored.await? { Ok(text(String::new())) } else { Err(Problem::Unavailable(60)) }
    }

    /// One of them. It changes what is stored of the message, unless that says more already; `false` while an attempt of it is
    /// under way.
    async fn told(&self, status: &Value, patience: &mut bool) -> Result<bool, StoreError> {
        let text = |name| status.get(name).and_then(Value::as_str);
        let (Some(envio), Some(word)) = (text("id").filter(|id| is_id(id)), text("status")) else { return Ok(true) };
        let noticia = match word {
            "delivered" => Noticia::Delivered,
            "read" => Noticia::Read,
            "failed" => {
                let Sender::WhatsApp(whatsapp) = &self.config.sender else { return Ok(true) };
                // No answer of HTTP says more than the code.
                let error = status.get("errors").and_then(|errors| errors.get(0));
                Noticia::Failed(whatsapp.refused(error, 0, &self.config.clock))
            }
            _ => return Ok(true),
        };
        let mut found = self.store.proposta_of(envio).await?;
        if found.is_none() && std::mem::take(patience) {
            // News can overtake the record of the message that they are of. Those of other programs' messages wait once.
            tokio::time::sleep(PATIENCE).await;
            found = self.store.proposta_of(envio).await?;
        }
        let Some(id) = found else { return Ok(true) };
        let (jitter, now) = (self.jitter(), self.config.clock.now());
        let change = |mensagem: Mensagem| mensagem.told(envio, noticia.clone(), &message::SCHEDULE, jitter, now);
        let changed = self.store.change(id, change).await?;
        if let Noticia::Failed(SendOutcome::Failed(motivo) | SendOutcome::Refused(motivo)) = &noticia {
            tracing::warn!(proposta = self.links.log_name(id), %motivo, "WhatsApp says that a message did not come");
            self.wake_messages.notify_one();
        }
        Ok(changed)
    }
}

/// Those of Meta's envelope, whatever else it holds.
fn statuses(news: &Value) -> impl Iterator<Item = &Value> {
    each(news, "entry")
        .flat_map(|entry| each(entry, "changes"))
        .flat_map(|change| change.get("value").into_iter().flat_map(|value| each(value, "statuses")))
}

fn each<'v>(of: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    of.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks_exact(2);
    let is_even = digits.remainder().is_empty() && text.is_ascii();
    let bytes = digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect();
    is_even.then_some(bytes).flatten()
}
