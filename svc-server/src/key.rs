//! A secret key of the server: of tokens, or of links and digests.

use std::fmt;

use svc_core::{MIN_KEY_BYTES, ShortKey};
use zeroize::Zeroizing;

use crate::seams::{NoRandomness, Random};

/// A secret key of the server, at least 32 bytes.
#[derive(Clone)]
pub struct ServerKey(Zeroizing<Vec<u8>>);

impl ServerKey {
    /// Takes the key's bytes.
    ///
    /// ```
    /// use svc_core::ShortKey;
    /// use svc_server::ServerKey;
    /// assert!(ServerKey::new(vec![7; 32]).is_ok());
    /// assert_eq!(ServerKey::new(vec![7; 31]).unwrap_err(), ShortKey);
    /// ```
    pub fn new(bytes: Vec<u8>) -> Result<Self, ShortKey> {
        if bytes.len() < MIN_KEY_BYTES { Err(ShortKey) } else { Ok(Self(Zeroizing::new(bytes))) }
    }

    /// A key that nobody has seen.
    pub(crate) fn fresh(random: &Random) -> Result<Self, NoRandomness> {
        Ok(Self(Zeroizing::new(random.bytes::<MIN_KEY_BYTES>()?.to_vec())))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerKey(***)")
    }
}
