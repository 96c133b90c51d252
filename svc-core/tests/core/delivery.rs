//! C27, C29, C32, C33: what is sent, what counts as delivered, and when it is tried again.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use svc_core::{Acao, Delivery, Falha, Jitter, Next, Outcome, Received, Schedule, Secret, Signer, Tentativa, Verifier};

use crate::{now, stored};

fn delivery() -> Delivery {
    Delivery::of(&stored().apply(Acao::Aceitar, now()).unwrap(), &Schedule::HOMOLOGACAO, now())
}

fn status(code: u16) -> Outcome {
    Outcome::Status { code, retry_after: None }
}

/// One attempt that ends at `at` without jitter.
fn attempt(delivery: Delivery, resultado: Outcome, at: DateTime<Utc>) -> Delivery {
    let tentativa = Tentativa { em: at, duracao_ms: 1, resultado };
    delivery.after(tentativa, &Schedule::HOMOLOGACAO, Jitter::NONE, at)
}

fn in_seconds(seconds: i64) -> Next {
    Next::At(now() + TimeDelta::seconds(seconds))
}

#[test]
fn w20_attempts_differ_in_their_time_and_its_signature_only() {
    let secret = Secret::from_raw_key_bytes(&[7; 32]).unwrap();
    let (signer, delivery) = (Signer::new(&secret), delivery());
    let (first, second) = (delivery.request(&signer, now()), delivery.request(&signer, now() + TimeDelta::hours(1)));
    assert_eq!(first.body, second.body);
    assert_eq!(first.url, "https://parceiro.example.com/webhooks/svc");
    let names = ["content-type", "x-svc-signature", "webhook-id", "webhook-timestamp", "webhook-signature"];
    assert_eq!(first.headers.clone().map(|(name, _)| name), names);
    let same = first.headers.iter().zip(&second.headers).map(|(a, b)| a == b).collect::<Vec<_>>();
    assert_eq!(same, [true, true, true, false, false]);
    for (request, at) in [(&first, now()), (&second, now() + TimeDelta::hours(1))] {
        let received =
            Received::from_pairs(request.headers.iter().map(|(name, value)| (*name, value.as_bytes()))).unwrap();
        let verifier = Verifier::new(&secret).tolerance(0).require_timestamp();
        assert_eq!(verifier.verify(received, request.body, at.timestamp() as u64), Ok(()));
    }
}

#[test]
fn w22_any_2xx_delivers_410_ends_and_the_rest_is_tried_again() {
    for code in [200, 201, 204, 299] {
        assert_eq!(attempt(delivery(), status(code), now()).next(), Next::Done, "{code}");
    }
    assert_eq!(attempt(delivery(), status(410), now()).next(), Next::GiveUp);
    for code in [100, 301, 302, 307, 400, 401, 404, 408, 409, 429, 499, 500, 503, 599] {
        assert_eq!(attempt(delivery(), status(code), now()).next(), in_seconds(5), "{code}");
    }
    for falha in [Falha::Dns, Falha::Bloqueado, Falha::Conexao, Falha::Tls, Falha::TempoEsgotado] {
        assert_eq!(attempt(delivery(), Outcome::Failed(falha), now()).next(), in_seconds(5), "{falha:?}");
    }
}

#[test]
fn w25_waits_follow_the_schedule_from_the_end_of_each_attempt() {
    let mut delivery = delivery();
    let mut at = now();
    assert_eq!(delivery.next(), Next::At(at));
    for wait in [5, 30, 120, 600] {
        at += TimeDelta::seconds(7); // the attempt took its time
        delivery = attempt(delivery, status(500), at);
        at += TimeDelta::seconds(wait);
        assert_eq!(delivery.next(), Next::At(at));
        assert_eq!(delivery.estado(), "pendente");
    }
    delivery = attempt(delivery, status(500), at);
    assert_eq!((delivery.next(), delivery.estado()), (Next::GiveUp, "falhou"));
    assert_eq!(delivery.tentativas().len(), 5);
}

#[test]
fn w25_jitter_spreads_upwards_by_a_tenth_at_most() {
    let waits: Vec<_> = (0..1_000)
        .map(|i| {
            let tentativa = Tentativa { em: now(), duracao_ms: 1, resultado: status(500) };
            let jitter = Jitter::from_random(u32::MAX / 999 * i);
            match delivery().after(tentativa, &Schedule::HOMOLOGACAO, jitter, now()).next() {
                Next::At(due) => (due - now()).num_microseconds().unwrap(),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert!(waits.iter().all(|wait| (5_000_000..=5_500_000).contains(wait)));
    let mut different = waits.clone();
    different.dedup();
    assert_eq!(different.len(), 1_000);
    assert_eq!((waits[0], waits[500] > 5_200_000), (5_000_000, true));
}

#[test]
fn f60_retry_after_lengthens_a_wait_where_it_may_and_to_a_day_at_most() {
    let asked = |code, seconds| Outcome::Status { code, retry_after: Some(Duration::from_secs(seconds)) };
    for (outcome, wait) in [
        (asked(429, 60), 60),
        (asked(503, 60), 60),
        (asked(503, 1), 5),
        (asked(500, 60), 5),
        (asked(302, 60), 5),
        (asked(429, u64::MAX), 86_400),
    ] {
        assert_eq!(attempt(delivery(), outcome, now()).next(), in_seconds(wait), "{outcome}");
    }
}

#[test]
fn w31_a_resend_keeps_the_event_and_begins_the_schedule_anew_after_its_end() {
    let later = now() + TimeDelta::hours(2);
    let waiting = attempt(delivery(), status(500), now()).resend(&Schedule::HOMOLOGACAO, now());
    assert_eq!(waiting.next(), Next::At(now()), "pending: the next attempt now");
    assert_eq!(attempt(waiting, status(500), now()).next(), in_seconds(30), "and its schedule goes on");

    let overdue = delivery().resend(&Schedule::HOMOLOGACAO, later);
    assert_eq!(overdue.next(), Next::At(now()), "never later than it was due");

    for outcome in [status(200), status(410)] {
        let ended = attempt(delivery(), outcome, now());
        let again = ended.clone().resend(&Schedule::HOMOLOGACAO, later);
        assert_eq!(again.next(), Next::At(later));
        assert_eq!((again.evento(), again.estado()), (ended.evento(), "pendente"));
        let failed = attempt(again, status(500), later);
        assert_eq!(failed.next(), Next::At(later + TimeDelta::seconds(5)));
        assert_eq!(failed.tentativas().len(), 2, "every attempt stays visible");
    }
}

#[test]
fn a_resend_after_the_end_begins_with_the_schedule_s_first_wait() {
    let schedule = Schedule::parse("5s,10s").unwrap();
    let again = attempt(delivery(), status(200), now()).resend(&schedule, now());
    assert_eq!(again.next(), in_seconds(5));
}

#[test]
fn jitter_spreads_what_a_receiver_asked_for_too() {
    let outcome = Outcome::Status { code: 503, retry_after: Some(Duration::from_secs(100)) };
    let tentativa = Tentativa { em: now(), duracao_ms: 1, resultado: outcome };
    let delivery = delivery().after(tentativa, &Schedule::HOMOLOGACAO, Jitter::from_random(u32::MAX), now());
    assert_eq!(delivery.next(), in_seconds(110));
}

#[test]
fn what_has_ended_stays_ended_and_a_late_2xx_still_delivers() {
    for (end, late, next) in
        [(200, 500, Next::Done), (410, 500, Next::GiveUp), (410, 200, Next::Done), (200, 410, Next::Done)]
    {
        let delivery = attempt(attempt(delivery(), status(end), now()), status(late), now());
        assert_eq!(delivery.next(), next, "{late} after {end}");
        assert_eq!(delivery.tentativas().len(), 2);
    }
}

#[test]
fn a_delivery_comes_back_from_a_store_in_every_state_and_in_these_bytes() {
    let waiting = attempt(delivery(), status(500), now());
    let failed = attempt(delivery(), Outcome::Failed(Falha::TempoEsgotado), now());
    for delivery in [
        delivery(),
        waiting.clone(),
        failed,
        attempt(delivery(), status(204), now()),
        attempt(delivery(), status(410), now()),
    ] {
        let back = Delivery::from_stored(&delivery.to_stored()).unwrap();
        assert_eq!(back.to_stored(), delivery.to_stored());
        assert_eq!(
            (back.evento(), back.estado(), back.client_id()),
            (delivery.evento(), delivery.estado(), delivery.client_id())
        );
    }
    // What was stored by any version must be read by every later one.
    let golden = concat!(
        r#"{"v":1,"id":"evt_0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b","body":"{\"id_proposta_svc\":\"0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b\","#,
        r#"\"id_proposta_parceiro\":\"PX-2026-000002\",\"status\":\"ACEITO\",\"timestamp\":\"2026-11-27T20:31:44.123Z\"}","#,
        r#""client_id":"parceiro-teste","url":"https://parceiro.example.com/webhooks/svc","attempts":1,"#,
        r#""tentativas":[[1795811504123,1,"500"]],"estado":"pendente","due":1795811509123}"#
    );
    assert_eq!(String::from_utf8(waiting.to_stored()).unwrap(), golden);
    for (piece, damage) in [
        ("\"v\":1", "\"v\":2"),
        ("evt_", ""),
        ("\"pendente\"", "\"entregue\""),
        ("\"500\"", "\"x\""),
        ("https://", "ftp://"),
    ] {
        assert!(Delivery::from_stored(golden.replacen(piece, damage, 1).as_bytes()).is_err(), "{damage}");
    }
}

#[test]
fn a_partner_that_asks_without_end_loses_the_oldest_attempts() {
    let mut delivery = delivery();
    for i in 0..250 {
        let tentativa = Tentativa { em: now(), duracao_ms: i, resultado: status(200) };
        delivery = delivery
            .after(tentativa, &Schedule::HOMOLOGACAO, Jitter::NONE, now())
            .resend(&Schedule::HOMOLOGACAO, now());
    }
    assert_eq!(delivery.tentativas().len(), svc_core::MAX_TENTATIVAS);
    assert_eq!(delivery.tentativas().last().unwrap().duracao_ms, 249);
}

#[test]
fn moments_beyond_the_calendar_are_its_end() {
    let last = DateTime::<Utc>::MAX_UTC;
    let delivery = Delivery::of(&stored().apply(Acao::Aceitar, now()).unwrap(), &Schedule::PRODUCAO, last);
    assert_eq!(attempt(delivery, status(500), last).next(), Next::At(last));
}
