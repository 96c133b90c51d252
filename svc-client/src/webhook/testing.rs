//! Headers as the service makes them, for users' unit tests.

use std::time::{SystemTime, UNIX_EPOCH};

use svc_core::{SVC_SIGNATURE, Signer, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};

use crate::webhook::Secret;

/// Signs a body as the service would at `now`: the four headers, for a test of a receiver.
///
/// ```
/// use std::time::SystemTime;
/// use svc_client::webhook::{Resposta, Secret, Verifier, sign_for_test};
///
/// let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
/// let body = br#"{"id_proposta_svc":"07070707-0707-4707-8707-070707070707","id_proposta_parceiro":"PARC-12345",
///     "status":"ACEITO","timestamp":"2026-11-27T20:31:44.000Z"}"#;
/// let headers = sign_for_test(&secret, body, SystemTime::now());
/// assert_eq!(Verifier::new(&secret).parse(&headers, body).unwrap().status, Resposta::Aceito);
///
/// let other = Secret::parse("whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj").unwrap();
/// assert!(Verifier::new(&other).parse(&headers, body).is_err());
/// ```
pub fn sign_for_test(secret: &Secret, body: &[u8], now: SystemTime) -> [(&'static str, String); 4] {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let id = match svc_core::Notificacao::from_json(body) {
        Ok(notificacao) => format!("evt_{}", notificacao.id_proposta_svc),
        Err(_) => "evt_test".to_owned(),
    };
    let signer = Signer::new(secret);
    [
        (SVC_SIGNATURE, signer.svc_signature(body)),
        (WEBHOOK_SIGNATURE, signer.webhook_signature(&id, seconds, body)),
        (WEBHOOK_TIMESTAMP, seconds.to_string()),
        (WEBHOOK_ID, id),
    ]
}
