//! What nobody may read in a log: secrets, tokens, signatures and persons (T27, W17).

use std::fmt::Debug;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use svc_client::webhook::{Secret, sign_for_test};
use svc_client::{Acao, ClientSecret, NovaProposta};
use svc_server::fake::{Fake, Fault, Route};
use tracing_subscriber::fmt::format::FmtSpan;

use crate::{alone, is_alone, named, proposta, ran};

/// What a log holds.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// None of what only the partner, the service and the customer may know.
fn assert_silent(fake: &Fake, text: &str) {
    let secret = fake.webhook_secret().trim_start_matches("whsec_");
    // "eyJ" begins every access token.
    for hidden in [fake.client_secret(), secret, "eyJ", "Beltrana", "111.444", "444.777", "5511900000018", "v1,"] {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
}

#[tokio::test]
async fn t27_no_text_and_no_trace_tells_a_secret_or_a_person() {
    if !is_alone() {
        return ran(alone("silence::t27_no_text_and_no_trace_tells_a_secret_or_a_person")).await.unwrap();
    }
    let log = Log::default();
    let writer = log.clone();
    // Everything that is traced in this process, the server's side included, and what libraries give to `log`.
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_span_events(FmtSpan::FULL)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let fake = Fake::start();

    let builder = fake.client_builder().app_name("financeira/1");
    let mut texts = vec![format!("{builder:?}")];
    let client = builder.build().unwrap();
    let proposta = named("P-1", "Beltrana Exemplo");
    fake.next(Route::Create, [Fault::status(401), Fault::hang_up()]);
    let created = client.create_proposta(&proposta).await.unwrap();
    let id = created.id_proposta_svc.as_str();
    texts.push(format!("{client:?} {created:?} {proposta:?} {fake:?}"));
    texts.push(format!("{:?}", client.proposta(id).await.unwrap()));
    texts.push(format!("{:?}", client.simulate_answer(id, Acao::Aceitar).await.unwrap()));
    texts.push(format!("{:?}", client.resend_webhook(id).await.unwrap()));
    let mut errors = Vec::new();
    for fault in
        [Fault::status(400), Fault::broken_json(), Fault::html(502), Fault::hang_up(), Fault::redirect("/x?k=v1,")]
    {
        fake.always(Route::Create, fault);
        errors.push(client.create_proposta(&proposta).await.unwrap_err());
    }
    let own = NovaProposta::builder("P-1").nome("Beltrana").cpf("111.444.777-3").build().unwrap_err();
    errors.push(own.into());
    errors.push(client.create_proposta(&named("P-1", "Outra Beltrana")).await.unwrap_err());
    fake.always(Route::Login, Fault::body(r#"{"access_token":"eyJhbGciOi\n","token_type":"Bearer","expires_in":1}"#));
    errors.push(fake.client().proposta(id).await.unwrap_err());
    // A delivery, and what its signature is.
    let webhook = fake.accept(id).await.unwrap();
    let hex = webhook.header("x-svc-signature").unwrap().to_owned();
    let told = fake.verifier().parse_at(&webhook.headers, &webhook.body, fake.clock().now()).unwrap();
    let refused = fake.verifier().parse_at(&webhook.headers, b"{}", fake.clock().now()).unwrap_err();
    texts.push(format!("{told:?} {refused:?} {refused} {}", refused.hint()));
    for error in &errors {
        let source = std::error::Error::source(error).map(ToString::to_string);
        texts.push(format!("{error} {error:?} {error:#?} {source:?}"));
        assert!(!error.to_string().contains('\n'), "one line: {error}");
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for told in [
        "svc_client.attempt{method=POST route=\"/v1/login\" attempt=1",
        "svc_client.attempt{method=POST route=\"/v1/propostas\" attempt=3",
        "method=GET route=\"/confirmar/{id_proposta_svc}\" attempt=1",
        "status=200",
        "status=502",
        "outcome=Unknown",
        "duration_ms=",
        created.request_id().unwrap(),
    ] {
        assert!(log.contains(told), "{told} in {log}");
    }
    assert!(!log.contains(&format!("/{id}")), "the route's template, not the path");
    for text in texts.iter().chain([&log]) {
        assert_silent(&fake, text);
        assert!(!text.contains(&hex), "{text}");
    }
}

#[tokio::test]
async fn w17_debug_of_secrets_verifiers_and_errors_is_silent() {
    let fake = Fake::start();
    let id = fake.client().create_proposta(&proposta("P-1")).await.unwrap().id_proposta_svc.clone();
    let webhook = fake.accept(&id).await.unwrap();
    let signature = webhook.header("x-svc-signature").unwrap().to_owned();
    let verifier = fake.verifier().also(&Secret::from_raw_key_bytes(b"segredo-de-teste").unwrap());
    let wrong = sign_for_test(&Secret::from_raw_key_bytes(b"outro").unwrap(), &webhook.body, fake.clock().now());
    let error = verifier.parse_at(&wrong, &webhook.body, fake.clock().now()).unwrap_err();
    let told = verifier.parse_at(&webhook.headers, &webhook.body, fake.clock().now()).unwrap();
    let values: [&dyn Debug; 6] = [
        &Secret::parse(fake.webhook_secret()).unwrap(),
        &ClientSecret::from(fake.client_secret()),
        &verifier,
        &error,
        &told,
        &Secret::parse("whsec_segredo!").unwrap_err(),
    ];
    for text in values.iter().map(|value| format!("{value:?} {value:#?}")).chain([format!("{error} {}", error.hint())])
    {
        assert_silent(&fake, &text);
        assert!(!text.contains(&signature) && !text.contains("segredo!"), "{text}");
    }
}
