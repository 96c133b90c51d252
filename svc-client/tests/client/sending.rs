//! What goes out and what comes back (T26, T28, T30, T36, T39).

use std::time::Duration;

use svc_client::retry::Idempotency;
use svc_client::webhook::{self, Resposta};
use svc_client::{Acao, Client, Decimal, ErrorKind, NovaProposta, Outcome, defaults};
use svc_server::fake::{Fake, Fault, Route};

use crate::{proposta, to};

#[tokio::test]
async fn a_proposal_is_created_asked_about_and_answered() {
    let fake = Fake::start();
    let client = fake.client_builder().app_name("minha-financeira/1.2").build().unwrap();
    let created = client.create_proposta(&proposta("P-1")).await.unwrap();
    let id = created.id_proposta_svc.as_str();
    assert_eq!(client.proposta(id).await.unwrap().status, "AGUARDANDO_RESPOSTA");
    let error = client.resend_webhook(id).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Conflict, Some("proposta_sem_resposta")));
    let answer = client.simulate_answer(id, Acao::Recusar).await.unwrap();
    assert_eq!((answer.status.as_str(), answer.ja_respondida), ("RECUSADO", false));
    let error = client.simulate_answer(id, Acao::Aceitar).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Conflict, Some("proposta_ja_respondida")));
    let found = client.proposta_by_partner_id("P-1").await.unwrap();
    assert_eq!((found.id_proposta_svc.as_str(), found.status.as_str()), (id, "RECUSADO"));
    assert_eq!(found.webhook.as_ref().unwrap().id, format!("evt_{id}"));
    let error = client.proposta_by_partner_id("P-2").await.unwrap_err();
    assert_eq!((error.kind(), error.code(), error.attempts()), (ErrorKind::Api, Some("proposta_nao_encontrada"), 1));

    let request = &fake.requests(Route::Create)[0];
    let agent = concat!("minha-financeira/1.2 svc-client/", env!("CARGO_PKG_VERSION"));
    assert_eq!(request.headers()["user-agent"], agent);
    assert_eq!(Some(request.headers()["x-request-id"].to_str().unwrap()), created.request_id());
    assert!(!fake.requests(Route::Confirm)[0].headers().contains_key("authorization"), "the customer has no token");
}

#[tokio::test]
async fn the_server_s_violations_are_the_caller_s() {
    let fake = Fake::start();
    // Only the server knows that it sends nothing to this address.
    let error = fake.client().create_proposta(&to("P-1", "Ana", "http://10.0.0.1/")).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Rejected);
    let violation = &error.violations()[0];
    assert_eq!((violation.propriedade.as_str(), violation.codigo.as_str()), ("/webhook_url", "url_invalida"));
    let invalid: svc_client::Error = NovaProposta::builder("P-1").build().unwrap_err().into();
    assert_eq!((invalid.kind(), invalid.outcome(), invalid.attempts()), (ErrorKind::Config, Outcome::NotSent, 0));
    assert_eq!(invalid.violations()[0].codigo, "campo_obrigatorio");
    assert!(
        invalid.to_string().starts_with("request was not sent: the proposal is at fault, /cliente campo_obrigatorio")
    );
}

#[tokio::test]
async fn t26_what_a_later_service_may_say_is_read() {
    let fake = Fake::start();
    let client = fake.client();
    fake.next(
        Route::Create,
        [Fault::body(r#"{"status":"outro_texto","id_proposta_svc":"s-1","novo":{"a":[1,null]},"outro":1e400}"#)],
    );
    let created = client.create_proposta(&proposta("P-1")).await.unwrap();
    assert_eq!((created.status.as_str(), created.id_proposta_svc.as_str()), ("outro_texto", "s-1"));
    fake.next(
        Route::Find,
        [Fault::body(
            r#"{"id_proposta_svc":"s-1","id_proposta_parceiro":"P-1","status":"EXPIRADO","criada_em":"2026-11-27T20:31:44.000Z",
            "respondida_em":null,"mensagem":{"estado":"adiada","motivo":null,"novo":1},"webhook":null,"avisos":[],"novo":[]}"#,
        )],
    );
    let found = client.proposta_by_partner_id("P-1").await.unwrap();
    assert_eq!((found.status.as_str(), found.mensagem.estado.as_str()), ("EXPIRADO", "adiada"));
    assert_eq!((&found.respondida_em, &found.webhook), (&None, &None));

    let body = r#"{"id_proposta_svc":"s-1","id_proposta_parceiro":"P-1","status":"EXPIRADO","timestamp":"2026-11-27T20:31:44.000Z","novo":{}}"#;
    let secret = webhook::Secret::parse(fake.webhook_secret()).unwrap();
    let headers = webhook::sign_for_test(&secret, body.as_bytes(), fake.clock().now());
    let told = fake.verifier().parse_at(&headers, body.as_bytes(), fake.clock().now()).unwrap();
    assert_eq!(told.status, Resposta::Outro("EXPIRADO".to_owned()));
}

#[tokio::test]
async fn t28_a_redirect_is_not_followed() {
    let (fake, elsewhere) = (Fake::start(), Fake::start());
    fake.always(Route::Create, Fault::redirect(format!("{}/v1/propostas", elsewhere.base_url())));
    let error = fake.client().create_proposta(&proposta("P-1")).await.unwrap_err();
    assert_eq!((error.kind(), error.status().unwrap().as_u16()), (ErrorKind::Api, 302));
    assert_eq!((error.attempts(), elsewhere.requests(Route::Create).len()), (1, 0));
}

#[tokio::test]
async fn t30_ids_are_encoded_or_refused_before_sending() {
    let fake = Fake::start();
    let client = fake.client();
    for odd in ["a/b", "..", "%2F", "x?y=z&id_proposta_parceiro=w", "a b+c", "😊", "#", "ção"] {
        client.create_proposta(&proposta(odd)).await.unwrap();
        assert_eq!(client.proposta_by_partner_id(odd).await.unwrap().id_proposta_parceiro, odd);
    }
    let finds = fake.requests(Route::Find).len();
    for bad in ["", "  ", "a\r\nb", "\0", "\u{202e}x", &"x".repeat(129)] {
        let error = client.proposta_by_partner_id(bad).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome(), error.attempts()),
            (ErrorKind::Config, Outcome::NotSent, 0),
            "{bad:?}"
        );
    }
    for bad in ["", "a/b", "..", "%2F", "x?y", "a\r\nb", "😊", "07070707-0707-4707-8707-07070707070G"] {
        for error in [
            client.proposta(bad).await.unwrap_err(),
            client.resend_webhook(bad).await.unwrap_err(),
            client.simulate_answer(bad, Acao::Aceitar).await.unwrap_err(),
        ] {
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Config, Outcome::NotSent), "{bad}");
        }
    }
    assert_eq!(fake.requests(Route::Find).len(), finds);
    assert_eq!(fake.requests(Route::Show).len() + fake.requests(Route::Other).len(), 0);
}

#[tokio::test]
async fn t36_amounts_are_exact_both_ways() {
    let fake = Fake::start();
    let client = fake.client();
    for (written, sent) in [
        ("0.01", "0.01"),
        ("0.10", "0.1"),
        ("19.99", "19.99"),
        ("4.81", "4.81"),
        ("1500", "1500"),
        ("1e3", "1000"),
        ("999999999999.99", "999999999999.99"),
    ] {
        let body = String::from_utf8(proposta(written).to_json()).unwrap().replace(":2000}", &format!(":{written}}}"));
        assert!(body.contains(&format!(r#""solicitado":{written}}}"#)), "{body}");
        let read = NovaProposta::from_json_to_send(body.as_bytes()).unwrap();
        let value = read.dados().simulacao.valores.as_ref().unwrap().solicitado.unwrap().decimal();
        assert_eq!(value, Decimal::from_scientific(written).or_else(|_| written.parse()).unwrap());
        client.create_proposta(&read).await.unwrap();
        let requests = fake.requests(Route::Create);
        let bytes = str::from_utf8(requests.last().unwrap().body()).unwrap();
        assert!(bytes.contains(&format!(r#""solicitado":{sent}}}"#)), "{bytes}");
        // Read again, it is the same proposal to the service too.
        assert!(
            client
                .create_proposta(&NovaProposta::from_json_to_send(bytes.as_bytes()).unwrap())
                .await
                .unwrap()
                .replayed()
        );
    }
}

/// What a reader of the documentation sees of a constant, since rustdoc does not show a duration.
fn documented(source: &str, name: &str) -> String {
    let before = source.split(&format!("pub const {name}:")).next().unwrap();
    let lines: Vec<_> = before.lines().rev().take_while(|line| line.starts_with("///")).collect();
    lines.last().unwrap().trim_start_matches("/// ").split(':').next().unwrap().to_owned()
}

#[test]
fn t39_the_documentation_has_the_figures_of_the_constants() {
    let source = include_str!("../../src/defaults.rs");
    let written = |time: Duration| match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        millis => format!("{millis} ms"),
    };
    for (name, value) in [
        ("CONNECT_TIMEOUT", written(defaults::CONNECT_TIMEOUT)),
        ("ATTEMPT_TIMEOUT", written(defaults::ATTEMPT_TIMEOUT)),
        ("LOGIN_TIMEOUT", written(defaults::LOGIN_TIMEOUT)),
        ("TOTAL_TIMEOUT", written(defaults::TOTAL_TIMEOUT)),
        ("MAX_RETRIES", defaults::MAX_RETRIES.to_string()),
        ("BACKOFF_BASE", written(defaults::BACKOFF_BASE)),
        ("BACKOFF_CAP", written(defaults::BACKOFF_CAP)),
        ("MAX_RETRY_AFTER", written(defaults::MAX_RETRY_AFTER)),
        ("BUDGET_PERCENT", format!("{} %", defaults::BUDGET_PERCENT)),
        ("BUDGET_FLOOR", defaults::BUDGET_FLOOR.to_string()),
        ("IDEMPOTENCY", format!("{:?}", defaults::IDEMPOTENCY)),
        ("POOL_IDLE_TIMEOUT", written(defaults::POOL_IDLE_TIMEOUT)),
        ("POOL_MAX_IDLE", defaults::POOL_MAX_IDLE.to_string()),
        ("MAX_ANSWER_BYTES", format!("{} MiB", defaults::MAX_ANSWER_BYTES >> 20)),
        ("REFRESH_AHEAD", written(defaults::REFRESH_AHEAD)),
        ("LAST_SECONDS", written(defaults::LAST_SECONDS)),
        ("LOGIN_GAP", written(defaults::LOGIN_GAP)),
        ("LOGIN_GAP_CAP", written(defaults::LOGIN_GAP_CAP)),
        ("LOGIN_RETRY_AFTER_CAP", written(defaults::LOGIN_RETRY_AFTER_CAP)),
        ("SHARED_FAILURE", written(defaults::SHARED_FAILURE)),
        ("MAX_KEPT_BODY_BYTES", format!("{} KiB", defaults::MAX_KEPT_BODY_BYTES >> 10)),
    ] {
        assert_eq!(documented(source, name), value, "{name}");
    }
    assert_eq!(source.matches("pub const").count(), 21, "each is looked at");
}

#[test]
fn t39_every_default_is_a_constant() {
    let seconds = Duration::from_secs;
    assert_eq!(defaults::CONNECT_TIMEOUT, seconds(3));
    assert_eq!((defaults::ATTEMPT_TIMEOUT, defaults::LOGIN_TIMEOUT), (seconds(15), seconds(10)));
    assert_eq!((defaults::TOTAL_TIMEOUT, defaults::MAX_RETRIES), (seconds(45), 2));
    assert_eq!((defaults::BACKOFF_BASE, defaults::BACKOFF_CAP), (Duration::from_millis(500), seconds(5)));
    assert_eq!(defaults::MAX_RETRY_AFTER, seconds(30));
    assert_eq!((defaults::BUDGET_PERCENT, defaults::BUDGET_FLOOR), (20, 10));
    assert_eq!((defaults::REFRESH_AHEAD, defaults::LAST_SECONDS), (seconds(300), seconds(10)));
    assert_eq!((defaults::LOGIN_GAP, defaults::LOGIN_GAP_CAP), (seconds(1), seconds(30)));
    assert_eq!((defaults::SHARED_FAILURE, defaults::LOGIN_RETRY_AFTER_CAP), (seconds(1), seconds(60)));
    assert_eq!((defaults::POOL_IDLE_TIMEOUT, defaults::POOL_MAX_IDLE), (seconds(10), 8));
    assert_eq!((defaults::MAX_ANSWER_BYTES, defaults::MAX_KEPT_BODY_BYTES), (1_048_576, 8_192));
    assert_eq!(defaults::IDEMPOTENCY, Idempotency::Auto);
    assert_eq!((webhook::DEFAULT_TOLERANCE, webhook::CLAIM), (seconds(300), seconds(60)));
    assert_eq!(webhook::REMEMBERED, seconds(4 * 86_400));
}

#[tokio::test]
async fn answers_and_errors_are_read_as_far_as_they_may_be() {
    let fake = Fake::start();
    let client = fake.client();
    let padded = |bytes: usize| format!(r#"{{"status":"ok","id_proposta_svc":"s","x":"{}"}}"#, "x".repeat(bytes - 44));
    fake.next(Route::Create, [Fault::body(padded(1 << 20)), Fault::body(padded((1 << 20) + 1))]);
    assert_eq!(padded(1 << 20).len(), 1 << 20);
    client.create_proposta(&proposta("P-1")).await.unwrap();
    let error = client.create_proposta(&proposta("P-2")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Decode, Outcome::Accepted));
    assert!(error.raw_body().len() <= defaults::MAX_KEPT_BODY_BYTES);
    fake.next(Route::Show, [Fault::html(403)]);
    let error = client.proposta("07070707-0707-4707-8707-070707070707").await.unwrap_err();
    assert_eq!((error.status().unwrap().as_u16(), error.code()), (403, None));
    assert!(error.raw_body().starts_with(b"<html>"));
}

#[tokio::test]
async fn a_stranger_s_answer_does_not_write_into_the_log() {
    let fake = Fake::start();
    // What another server may answer, with the status of ours.
    let odd = r#"{"codigo":"a\nlinha 111.444.777-35","violacoes":[{"propriedade":"/x\ny","codigo":"ok"},7,
        {"propriedade":"/cliente/cpf","codigo":"formato_invalido","razao":"Ana 111.444.777-35"},
        {"propriedade":"","codigo":"nome Ana"}]}"#;
    fake.always(Route::Show, Fault::body(odd));
    let error = fake.client().proposta("07070707-0707-4707-8707-070707070707").await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("the service answered with an error, status 404, /cliente/cpf formato_invalido, request "),
        "{text}"
    );
    assert_eq!((error.code(), error.violations().len()), (None, 1), "the others cannot be the service's");
    assert!(!format!("{error:?}").contains("111.444"), "{error:?}");
    let many = format!(r#"{{"violacoes":[{}{{}}]}}"#, r#"{"propriedade":"/x","codigo":"ok"},"#.repeat(1_000));
    fake.always(Route::Show, Fault::body(many));
    let error = fake.client().proposta("07070707-0707-4707-8707-070707070707").await.unwrap_err();
    assert!(error.violations().len() <= 64);
    assert_eq!(error.raw_body().len(), defaults::MAX_KEPT_BODY_BYTES);
}

#[test]
fn settings_that_would_leak_or_fail_later_are_refused() {
    let build = |base: &str| Client::builder(base, "p", "s").build();
    for bad in [
        "",
        "propostas.example.com",
        "ftp://example.com",
        "http://example.com",
        "https://u:p@example.com",
        "https://example.com?x",
        "https://example.com/v1",
        "https://example.com/v1/",
        "https://example.com#x",
        "https://example.com/#x",
        "https://example.com:99999",
        "https://1.2.3.4.5",
    ] {
        assert_eq!(build(bad).unwrap_err().kind(), ErrorKind::Config, "{bad}");
    }
    for good in ["https://example.com/", "http://localhost:1", "http://[::1]:1", "http://127.0.0.2"] {
        assert!(build(good).is_ok(), "{good}");
    }
    assert!(Client::builder("http://example.com", "p", "s").allow_http(true).build().is_ok());
    let good = || Client::builder("https://example.com", "p", "s");
    for bad in [
        Client::builder("https://example.com", "", "s"),
        Client::builder("https://example.com", "p", ""),
        Client::builder("https://example.com", "p", "segredo\n"),
        good().app_name(" "),
        good().app_name("a\r\nb"),
        good().proxy("nao e url"),
    ] {
        let error = bad.build().unwrap_err();
        assert_eq!((error.kind(), error.outcome(), error.attempts()), (ErrorKind::Config, Outcome::NotSent, 0));
        assert!(!format!("{error} {error:?}").contains("segredo"));
    }
}
