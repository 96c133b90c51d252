//! What nobody must read: wiped from memory when dropped, never printed, never compared. The copies that go into a request
//! are the HTTP library's, and are not wiped.

use std::fmt;

use zeroize::Zeroizing;

/// A partner's `client_secret`.
///
/// ```
/// use svc_client::ClientSecret;
/// assert_eq!(format!("{:?}", ClientSecret::from("segredo")), "ClientSecret");
/// ```
#[derive(Clone)]
pub struct ClientSecret(Zeroizing<String>);

impl ClientSecret {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for ClientSecret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl From<&str> for ClientSecret {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSecret")
    }
}

/// The service's `access_token`.
pub(crate) struct AccessToken(Zeroizing<String>);

impl AccessToken {
    pub(crate) fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken")
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Display;

    use serde::Serialize;
    use static_assertions::assert_not_impl_any;

    use super::*;

    assert_not_impl_any!(ClientSecret: Display, PartialEq, Serialize);
    assert_not_impl_any!(AccessToken: Display, PartialEq, Serialize, Clone);

    #[test]
    fn w17_debug_is_the_type_s_name() {
        assert_eq!(format!("{:?}", ClientSecret::from("segredo")), "ClientSecret");
        assert_eq!(format!("{:?}", AccessToken::new("segredo".to_owned())), "AccessToken");
    }
}
