//! C1, C2, C3, C5, C36: every violation of a body at once, and none that is not there.

use proptest::prelude::*;
use svc_core::{NovaProposta, Policy};

use crate::vectors::vectors;
use crate::{TYPICAL, in_homologacao, in_producao, lines, now, today, typical};

/// The typical proposal with one piece of its text replaced.
fn with(piece: &str, replacement: &str) -> String {
    assert!(TYPICAL.contains(piece), "{piece}");
    TYPICAL.replacen(piece, replacement, 1)
}

fn violations(body: &str) -> Vec<String> {
    in_homologacao(body).err().unwrap_or_default()
}

fn with_nome(nome: &str) -> String {
    with("\"Beltrano da Silva Exemplo\"", &serde_json::to_string(nome).unwrap())
}

#[test]
fn all_violations_come_at_once_in_the_order_of_the_interface() {
    let body = r#"{
        "webhook_url": "mailto:a@b", "simulacao": {"prazos": {"ultimo_vencimento": "01/12/2027", "total_parcelas": 12.5},
        "taxas": [], "valores": {"bruto": 0, "iof": -1, "solicitado": "2000"}}, "cliente": {"whatsapp": "5511", "nome": " "},
        "id_proposta_parceiro": null, "data_solicitacao": "2026-02-30", "cliente": 7
    }"#;
    let found = [
        "/id_proposta_parceiro campo_obrigatorio",
        "/data_solicitacao data_invalida",
        "/cliente chave_duplicada",
        "/cliente/nome campo_obrigatorio",
        "/cliente/cpf campo_obrigatorio",
        "/cliente/whatsapp formato_invalido",
        "/simulacao/valores/solicitado tipo_invalido",
        "/simulacao/valores/iof valor_fora_da_faixa",
        "/simulacao/valores/bruto valor_fora_da_faixa",
        "/simulacao/taxas tipo_invalido",
        "/simulacao/prazos/total_parcelas valor_fora_da_faixa",
        "/simulacao/prazos/ultimo_vencimento data_invalida",
        "/webhook_url url_invalida",
    ];
    assert_eq!(violations(body), found);
    // producao adds the fields that it alone asks for, each in its place.
    let strict = in_producao(body).unwrap_err();
    assert_eq!(strict.len(), found.len() + 5);
    assert_eq!(
        strict[7..12],
        [
            "/simulacao/valores/iof valor_fora_da_faixa",
            "/simulacao/valores/principal campo_obrigatorio",
            "/simulacao/valores/parcela campo_obrigatorio",
            "/simulacao/valores/liquido campo_obrigatorio",
            "/simulacao/valores/bruto valor_fora_da_faixa",
        ]
    );
}

#[test]
fn null_and_blank_text_are_absent_whatever_the_type() {
    for absent in ["null", "\"\"", "\" \\t\\u00a0\\u2003\""] {
        assert_eq!(violations(&with("5000,", &format!("{absent},"))), [""; 0], "{absent} as a number");
        assert_eq!(violations(&with("\"2026-11-27\"", absent)), [""; 0], "{absent} as a date");
        let group = format!(
            r#"{{"id_proposta_parceiro":"P","cliente":{absent},"simulacao":{{"valores":{absent}}},"webhook_url":"http://a.example"}}"#
        );
        assert_eq!(violations(&group), ["/cliente campo_obrigatorio"], "{absent} as a group");
    }
}

#[test]
fn wrong_types_are_told_by_their_place_and_not_read() {
    for wrong in ["true", "1e400", "-0", "[1,[2]]", "{\"a\":{}}"] {
        assert_eq!(violations(&with("\"123.456.789-09\"", wrong)), ["/cliente/cpf tipo_invalido"], "{wrong}");
    }
    for wrong in ["false", "\"5000\"", "\"NaN\"", "[]", "{}"] {
        assert_eq!(
            violations(&with("5000,", &format!("{wrong},"))),
            ["/simulacao/valores/solicitado tipo_invalido"],
            "{wrong}"
        );
    }
    for wrong in ["1e400", "12", "\"x\"", "[{}]", "true"] {
        let body = format!(
            r#"{{"id_proposta_parceiro":"P","cliente":{wrong},"simulacao":{{}},"webhook_url":"http://a.example"}}"#
        );
        assert_eq!(violations(&body), ["/cliente tipo_invalido"], "{wrong}");
    }
}

#[test]
fn a_key_given_twice_counts_once_with_its_first_value() {
    let twice = with("\"iof\": 107.32", "\"iof\": 107.32, \"iof\": -1, \"i\\u006ff\": {\"x\":[]}");
    assert_eq!(violations(&twice), ["/simulacao/valores/iof chave_duplicada"]);
    let first_absent = with("\"nome\": ", "\"nome\": null, \"nome\": ");
    assert_eq!(violations(&first_absent), ["/cliente/nome chave_duplicada", "/cliente/nome campo_obrigatorio"]);
    let unknown = with("\"iof\": 107.32", "\"iof\": 107.32, \"x\": 1, \"x\": 2");
    assert_eq!(violations(&unknown), [""; 0]);
}

#[test]
fn f04_nesting_is_counted_everywhere_and_costs_no_stack() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    for (field, outside) in [("\"x\": ", 1), ("\"cliente\": 7, \"cliente\": ", 1), ("\"webhook_url\": ", 1)] {
        let body = |levels| format!("{{{field}{}}}", deep(levels));
        assert!(!violations(&body(32 - outside))[0].contains("json_malformado"), "{field}");
        assert!(violations(&body(33 - outside))[0].starts_with("body json_malformado at line 1"), "{field}");
        assert!(violations(&body(60_000))[0].starts_with("body json_malformado at line 1"), "{field}");
    }
    let inner = |levels| format!(r#"{{"simulacao":{{"valores":{{"iof":{}}}}}}}"#, deep(levels));
    assert!(!violations(&inner(29))[0].contains("json_malformado"));
    assert!(violations(&inner(30))[0].contains("json_malformado"));
    assert_eq!(violations(&deep(32)), ["body corpo_nao_objeto at line 1 column 1"]);
    assert_eq!(violations(&deep(33)), ["body json_malformado at line 1 column 33"]);
    assert!(violations(&"[".repeat(60_000))[0].contains("json_malformado"));
    assert_eq!(violations(r#"{"x": "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[["}"#).len(), 4, "brackets in text");
}

#[test]
fn f06_text_that_is_no_unicode_is_malformed_with_its_place() {
    for bad in [r#""\ud800""#, r#""a\uDC00""#, r#""\ud800\ud800""#, r#""\ud83d\u0041""#, r#""\ud800"#] {
        for body in [
            with("\"Beltrano da Silva Exemplo\"", bad),
            format!("{{\"x\": [{{}}, {bad}]}}"),
            format!("{{\"x\": {{{bad}: 1}}}}"),
        ] {
            assert!(violations(&body)[0].starts_with("body json_malformado"), "{body}");
        }
    }
    let key = with("\"nome\"", "\"\\ud800\": 1, \"nome\"");
    assert_eq!(violations(&key), ["body json_malformado at line 5 column 12"]);
    assert!(in_homologacao(&with_nome("😊")).is_ok());
    assert!(in_homologacao(&with("\"Beltrano", "\"\\ud83d\\ude0a Beltrano")).is_ok());

    let read =
        |bytes: &[u8]| NovaProposta::from_json(bytes, &Policy::default(), today()).map_err(|e| lines(e.violacoes()));
    assert_eq!(read(b"{\n \"a\": \"\xe7\"}").unwrap_err(), ["body json_malformado at line 2 column 8"]);
    let utf16: Vec<u8> = TYPICAL.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(read(&utf16).unwrap_err(), ["body json_malformado at line 1 column 2"]);
    assert_eq!(read(b"\xef\xbb\xbf{}").unwrap_err(), ["body json_malformado at line 1 column 1"]);
}

#[test]
fn a_malformed_body_says_where_in_lines_and_characters() {
    for (body, place) in [
        ("", "line 1 column 1"),
        ("{\"ção\": 1,}", "line 1 column 11"),
        ("{\n  \"a\": tru\n}", "line 2 column 11"),
        ("{}\n\n x", "line 3 column 2"),
    ] {
        assert_eq!(violations(body), [format!("body json_malformado at {place}")], "{body:?}");
    }
    for (body, place) in [("\n [1]", "line 2 column 2"), ("null", "line 1 column 1"), ("\"x\"", "line 1 column 1")] {
        assert_eq!(violations(body), [format!("body corpo_nao_objeto at {place}")], "{body:?}");
    }
}

#[test]
fn f07_control_characters_and_turned_text_are_refused_in_names() {
    let overrides = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}').map(|c| format!("A{c}na"));
    for bad in ["Ana\0", "Ana\u{7f}", "Ana\u{85}", "A\nna"].map(str::to_owned).into_iter().chain(overrides) {
        assert_eq!(violations(&with_nome(&bad)), ["/cliente/nome formato_invalido"], "{bad:?}");
    }
    for (bytes, found) in [(128, &[][..]), (129, &["/id_proposta_parceiro tamanho_excedido"][..])] {
        assert_eq!(violations(&with("PX-2026-000002", &"ç".repeat(bytes))), found);
    }
    assert_eq!(violations(&with_nome(&"ç".repeat(201))), ["/cliente/nome tamanho_excedido"]);
    for good in [&"ç".repeat(200), "D'Ávila <b>", "e\u{301}", "\u{200f}א", " Ana "] {
        assert_eq!(in_homologacao(&with_nome(good)).unwrap().dados().cliente.nome.as_str(), good);
    }
}

#[test]
fn f08_numbers_in_any_notation_are_exact_or_refused() {
    let solicitado = |literal: &str| in_homologacao(&with("5000,", &format!("{literal},")));
    for literal in ["5000", "5000.00", "5e3", "0.5E+4", "50000e-1"] {
        let nova = solicitado(literal).unwrap();
        assert_eq!(nova.to_json(), typical().to_json(), "{literal}");
    }
    for literal in ["1e400", "1e15", "0.00000000001", "12345678901234567890", "-1", "0", "-0", "0e9"] {
        assert_eq!(
            solicitado(literal).unwrap_err(),
            ["/simulacao/valores/solicitado valor_fora_da_faixa"],
            "{literal}"
        );
    }
    for literal in ["NaN", "Infinity", "+1", "01", "1.", ".5", "0x10", "1e"] {
        assert!(solicitado(literal).unwrap_err()[0].starts_with("body json_malformado"), "{literal}");
    }
    assert!(in_homologacao(&with("\"iof\": 107.32", "\"iof\": -0")).is_ok(), "-0 is 0, which iof may be");
    for (literal, fits) in
        [("12.0", true), ("1.2e1", true), ("12.5", false), ("0", false), ("1000000", true), ("1000001", false)]
    {
        let read = in_homologacao(&with("\"total_parcelas\": 12", &format!("\"total_parcelas\": {literal}")));
        assert_eq!(read.is_ok(), fits, "{literal}");
    }
}

#[test]
fn f09_dates_are_real_and_written_one_way() {
    for bad in [
        "2026-02-30",
        "2026-2-3",
        " 2026-02-03",
        "+12026-01-01",
        "0000-00-00",
        "1899-12-31",
        "2200-01-01",
        "２０２６-01-01",
        "2026-02-03 ",
    ] {
        assert_eq!(violations(&with("2026-11-27", bad)), ["/data_solicitacao data_invalida"], "{bad}");
    }
}

#[test]
fn f11_naughty_strings_are_kept_byte_for_byte_or_refused() {
    let Some(file) = vectors("naughty-strings/blns.txt") else { return };
    let text = std::fs::read_to_string(file).unwrap();
    let (mut kept, mut refused) = (0, 0);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match in_homologacao(&with_nome(line)) {
            Ok(nova) => {
                assert_eq!(nova.dados().cliente.nome.as_str(), line);
                kept += 1;
            }
            Err(found) => {
                assert_eq!(found.len(), 1, "{line:?}: {found:?}");
                assert!(found[0].starts_with("/cliente/nome "), "{line:?}: {found:?}");
                refused += 1;
            }
        }
    }
    assert!(kept > 400 && refused > 20, "{kept} kept, {refused} refused");
}

#[test]
fn f11_the_json_test_suite_as_a_body_and_as_an_unknown_field() {
    let Some(folder) = vectors("json-test-suite/test_parsing") else { return };
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name().into_string().unwrap())).unwrap();
        let bytes = std::fs::read(path).unwrap();
        let inside = [&b"{\"x\":"[..], &bytes, b"}"].concat();
        // As a text the file can hold a body of its own, so only a value can stand inside another.
        for body in [&bytes, &inside] {
            let found = NovaProposta::from_json(body, &Policy::default(), today()).unwrap_err();
            let malformed = found.to_string().contains("json_malformado");
            match name.as_bytes()[0] {
                b'y' => assert!(!malformed, "{name}: {found}"),
                b'n' => assert!(malformed, "{name}: {found}"),
                _ => {}
            }
        }
        seen += 1;
    }
    assert!(seen > 300, "{seen} files");
}

#[test]
fn the_same_proposal_in_another_notation_has_the_same_digest() {
    let other = with("5000,", "5e3,")
        .replace("Beltrano", "\\u0042eltrano")
        .replace("\"cliente\": {", "\"extra\": [1], \"cliente\": {")
        .replace('\n', " ");
    let digest = |body: &str| in_producao(body).unwrap().digest(&crate::key());
    assert_eq!(digest(&other), digest(TYPICAL));
    for changed in [with("5000,", "5000.01,"), with("Beltrano", "beltrano"), with("/webhooks", "/Webhooks")] {
        let changed = in_homologacao(&changed).unwrap();
        assert_ne!(changed.digest(&crate::key()), digest(TYPICAL));
    }
    let without_date = in_homologacao(&with("\"data_solicitacao\": \"2026-11-27\",", "")).unwrap();
    assert_ne!(without_date.digest(&crate::key()), digest(TYPICAL), "an absent field equals only an absent one");
}

#[test]
fn the_builder_goes_through_the_same_doors() {
    let decimal = |text: &str| text.parse::<svc_core::Decimal>().unwrap();
    let built = NovaProposta::builder("PX-2026-000002")
        .data_solicitacao("2026-11-27")
        .nome("Beltrano da Silva Exemplo")
        .cpf("123.456.789-09")
        .whatsapp("5521900000002")
        .solicitado(5000)
        .iof(decimal("107.32"))
        .principal(decimal("5107.32"))
        .parcela(decimal("528.21"))
        .liquido(decimal("5000.00"))
        .bruto(decimal("6338.52"))
        .nominal_am(decimal("3.49"))
        .cet_am(decimal("3.86"))
        .cet_aa(decimal("57.48"))
        .total_parcelas(12)
        .data_liberacao_estimada("2026-12-01")
        .primeiro_vencimento("2027-01-01")
        .ultimo_vencimento("2027-12-01")
        .webhook_url("https://parceiro.example.com/webhooks/svc")
        .build()
        .unwrap();
    assert_eq!(built.to_json(), typical().to_json());
    let empty = NovaProposta::builder("").build().unwrap_err();
    assert_eq!(
        lines(empty.violacoes()),
        ["/id_proposta_parceiro campo_obrigatorio", "/cliente campo_obrigatorio", "/webhook_url campo_obrigatorio"]
    );
}

/// A value that may stand anywhere in a body, good and bad.
fn odd_value() -> impl Strategy<Value = String> {
    let plain = [
        "null",
        "\" \"",
        "[[{\"a\":[1]}]]",
        "{\"$serde_json::private::Number\":\"1\"}",
        "\"\\ud800\"",
        "\"2026-12-01\"",
        "\"123.456.789-09\"",
        "\"https://e.example/\"",
    ];
    prop_oneof![
        prop::sample::select(plain.to_vec()).prop_map(str::to_owned).boxed(),
        "-?(0|[1-9][0-9]{0,16})(\\.[0-9]{1,12})?([eE][+-]?[0-9]{1,3})?".boxed(),
        "\\PC{0,8}".prop_map(|text| serde_json::to_string(&text).unwrap()).boxed(),
    ]
}

/// A body of known fields, some of them twice, with odd values.
fn odd_body() -> impl Strategy<Value = String> {
    let object = |keys: &'static [&'static str]| {
        prop::collection::vec((prop::sample::select(keys), odd_value()), 0..8).prop_map(|fields| {
            let fields: Vec<_> = fields.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            format!("{{{}}}", fields.join(","))
        })
    };
    let valores = object(&["solicitado", "iof", "principal", "parcela", "liquido", "bruto"]);
    let prazos = object(&["total_parcelas", "data_liberacao_estimada", "primeiro_vencimento", "ultimo_vencimento"]);
    let cliente = object(&["nome", "cpf", "whatsapp"]);
    let top = object(&["id_proposta_parceiro", "data_solicitacao", "cliente", "simulacao", "webhook_url", "x"]);
    (valores, prazos, cliente, top).prop_map(|(valores, prazos, cliente, top)| {
        let rest = top.strip_prefix('{').unwrap();
        let comma = if rest == "}" { "" } else { "," };
        format!("{{\"cliente\":{cliente},\"simulacao\":{{\"valores\":{valores},\"prazos\":{prazos}}}{comma}{rest}")
    })
}

proptest! {
    #[test]
    fn producao_refuses_what_homologacao_refuses_and_what_it_warns_of(body in odd_body()) {
        match (in_homologacao(&body), in_producao(&body)) {
            (Ok(nova), Err(found)) => prop_assert_eq!(lines(nova.avisos()), found),
            (Ok(nova), Ok(_)) => prop_assert!(nova.avisos().is_empty()),
            (Err(some), Err(all)) => prop_assert!(some.iter().all(|line| all.contains(line)), "{:?} {:?}", some, all),
            (Err(found), Ok(_)) => prop_assert!(false, "{:?}", found),
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = NovaProposta::from_json(&bytes, &Policy::default(), today());
    }

    #[test]
    fn no_change_of_a_good_body_panics(at in 0..TYPICAL.len(), byte: u8, cut in 0..TYPICAL.len()) {
        let mut bytes = TYPICAL.as_bytes().to_vec();
        bytes[at] = byte;
        let policy = Policy::new(svc_core::Perfil::Producao);
        let _ = NovaProposta::from_json(&bytes, &policy, svc_core::today_in_brasilia(now()));
        let _ = NovaProposta::from_json(&bytes[..cut], &policy, today());
    }

    #[test]
    fn a_decimal_comes_back_as_it_went(units in 1_i64..=999_999_999_999_999, fraction in 0_u64..10_000_000_000) {
        let literal = format!("{units}.{fraction:010}");
        let nova = in_homologacao(&with("5000,", &format!("{literal},"))).unwrap();
        let written = String::from_utf8(nova.to_json()).unwrap();
        let shortest = literal.trim_end_matches('0').trim_end_matches('.');
        let field = format!("\"solicitado\":{shortest},");
        prop_assert!(written.contains(&field), "{} in {}", field, written);
    }
}
