//! The types as a user meets them: thread-safe, silent about persons and secrets.

use std::fmt::Debug;

use svc_core::{
    Acao, Delivery, DigestKey, Falha, Header, Invalid, LoginRequest, LoginResponse, Notificacao, NovaProposta, Outcome,
    Policy, Proposta, Schedule, Secret, Signer, Transition, Verifier, VerifyError,
};

use crate::{key, now, stored, typical};

#[test]
fn every_type_crosses_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<NovaProposta>();
    check::<Proposta>();
    check::<Transition>();
    check::<Delivery>();
    check::<Signer>();
    check::<Verifier>();
    check::<Secret>();
    check::<DigestKey>();
    check::<Policy>();
    check::<Invalid>();
    check::<VerifyError>();
    check::<Notificacao>();
}

#[test]
fn w17_debug_tells_no_person_no_secret_and_no_query() {
    let secret = Secret::from_raw_key_bytes(b"segredo-de-teste-0123456789").unwrap();
    let login = LoginRequest::from_json(br#"{"client_id":"p","client_secret":"segredo-de-login"}"#).unwrap();
    let transition = stored().apply(Acao::Aceitar, now()).unwrap();
    let delivery = Delivery::of(&transition, &Schedule::PRODUCAO, now());
    let signer = Signer::new(&secret);
    let url =
        svc_core::WebhookUrl::parse("https://parceiro.example.com/segredo-no-caminho?k=segredo-na-consulta").unwrap();
    let token = LoginResponse::bearer("segredo-token".to_owned());
    let request = delivery.request(&signer, now());
    let values: [&dyn Debug; 14] = [
        &secret,
        &signer,
        &Verifier::new(&secret),
        &key(),
        &login,
        &token,
        &typical(),
        &NovaProposta::builder("P").nome("Beltrano").cpf("123.456.789-09"),
        &stored(),
        &transition,
        &delivery,
        &request,
        &url,
        &stored().digest(),
    ];
    for value in values {
        let text = format!("{value:?} {value:#?}");
        for hidden in ["segredo", "Beltrano", "123.456", "456.789", "5521900000002", "900000002", &secret.expose()[6..]]
        {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
    }
}

#[test]
fn exact_messages() {
    let refused = stored().apply(Acao::Aceitar, now()).unwrap().proposta.apply(Acao::Recusar, now()).unwrap_err();
    assert_eq!(refused.to_string(), "proposal is ACEITO already");
    assert_eq!(
        VerifyError::Mismatch(Header::SvcSignature).to_string(),
        "x-svc-signature does not match the body: verify its raw bytes, not JSON that was read and written again"
    );
    for (error, code) in [
        (VerifyError::Missing(Header::WebhookId), "header_missing"),
        (VerifyError::Repeated(Header::WebhookId), "header_repeated"),
        (VerifyError::Malformed(Header::WebhookId), "header_malformed"),
        (VerifyError::Mismatch(Header::WebhookId), "signature_mismatch"),
        (VerifyError::TooOld, "timestamp_too_old"),
        (VerifyError::TooNew, "timestamp_too_new"),
    ] {
        assert_eq!(error.code(), code);
    }
    for (falha, text) in [
        (Falha::Dns, "dns"),
        (Falha::Bloqueado, "bloqueado"),
        (Falha::Conexao, "conexao"),
        (Falha::Tls, "tls"),
        (Falha::TempoEsgotado, "tempo_esgotado"),
    ] {
        assert_eq!(Outcome::Failed(falha).to_string(), text);
    }
    assert_eq!(Secret::parse("segredo").unwrap_err().to_string(), "webhook secret does not begin with whsec_");
}

#[test]
fn a_violation_serialises_as_the_wire_shows_it() {
    let json = |body: &str| {
        let invalid = NovaProposta::from_json(body.as_bytes(), &Policy::default(), crate::today()).unwrap_err();
        serde_json::to_string(&invalid.violacoes()[0]).unwrap()
    };
    assert_eq!(
        json("{}"),
        r#"{"propriedade":"/id_proposta_parceiro","codigo":"campo_obrigatorio","razao":"campo obrigatório ausente"}"#
    );
    assert_eq!(
        json("{"),
        r#"{"propriedade":"","codigo":"json_malformado","linha":1,"coluna":1,"razao":"o corpo não é JSON válido"}"#
    );
    let rule = include_str!("../proposals/invalid/e05_principal_nao_soma.json");
    assert_eq!(
        serde_json::to_string(&stored_aviso(rule)).unwrap(),
        r#"{"propriedade":"/simulacao/valores/principal","codigo":"inconsistencia","regra":"R1","razao":"principal deve ser solicitado + iof"}"#
    );
}

fn stored_aviso(body: &str) -> svc_core::Violacao {
    crate::in_homologacao(body).unwrap().avisos()[0]
}
