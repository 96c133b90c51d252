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
