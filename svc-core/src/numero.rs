//! JSON numbers as exact decimals, in and out, never through a float (C5).

use std::fmt::Write;

use arrayvec::ArrayString;
use rust_decimal::Decimal;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Digits before the point.
const INTEGER_DIGITS: i64 = 15;
/// Digits behind the point, the trailing zeros left out.
const FRACTION_DIGITS: i64 = 10;

/// Reads a number's literal, or gives `None` where it cannot be held exactly.
///
/// The literal is legal JSON already. Notation does not matter: `1000`, `1000.0` and `1e3` are one value.
pub(crate) fn decimal(literal: &str) -> Option<Decimal> {
    let (negative, digits) = match literal.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, literal),
    };
    let (digits, exponent) = match digits.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, saturating_exponent(exponent)),
        None => (digits, 0),
    };
    // value = mantissa × 10^power, the mantissa without trailing zeros, which wait in `zeros`.
    let (mut mantissa, mut length, mut zeros, mut fraction) = (0_i128, 0_i64, 0_i64, 0_i64);
    let mut behind_point = false;
    for byte in digits.bytes() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => {
                behind_point = true;
                continue;
            }
        };
        fraction += i64::from(behind_point);
        if mantissa == 0 && digit == 0 {
            continue;
        }
        zeros += 1;
        if digit != 0 {
            length += zeros;
            if length > INTEGER_DIGITS + FRACTION_DIGITS {
                return None;
            }
            mantissa = mantissa * pow10(zeros)? + i128::from(digit);
            zeros = 0;
        }
    }
    if mantissa == 0 {
        return Some(Decimal::ZERO);
    }
    let power = exponent.saturating_add(zeros).saturating_sub(fraction);
    if length.saturating_add(power) > INTEGER_DIGITS || power < -FRACTION_DIGITS {
        return None;
    }
    if negative {
        mantissa = -mantissa;
    }
    match u32::try_from(-power) {
        Ok(scale) => Decimal::try_from_i128_with_scale(mantissa, scale).ok(),
        Err(_) => Decimal::try_from_i128_with_scale(mantissa * pow10(power)?, 0).ok(),
    }
}

/// The same limits for a value that was not read from a literal: its shortest form, or `None` where it has too many digits.
pub(crate) fn exact(value: Decimal) -> Option<Decimal> {
    decimal(&value.to_string())
}

/// An exponent of any length; beyond the range of `i64` only its sign matters.
fn saturating_exponent(text: &str) -> i64 {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    // A quarter of the range leaves room for the additions above.
    let magnitude = digits.parse().unwrap_or(i64::MAX).min(i64::MAX / 4);
    if negative { -magnitude } else { magnitude }
}

/// 10^n, by multiplying: n is 1 nearly always.
fn pow10(n: i64) -> Option<i128> {
    (0..n).try_fold(1_i128, |power, _| power.checked_mul(10))
}

/// The value as a float, for rules that are computed in floats: the nearest one up to 2^53, next to it beyond.
pub(crate) fn to_f64(value: Decimal) -> f64 {
    value.mantissa() as f64 / 10_f64.powi(i32::try_from(value.scale()).unwrap_or_default())
}

/// The value as it is displayed, without the formatter's detours.
fn text(value: Decimal) -> Option<ArrayString<32>> {
    let mut text = ArrayString::new();
    let Ok(mut rest) = u64::try_from(value.mantissa()) else {
        write!(text, "{value}").ok()?;
        return Some(text);
    };
    // From the last digit to the first. No decimal has more than 28 behind its point.
    let (mut digits, mut behind_point) = ([0; 32], value.scale());
    let mut places = digits.iter_mut().rev();
    loop {
        *places.next()? = b'0' + u8::try_from(rest % 10).ok()?;
        rest /= 10;
        if behind_point > 0 {
            behind_point -= 1;
            if behind_point == 0 {
                *places.next()? = b'.';
            }
        } else if rest == 0 {
            break;
        }
    }
    let unused = places.len();
    text.push_str(str::from_utf8(digits.get(unused..)?).ok()?);
    Some(text)
}

/// Writes the exact decimal as a JSON number: through the raw text, so that no float and no feature of another
/// crate comes between.
pub(crate) fn serialize<S: Serializer>(value: &Decimal, serializer: S) -> Result<S::Ok, S::Error> {
    let text = text(*value).ok_or_else(|| serde::ser::Error::custom("a number of too many digits"))?;
    serde_json::from_str::<&RawValue>(&text).map_err(serde::ser::Error::custom)?.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_in_any_notation() {
        for literal in ["1000", "1000.0", "1e3", "1E+3", "0.1e4", "10000e-1", "1000.0000000000000000000"] {
            assert_eq!(decimal(literal).unwrap().to_string(), "1000", "{literal}");
        }
        for literal in ["0", "-0", "0.000", "-0e400", "0e99999999999999999999", "0.0E-400"] {
            assert_eq!(decimal(literal), Some(Decimal::ZERO), "{literal}");
        }
        for (literal, written) in [
            ("1000.10", "1000.1"),
            ("-2.5", "-2.5"),
            ("999999999999999.9999999999", "999999999999999.9999999999"),
            ("1e14", "100000000000000"),
            ("1e-10", "0.0000000001"),
            ("10e-11", "0.0000000001"),
            ("4.81", "4.81"),
            ("123.4500e0000000000000000000000002", "12345"),
        ] {
            assert_eq!(decimal(literal).unwrap().to_string(), written, "{literal}");
        }
    }

    #[test]
    fn never_rounded_rather_refused() {
        for literal in [
            "1e15",
            "1000000000000000",
            "1e-11",
            "0.00000000001",
            "1.00000000001",
            "1e400",
            "-1e400",
            "1e-400",
            "1e99999999999999999999",
            "1e-99999999999999999999",
            "12345678901234567890",
        ] {
            assert_eq!(decimal(literal), None, "{literal}");
        }
        assert_eq!(decimal(&"9".repeat(60_000)), None);
        assert_eq!(decimal(&format!("0.{}1", "0".repeat(60_000))), None);
        assert_eq!(decimal(&format!("0.{}1e60001", "0".repeat(60_000))).unwrap().to_string(), "1");
    }

    #[test]
    fn written_as_displayed() {
        let mut mantissa = 1_i128;
        let mantissas = std::iter::from_fn(|| {
            mantissa = mantissa * 37 % 10_i128.pow(28);
            Some(mantissa)
        });
        let all = [0, 1, -1, 10, i128::from(u64::MAX), i128::from(u64::MAX) + 1, 10_i128.pow(28)];
        for mantissa in all.into_iter().chain(mantissas.take(2_000)) {
            for scale in 0..=28 {
                let value = Decimal::from_i128_with_scale(mantissa, scale);
                assert_eq!(*text(value).unwrap(), *value.to_string());
            }
        }
    }
}
