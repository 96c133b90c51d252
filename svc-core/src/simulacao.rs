//! The financial simulation: amounts, rates and dates, each exact and in its range (C5).
//!
//! Every part may be absent in `homologacao`; what is present is legal.

use std::fmt;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde::Serialize;

use crate::data::Data;
use crate::error::Codigo;
use crate::numero;

/// The simulation of a loan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Simulacao {
    /// Amounts in reais.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valores: Option<Valores>,
    /// Rates in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taxas: Option<Taxas>,
    /// Term and dates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prazos: Option<Prazos>,
}

/// Amounts in reais.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Valores {
    /// Requested by the customer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub solicitado: Option<ValorPositivo>,
    /// IOF tax.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iof: Option<Valor>,
    /// Requested amount plus IOF.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<ValorPositivo>,
    /// Each instalment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parcela: Option<ValorPositivo>,
    /// Net amount that the customer receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liquido: Option<Valor>,
    /// Total gross amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bruto: Option<ValorPositivo>,
}

/// Rates in percent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Taxas {
    /// Nominal, per month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominal_am: Option<Taxa>,
    /// Total effective cost, per month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cet_am: Option<Taxa>,
    /// Total effective cost, per year.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cet_aa: Option<Taxa>,
}

/// Term and dates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Prazos {
    /// Number of instalments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_parcelas: Option<Parcelas>,
    /// Estimated credit release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_liberacao_estimada: Option<Data>,
    /// First due date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primeiro_vencimento: Option<Data>,
    /// Last due date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ultimo_vencimento: Option<Data>,
}

/// One kind of number: a range, the limits of exactness, and an exact way out.
macro_rules! number {
    ($(#[$docs:meta])* $name:ident, $in_range:expr) => {
        $(#[$docs])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(#[serde(serialize_with = "numero::serialize")] Decimal);

        impl $name {
            /// Takes a decimal of at most 15 integer and 10 fraction digits;
            /// [`Codigo::ValorForaDaFaixa`] for more, or out of range. Never rounds.
            pub fn new(value: Decimal) -> Result<Self, Codigo> {
                Self::from_exact(numero::exact(value).ok_or(Codigo::ValorForaDaFaixa)?)
            }

            /// Reads a JSON number's literal.
            pub(crate) fn from_literal(literal: &str) -> Result<Self, Codigo> {
                Self::from_exact(numero::decimal(literal).ok_or(Codigo::ValorForaDaFaixa)?)
            }

            fn from_exact(value: Decimal) -> Result<Self, Codigo> {
                let in_range: fn(Decimal) -> bool = $in_range;
                if in_range(value) { Ok(Self(value)) } else { Err(Codigo::ValorForaDaFaixa) }
            }

            /// The exact value, without trailing zeros.
            pub const fn decimal(self) -> Decimal {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// An amount in reais, zero or more.
    ///
    /// ```
    /// use svc_core::Valor;
    /// assert_eq!(Valor::new("1000.10".parse().unwrap()).unwrap().to_string(), "1000.1");
    /// assert!(Valor::new("-0.01".parse().unwrap()).is_err());
    /// ```
    Valor, |value| value >= Decimal::ZERO
}

number! {
    /// An amount in reais, more than zero.
    ///
    /// ```
    /// use svc_core::ValorPositivo;
    /// assert!(ValorPositivo::new("0.01".parse().unwrap()).is_ok());
    /// assert!(ValorPositivo::new("0.00".parse().unwrap()).is_err());
    /// assert!(ValorPositivo::new("1000000000000000".parse().unwrap()).is_err()); // 16 digits
    /// ```
    ValorPositivo, |value| value > Decimal::ZERO
}

number! {
    /// A rate in percent, zero or more: `1.99` is 1.99 %.
    ///
    /// ```
    /// use svc_core::Taxa;
    /// assert_eq!(Taxa::new("1.99".parse().unwrap()).unwrap().to_string(), "1.99");
    /// assert!(Taxa::new("-1".parse().unwrap()).is_err());
    /// ```
    Taxa, |value| value >= Decimal::ZERO
}

/// A number of instalments, 1 to 1,000,000.
///
/// ```
/// use svc_core::{Codigo, Parcelas};
/// assert_eq!(Parcelas::new(12).unwrap().get(), 12);
/// assert_eq!(Parcelas::new(0), Err(Codigo::ValorForaDaFaixa));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Parcelas(u32);

impl Parcelas {
    /// The most that any profile accepts.
    pub const MAX: u32 = 1_000_000;
    /// The most that `producao` accepts.
    pub const MAX_PRODUCAO: u32 = 420;

    /// Checks the range.
    pub const fn new(count: u32) -> Result<Self, Codigo> {
        if matches!(count, 1..=Self::MAX) { Ok(Self(count)) } else { Err(Codigo::ValorForaDaFaixa) }
    }

    /// Reads a JSON number's literal: `12`, `12.0` and `1.2e1` are twelve, `12.5` is out of range.
    pub(crate) fn from_literal(literal: &str) -> Result<Self, Codigo> {
        let value = numero::decimal(literal).ok_or(Codigo::ValorForaDaFaixa)?;
        let count = if value.is_integer() { value.to_u32() } else { None };
        Self::new(count.ok_or(Codigo::ValorForaDaFaixa)?)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Whether an amount has more than two decimals, which `producao` refuses (C5).
pub(crate) fn has_fractions_of_a_cent(value: Decimal) -> bool {
    // Values are held in their shortest form.
    value.scale() > 2
}
