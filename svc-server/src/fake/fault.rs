//! What can go wrong between a partner and the service, to be ordered.

use std::time::Duration;

use hyper::header::HeaderValue;
use hyper::{Method, Request};

/// A call of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Route {
    /// `POST /v1/login`
    Login,
    /// `POST /v1/propostas`
    Create,
    /// `GET /v1/propostas/{id_proposta_svc}`
    Show,
    /// `GET /v1/propostas?id_proposta_parceiro=…`
    Find,
    /// `POST /v1/propostas/{id_proposta_svc}/reenviar-webhook`
    ResendWebhook,
    /// `POST /v1/propostas/{id_proposta_svc}/reenviar-mensagem`
    ResendMessage,
    /// `/confirmar/{id_proposta_svc}`
    Confirm,
    /// Everything else.
    Other,
}

impl Route {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/v1/login") => Self::Login,
            (&Method::POST, "/v1/propostas") => Self::Create,
            (&Method::GET, "/v1/propostas") => Self::Find,
            (&Method::POST, path) if path.ends_with("/reenviar-webhook") => Self::ResendWebhook,
            (&Method::POST, path) if path.ends_with("/reenviar-mensagem") => Self::ResendMessage,
            (&Method::GET, path) if path.starts_with("/v1/propostas/") => Self::Show,
            (_, path) if path.starts_with("/confirmar/") => Self::Confirm,
            _ => Self::Other,
        }
    }
}

/// What becomes of a request, instead of a plain answer.
///
/// ```
/// use std::time::Duration;
/// use svc_server::fake::{Fake, Fault, Route};
/// let fake = Fake::start();
/// fake.next(Route::Create, [
///     Fault::status(503).retry_after("2"),  // refused: nothing is stored
///     Fault::hang_up().after_the_effect(),  // stored, and nobody is told
///     Fault::delay(Duration::from_secs(20)), // the true answer, too late for most
/// ]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(crate) kind: Kind,
    /// Whether the request reaches the server before.
    pub(crate) effect: bool,
    pub(crate) retry_after: Option<HeaderValue>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    None,
    Status(u16),
    Html(u16),
    Redirect(HeaderValue),
    BrokenJson,
    Body(String),
    Delay(Duration),
    Hang,
    HangUp,
    Stall,
    Trickle,
}

impl Fault {
    const fn new(kind: Kind, effect: bool) -> Self {
        Self { kind, effect, retry_after: None }
    }

    /// Nothing goes wrong: for the second of three, say.
    pub const fn none() -> Self {
        Self::new(Kind::None, true)
    }

    /// An error with this status and no effect, in the service's words for it; where it has none, in RFC 9457's.
    ///
    /// # Panics
    ///
    /// For a number that is no final status.
    pub const fn status(status: u16) -> Self {
        assert!(status >= 200 && status < 1000, "a final status has three digits, of which the first is not 1");
        Self::new(Kind::Status(status), false)
    }

    /// A gateway's page in HTML with this status, such as 502, and no effect.
    ///
    /// # Panics
    ///
    /// For a number that is no final status.
    pub const fn html(status: u16) -> Self {
        assert!(status >= 200 && status < 1000, "a final status has three digits, of which the first is not 1");
        Self::new(Kind::Html(status), false)
    }

    /// 302 to another address, and no effect.
    ///
    /// # Panics
    ///
    /// For a text that cannot stand in a header.
    pub fn redirect(to: impl Into<String>) -> Self {
        Self::new(Kind::Redirect(header(to.into())), false)
    }

    /// The effect, and a 200 whose JSON breaks off.
    pub const fn broken_json() -> Self {
        Self::new(Kind::BrokenJson, true)
    }

    /// The effect, and the true status with another body: what a later version of the service may say.
    pub fn body(json: impl Into<String>) -> Self {
        Self::new(Kind::Body(json.into()), true)
    }

    /// The true answer after a while, by which the fake's clock is put forward.
    pub const fn delay(time: Duration) -> Self {
        Self::new(Kind::Delay(time), true)
    }

    /// No answer ever, on a connection that stays open, and no effect.
    pub const fn hang() -> Self {
        Self::new(Kind::Hang, false)
    }

    /// The connection is closed without an answer, and without effect.
    pub const fn hang_up() -> Self {
        Self::new(Kind::HangUp, false)
    }

    /// The true answer's headers, and never its body.
    pub const fn stall() -> Self {
        Self::new(Kind::Stall, true)
    }

    /// The true answer, one byte a second of the fake's clock, which is put forward with each.
    pub const fn trickle() -> Self {
        Self::new(Kind::Trickle, true)
    }

    /// The same after the request had its effect.
    #[must_use]
    pub const fn after_the_effect(mut self) -> Self {
        self.effect = true;
        self
    }

    /// The same with a `Retry-After`: seconds, an HTTP date, or anything else.
    ///
    /// # Panics
    ///
    /// For a text that cannot stand in a header.
    #[must_use]
    pub fn retry_after(mut self, value: impl Into<String>) -> Self {
        self.retry_after = Some(header(value.into()));
        self
    }
}

fn header(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("a text that can stand in a header")
}
