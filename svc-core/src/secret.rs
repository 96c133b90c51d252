//! The key that signs a partner's notifications (C28).

use std::fmt;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

use crate::key::Key;

/// A webhook secret: `whsec_` and the base64 of 24 to 64 bytes, which are the key.
///
/// Never printed, never compared, wiped from memory when dropped.
///
/// ```
/// use svc_core::{BadSecret, Secret};
/// let secret = Secret::parse(" whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
/// assert_eq!(format!("{secret:?}"), "Secret(***)");
/// assert_eq!(Secret::parse("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap_err(), BadSecret::Prefix);
/// assert_eq!(Secret::parse("whsec_c2VncmVkbw==").unwrap_err(), BadSecret::Length);
/// assert_eq!(Secret::parse("\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"").unwrap_err(), BadSecret::Blanks);
/// ```
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

/// Why a text is no secret. Never the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSecret {
    /// It does not begin with `whsec_`.
    #[error("webhook secret does not begin with whsec_")]
    Prefix,
    /// White space or quotes in it, as from a line that was broken or a setting that was quoted.
    #[error("webhook secret has blanks or quotes in it")]
    Blanks,
    /// What follows is not standard base64.
    #[error("webhook secret is not base64 behind whsec_")]
    Base64,
    /// Its key is shorter than 24 or longer than 64 bytes.
    #[error("webhook secret does not hold 24 to 64 bytes")]
    Length,
    /// Raw key bytes, of which there are none.
    #[error("webhook key is empty")]
    Empty,
}

impl Secret {
    /// What every written secret begins with.
    pub const PREFIX: &str = "whsec_";

    /// Reads the written form; white space around it and padding that is missing altogether are forgiven,
    /// nothing else is.
    pub fn parse(text: &str) -> Result<Self, BadSecret> {
        let text = text.trim();
        if text.contains(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'')) {
            return Err(BadSecret::Blanks);
        }
        let encoded = text.strip_prefix(Self::PREFIX).ok_or(BadSecret::Prefix)?;
        if encoded.ends_with('=') && encoded.len() % 4 != 0 {
            return Err(BadSecret::Base64);
        }
        let key = Zeroizing::new(FORGIVING.decode(encoded).map_err(|_| BadSecret::Base64)?);
        if matches!(key.len(), 24..=64) { Ok(Self(key)) } else { Err(BadSecret::Length) }
    }

    /// Takes the bytes of a key as they are, at least one. For receivers whose secret is no `whsec_` text.
    ///
    /// ```
    /// use svc_core::{BadSecret, Secret};
    /// assert!(Secret::from_raw_key_bytes(b"segredo-de-teste").is_ok());
    /// assert_eq!(Secret::from_raw_key_bytes(b"").unwrap_err(), BadSecret::Empty);
    /// ```
    pub fn from_raw_key_bytes(key: &[u8]) -> Result<Self, BadSecret> {
        if key.is_empty() { Err(BadSecret::Empty) } else { Ok(Self(Zeroizing::new(key.to_vec()))) }
    }

    /// The written form: the one way in which the key leaves, for whoever makes or hands over a secret. It can be
    /// [read](Self::parse) again if the key has 24 to 64 bytes.
    ///
    /// ```
    /// use svc_core::Secret;
    /// let secret = Secret::from_raw_key_bytes(&[7; 32]).unwrap();
    /// assert!(Secret::parse(&secret.expose()).is_ok());
    /// ```
    pub fn expose(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{}{}", Self::PREFIX, FORGIVING.encode(&*self.0)))
    }

    pub(crate) fn keyed(&self) -> Key {
        Key::new(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// The standard alphabet, padded when written, padded or not when read.
const FORGIVING: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
