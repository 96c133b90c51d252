//! C19, C35: the customer's message, tried again by its own schedule.

use std::time::Duration;

use chrono::TimeDelta;
use svc_core::{Envio, Jitter, Mensagem, Next, Noticia, Schedule, SendOutcome};

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

const DAY: Duration = Duration::from_secs(86_400);

fn taken(mensagem: Mensagem, id: &str) -> Mensagem {
    let envio = Envio { id: id.to_owned(), conta: Some("551100000018".to_owned()) };
    mensagem.after(SendOutcome::Taken(envio), &Schedule::MENSAGEM, Jitter::NONE, now())
}

fn sent_again() -> Mensagem {
    taken(mensagem(), "wamid.2")
}

fn told(mensagem: Mensagem, id: &str, noticia: Noticia) -> Mensagem {
    mensagem.told(id, noticia, &Schedule::MENSAGEM, Jitter::NONE, now())
}

#[test]
fn c35_what_a_day_must_pass_for_is_not_tried_before() {
    let wait = |mensagem: Mensagem| {
        let postponed = SendOutcome::Postponed("limite_do_destinatario".into(), DAY);
        mensagem.after(postponed, &Schedule::MENSAGEM, Jitter::NONE, now())
    };
    let mut mensagem = mensagem();
    for _ in 0..7 {
        mensagem = wait(mensagem);
        assert_eq!(mensagem.next(), Next::At(now() + DAY));
        assert_eq!((mensagem.estado(), mensagem.motivo()), ("pendente", Some("limite_do_destinatario")));
    }
    assert_eq!(wait(mensagem).next(), Next::GiveUp, "it is an attempt like any other");
}

#[test]
fn c35_a_fault_of_the_channel_costs_no_attempt_and_is_waited_for_a_day() {
    let held = |mensagem: Mensagem, hours| {
        let outcome = SendOutcome::Held("configuracao_do_canal".into(), Duration::from_secs(60));
        mensagem.after(outcome, &Schedule::MENSAGEM, Jitter::NONE, now() + TimeDelta::hours(hours))
    };
    let mut mensagem = mensagem();
    for hours in 0..24 {
        mensagem = held(mensagem, hours);
        let due = now() + TimeDelta::hours(hours) + TimeDelta::minutes(1);
        assert!(mensagem.is_fresh() && mensagem.motivo() == Some("configuracao_do_canal"));
        assert_eq!(mensagem.next(), Next::At(due));
        mensagem = Mensagem::from_stored(&mensagem.to_stored()).unwrap();
    }
    assert_eq!(held(mensagem.clone(), 24).next(), Next::GiveUp);
    let again = held(failed(mensagem), 30);
    assert_eq!(
        again.next(),
        Next::At(now() + TimeDelta::hours(30) + TimeDelta::minutes(1)),
        "another fault, another day"
    );
}

#[test]
fn c39_a_message_does_not_show_whom_it_went_to() {
    assert!(!format!("{:?}", taken(mensagem(), "wamid.1")).contains("5511"));
    assert!(!format!("{:?}", taken(mensagem(), "wamid.1")).contains("wamid"));
}

#[test]
fn c22_news_of_a_message_count_in_any_order_and_twice() {
    let of = |word: &str| match word {
        "delivered" => Noticia::Delivered,
        "read" => Noticia::Read,
        _ => Noticia::Failed(SendOutcome::Refused("destinatario_inalcancavel".into())),
    };
    for (news, estado) in [
        ("delivered", "entregue"),
        ("delivered read", "lida"),
        ("read delivered", "lida"),
        ("read read failed", "lida"),
        ("failed", "falhou"),
        ("failed failed", "falhou"),
        ("failed delivered", "entregue"),
    ] {
        let told =
            news.split(' ').fold(taken(mensagem(), "wamid.1"), |mensagem, word| told(mensagem, "wamid.1", of(word)));
        assert_eq!(told.estado(), estado);
        assert_eq!(told.motivo().is_some(), estado == "falhou");
        let ended = if estado == "falhou" { Next::GiveUp } else { Next::Done };
        assert_eq!(told.next(), ended);
        assert_eq!(Mensagem::from_stored(&told.to_stored()).unwrap().estado(), estado);
    }
}

#[test]
fn c35_a_failure_that_is_known_late_goes_on_in_the_schedule() {
    let late = told(taken(failed(mensagem()), "wamid.1"), "wamid.1", Noticia::Failed(SendOutcome::Failed("x".into())));
    assert_eq!((late.estado(), late.motivo()), ("pendente", Some("x")));
    assert_eq!(late.next(), Next::At(now() + TimeDelta::seconds(30)), "two attempts were made");
}

#[test]
fn news_of_another_message_and_of_one_that_is_sent_again_stop_nothing() {
    let sent = taken(mensagem(), "wamid.2");
    assert_eq!(told(sent.clone(), "wamid.1", Noticia::Read), sent);
    let again = sent.resend(&Schedule::MENSAGEM, now());
    let read = told(again, "wamid.2", Noticia::Read);
    assert_eq!((read.estado(), read.next()), ("pendente", Next::At(now())), "it was asked for again (C19)");
    assert_eq!(taken(read, "wamid.3").estado(), "enviada", "a message of its own");
    // So it is after a failure that was known late.
    let late = told(sent_again(), "wamid.2", Noticia::Failed(SendOutcome::Failed("x".into())));
    let asked = told(late.resend(&Schedule::MENSAGEM, now()), "wamid.2", Noticia::Delivered);
    assert_eq!((asked.estado(), asked.next()), ("pendente", Next::At(now())));
    let without = taken(mensagem(), "wamid.4").without_dados();
    assert_eq!((without.envio(), without.estado()), (None, "enviada"));
    assert!(!String::from_utf8(without.to_stored()).unwrap().contains("5511"));
}

#[test]
fn a_message_comes_back_from_a_store_in_every_state_and_in_these_bytes() {
    let waiting = failed(mensagem());
    let sent = mensagem().after(SendOutcome::Sent, &Schedule::MENSAGEM, Jitter::NONE, now());
    let refused = SendOutcome::Refused("numero_invalido".into());
    let given_up = mensagem().after(refused, &Schedule::MENSAGEM, Jitter::NONE, now());
    for mensagem in [mensagem(), waiting.clone(), sent, given_up, taken(mensagem(), "wamid.1")] {
        let back = Mensagem::from_stored(&mensagem.to_stored()).unwrap();
        assert_eq!((back.to_stored(), back.envio()), (mensagem.to_stored(), mensagem.envio()));
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
