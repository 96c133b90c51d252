//! C19, C35: the customer's message, tried again by its own schedule.

use chrono::TimeDelta;
use svc_core::{Jitter, Mensagem, Next, Schedule, SendOutcome};

use crate::{now, stored};

fn mensagem() -> Mensagem {
    Mensagem::of(&stored(), &Schedule::MENSAGEM, now())
}

fn failed(mensagem: Mensagem) -> Mensagem {
    mensagem.after(SendOutcome::Failed("nao_enviada".into()), &Schedule::MENSAGEM, Jitter::NONE, now())
}

#[test]
fn c35_eight_attempts_and_then_it_has_failed() {
    let mut mensagem = mensagem();
    assert!(mensagem.is_fresh());
    assert_eq!(mensagem.next(), Next::At(now()));
    for seconds in [5, 30, 120, 600, 3_600, 21_600, 86_400] {
        mensagem = failed(mensagem);
        assert_eq!(mensagem.next(), Next::At(now() + TimeDelta::seconds(seconds)));
        assert_eq!((mensagem.estado(), mensagem.motivo()), ("pendente", Some("nao_enviada")));
    }
    let ended = failed(mensagem);
    assert_eq!((ended.next(), ended.estado(), ended.motivo()), (Next::GiveUp, "falhou", Some("nao_enviada")));
}

#[test]
fn what_cannot_succeed_is_not_tried_again() {
    let refused = SendOutcome::Refused("numero_invalido".into());
    let ended = mensagem().after(refused, &Schedule::MENSAGEM, Jitter::NONE, now());
    assert_eq!((ended.next(), ended.motivo()), (Next::GiveUp, Some("numero_invalido")));
}

#[test]
fn jitter_only_adds() {
    let again = SendOutcome::Failed("nao_enviada".into());
    let spread = mensagem().after(again, &Schedule::MENSAGEM, Jitter::from_random(u32::MAX), now());
    assert_eq!(spread.next(), Next::At(now() + TimeDelta::milliseconds(5_500)));
}

#[test]
fn c19_a_resend_is_due_at_once_and_begins_anew_after_the_end() {
    let later = now() + TimeDelta::seconds(1);
    let waiting = failed(failed(mensagem())).resend(&Schedule::MENSAGEM, later);
    assert_eq!((waiting.next(), waiting.is_fresh()), (Next::At(later), false));
    assert_eq!(failed(waiting).next(), Next::At(now() + TimeDelta::seconds(120)), "its schedule goes on");

    let sent = mensagem().after(SendOutcome::Sent, &Schedule::MENSAGEM, Jitter::NONE, now());
    let again = sent.resend(&Schedule::MENSAGEM, later);
    assert_eq!((again.next(), again.estado(), again.is_fresh()), (Next::At(later), "pendente", true));
    assert_eq!(again.motivo(), None);
}

#[test]
fn a_message_comes_back_from_a_store_in_every_state_and_in_these_bytes() {
    let waiting = failed(mensagem());
    let sent = mensagem().after(SendOutcome::Sent, &Schedule::MENSAGEM, Jitter::NONE, now());
    let refused = SendOutcome::Refused("numero_invalido".into());
    let given_up = mensagem().after(refused, &Schedule::MENSAGEM, Jitter::NONE, now());
    for mensagem in [mensagem(), waiting.clone(), sent, given_up] {
        assert_eq!(Mensagem::from_stored(&mensagem.to_stored()).unwrap().to_stored(), mensagem.to_stored());
    }
    // What was stored by any version must be read by every later one.
    let golden = concat!(
        r#"{"v":1,"id":"0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b","client_id":"parceiro-teste","attempts":1,"#,
        r#""motivo":"nao_enviada","estado":"pendente","due":1795811509123}"#
    );
    assert_eq!(String::from_utf8(waiting.to_stored()).unwrap(), golden);
    for (piece, damage) in
        [("\"v\":1", "\"v\":2"), ("0b0b0b0b-", ""), ("\"pendente\"", "\"enviada\""), ("\"pendente\"", "\"lida\"")]
    {
        assert!(Mensagem::from_stored(golden.replacen(piece, damage, 1).as_bytes()).is_err(), "{damage}");
    }
}
