//! Notifications of the fake: as they are signed, and spoiled to order on their way out.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use svc_core::{
    Delivery, EventoId, Mensagem, Proposta, SVC_SIGNATURE, Secret, Signer, WEBHOOK_ID, WEBHOOK_SIGNATURE,
    WEBHOOK_TIMESTAMP,
};
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, copy_bidirectional, duplex};
use tokio::net::TcpStream;

use crate::app::App;
use crate::fake::FakeClock;
use crate::partners::{DEMO_CLIENT_ID, DEMO_WEBHOOK_SECRET};
use crate::seams::Transport;

/// A notification as it goes out: header pairs, names in lower case, and the body's bytes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Webhook {
    /// The headers that the service sets.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: Bytes,
    signer: Signer,
    signed_at: SystemTime,
}

/// What becomes of a notification on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookFault {
    /// It comes twice.
    Duplicate,
    /// It comes so much later, signed then; the fake's clock is put forward.
    Late(Duration),
    /// It is signed with another secret.
    WrongSignature,
    /// It is signed rightly, ten minutes ago: a recorded one, sent again.
    StaleTimestamp,
    /// Its body was changed behind the signature, the accepted proposal into a refused one or the other way round.
    AlteredBody,
}

impl Webhook {
    /// A delivery's next attempt.
    pub(crate) fn of(delivery: &Delivery, signer: &Signer, now: SystemTime) -> Self {
        let request = delivery.request(signer, now.into());
        let headers = request.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { headers, body: Bytes::copy_from_slice(request.body), signer: signer.clone(), signed_at: now }
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| &**value)
    }

    /// The same, spoiled: for a test of a receiver that must refuse it, or must not work it off twice.
    #[must_use]
    pub fn with(mut self, fault: WebhookFault) -> Self {
        match fault {
            WebhookFault::Duplicate => self,
            WebhookFault::Late(time) => self.signed_again(time, Duration::ZERO),
            WebhookFault::StaleTimestamp => self.signed_again(Duration::ZERO, STALE),
            WebhookFault::WrongSignature => {
                self.signer = Signer::new(&Secret::from_raw_key_bytes(b"outro segredo").expect("it is not empty"));
                self.signed_again(Duration::ZERO, Duration::ZERO)
            }
            WebhookFault::AlteredBody => {
                let text = String::from_utf8_lossy(&self.body);
                let (accepted, refused) = ("\"ACEITO\"", "\"RECUSADO\"");
                let other = if text.contains(accepted) { (accepted, refused) } else { (refused, accepted) };
                self.body = text.replacen(other.0, other.1, 1).into();
                self
            }
        }
    }

    fn signed_again(mut self, later: Duration, earlier: Duration) -> Self {
        self.signed_at = self.signed_at + later - earlier;
        let seconds = self.signed_at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let id = self.header(WEBHOOK_ID).unwrap_or_default().to_owned();
        for (name, value) in &mut self.headers {
            match &**name {
                SVC_SIGNATURE => *value = self.signer.svc_signature(&self.body),
                WEBHOOK_TIMESTAMP => *value = seconds.to_string(),
                WEBHOOK_SIGNATURE => *value = self.signer.webhook_signature(&id, seconds, &self.body),
                _ => {}
            }
        }
        self
    }
}

/// How old a stale timestamp is; receivers allow five minutes.
const STALE: Duration = Duration::from_secs(600);
/// Bytes on their way between the server and the fake.
const PIPE: usize = 64 * 1024;
/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// The way out of the fake.
pub(crate) struct Mail {
    clock: FakeClock,
    /// The server, once there is one: whose secrets sign what is signed again.
    app: OnceLock<Arc<App>>,
    faults: Mutex<VecDeque<WebhookFault>>,
    sent: Mutex<Vec<Webhook>>,
}

impl Mail {
    pub(crate) fn new(clock: FakeClock) -> Self {
        Self { clock, app: OnceLock::new(), faults: Mutex::default(), sent: Mutex::default() }
    }

    pub(crate) fn of(&self, app: Arc<App>) {
        let _ = self.app.set(app);
    }

    /// What signs an event's notifications.
    async fn signer(&self, event: Option<&str>) -> Signer {
        let client_id = match (self.app.get(), event.and_then(EventoId::parse)) {
            (Some(app), Some(event)) => {
                let look = |proposta: &Proposta, _: &Mensagem, _: Option<&Delivery>| proposta.client_id().to_owned();
                app.store.look(event.proposta(), look).await.ok().flatten()
            }
            _ => None,
        };
        let client_id = client_id.as_deref().unwrap_or(DEMO_CLIENT_ID);
        let partners = self.app.get().map(|app| app.config.partners.current());
        let signer = partners.as_ref().and_then(|partners| Some(partners.get(client_id)?.signer().clone()));
        signer.unwrap_or_else(|| Signer::new(&Secret::parse(DEMO_WEBHOOK_SECRET).expect("a constant of this crate")))
    }

    pub(crate) fn next(&self, fault: WebhookFault) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push_back(fault);
    }

    pub(crate) fn sent(&self) -> Vec<Webhook> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Connections to receivers, with the fake in between.
    pub(crate) fn transport(self: &Arc<Self>) -> Transport {
        let mail = Arc::clone(self);
        Transport::from_fn(move |address| {
            let mail = Arc::clone(&mail);
            async move {
                let receiver = TcpStream::connect(address).await?;
                let (server, between) = duplex(PIPE);
                tokio::spawn(mail.carry(between, receiver));
                Ok(server)
            }
        })
    }

    /// What the server sends on one connection. What fails here is one of its ends, and shows at the other.
    async fn carry(self: Arc<Self>, server: DuplexStream, mut receiver: TcpStream) -> io::Result<()> {
        let mut server = BufReader::new(server);
        if server.fill_buf().await?.first() == Some(&TLS_HANDSHAKE) {
            // Nobody reads that on the way.
            copy_bidirectional(&mut server, &mut receiver).await?;
            return Ok(());
        }
        let (sender, connection) = handshake(TokioIo::new(receiver)).await.map_err(io::Error::other)?;
        let connection = tokio::spawn(connection);
        let sender = Arc::new(tokio::sync::Mutex::new(sender));
        let service = service_fn(move |request| {
            let (mail, sender) = (Arc::clone(&self), Arc::clone(&sender));
            async move { mail.post(request, &mut *sender.lock().await).await }
        });
        let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service).await;
        connection.abort();
        served.map_err(io::Error::other)
    }

    /// One attempt. Of a duplicate the server hears the second answer.
    async fn post(
        &self,
        request: Request<Incoming>,
        sender: &mut SendRequest<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let (mut head, body) = request.into_parts();
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let event = head.headers.get(WEBHOOK_ID).and_then(|event| event.to_str().ok());
        let mut webhook = Webhook {
            signer: self.signer(event).await,
            headers: head.headers.iter().map(text).collect(),
            body: body.collect().await?.to_bytes(),
            signed_at: self.clock.now(),
        };
        let fault = self.faults.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(fault) = fault {
            if let WebhookFault::Late(time) = fault {
                self.clock.advance(time);
            }
            webhook = webhook.with(fault);
            for (name, value) in &webhook.headers {
                let pair = (HeaderName::try_from(name), HeaderValue::try_from(value));
                if let (Ok(name), Ok(value)) = pair {
                    head.headers.insert(name, value);
                }
            }
            // The altered body has another.
            head.headers.remove(CONTENT_LENGTH);
        }
        let times = if fault == Some(WebhookFault::Duplicate) { 2 } else { 1 };
        let mut answer = None;
        for _ in 0..times {
            if let Some(answer) = answer.take() {
                // Read to its end, so that the connection can be used again.
                let _ = BodyExt::collect(Response::into_body(answer)).await;
            }
            sender.ready().await?;
            self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(webhook.clone());
            let again = Request::from_parts(head.clone(), Full::new(webhook.body.clone()));
            answer = Some(sender.send_request(again).await?);
        }
        Ok(answer.expect("it was sent once at least"))
    }
}
