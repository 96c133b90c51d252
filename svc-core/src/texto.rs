//! What free text may hold (C3), and the words that identify a proposal to its partner.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use url::form_urlencoded;

use crate::campo::Campo;
use crate::error::{Codigo, Invalid, Violacao};

/// The partner's own id of a proposal: 1 to 128 characters, kept byte for byte.
///
/// ```
/// use svc_core::{Codigo, IdParceiro};
/// assert_eq!(IdParceiro::new("CONSIG/2026/000003").unwrap().as_str(), "CONSIG/2026/000003");
/// assert_eq!(IdParceiro::new("  "), Err(Codigo::CampoObrigatorio));
/// assert_eq!(IdParceiro::new("a\nb"), Err(Codigo::FormatoInvalido));
/// assert_eq!(IdParceiro::new("x".repeat(129)), Err(Codigo::TamanhoExcedido));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdParceiro(Arc<str>);

impl IdParceiro {
    /// Most characters (Unicode scalar values).
    pub const MAX_CHARS: usize = 128;

    /// Checks length and characters (C3).
    pub fn new(text: impl AsRef<str>) -> Result<Self, Codigo> {
        let text = text.as_ref();
        check(text, Self::MAX_CHARS)?;
        Ok(Self(text.into()))
    }

    /// Reads it from the query of a URL, where it stands once under its name (C19).
    ///
    /// ```
    /// use svc_core::IdParceiro;
    /// assert_eq!(IdParceiro::from_query("id_proposta_parceiro=a%2Fb&x=1").unwrap().as_str(), "a/b");
    /// let twice = IdParceiro::from_query("id_proposta_parceiro=a&id_proposta_parceiro=a").unwrap_err();
    /// assert_eq!(twice.to_string(), "1 violation: /id_proposta_parceiro chave_duplicada");
    /// ```
    pub fn from_query(query: &str) -> Result<Self, Invalid> {
        let invalid = |codigo| Invalid::new(vec![Violacao::new(Campo::IdPropostaParceiro.ponteiro(), codigo)]);
        let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "id_proposta_parceiro");
        let (first, second) = (values.next(), values.next());
        match (first, second) {
            (Some((_, text)), None) => Self::new(text).map_err(invalid),
            (None, _) => Err(invalid(Codigo::CampoObrigatorio)),
            (Some(_), Some(_)) => Err(invalid(Codigo::ChaveDuplicada)),
        }
    }

    /// The text as sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for IdParceiro {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A partner may take a person's number for an id.
impl fmt::Debug for IdParceiro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdParceiro(***)")
    }
}

impl fmt::Display for IdParceiro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One to `max` characters, none of which controls the terminal or turns the direction of reading.
pub(crate) fn check(text: &str, max: usize) -> Result<(), Codigo> {
    if text.trim().is_empty() {
        return Err(Codigo::CampoObrigatorio);
    }
    let is_override = |c: char| matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    if text.chars().any(|c| c.is_control() || is_override(c)) {
        return Err(Codigo::FormatoInvalido);
    }
    // Bytes first: counting characters is only needed where it can matter.
    if text.len() > max && text.chars().count() > max {
        return Err(Codigo::TamanhoExcedido);
    }
    Ok(())
}
