//! The rules R1–R9 (C6): whether the figures of a proposal agree with each other.
//!
//! A table of pure functions. A rule looks only when every figure that it reads is present and in order; R1–R5, R8
//! and R9 are exact, R6 and R7 are computed in floats from the exact decimals.

use chrono::{Days, Months, NaiveDate};
use rust_decimal::Decimal;

use crate::campo::Campo;
use crate::data::Data;
use crate::draft::Draft;
use crate::error::Codigo;
use crate::findings::Findings;
use crate::numero::to_f64;
use crate::policy::{Policy, Regra};
use crate::simulacao::{Parcelas, Taxa, Valor, ValorPositivo};

/// What the rules read: each figure that has no violation of its own.
#[derive(Debug)]
pub(crate) struct Figures {
    today: NaiveDate,
    data_solicitacao: Option<NaiveDate>,
    solicitado: Option<Decimal>,
    iof: Option<Decimal>,
    principal: Option<Decimal>,
    parcela: Option<Decimal>,
    liquido: Option<Decimal>,
    bruto: Option<Decimal>,
    nominal_am: Option<Decimal>,
    cet_am: Option<Decimal>,
    cet_aa: Option<Decimal>,
    total_parcelas: Option<u32>,
    data_liberacao_estimada: Option<NaiveDate>,
    primeiro_vencimento: Option<NaiveDate>,
    ultimo_vencimento: Option<NaiveDate>,
}

impl Figures {
    /// Picks them from a draft. An absent request date reads as today (C1); a wrong one is no figure.
    pub(crate) fn of(draft: &Draft, today: NaiveDate, findings: &Findings) -> Self {
        let simulacao = draft.simulacao.clone().unwrap_or_default();
        let valores = simulacao.valores.unwrap_or_default();
        let taxas = simulacao.taxas.unwrap_or_default();
        let prazos = simulacao.prazos.unwrap_or_default();
        let positive = |campo, valor: Option<ValorPositivo>| clean(findings, campo, valor).map(ValorPositivo::decimal);
        let amount = |campo, valor: Option<Valor>| clean(findings, campo, valor).map(Valor::decimal);
        let rate = |campo, taxa: Option<Taxa>| clean(findings, campo, taxa).map(Taxa::decimal);
        let date = |campo, data: Option<Data>| clean(findings, campo, data).map(Data::date);
        let unasked = findings.is_absent(Campo::DataSolicitacao).then_some(today);
        Self {
            today,
            data_solicitacao: date(Campo::DataSolicitacao, draft.data_solicitacao).or(unasked),
            solicitado: positive(Campo::Solicitado, valores.solicitado),
            iof: amount(Campo::Iof, valores.iof),
            principal: positive(Campo::Principal, valores.principal),
            parcela: positive(Campo::Parcela, valores.parcela),
            liquido: amount(Campo::Liquido, valores.liquido),
            bruto: positive(Campo::Bruto, valores.bruto),
            nominal_am: rate(Campo::NominalAm, taxas.nominal_am),
            cet_am: rate(Campo::CetAm, taxas.cet_am),
            cet_aa: rate(Campo::CetAa, taxas.cet_aa),
            total_parcelas: clean(findings, Campo::TotalParcelas, prazos.total_parcelas).map(Parcelas::get),
            data_liberacao_estimada: date(Campo::DataLiberacaoEstimada, prazos.data_liberacao_estimada),
            primeiro_vencimento: date(Campo::PrimeiroVencimento, prazos.primeiro_vencimento),
            ultimo_vencimento: date(Campo::UltimoVencimento, prazos.ultimo_vencimento),
        }
    }
}

fn clean<T>(findings: &Findings, campo: Campo, value: Option<T>) -> Option<T> {
    value.filter(|_| findings.is_clean(campo))
}

/// Adds a finding for each broken rule that the policy has on, in the order of the table.
pub(crate) fn check(figures: &Figures, policy: &Policy, findings: &mut Findings) {
    for rule in &RULES {
        if policy.applies(rule.regra) && (rule.holds)(figures) == Some(false) {
            findings.add_rule(rule.campo, rule.codigo, rule.regra);
        }
    }
}

struct Rule {
    regra: Regra,
    campo: Campo,
    codigo: Codigo,
    /// `None` where a figure is missing.
    holds: fn(&Figures) -> Option<bool>,
}

const fn rule(regra: Regra, campo: Campo, holds: fn(&Figures) -> Option<bool>) -> Rule {
    Rule { regra, campo, codigo: Codigo::Inconsistencia, holds }
}

const fn range(regra: Regra, campo: Campo, holds: fn(&Figures) -> Option<bool>) -> Rule {
    Rule { codigo: Codigo::ValorForaDaFaixa, ..rule(regra, campo, holds) }
}

static RULES: [Rule; 12] = [
    rule(Regra::R1, Campo::Principal, |f| Some(close(f.principal?, f.solicitado?.checked_add(f.iof?), CENT))),
    rule(Regra::R2, Campo::Bruto, |f| {
        let n = Decimal::from(f.total_parcelas?);
        Some(close(f.bruto?, f.parcela?.checked_mul(n), CENT.checked_mul(n)?))
    }),
    rule(Regra::R3, Campo::Liquido, |f| {
        let liquido = f.liquido?;
        Some(liquido > Decimal::ZERO && at_most(liquido, f.solicitado?.checked_add(CENT)))
    }),
    range(Regra::R4, Campo::Iof, |f| {
        let ceiling = f.principal?.checked_mul(IOF_CEILING).and_then(|ceiling| ceiling.checked_add(CENT));
        Some(at_most(f.iof?, ceiling))
    }),
    rule(Regra::R5, Campo::CetAm, |f| Some(at_most(f.nominal_am?, f.cet_am?.checked_add(HALF_A_POINT)))),
    rule(Regra::R6, Campo::CetAa, |f| {
        let (am, aa) = (to_f64(f.cet_am?), to_f64(f.cet_aa?));
        Some(within(aa, per_year(am - 0.005) - 0.005, per_year(am + 0.005) + 0.005))
    }),
    rule(Regra::R7, Campo::Parcela, |f| {
        let parcela = to_f64(f.parcela?);
        let (low, high) = instalment(f)?;
        Some(within(parcela, low - 0.01, high + 0.01))
    }),
    range(Regra::R8, Campo::DataSolicitacao, |f| Some(f.data_solicitacao? <= f.today.checked_add_days(Days::new(1))?)),
    rule(Regra::R8, Campo::DataLiberacaoEstimada, |f| Some(f.data_solicitacao? <= f.data_liberacao_estimada?)),
    rule(Regra::R8, Campo::PrimeiroVencimento, |f| Some(f.data_liberacao_estimada? <= f.primeiro_vencimento?)),
    rule(Regra::R8, Campo::UltimoVencimento, |f| Some(f.primeiro_vencimento? <= f.ultimo_vencimento?)),
    rule(Regra::R9, Campo::UltimoVencimento, |f| {
        let last = months_after(f.primeiro_vencimento?, f.total_parcelas? - 1);
        let ultimo = f.ultimo_vencimento?;
        Some(last.is_some_and(|last| ultimo.signed_duration_since(last).num_days().abs() <= 5))
    }),
];

/// R1–R4's tolerance, in reais.
const CENT: Decimal = Decimal::from_parts(1, 0, 0, false, 2);
/// R5's tolerance, half of the last digit of a rate, in percentage points.
const HALF_A_POINT: Decimal = Decimal::from_parts(5, 0, 0, false, 3);
/// IOF of a natural person: 0.38 % and 0.0082 % a day, for 365 days at most.
const IOF_CEILING: Decimal = Decimal::from_parts(3_373, 0, 0, false, 5);

/// Within the tolerance; a sum too large to hold is not.
fn close(value: Decimal, expected: Option<Decimal>, tolerance: Decimal) -> bool {
    let difference = expected.and_then(|expected| value.checked_sub(expected));
    difference.is_some_and(|difference| difference.abs() <= tolerance)
}

fn at_most(value: Decimal, limit: Option<Decimal>) -> bool {
    limit.is_some_and(|limit| value <= limit)
}

/// A result that is not finite is a broken rule.
fn within(value: f64, low: f64, high: f64) -> bool {
    low.is_finite() && high.is_finite() && low <= value && value <= high
}

/// A monthly rate in percent as a yearly one: g of C6.
fn per_year(am: f64) -> f64 {
    ((1.0 + am / 100.0).powi(12) - 1.0) * 100.0
}

/// The lowest and the highest instalment that R7 allows before its cent: the Price table at the rate's rounding
/// limits, carried over a first period that is not thirty days long.
fn instalment(f: &Figures) -> Option<(f64, f64)> {
    let (principal, n) = (to_f64(f.principal?), f64::from(f.total_parcelas?));
    let rate = to_f64(f.nominal_am?);
    let days = f.primeiro_vencimento?.signed_duration_since(f.data_liberacao_estimada?).num_days();
    let e = (i32::try_from(days).ok().map(f64::from)? - 30.0) / 30.0;
    let (i_low, i_high) = ((rate - 0.005).max(0.0) / 100.0, (rate + 0.005) / 100.0);
    let low = price(principal, i_low, n) * (1.0 + i_low).powf(e.min(0.0));
    let high = price(principal, i_high, n) * (1.0 + i_high).powf(e.max(0.0));
    Some((low, high))
}

/// The Price table's instalment: P·i / (1 − (1+i)^−n), and P/n without interest.
fn price(principal: f64, i: f64, n: f64) -> f64 {
    if i == 0.0 { principal / n } else { principal * i / -(-n * i.ln_1p()).exp_m1() }
}

/// The same day some months later, or the month's last: each counted from the first date, not from the one before.
fn months_after(first: NaiveDate, months: u32) -> Option<NaiveDate> {
    first.checked_add_months(Months::new(months))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 0.005, "{value} is not {expected}");
    }

    #[test]
    fn worked_values_of_r6_and_r7() {
        near(price(1000.0, 0.02, 12.0), 94.56);
        near(price(5107.32, 0.0349, 12.0), 528.21);
        near(price(5107.32, 0.03485, 12.0) - 0.01, 528.05);
        near(price(5107.32, 0.03495, 12.0) + 0.01, 528.38);
        near(price(10_000.0, 0.0199, 24.0), 528.11);
        near(price(1221.37, 0.0, 10.0), 122.14);
        assert!((per_year(1.99) - 26.6751).abs() < 0.00005);
        assert!((per_year(3.86) - 57.5360).abs() < 0.00005);
        let interval = |am: f64| format!("{:.2} {:.2}", per_year(am - 0.005) - 0.005, per_year(am + 0.005) + 0.005);
        assert_eq!(interval(1.99), "26.60 26.75");
        assert_eq!(interval(3.86), "57.44 57.63");
    }

    #[test]
    fn worked_values_of_r9() {
        let first = NaiveDate::from_ymd_opt(2027, 1, 31).unwrap();
        for (months, last) in [(1, "2027-02-28"), (2, "2027-03-31"), (13, "2028-02-29")] {
            assert_eq!(months_after(first, months).unwrap().to_string(), last);
        }
    }
}
