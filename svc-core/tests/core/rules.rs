//! C4, C6, C7: what only producao refuses, and homologacao tells as avisos.

use proptest::prelude::*;
use svc_core::{NovaProposta, Perfil, Policy, Regra};

use crate::{TYPICAL, in_homologacao, in_producao, lines, today};

fn with(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(TYPICAL.to_owned(), |body, (field, value)| {
        let start = body.find(&format!("\"{field}\"")).unwrap_or_else(|| panic!("{field}"));
        let colon = start + body[start..].find(':').unwrap();
        let end = colon + body[colon..].find([',', '\n']).unwrap();
        format!("{}: {value}{}", &body[..colon], &body[end..])
    })
}

/// What producao refuses, which must be what homologacao warns of.
fn strict(changes: &[(&str, &str)]) -> Vec<String> {
    let body = with(changes);
    let avisos = lines(in_homologacao(&body).unwrap().avisos());
    assert_eq!(in_producao(&body).err().unwrap_or_default(), avisos);
    avisos
}

#[test]
fn r1_principal_is_requested_plus_iof_within_a_cent() {
    let principal = "/simulacao/valores/principal inconsistencia R1";
    assert_eq!(strict(&[("principal", "5107.33")]), [""; 0]);
    assert_eq!(strict(&[("principal", "5107.31")]), [""; 0]);
    assert_eq!(strict(&[("principal", "5107.34")]), [principal]);
    assert_eq!(strict(&[("principal", "5107.30")]), [principal]);
}

#[test]
fn r2_gross_is_instalments_within_a_cent_each() {
    assert_eq!(strict(&[("bruto", "6338.64")]), [""; 0]);
    assert_eq!(strict(&[("bruto", "6338.65")]), ["/simulacao/valores/bruto inconsistencia R2"]);
    assert_eq!(strict(&[("bruto", "6338.39")]), ["/simulacao/valores/bruto inconsistencia R2"]);
}

#[test]
fn r3_net_is_more_than_nothing_and_at_most_requested() {
    let liquido = "/simulacao/valores/liquido inconsistencia R3";
    assert_eq!(strict(&[("liquido", "5000.01")]), [""; 0]);
    assert_eq!(strict(&[("liquido", "0.01")]), [""; 0]);
    assert_eq!(strict(&[("liquido", "5000.02")]), [liquido]);
    assert_eq!(strict(&[("liquido", "0")]), [liquido]);
}

#[test]
fn r4_iof_under_the_legal_ceiling() {
    // 3.373 % of 5174.54 is 174.5372…; a cent more is allowed.
    let figures = |iof| [("iof", iof), ("principal", "5174.54"), ("parcela", "535.17"), ("bruto", "6422.04")];
    assert_eq!(strict(&figures("174.54")), [""; 0]);
    assert_eq!(strict(&figures("174.55")), ["/simulacao/valores/iof valor_fora_da_faixa R4"]);
}

#[test]
fn r5_effective_cost_is_no_less_than_the_nominal_rate() {
    let figures = |cet_am| [("cet_am", cet_am), ("cet_aa", "50.90")];
    assert_eq!(strict(&figures("3.485")), [""; 0]);
    assert_eq!(strict(&figures("3.4849")), ["/simulacao/taxas/cet_am inconsistencia R5"]);
}

#[test]
fn r6_yearly_cost_follows_from_the_monthly_one() {
    // The interval of 3.86 is 57.440017… to 57.632034….
    assert_eq!(strict(&[("cet_aa", "57.4401")]), [""; 0]);
    assert_eq!(strict(&[("cet_aa", "57.63")]), [""; 0]);
    assert_eq!(strict(&[("cet_aa", "57.44")]), ["/simulacao/taxas/cet_aa inconsistencia R6"]);
    assert_eq!(strict(&[("cet_aa", "57.64")]), ["/simulacao/taxas/cet_aa inconsistencia R6"]);
    let absurd = strict(&[("cet_am", "999999999999999"), ("cet_aa", "999999999999999")]);
    assert_eq!(absurd, ["/simulacao/taxas/cet_aa inconsistencia R6"]);
}

#[test]
fn r7_instalment_follows_from_the_price_table() {
    // 31 days from release to the first due date: e = 1/30 widens the upper end.
    let parcela = |parcela, bruto| [("parcela", parcela), ("bruto", bruto)];
    assert_eq!(strict(&parcela("528.05", "6336.60")), [""; 0]);
    assert_eq!(strict(&parcela("528.04", "6336.48")), ["/simulacao/valores/parcela inconsistencia R7"]);
    assert_eq!(strict(&parcela("528.98", "6347.76")), [""; 0]);
    assert_eq!(strict(&parcela("528.99", "6347.88")), ["/simulacao/valores/parcela inconsistencia R7"]);
    // A first period of 15 days lowers the lower end: 528.06 × 1.03485^−0.5 is 519.09.
    let soon = |parcela, bruto| [("parcela", parcela), ("bruto", bruto), ("data_liberacao_estimada", "\"2026-12-17\"")];
    assert_eq!(strict(&soon("519.09", "6229.08")), [""; 0]);
    assert_eq!(strict(&soon("519.07", "6228.84")), ["/simulacao/valores/parcela inconsistencia R7"]);
    let absurd = strict(&[("nominal_am", "999999999999999"), ("cet_am", "999999999999999")]);
    assert!(absurd.contains(&"/simulacao/valores/parcela inconsistencia R7".to_owned()), "{absurd:?}");
}

#[test]
fn r8_dates_in_order_pair_by_pair() {
    assert_eq!(strict(&[("data_solicitacao", "\"2026-11-28\"")]), [""; 0], "tomorrow, for clocks that differ");
    assert_eq!(strict(&[("data_solicitacao", "\"2026-11-29\"")]), ["/data_solicitacao valor_fora_da_faixa R8"]);
    let backwards = [
        ("data_liberacao_estimada", "\"2026-11-26\""),
        ("primeiro_vencimento", "\"2026-11-25\""),
        ("ultimo_vencimento", "\"2026-11-24\""),
    ];
    assert_eq!(
        strict(&backwards)[..3],
        [
            "/simulacao/prazos/data_liberacao_estimada inconsistencia R8",
            "/simulacao/prazos/primeiro_vencimento inconsistencia R8",
            "/simulacao/prazos/ultimo_vencimento inconsistencia R8",
        ]
    );
    // An absent request date reads as today; a wrong one is nothing to compare with.
    assert_eq!(
        strict(&[("data_solicitacao", "null"), ("data_liberacao_estimada", "\"2026-11-26\"")])[..2],
        ["/data_solicitacao campo_obrigatorio", "/simulacao/prazos/data_liberacao_estimada inconsistencia R8"]
    );
    let wrong = with(&[("data_solicitacao", "\"ontem\""), ("data_liberacao_estimada", "\"2026-11-26\"")]);
    assert_eq!(in_producao(&wrong).unwrap_err(), ["/data_solicitacao data_invalida"]);
}

#[test]
fn r9_last_due_date_follows_within_five_days() {
    assert_eq!(strict(&[("ultimo_vencimento", "\"2027-12-06\"")]), [""; 0]);
    assert_eq!(strict(&[("ultimo_vencimento", "\"2027-11-26\"")]), [""; 0]);
    let broken = ["/simulacao/prazos/ultimo_vencimento inconsistencia R9"];
    assert_eq!(strict(&[("ultimo_vencimento", "\"2027-12-07\"")]), broken);
    assert_eq!(strict(&[("ultimo_vencimento", "\"2027-11-25\"")]), broken);
}

#[test]
fn a_rule_looks_only_when_its_figures_are_present_and_in_order() {
    for (field, value, own) in [
        ("principal", "null", "/simulacao/valores/principal campo_obrigatorio"),
        ("principal", "5999.999", "/simulacao/valores/principal valor_fora_da_faixa"),
        ("total_parcelas", "421", "/simulacao/prazos/total_parcelas valor_fora_da_faixa"),
        ("cet_am", "null", "/simulacao/taxas/cet_am campo_obrigatorio"),
    ] {
        assert_eq!(strict(&[(field, value)]), [own], "{field} {value}");
    }
}

#[test]
fn of_a_key_given_twice_the_rules_read_the_first_value() {
    let twice = TYPICAL.replace("\"principal\": 5107.32", "\"principal\": 6000, \"principal\": 5107.32");
    let found = in_producao(&twice).unwrap_err();
    assert_eq!(
        found[..2],
        ["/simulacao/valores/principal chave_duplicada", "/simulacao/valores/principal inconsistencia R1",]
    );
}

#[test]
fn broken_rules_come_after_fields_in_their_own_order() {
    let found = strict(&[
        ("cpf", "\"123.456.789-00\""),
        ("liquido", "6000"),
        ("principal", "6000"),
        ("ultimo_vencimento", "\"2028-12-01\""),
    ]);
    assert_eq!(
        found,
        [
            "/cliente/cpf digito_verificador_invalido",
            "/simulacao/valores/principal inconsistencia R1",
            "/simulacao/valores/liquido inconsistencia R3",
            "/simulacao/valores/parcela inconsistencia R7",
            "/simulacao/prazos/ultimo_vencimento inconsistencia R9",
        ]
    );
}

#[test]
fn c5_the_edges_of_what_producao_accepts() {
    let n = "/simulacao/prazos/total_parcelas valor_fora_da_faixa";
    assert!(!strict(&[("total_parcelas", "420")]).contains(&n.to_owned()));
    assert_eq!(strict(&[("total_parcelas", "421")]), [n]);
    for field in ["solicitado", "iof", "principal", "parcela", "liquido", "bruto"] {
        let found = strict(&[(field, "1000.001")]);
        assert_eq!(found[0], format!("/simulacao/valores/{field} valor_fora_da_faixa"));
    }
    assert!(strict(&[("nominal_am", "3.4900001")]).is_empty(), "a rate may have as many decimals as can be held");
}

#[test]
fn r7_a_rate_of_nothing_has_no_lower_end_below_nothing() {
    // At 0 % the low end is P/n itself, less a cent: 5107.32 / 12 = 425.61.
    let figures = |parcela, bruto| [("nominal_am", "0"), ("parcela", parcela), ("bruto", bruto)];
    assert_eq!(strict(&figures("425.60", "5107.20")), [""; 0]);
    assert_eq!(strict(&figures("425.59", "5107.08")), ["/simulacao/valores/parcela inconsistencia R7"]);
}

#[test]
fn a_rule_switched_off_neither_refuses_nor_warns() {
    let body = with(&[("principal", "6000")]);
    let read = |perfil| {
        let policy = Policy::new(perfil).without(Regra::R1);
        NovaProposta::from_json(body.as_bytes(), &policy, today()).map(|nova| lines(nova.avisos()))
    };
    assert_eq!(read(Perfil::Homologacao).unwrap(), ["/simulacao/valores/parcela inconsistencia R7"]);
    assert_eq!(
        lines(read(Perfil::Producao).unwrap_err().violacoes()),
        ["/simulacao/valores/parcela inconsistencia R7"]
    );
}

#[test]
fn both_faults_of_a_phone_are_told() {
    assert_eq!(
        strict(&[("whatsapp", "\"5520812345678\"")]),
        ["/cliente/whatsapp ddd_invalido", "/cliente/whatsapp formato_invalido"]
    );
}

proptest! {
    #[test]
    fn figures_of_any_size_are_judged_without_a_panic(
        money in prop::collection::vec(0_u64..=999_999_999_999_999, 6),
        cents in 0_u32..100,
        rates in prop::collection::vec((0_u64..=999_999_999_999_999, 0_u64..=9_999_999_999), 3),
        n in 1_u32..=420,
        days in prop::collection::vec((1900_u32..=2199, 1_u32..=12, 1_u32..=28), 3),
    ) {
        let money: Vec<_> = money.iter().map(|reais| format!("{reais}.{cents:02}")).collect();
        let rates: Vec<_> = rates.iter().map(|(whole, part)| format!("{whole}.{part:010}")).collect();
        let days: Vec<_> = days.iter().map(|(y, m, d)| format!("\"{y}-{m:02}-{d:02}\"")).collect();
        let n = n.to_string();
        let fields = ["solicitado", "iof", "principal", "parcela", "liquido", "bruto"];
        let mut changes: Vec<_> = fields.into_iter().zip(money.iter().map(String::as_str)).collect();
        changes.extend(["nominal_am", "cet_am", "cet_aa"].into_iter().zip(rates.iter().map(String::as_str)));
        changes.extend(["data_liberacao_estimada", "primeiro_vencimento", "ultimo_vencimento"].into_iter().zip(days.iter().map(String::as_str)));
        changes.push(("total_parcelas", &n));
        let _ = in_producao(&with(&changes));
    }
}
