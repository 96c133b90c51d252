//! What a partner sends to log in, and what it gets (interface 2.1, 2.2).

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use zeroize::Zeroizing;

use crate::campo::{Campo, LOGIN};
use crate::error::{Codigo, Invalid};
use crate::json::{self, Leaf};
use crate::policy::Perfil;

/// Life of an access token, in seconds (interface 2.2).
pub const TOKEN_LIFE_SECONDS: u32 = 3_600;

/// The body of `POST /v1/login`.
///
/// ```
/// use svc_core::LoginRequest;
/// let login = LoginRequest::from_json(br#"{"client_id":"parceiro","client_secret":"segredo"}"#).unwrap();
/// assert_eq!(login.client_id(), "parceiro");
/// assert_eq!(login.client_secret(), "segredo");
///
/// let invalid = LoginRequest::from_json(br#"{"client_id":7}"#).unwrap_err();
/// assert_eq!(invalid.to_string(), "2 violations: /client_id tipo_invalido, /client_secret campo_obrigatorio");
/// ```
#[derive(Clone)]
pub struct LoginRequest {
    client_id: String,
    client_secret: Zeroizing<String>,
}

impl LoginRequest {
    /// Checks that both fields are text and not blank; [`Invalid`] names each that is not (C23).
    pub fn from_json(body: &[u8]) -> Result<Self, Invalid> {
        let (mut leaves, mut findings) = json::read(body, &LOGIN)?;
        let mut text = |campo| match leaves.take(campo) {
            Leaf::Text(text) => text.into_owned(),
            Leaf::Absent => {
                findings.add(campo, Codigo::CampoObrigatorio);
                String::new()
            }
            // Noted by the reader; the findings below refuse the request.
            Leaf::Number(_) | Leaf::Object | Leaf::Wrong => String::new(),
        };
        let (client_id, client_secret) = (text(Campo::ClientId), Zeroizing::new(text(Campo::ClientSecret)));
        findings.settle(Perfil::Homologacao)?;
        Ok(Self { client_id, client_secret })
    }

    /// The partner's identifier.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// The partner's secret, to be compared in constant time.
    pub fn client_secret(&self) -> &str {
        &self.client_secret
    }
}

impl fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginRequest").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// The answer to a login (interface 2.2).
///
/// ```
/// use svc_core::LoginResponse;
/// let answer = LoginResponse::bearer("eyJ…".to_owned());
/// assert_eq!(
///     serde_json::to_string(&answer).unwrap(),
///     r#"{"access_token":"eyJ…","token_type":"Bearer","expires_in":3600}"#
/// );
/// assert!(serde_json::from_str::<LoginResponse>(r#"{"access_token":"eyJ…"}"#).is_err()); // no life stated
/// let other = r#"{"access_token":"eyJ…","token_type":"Bearer","expires_in":3600.0,"novo":null}"#;
/// assert_eq!(serde_json::from_str::<LoginResponse>(other).unwrap().expires_in, 3_600);
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoginResponse {
    /// The token, to be sent as `Authorization: Bearer …`.
    pub access_token: String,
    /// Always `Bearer`.
    pub token_type: String,
    /// Seconds until it ends, counted from its issue. Read from any number that is not negative, parts of a second left
    /// out.
    #[serde(deserialize_with = "seconds")]
    pub expires_in: u32,
}

/// The interface says "number", and some languages have but one kind of them.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number < 0.0 {
        return Err(D::Error::custom("a time that is negative"));
    }
    // Saturates; what is no number is none in JSON.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked, and saturating by definition"
    )]
    Ok(number as u32)
}

impl LoginResponse {
    /// A bearer token with the interface's life of 3,600 s.
    pub fn bearer(access_token: String) -> Self {
        Self { access_token, token_type: "Bearer".to_owned(), expires_in: TOKEN_LIFE_SECONDS }
    }
}

impl fmt::Debug for LoginResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginResponse").field("expires_in", &self.expires_in).finish_non_exhaustive()
    }
}
