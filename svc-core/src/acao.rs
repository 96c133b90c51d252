//! What the customer does: accept or refuse (C14).

use std::fmt;

use crate::campo::{ACAO, Campo};
use crate::error::Invalid;
use crate::json::{self, Leaf};

/// The customer's answer to a proposal.
///
/// ```
/// use svc_core::Acao;
/// assert_eq!(Acao::parse("aceitar"), Some(Acao::Aceitar));
/// assert_eq!(Acao::parse("ACEITAR"), None); // C14: the wire's spelling only
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acao {
    /// `aceitar`
    Aceitar,
    /// `recusar`
    Recusar,
}

impl Acao {
    /// Reads `aceitar` or `recusar`, in exactly this spelling.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Aceitar, Self::Recusar].into_iter().find(|acao| acao.as_str() == text)
    }

    /// `aceitar` or `recusar`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Aceitar => "aceitar",
            Self::Recusar => "recusar",
        }
    }

    /// Reads the body of `POST /confirmar/{id}`: a JSON object whose `acao` is one of the two, given once (C14).
    ///
    /// ```
    /// use svc_core::{Acao, BadAcao};
    /// assert_eq!(Acao::from_json(br#"{"acao":"recusar"}"#), Ok(Acao::Recusar));
    /// assert_eq!(Acao::from_json(b"{}"), Err(BadAcao::Missing));
    /// assert_eq!(Acao::from_json(br#"{"acao":"aceitar","acao":"aceitar"}"#), Err(BadAcao::Unknown));
    /// ```
    pub fn from_json(body: &[u8]) -> Result<Self, BadAcao> {
        let (mut leaves, findings) = json::read(body, &ACAO)?;
        match leaves.take(Campo::Acao) {
            Leaf::Text(text) if findings.is_empty() => Self::parse(&text).ok_or(BadAcao::Unknown),
            Leaf::Absent if findings.is_empty() => Err(BadAcao::Missing),
            _ => Err(BadAcao::Unknown),
        }
    }
}

/// Why a body is no action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadAcao {
    /// There is none in it.
    #[error("no acao")]
    Missing,
    /// It is neither `aceitar` nor `recusar`, or is given twice.
    #[error("acao is neither aceitar nor recusar")]
    Unknown,
    /// The body is no JSON object.
    #[error(transparent)]
    Body(#[from] Invalid),
}

impl fmt::Display for Acao {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
