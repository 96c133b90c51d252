//! Money, rates and dates as a person in Brazil reads them (C17).

use rust_decimal::{Decimal, RoundingStrategy};
use svc_core::Data;

/// What stands for a figure that the partner did not give.
pub(crate) const ABSENT: &str = "não informado";

/// `12x de R$ 528,21`, `1 parcela de R$ 528,21`, or what of it is known.
pub(crate) fn instalments(count: Option<u32>, valor: Option<Decimal>) -> Option<String> {
    match (count, valor) {
        (Some(1), Some(valor)) => Some(format!("1 parcela de {}", reais(valor))),
        (Some(1), None) => Some("1 parcela".to_owned()),
        (Some(n), Some(valor)) => Some(format!("{n}x de {}", reais(valor))),
        (Some(n), None) => Some(format!("{n} parcelas")),
        (None, valor) => valor.map(reais),
    }
}

/// `R$ 1.234,56`, with a no-break space; halves of a cent round away from zero.
pub(crate) fn reais(value: Decimal) -> String {
    let cents = format!("{:.2}", value.round_dp_with_strategy(2, RoundingStrategy::MidpointAwayFromZero));
    let (whole, cents) = cents.split_once('.').unwrap_or((&cents, "00"));
    format!("R$\u{a0}{},{cents}", thousands(whole))
}

/// `1,99% a.m.`, with at least two decimals and no more than were given.
pub(crate) fn rate(percent: Decimal, period: &str) -> String {
    let text = format!("{percent:.*}", usize::try_from(percent.scale().max(2)).unwrap_or(2));
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, "00"));
    format!("{},{fraction}% {period}", thousands(whole))
}

/// Points between groups of three digits.
fn thousands(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push('.');
        }
        grouped.push(digit);
    }
    grouped
}

/// `dd/mm/aaaa`.
pub(crate) fn day(data: Data) -> String {
    data.date().format("%d/%m/%Y").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::from_scientific(text).or_else(|_| text.parse()).unwrap()
    }

    #[test]
    fn c17_instalments_in_words_whatever_is_known_of_them() {
        let valor = || Some(decimal("528.21"));
        for (count, valor, text) in [
            (Some(12), valor(), Some("12x de R$\u{a0}528,21")),
            (Some(1), valor(), Some("1 parcela de R$\u{a0}528,21")),
            (Some(1), None, Some("1 parcela")),
            (Some(12), None, Some("12 parcelas")),
            (None, valor(), Some("R$\u{a0}528,21")),
            (None, None, None),
        ] {
            assert_eq!(instalments(count, valor).as_deref(), text);
        }
        assert_eq!(day(Data::parse("2027-01-31").unwrap()), "31/01/2027");
    }

    #[test]
    fn numbers_as_c17_writes_them() {
        for (value, text) in [
            ("1e3", "R$\u{a0}1.000,00"),
            ("1000.10", "R$\u{a0}1.000,10"),
            ("999999.995", "R$\u{a0}1.000.000,00"),
            ("0.01", "R$\u{a0}0,01"),
            ("123", "R$\u{a0}123,00"),
        ] {
            assert_eq!(reais(decimal(value)), text);
        }
        assert_eq!(rate(decimal("57.48"), "a.a."), "57,48% a.a.");
        assert_eq!(rate(decimal("1.999"), "a.m."), "1,999% a.m.");
        assert_eq!(rate(decimal("2"), "a.m."), "2,00% a.m.");
        assert_eq!(rate(decimal("1234.567"), "a.a."), "1.234,567% a.a.");
    }
}
