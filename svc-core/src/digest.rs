//! How a proposal that comes again is recognised without keeping what it said (C9).

use std::fmt;

use crate::key::Key;

/// The key of all digests, derived from the server's link key.
///
/// ```
/// use svc_core::{DigestKey, ShortKey};
/// assert!(DigestKey::derive(b"thirty-two random bytes or more, from the settings").is_ok());
/// assert_eq!(DigestKey::derive(b"password").unwrap_err(), ShortKey);
/// ```
#[derive(Clone)]
pub struct DigestKey(Key);

impl DigestKey {
    /// Derives it from the long-lived key of `SVC_LINK_KEY` (HMAC under a fixed label), so that digests outlive the
    /// rotation of every other key. [`ShortKey`] under 32 bytes: digests outlive the data of persons, who must not be
    /// found again by trying names.
    pub fn derive(link_key: &[u8]) -> Result<Self, ShortKey> {
        if link_key.len() < MIN_KEY_BYTES {
            return Err(ShortKey);
        }
        let derived = Key::new(link_key).mac([b"svc-core/digest/v1"]);
        Ok(Self(Key::new(&derived)))
    }

    pub(crate) fn digest(&self, canonical: &[u8]) -> Digest {
        Digest(self.0.mac([canonical]))
    }
}

/// Fewest bytes of a server's key.
pub const MIN_KEY_BYTES: usize = 32;

/// A key of fewer than 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key has fewer than 32 bytes")]
pub struct ShortKey;

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

/// The keyed digest of a proposal's content. Equal digests mean equal content, whatever its notation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The bytes, for a store.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}
