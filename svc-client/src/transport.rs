//! How a request gets to the service and its answer back: a trait, so that the HTTP library is the user's choice.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// Sends requests. Deadlines, retries, tokens and the cap on answers are the client's; a transport only sends.
///
/// It must follow no redirects, and must not send a request a second time by itself once bytes of it went out.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use svc_client::Client;
/// use svc_client::transport::{Body, SendError, Transport};
///
/// /// Answers everything by itself, as a unit test may want it.
/// struct Nobody;
///
/// impl Transport for Nobody {
///     async fn send(&self, _request: Request<Bytes>) -> Result<Response<Body>, SendError> {
///         Err(SendError::not_sent("nobody is there"))
///     }
/// }
///
/// let client = Client::builder("https://propostas.example.com", "parceiro", "segredo").transport(Nobody).build();
/// assert!(client.is_ok());
/// ```
pub trait Transport: Send + Sync + 'static {
    /// Sends a request; completes when the answer's headers are there.
    ///
    /// # Errors
    ///
    /// [`SendError`] says whether bytes of the request may have reached the service: everything hangs on that.
    fn send(&self, request: Request<Bytes>) -> impl Future<Output = Result<Response<Body>, SendError>> + Send;
}

/// The body of an answer, on its way.
pub struct Body(UnsyncBoxBody<Bytes, Box<dyn StdError + Send + Sync>>);

impl Body {
    /// Takes any body of the `http-body` crate, such as hyper's and reqwest's.
    pub fn new<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static,
    {
        Self(body.map_err(Into::into).boxed_unsync())
    }

    /// The next piece of it; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, Box<dyn StdError + Send + Sync>>> {
        loop {
            match self.0.frame().await? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) => return Some(Ok(data)),
                    Err(_trailers) => {}
                },
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Body")
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub struct SendError {
    pub(crate) kind: SendErrorKind,
    pub(crate) cause: Box<dyn StdError + Send + Sync>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendErrorKind {
    NotSent,
    Certificate,
    Broken,
}

impl SendError {
    /// No connection came about, and no byte of the request went out. It is tried again.
    pub fn not_sent(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind: SendErrorKind::NotSent, cause: cause.into() }
    }

    /// The same, because a certificate is wrong. It is not tried again: that does not pass by itself.
    pub fn certificate(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind: SendErrorKind::Certificate, cause: cause.into() }
    }

    /// The connection broke after bytes of the request may have gone out. What became of it is unknown.
    pub fn broken(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind: SendErrorKind::Broken, cause: cause.into() }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            SendErrorKind::NotSent => "no connection",
            SendErrorKind::Certificate => "certificate is not trusted",
            SendErrorKind::Broken => "connection broke",
        })
    }
}

impl StdError for SendError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.cause)
    }
}

/// Any transport behind a pointer.
pub(crate) trait AnyTransport: Send + Sync {
    fn send_boxed(
        &self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Body>, SendError>> + Send + '_>>;
}

impl<T: Transport> AnyTransport for T {
    fn send_boxed(
        &self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Body>, SendError>> + Send + '_>> {
        Box::pin(self.send(request))
    }
}
