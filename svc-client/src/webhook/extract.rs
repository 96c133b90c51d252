//! The notification as an argument of an axum handler.

use axum_core::extract::{FromRef, FromRequest, Request};
use axum_core::response::{IntoResponse, Response};
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::webhook::{Notificacao, ParseError, Verifier};

/// Largest body that is read of a notification; one of the service has less than 2 KiB.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// A believed notification, for axum: reads at most 64 KiB, verifies the raw bytes, then parses them.
///
/// Needs a [`Verifier`] in the router's state. Who sends anything else gets a bare 400, 401 or 413.
///
/// ```
/// use axum::Router;
/// use axum::http::StatusCode;
/// use axum::routing::post;
/// use svc_client::webhook::{Secret, SignedNotificacao, Verifier};
///
/// async fn receive(SignedNotificacao(notificacao): SignedNotificacao) -> StatusCode {
///     println!("{} is {}", notificacao.id_proposta_parceiro, notificacao.status);
///     StatusCode::NO_CONTENT // once it is stored
/// }
///
/// let verifier = Verifier::new(&Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap());
/// let app: Router = Router::new().route("/webhooks/svc", post(receive)).with_state(verifier);
/// ```
#[derive(Clone, Debug)]
pub struct SignedNotificacao(pub Notificacao);

/// Why a handler was not called. As an answer it is a status and nothing else; for your log it is a
/// [`code`](Self::code) and a text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignedNotificacaoRejection {
    /// 413
    #[error("body is longer than {MAX_BODY_BYTES} bytes")]
    TooLong,
    /// 400: the body broke off.
    #[error("body did not come whole")]
    Incomplete,
    /// 401 for what is not believed; 400 for what is signed rightly and is no notification.
    #[error(transparent)]
    Parse(ParseError),
}

impl SignedNotificacaoRejection {
    /// A stable name for logs and metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLong => "body_too_long",
            Self::Incomplete => "body_incomplete",
            Self::Parse(error) => error.code(),
        }
    }

    /// The status that the sender gets.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Incomplete | Self::Parse(ParseError::Body(_)) => StatusCode::BAD_REQUEST,
            Self::Parse(ParseError::Verify(_)) => StatusCode::UNAUTHORIZED,
        }
    }
}

impl IntoResponse for SignedNotificacaoRejection {
    fn into_response(self) -> Response {
        self.status().into_response()
    }
}

impl<S> FromRequest<S> for SignedNotificacao
where
    Verifier: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = SignedNotificacaoRejection;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                SignedNotificacaoRejection::TooLong
            } else {
                SignedNotificacaoRejection::Incomplete
            }
        })?;
        let verifier = Verifier::from_ref(state);
        verifier.parse(&head.headers, &body.to_bytes()).map(Self).map_err(SignedNotificacaoRejection::Parse)
    }
}
