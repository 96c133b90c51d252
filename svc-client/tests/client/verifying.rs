//! A notification that came over TCP from the service, believed; and everything that is made of it, refused (W1 to W18).

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use svc_client::webhook::{BadSecret, Header, ParseError, Resposta, Secret, Verifier, VerifyError, sign_for_test};
use svc_server::fake::{Fake, WebhookFault};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::{to, within};

const OTHER: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A receiver that hands on what it gets, headers and raw body.
async fn receiver() -> (String, UnboundedReceiver<(HeaderMap, Bytes)>) {
    let (tell, told) = unbounded_channel();
    let receive = move |headers: HeaderMap, body: Bytes| async move { tell.send((headers, body)).unwrap() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/webhook", listener.local_addr().unwrap());
    let app = Router::new().route("/webhook", post(receive));
    tokio::spawn(async { axum::serve(listener, app).await });
    (url, told)
}

/// A proposal's notification as its receiver got it.
pub(crate) struct Got {
    pub(crate) fake: Fake,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) received: UnboundedReceiver<(HeaderMap, Bytes)>,
}

/// One from the partner's id and a fault on the way.
pub(crate) async fn got(id: &str, fault: Option<WebhookFault>) -> Got {
    let fake = Fake::start();
    let (url, mut received) = receiver().await;
    let created = fake.client().create_proposta(&to(id, "Ana", &url)).await.unwrap();
    fault.into_iter().for_each(|fault| fake.next_webhook(fault));
    fake.accept(&created.id_proposta_svc).await.unwrap();
    let (headers, body) = within(received.recv()).await.unwrap();
    Got { fake, headers, body, received }
}

impl Got {
    fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), VerifyError> {
        self.fake.verifier().verify_at(headers, body, self.at())
    }

    /// The time of the attempt.
    pub(crate) fn at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.text("webhook-timestamp").parse().unwrap())
    }

    fn text(&self, header: &str) -> String {
        self.headers[header].to_str().unwrap().to_owned()
    }

    /// The headers with another value of one.
    fn with(&self, header: &'static str, value: impl AsRef<[u8]>) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(header, axum::http::HeaderValue::from_bytes(value.as_ref()).unwrap());
        headers
    }

    fn without(&self, header: &str) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.remove(header);
        headers
    }
}

fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
    Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(message).finalize().into_bytes().to_vec()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Others' libraries are in svc-benches and in the scripts of the continuous integration.
#[tokio::test]
async fn w02_whoever_has_nothing_but_an_hmac_believes_our_delivery() {
    let got = got("P-1", None).await;
    let key = b"segredo-de-demonstracao-svc";
    assert_eq!(got.text("x-svc-signature"), hex(&mac(key, &got.body)));
    let signed = [got.text("webhook-id").as_bytes(), got.text("webhook-timestamp").as_bytes(), &got.body].join(&b'.');
    assert_eq!(got.text("webhook-signature"), format!("v1,{}", STANDARD.encode(mac(key, &signed))));
    got.fake.verifier().parse(&got.headers, &got.body).unwrap();
}

#[tokio::test]
async fn w03_json_that_says_the_same_in_other_bytes_is_refused_with_a_hint() {
    let got = got("ação", None).await;
    let text = String::from_utf8(got.body.to_vec()).unwrap();
    let mut fields: Vec<&str> = text.trim_matches(['{', '}']).split(',').collect();
    fields.reverse();
    let others = [text.replacen(':', ": ", 1), format!("{{{}}}", fields.join(",")), text.replace('ç', "\\u00e7")];
    for other in others {
        let same: [Value; 2] = [&text, &other].map(|text| serde_json::from_str(text).unwrap());
        assert_eq!(same[0], same[1]);
        let error = got.verify(&got.headers, other.as_bytes()).unwrap_err();
        assert_eq!(error, VerifyError::Mismatch(Header::SvcSignature));
        assert!(error.to_string().contains("raw bytes") && error.hint().contains("raw bytes"), "{error}");
        assert!(error.hint().contains("blanks"), "the other usual fault: {}", error.hint());
    }
}

#[tokio::test]
async fn w04_bodies_are_verified_as_bytes() {
    let got = got("ação 😊", None).await;
    let told = got.fake.verifier().parse(&got.headers, &got.body).unwrap();
    assert_eq!((told.id_proposta_parceiro.as_str(), &told.status), ("ação 😊", &Resposta::Aceito));
    let secret = Secret::parse(got.fake.webhook_secret()).unwrap();
    let odd = b"{\"id_proposta_parceiro\":\"\xff\"}";
    let headers = sign_for_test(&secret, odd, got.at());
    got.fake.verifier().verify_at(&headers, odd, got.at()).unwrap();
    let error = got.fake.verifier().parse_at(&headers, odd, got.at()).unwrap_err();
    assert_eq!((error.code(), matches!(error, ParseError::Body(_))), ("body_malformed", true));
}

#[tokio::test]
async fn w06_secrets_are_read_padded_or_not_and_otherwise_as_they_are() {
    let got = got("P-1", None).await;
    let padded = "whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj";
    let raw = Secret::from_raw_key_bytes(b"segredo-de-demonstracao-svc").unwrap();
    for secret in [Secret::parse(padded), Secret::parse(&format!(" {padded}\n")), Ok(raw)] {
        Verifier::new(&secret.unwrap()).verify(&got.headers, &got.body).unwrap();
    }
    let forty = "whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3ZjMTIzNDU2Nzg5MDEyMw";
    let both = [forty.to_owned(), format!("{forty}==")].map(|text| Secret::parse(&text).unwrap());
    let headers = sign_for_test(&both[0], b"{}", got.at());
    Verifier::new(&both[1]).verify_at(&headers, b"{}", got.at()).unwrap();
    for (bad, why) in [
        ("whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Z*", BadSecret::Base64),
        ("whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8_c3Zj", BadSecret::Base64),
        ("whsec_c2VncmVkby1kZS1 kZW1vbnN0cmFjYW8tc3Zj", BadSecret::Blanks),
        ("\"whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj\"", BadSecret::Blanks),
        ("c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj", BadSecret::Prefix),
        ("whsec_c2VncmVkbw", BadSecret::Length),
        ("", BadSecret::Prefix),
    ] {
        assert_eq!(Secret::parse(bad).unwrap_err(), why, "{bad}");
    }
}

#[tokio::test]
async fn w07_any_case_of_hex_and_nothing_but_64_digits() {
    let got = got("P-1", None).await;
    let name = "x-svc-signature";
    let good = got.text(name);
    for same in [good.to_uppercase(), format!("sha256={good}"), format!(" {good}\t")] {
        assert_eq!(got.verify(&got.with(name, same), &got.body), Ok(()));
    }
    for bad in [&good[1..], &format!("{good}0"), "", &"z".repeat(64), &"ç".repeat(32), &"\u{660}".repeat(32), "sha512="]
    {
        let error = got.verify(&got.with(name, bad), &got.body).unwrap_err();
        assert_eq!((error, error.code()), (VerifyError::Malformed(Header::SvcSignature), "header_malformed"), "{bad}");
    }
}

#[tokio::test]
async fn w08_one_of_several_signatures_and_of_several_secrets() {
    let got = got("P-1", None).await;
    let name = "webhook-signature";
    let good = got.text(name);
    let wrong = format!("v1,{}", "A".repeat(43) + "=");
    for items in [[&good, &wrong, &wrong], [&wrong, &good, &wrong], [&wrong, &wrong, &good]] {
        assert_eq!(got.verify(&got.with(name, items.map(String::as_str).join(" ")), &got.body), Ok(()));
    }
    let none = got.verify(&got.with(name, format!("{wrong} {wrong}")), &got.body).unwrap_err();
    assert_eq!(none, VerifyError::Mismatch(Header::WebhookSignature));
    // The good one among a thousand is not looked for.
    let thousand = [vec![&*good], vec![&*wrong; 999]].concat().join(" ");
    let error = got.verify(&got.with(name, thousand), &got.body).unwrap_err();
    assert_eq!(error, VerifyError::Malformed(Header::WebhookSignature));
    // Two live secrets on the receiver's side, in either order; the wrong one alone believes nothing.
    let (old, new) = (Secret::parse(got.fake.webhook_secret()).unwrap(), Secret::parse(OTHER).unwrap());
    for verifier in [Verifier::new(&new).also(&old), Verifier::new(&old).also(&new)] {
        verifier.verify(&got.headers, &got.body).unwrap();
    }
    Verifier::new(&new).verify(&got.headers, &got.body).unwrap_err();
}

#[tokio::test]
async fn w09_items_of_other_kinds_are_passed_over() {
    let got = got("P-1", None).await;
    let good = got.text("webhook-signature");
    let items = format!("v2,{good}  v1a,xyz v1 ,  {good}   nada v1,");
    assert_eq!(got.verify(&got.with("webhook-signature", items), &got.body), Ok(()));
    let error = got.verify(&got.with("webhook-signature", format!("v2,{} v1", &good[3..])), &got.body).unwrap_err();
    assert_eq!(error, VerifyError::Mismatch(Header::WebhookSignature));
}

#[tokio::test]
async fn w11_headers_of_any_case_and_kind_with_blanks_round_them() {
    let got = got("P-1", None).await;
    let verifier = got.fake.verifier();
    let pairs: Vec<(String, String)> =
        got.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    let loud: Vec<(String, Vec<u8>)> =
        pairs.iter().map(|(name, value)| (name.to_uppercase(), format!(" {value}\t").into_bytes())).collect();
    verifier.verify(&pairs, &got.body).unwrap();
    verifier.verify(&loud, &got.body).unwrap();
    verifier.verify(&loud[..], &got.body).unwrap();
    verifier.verify(&pairs.iter().cloned().collect::<HashMap<_, _>>(), &got.body).unwrap();
    verifier.verify(&pairs.iter().cloned().collect::<BTreeMap<_, _>>(), &got.body).unwrap();
    let four = ["x-svc-signature", "webhook-id", "webhook-timestamp", "webhook-signature"];
    let told = verifier.parse(&four.map(|name| (name, got.text(name))), &got.body).unwrap();
    assert_eq!(told.event_id().unwrap(), format!("evt_{}", told.id_proposta_svc));
    assert_eq!(told.attempted_at(), Some(got.at()));
    // Twice the same is the same; two values are a question that has no answer.
    let mut twice = got.headers.clone();
    twice.append("webhook-id", got.headers["webhook-id"].clone());
    assert_eq!(got.verify(&twice, &got.body), Ok(()));
    twice.append("webhook-id", "evt_1".parse().unwrap());
    let error = got.verify(&twice, &got.body).unwrap_err();
    assert_eq!((error, error.code()), (VerifyError::Repeated(Header::WebhookId), "header_repeated"));
}

#[tokio::test]
async fn w13_a_timestamp_that_was_changed_is_refused() {
    let got = got("P-1", None).await;
    let seconds: u64 = got.text("webhook-timestamp").parse().unwrap();
    for other in [seconds + 1, seconds - 1] {
        let error = got.verify(&got.with("webhook-timestamp", other.to_string()), &got.body).unwrap_err();
        assert_eq!(error, VerifyError::Mismatch(Header::WebhookSignature));
    }
    for bad in ["", "abc", "-1", "+1", "1e9", "99999999999999999999", "1.5"] {
        let error = got.verify(&got.with("webhook-timestamp", bad), &got.body).unwrap_err();
        assert_eq!(error, VerifyError::Malformed(Header::WebhookTimestamp), "{bad}");
    }
}

#[tokio::test]
async fn w14_the_headers_stand_and_fall_together() {
    let got = got("P-1", None).await;
    for (name, header) in [
        ("webhook-id", Header::WebhookId),
        ("webhook-timestamp", Header::WebhookTimestamp),
        ("webhook-signature", Header::WebhookSignature),
        ("x-svc-signature", Header::SvcSignature),
    ] {
        let error = got.verify(&got.without(name), &got.body).unwrap_err();
        assert_eq!((error, error.code()), (VerifyError::Missing(header), "header_missing"), "{name}");
    }
    let wrong = got.with("webhook-signature", format!("v1,{}", "A".repeat(43) + "="));
    assert_eq!(got.verify(&wrong, &got.body), Err(VerifyError::Mismatch(Header::WebhookSignature)));
    // All three away: that is the interface's plain form, unless the receiver asks for more.
    let plain = [("x-svc-signature", got.text("x-svc-signature"))];
    let told = got.fake.verifier().parse(&plain, &got.body).unwrap();
    assert_eq!((told.event_id(), told.attempted_at()), (None, None));
    let error = got.fake.verifier().require_timestamp().parse(&plain, &got.body).unwrap_err();
    assert_eq!(error, ParseError::Verify(VerifyError::Missing(Header::WebhookTimestamp)));
}

#[tokio::test]
async fn w16_a_tolerance_of_nothing_is_the_very_second() {
    let got = got("P-1", None).await;
    let (second, at) = (Duration::from_secs(1), got.at());
    let verifier = got.fake.verifier().tolerance(Duration::ZERO);
    let verdict = |verifier: &Verifier, now| verifier.verify_at(&got.headers, &got.body, now);
    assert_eq!(verdict(&verifier, at), Ok(()));
    assert_eq!(verdict(&verifier, at + Duration::from_millis(999)), Ok(()));
    assert_eq!(verdict(&verifier, at + second), Err(VerifyError::TooOld));
    assert_eq!(verdict(&verifier, at - second), Err(VerifyError::TooNew));
    let usual = got.fake.verifier();
    assert_eq!(verdict(&usual, at + 300 * second), Ok(()));
    assert_eq!(verdict(&usual, at + 301 * second), Err(VerifyError::TooOld));
    assert_eq!(verdict(&usual, at - 300 * second), Ok(()));
    assert_eq!(verdict(&usual, at - 301 * second), Err(VerifyError::TooNew));
    assert_eq!(verdict(&usual, UNIX_EPOCH), Err(VerifyError::TooNew));
    assert_eq!(verdict(&usual.tolerance(Duration::MAX), UNIX_EPOCH), Ok(()));
}

#[tokio::test]
async fn w18_a_verdict_allocates_nothing() {
    let got = got("P-1", None).await;
    let (verifier, now) = (got.fake.verifier().also(&Secret::parse(OTHER).unwrap()), got.at());
    let allocations = |headers: &HeaderMap, body: &[u8], good: bool| {
        let info = allocation_counter::measure(|| {
            assert_eq!(verifier.verify_at(headers, body, now).is_ok(), good);
        });
        info.count_total
    };
    assert_eq!(allocations(&got.headers, &got.body, true), 0);
    for spoiled in [
        got.with("x-svc-signature", "00"),
        got.with("x-svc-signature", "0".repeat(64)),
        got.with("webhook-signature", "v1,nada"),
        got.with("webhook-timestamp", "1"),
        got.without("webhook-id"),
    ] {
        assert_eq!(allocations(&spoiled, &got.body, false), 0);
    }
    assert_eq!(allocations(&got.headers, b"{}", false), 0);
    let pairs = ["x-svc-signature", "webhook-id", "webhook-timestamp", "webhook-signature"];
    let pairs = pairs.map(|name| (name, got.text(name)));
    let info = allocation_counter::measure(|| verifier.verify_at(&pairs, &got.body, now).unwrap());
    assert_eq!(info.count_total, 0);
}
