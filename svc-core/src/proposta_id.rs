//! The id that the service gives to a proposal (C8).

use std::fmt;

use serde::{Serialize, Serializer};
use uuid::{Builder, Uuid};

/// A UUID v4, lower-case and hyphenated; no other spelling is an id.
///
/// ```
/// use svc_core::PropostaId;
/// let id = PropostaId::from_random([7; 16]); // sixteen bytes from the operating system, in earnest
/// assert_eq!(id.to_string(), "07070707-0707-4707-8707-070707070707");
/// assert_eq!(PropostaId::parse("07070707-0707-4707-8707-070707070707"), Some(id));
/// assert_eq!(PropostaId::parse("{07070707-0707-4707-8707-070707070707}"), None);
/// assert_eq!(PropostaId::parse("07070707070747078707070707070707"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PropostaId(Uuid);

impl PropostaId {
    /// Makes an id of sixteen random bytes.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(Builder::from_random_bytes(bytes).into_uuid())
    }

    /// Reads the one spelling; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        // The uuid crate reads four spellings and both cases: only what prints as it was read is ours.
        let id = Self(Uuid::try_parse(text).ok()?);
        let mut buffer = Uuid::encode_buffer();
        let printed: &str = id.0.hyphenated().encode_lower(&mut buffer);
        (printed == text).then_some(*id.as_bytes()).and_then(Self::from_bytes)
    }

    /// Takes the bytes of an id back; `None` if they are no UUID v4.
    ///
    /// ```
    /// use svc_core::PropostaId;
    /// let id = PropostaId::from_random([7; 16]);
    /// assert_eq!(PropostaId::from_bytes(*id.as_bytes()), Some(id));
    /// assert_eq!(PropostaId::from_bytes([7; 16]), None);
    /// ```
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        let id = Self(Uuid::from_bytes(bytes));
        (id == Self::from_random(bytes)).then_some(id)
    }

    /// The sixteen bytes, for stores with a column type for UUIDs.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for PropostaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.0.as_hyphenated(), f)
    }
}

impl fmt::Debug for PropostaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PropostaId({self})")
    }
}

impl Serialize for PropostaId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
