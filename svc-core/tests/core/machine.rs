//! C11, C12, C26: one winner, one event, and bytes that never change, under any sequence of answers.

use chrono::TimeDelta;
use proptest::prelude::*;
use svc_core::{Acao, Answer, Confirmacao, NotApplied, Proposta, Status};

use crate::{now, stored};

#[test]
fn the_table_is_the_interface_s() {
    use Acao::{Aceitar, Recusar};
    use Status::{Aceito, AguardandoResposta, Recusado};
    for (from, acao, answer) in [
        (AguardandoResposta, Aceitar, Answer::Moved(Aceito)),
        (AguardandoResposta, Recusar, Answer::Moved(Recusado)),
        (Aceito, Aceitar, Answer::AlreadySo),
        (Aceito, Recusar, Answer::Refused),
        (Recusado, Recusar, Answer::AlreadySo),
        (Recusado, Aceitar, Answer::Refused),
    ] {
        assert_eq!(from.after(acao), answer, "{from} {acao}");
    }
}

#[test]
fn the_notification_is_compact_ordered_unescaped_and_in_milliseconds() {
    let body = r#"{"id_proposta_parceiro":"ação/😊\"","cliente":{"nome":"A","cpf":"123.456.789-09","whatsapp":"5521900000002"},"simulacao":{},"webhook_url":"https://e.example"}"#;
    let id = svc_core::PropostaId::from_random([1; 16]);
    let proposta = crate::in_homologacao(body).unwrap().open(id, "p", &crate::key(), now());
    let transition = proposta.apply(Acao::Recusar, now()).unwrap();
    assert_eq!(
        str::from_utf8(transition.evento.body()).unwrap(),
        r#"{"id_proposta_svc":"01010101-0101-4101-8101-010101010101","id_proposta_parceiro":"ação/😊\"","status":"RECUSADO","timestamp":"2026-11-27T20:31:44.123Z"}"#
    );
    assert_eq!(transition.evento.id().to_string(), "evt_01010101-0101-4101-8101-010101010101");
    assert_eq!(Confirmacao::of(&transition.proposta, true).unwrap().timestamp, "2026-11-27T20:31:44.123Z");
}

#[test]
fn a_record_comes_back_from_a_store_in_every_state() {
    let waiting = stored();
    let answered = waiting.apply(Acao::Aceitar, now()).unwrap().proposta;
    for proposta in [&waiting, &answered, &waiting.without_dados(), &answered.without_dados()] {
        assert_eq!(Proposta::from_stored(&proposta.to_stored()).as_ref(), Ok(proposta));
    }
    assert_eq!(answered.without_dados().dados(), None);
    assert_eq!(answered.without_dados().digest(), waiting.digest(), "a replay is recognised after retention");
    let removed = String::from_utf8(answered.without_dados().to_stored()).unwrap();
    for gone in ["Beltrano", "123.456", "5521900000002", "5107.32", "2027-12-01"] {
        assert!(!removed.contains(gone), "{gone}");
    }
}

/// What was stored by any version must be read by every later one, and a replay recognised.
#[test]
fn stored_bytes_and_digests_are_these() {
    let answered = stored().apply(Acao::Aceitar, now()).unwrap().proposta;
    let canonical = concat!(
        r#"{"id_proposta_parceiro":"PX-2026-000002","data_solicitacao":"2026-11-27","#,
        r#""cliente":{"nome":"Beltrano da Silva Exemplo","cpf":"123.456.789-09","whatsapp":"5521900000002"},"#,
        r#""simulacao":{"valores":{"solicitado":5000,"iof":107.32,"principal":5107.32,"parcela":528.21,"liquido":5000,"bruto":6338.52},"#,
        r#""taxas":{"nominal_am":3.49,"cet_am":3.86,"cet_aa":57.48},"prazos":{"total_parcelas":12,"#,
        r#""data_liberacao_estimada":"2026-12-01","primeiro_vencimento":"2027-01-01","ultimo_vencimento":"2027-12-01"}},"#,
        r#""webhook_url":"https://parceiro.example.com/webhooks/svc"}"#
    );
    assert_eq!(String::from_utf8(crate::typical().to_json()).unwrap(), canonical);
    let hex: String = stored().digest().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, DIGEST);
    let golden = |status: &str, answered: &str, version: u32, proposta: &str| {
        format!(
            r#"{{"v":1,"id":"0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b","client_id":"parceiro-teste","status":"{status}","version":{version},"criada_em":"2026-11-27T20:31:44.123Z","respondida_em":{answered},"digest":"{DIGEST_BASE64}","avisos":[],"proposta":{proposta}}}"#
        )
    };
    let time = "\"2026-11-27T20:31:44.123Z\"";
    let removed =
        r#"{"id_proposta_parceiro":"PX-2026-000002","webhook_url":"https://parceiro.example.com/webhooks/svc"}"#;
    for (proposta, text) in [
        (stored(), golden("AGUARDANDO_RESPOSTA", "null", 1, canonical)),
        (answered.clone(), golden("ACEITO", time, 2, canonical)),
        (answered.without_dados(), golden("ACEITO", time, 3, removed)),
    ] {
        assert_eq!(String::from_utf8(proposta.to_stored()).unwrap(), text);
        assert_eq!(Proposta::from_stored(text.as_bytes()), Ok(proposta));
    }
}

const DIGEST: &str = "71c59cdfe126c5d85308cb44ae0287e50ff0082b31389425661d13c4186b7b26";
const DIGEST_BASE64: &str = "ccWc3+EmxdhTCMtErgKH5Q/wCCsxOJQlZh0TxBhreyY=";

#[test]
fn avisos_are_fixed_at_creation_and_stored() {
    let body = include_str!("../proposals/invalid/e05_principal_nao_soma.json");
    let id = svc_core::PropostaId::from_random([1; 16]);
    let proposta = crate::in_homologacao(body).unwrap().open(id, "p", &crate::key(), now());
    assert_eq!(proposta.avisos().len(), 1);
    let back = Proposta::from_stored(&proposta.to_stored()).unwrap();
    assert_eq!(back.avisos(), proposta.avisos());
    assert_eq!(back.avisos()[0].to_string(), "/simulacao/valores/principal inconsistencia R1");
}

#[test]
fn a_stored_record_that_was_damaged_is_refused() {
    let good = String::from_utf8(stored().to_stored()).unwrap();
    for (piece, damage) in [
        ("\"v\":1", "\"v\":2"),
        ("AGUARDANDO_RESPOSTA", "ACEITO"), // an answer without its time
        ("AGUARDANDO_RESPOSTA", "OUTRO"),
        ("0b0b0b0b-0b0b-4b0b", "0b0b0b0b-0b0b-1b0b"),
        ("\"cpf\":\"", "\"cpf\":\"x"),
        ("\"digest\":\"", "\"digest\":\"!"),
        ("2026-11-27T20:31:44.123Z", "ontem"),
        ("\"solicitado\":5000", "\"solicitado\":-1"),
    ] {
        assert!(good.contains(piece), "{piece}");
        assert!(Proposta::from_stored(good.replace(piece, damage).as_bytes()).is_err(), "{damage}");
    }
}

proptest! {
    /// Against the smallest model there is: the first answer, and whether each later one agrees with it.
    #[test]
    fn the_first_answer_wins_and_makes_the_one_event(answers in prop::collection::vec((any::<bool>(), 0_i64..1_000), 1..20)) {
        let mut proposta = stored();
        let (mut first, mut events, mut at) = (None, Vec::new(), now());
        for (accept, seconds) in answers {
            at += TimeDelta::seconds(seconds);
            let acao = if accept { Acao::Aceitar } else { Acao::Recusar };
            let before = proposta.clone();
            match (proposta.apply(acao, at), first) {
                (Ok(transition), None) => {
                    first = Some((acao, at));
                    prop_assert_eq!(transition.proposta.version(), before.version() + 1);
                    events.push(transition.evento.body().to_vec());
                    proposta = transition.proposta;
                }
                (Err(NotApplied::AlreadySo), Some((given, _))) => prop_assert_eq!(acao, given),
                (Err(NotApplied::Refused { stored }), Some((given, _))) => {
                    prop_assert_ne!(acao, given);
                    prop_assert_eq!(stored, before.status());
                }
                (result, first) => prop_assert!(false, "{:?} after {:?}", result, first),
            }
        }
        prop_assert_eq!(events.len(), 1);
        let (acao, at) = first.unwrap();
        let status = if acao == Acao::Aceitar { Status::Aceito } else { Status::Recusado };
        prop_assert_eq!(proposta.status(), status);
        prop_assert_eq!(proposta.respondida_em().unwrap().timestamp_millis(), at.timestamp_millis());
    }
}
