//! The end customer: name, taxpayer number, phone. A person's data: `Debug` masks all three.

use std::fmt;

use arrayvec::ArrayString;
use serde::{Serialize, Serializer};

use crate::error::Codigo;
use crate::texto;

/// The end customer of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cliente {
    /// Full name.
    pub nome: Nome,
    /// Taxpayer number.
    pub cpf: Cpf,
    /// WhatsApp number.
    pub whatsapp: Whatsapp,
}

/// A name: 1 to 200 characters, kept byte for byte, with no control character and no override of the reading
/// direction (C3).
///
/// ```
/// use svc_core::{Codigo, Nome};
/// let nome = Nome::new("Sebastião D'Ávila <b>").unwrap();
/// assert_eq!(nome.as_str(), "Sebastião D'Ávila <b>");
/// assert_eq!(format!("{nome:?}"), "Nome(***)");
/// assert_eq!(Nome::new("Ana\0"), Err(Codigo::FormatoInvalido));
/// ```
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Nome(Box<str>);

impl Nome {
    /// Most characters (Unicode scalar values).
    pub const MAX_CHARS: usize = 200;

    /// Checks length and characters.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Codigo> {
        let text = text.as_ref();
        texto::check(text, Self::MAX_CHARS)?;
        Ok(Self(text.into()))
    }

    /// The text as sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first word of it.
    pub fn first(&self) -> &str {
        self.0.split_whitespace().next().unwrap_or_default()
    }
}

impl fmt::Debug for Nome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nome(***)")
    }
}

/// A CPF, the Brazilian taxpayer number, in its written form `XXX.XXX.XXX-XX` (C3).
///
/// ```
/// use svc_core::{Codigo, Cpf};
/// let cpf = Cpf::parse("123.456.789-09").unwrap();
/// assert!(cpf.has_valid_check_digits());
/// assert_eq!(cpf.masked(), "***.456.789-**");
/// assert_eq!(Cpf::parse("12345678909"), Err(Codigo::FormatoInvalido));
/// assert!(!Cpf::parse("111.111.111-11").unwrap().has_valid_check_digits()); // repeated digits
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cpf([u8; 11]);

impl Cpf {
    /// Reads the written form in ASCII digits; check digits are another question.
    pub fn parse(text: &str) -> Result<Self, Codigo> {
        let &[a, b, c, b'.', d, e, f, b'.', g, h, i, b'-', j, k] = text.as_bytes() else {
            return Err(Codigo::FormatoInvalido);
        };
        let digits = [a, b, c, d, e, f, g, h, i, j, k];
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(Codigo::FormatoInvalido);
        }
        Ok(Self(digits.map(|digit| digit - b'0')))
    }

    /// Whether the last two digits follow from the first nine, and not all are the same (C7).
    pub fn has_valid_check_digits(&self) -> bool {
        let [first, .., d10, d11] = self.0;
        let repeated = self.0.iter().all(|digit| *digit == first);
        !repeated && self.check_digit(9) == d10 && self.check_digit(10) == d11
    }

    /// The digit that must follow the first `count`: Σ digit × weight, weights counting down to 2, × 10 mod 11, 10 → 0.
    fn check_digit(&self, count: u8) -> u8 {
        let weighted = self.0.iter().zip((2..=count + 1).rev()).map(|(digit, weight)| u32::from(digit * weight));
        u8::try_from(weighted.sum::<u32>() * 10 % 11 % 10).unwrap_or_default()
    }

    /// The written form, every digit of it: for the customer and the wire only.
    pub fn formatted(&self) -> String {
        let [a, b, c, d, e, f, g, h, i, j, k] = self.0.map(|digit| char::from(b'0' + digit));
        [a, b, c, '.', d, e, f, '.', g, h, i, '-', j, k].iter().collect()
    }

    /// The form that may be shown: `***.456.789-**`.
    pub fn masked(&self) -> String {
        let [_, _, _, d, e, f, g, h, i, _, _] = self.0;
        format!("***.{d}{e}{f}.{g}{h}{i}-**")
    }
}

impl fmt::Debug for Cpf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cpf(***)")
    }
}

impl Serialize for Cpf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.formatted())
    }
}

/// A Brazilian WhatsApp number: `55`, a two-digit area code (DDD), eight or nine digits (C3).
///
/// ```
/// use svc_core::{Codigo, Whatsapp};
/// let whatsapp = Whatsapp::parse("5511900000001").unwrap();
/// assert_eq!(whatsapp.as_str(), "5511900000001");
/// assert_eq!(whatsapp.strict().next(), None);
/// assert_eq!(Whatsapp::parse("+5511900000001"), Err(Codigo::FormatoInvalido));
/// // Area code 20 does not exist, and nine digits begin with 9 (C4):
/// let strict: Vec<_> = Whatsapp::parse("5520812345678").unwrap().strict().collect();
/// assert_eq!(strict, [Codigo::DddInvalido, Codigo::FormatoInvalido]);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Whatsapp(ArrayString<13>);

impl Whatsapp {
    /// Checks the shape `^55[0-9]{2}[0-9]{8,9}$`.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, Codigo> {
        let text = ArrayString::from(text.as_ref()).map_err(|_| Codigo::FormatoInvalido)?;
        let fits = matches!(text.len(), 12 | 13) && text.starts_with("55") && text.bytes().all(|b| b.is_ascii_digit());
        if fits { Ok(Self(text)) } else { Err(Codigo::FormatoInvalido) }
    }

    /// What `producao` objects to (C4): an area code that does not exist, nine digits that do not begin with 9.
    pub fn strict(&self) -> impl Iterator<Item = Codigo> + use<> {
        let (ddd, local) = match self.0.as_bytes() {
            [_, _, tens, units, local @ ..] => ((tens - b'0') * 10 + (units - b'0'), local),
            _ => (0, Default::default()),
        };
        let unknown = !ddd_exists(ddd);
        let no_mobile = local.len() == 9 && local.first() != Some(&b'9');
        [unknown.then_some(Codigo::DddInvalido), no_mobile.then_some(Codigo::FormatoInvalido)].into_iter().flatten()
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for Whatsapp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Debug for Whatsapp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Whatsapp(***)")
    }
}

/// The 67 area codes in use (C4).
const fn ddd_exists(ddd: u8) -> bool {
    matches!(
        ddd,
        11..=19
            | 21 | 22 | 24 | 27 | 28
            | 31..=35 | 37 | 38
            | 41..=49
            | 51 | 53..=55
            | 61..=69
            | 71 | 73..=75 | 77 | 79
            | 81..=89
            | 91..=99
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_seven_area_codes() {
        assert_eq!((0..=99).filter(|ddd| ddd_exists(*ddd)).count(), 67);
    }

    #[test]
    fn check_digits_of_c7() {
        for valid in ["123.456.789-09", "111.444.777-35", "529.982.247-25", "000.000.001-91"] {
            assert!(Cpf::parse(valid).unwrap().has_valid_check_digits(), "{valid}");
        }
        for invalid in ["123.456.789-00", "111.444.777-05", "111.111.111-11", "000.000.000-00"] {
            assert!(!Cpf::parse(invalid).unwrap().has_valid_check_digits(), "{invalid}");
        }
    }

    #[test]
    fn written_form_comes_back() {
        assert_eq!(Cpf::parse("000.000.001-91").unwrap().formatted(), "000.000.001-91");
        for bad in ["", "000.000.001-9", "000.000.001-9a", "000.000.001-٩", "000-000.001.91", "000.000.001-911"] {
            assert_eq!(Cpf::parse(bad), Err(Codigo::FormatoInvalido), "{bad}");
        }
    }
}
