//! What the reader of a proposal must know of the deployment it reads for.

use std::fmt;
use std::net::IpAddr;

use crate::address::{IpRange, behind_nat64, is_public};

/// The environment that a server stands for.
///
/// `Producao` is a strict superset of checks: whatever it accepts, `Homologacao` accepts.
///
/// ```
/// use svc_core::Perfil;
/// assert_eq!(Perfil::parse("producao"), Some(Perfil::Producao));
/// assert_eq!(Perfil::parse("Producao"), None); // the wire's spelling only
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Perfil {
    /// The test environment: formats are checked, arithmetic is only commented on.
    #[default]
    Homologacao,
    /// The real one: every field, check digits, consistent figures, https.
    Producao,
}

impl Perfil {
    /// Reads the name as settings and tokens spell it.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Homologacao, Self::Producao].into_iter().find(|perfil| perfil.as_str() == name)
    }

    /// `homologacao` or `producao`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Homologacao => "homologacao",
            Self::Producao => "producao",
        }
    }
}

impl fmt::Display for Perfil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A consistency rule of C6; what each one checks stands in [`decisions`](crate::decisions).
///
/// ```
/// use svc_core::Regra;
/// assert_eq!(Regra::parse("R7"), Some(Regra::R7));
/// assert_eq!(Regra::parse("R10"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Regra {
    /// principal = solicitado + iof
    R1,
    /// bruto = parcela × total_parcelas
    R2,
    /// 0 < liquido ≤ solicitado
    R3,
    /// iof within the legal ceiling
    R4,
    /// cet_am ≥ nominal_am
    R5,
    /// cet_aa follows from cet_am
    R6,
    /// parcela follows from principal, rate and term
    R7,
    /// dates in order
    R8,
    /// last due date follows from the first
    R9,
}

impl Regra {
    /// All of them, in the order in which they are reported.
    pub const ALL: [Self; 9] =
        [Self::R1, Self::R2, Self::R3, Self::R4, Self::R5, Self::R6, Self::R7, Self::R8, Self::R9];

    /// Reads `R1` … `R9`.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|regra| regra.as_str() == name)
    }

    /// The wire's name, `R1` … `R9`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::R1 => "R1",
            Self::R2 => "R2",
            Self::R3 => "R3",
            Self::R4 => "R4",
            Self::R5 => "R5",
            Self::R6 => "R6",
            Self::R7 => "R7",
            Self::R8 => "R8",
            Self::R9 => "R9",
        }
    }
}

impl fmt::Display for Regra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How strictly proposals are read, and which addresses webhooks may reach.
///
/// ```
/// use svc_core::{IpRange, Perfil, Policy, Regra};
/// let policy = Policy::new(Perfil::Producao)
///     .without(Regra::R7)
///     .open(IpRange::parse("10.1.0.0/16").unwrap());
/// assert!(policy.may_reach("10.1.2.3".parse().unwrap()));
/// assert!(!policy.may_reach("10.2.2.3".parse().unwrap())); // private, and not opened
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    perfil: Perfil,
    off: Vec<Regra>,
    open: Vec<IpRange>,
}

impl Policy {
    /// Every rule on, only public addresses reachable.
    pub const fn new(perfil: Perfil) -> Self {
        Self { perfil, off: Vec::new(), open: Vec::new() }
    }

    /// Switches one consistency rule off (C6).
    #[must_use]
    pub fn without(mut self, regra: Regra) -> Self {
        self.off.push(regra);
        self
    }

    /// Lets webhooks reach a range that C31 refuses.
    #[must_use]
    pub fn open(mut self, range: IpRange) -> Self {
        self.open.push(range);
        self
    }

    /// The profile.
    pub const fn perfil(&self) -> Perfil {
        self.perfil
    }

    /// Whether a consistency rule is on.
    ///
    /// ```
    /// use svc_core::{Policy, Regra};
    /// let policy = Policy::default().without(Regra::R7);
    /// assert!(policy.applies(Regra::R6));
    /// assert!(!policy.applies(Regra::R7));
    /// ```
    pub fn applies(&self, regra: Regra) -> bool {
        !self.off.contains(&regra)
    }

    /// Whether a webhook may be sent to this address: public, or opened (C31).
    ///
    /// To be asked of a literal at creation and of every resolved address before connecting.
    pub fn may_reach(&self, address: IpAddr) -> bool {
        let address = behind_nat64(address);
        is_public(address) || self.open.iter().any(|range| range.contains(address))
    }
}
