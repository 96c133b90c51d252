//! C26–C30: the signatures of others are ours, and nothing else is believed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use svc_core::{Header, MAX_SIGNATURES, Notificacao, Received, Resposta, Secret, Signer, Verifier, VerifyError};

use crate::vectors::{hex, json};

const BODY: &[u8] = br#"{"id_proposta_svc":"prp_01","id_proposta_parceiro":"PARC-12345","status":"ACEITO","timestamp":"2026-11-27T20:31:44.000Z"}"#;
const SIGNATURE: &str = "c0b41196d53f17aa37c69ffd2844bcfea02726f1af6f0423adc2231fce4313af";
const NOW: u64 = 1_795_811_504;

fn secret() -> Secret {
    Secret::from_raw_key_bytes(b"segredo-de-teste").unwrap()
}

fn other(byte: u8) -> Secret {
    Secret::from_raw_key_bytes(&[byte; 32]).unwrap()
}

/// All four headers as a signer makes them, as owned text.
struct Signed {
    svc: String,
    timestamp: String,
    standard: String,
}

impl Signed {
    fn by(signer: &Signer, body: &[u8], at: u64) -> Self {
        Self {
            svc: signer.svc_signature(body),
            timestamp: at.to_string(),
            standard: signer.webhook_signature("evt_1", at, body),
        }
    }

    fn received(&self) -> Received<'_> {
        Received {
            svc_signature: Some(self.svc.as_bytes()),
            id: Some(b"evt_1"),
            timestamp: Some(self.timestamp.as_bytes()),
            signature: Some(self.standard.as_bytes()),
        }
    }
}

fn only(signature: &str) -> Received<'_> {
    Received { svc_signature: Some(signature.as_bytes()), ..Received::default() }
}

#[test]
fn known_answer_of_the_interface_s_header() {
    assert_eq!(Signer::new(&secret()).svc_signature(BODY), SIGNATURE);
    assert_eq!(Verifier::new(&secret()).verify(only(SIGNATURE), BODY, NOW), Ok(()));
}

#[test]
fn known_answer_of_standard_webhooks() {
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let item = Signer::new(&secret).webhook_signature(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1_614_265_330,
        br#"{"test": 2432232314}"#,
    );
    assert_eq!(item, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[test]
fn w01_rfc_4231_and_wycheproof() {
    let Some(rfc) = json("rfc/rfc4231_hmac_sha256.json") else { return };
    let cases = rfc["tests"].as_array().unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        let signer = Signer::new(&Secret::from_raw_key_bytes(&hex(&case["key"])).unwrap());
        let signature = signer.svc_signature(&hex(&case["data"]));
        // Case 5 is cut to 128 bits.
        assert!(signature.starts_with(case["tag"].as_str().unwrap()), "case {}", case["case"]);
    }
    let wycheproof = json("wycheproof/hmac_sha256_test.json").unwrap();
    let (mut seen, mut verified) = (0, 0);
    for group in wycheproof["testGroups"].as_array().unwrap() {
        for test in group["tests"].as_array().unwrap() {
            let Ok(secret) = Secret::from_raw_key_bytes(&hex(&test["key"])) else { continue };
            let signature = Signer::new(&secret).svc_signature(&hex(&test["msg"]));
            let valid = test["result"] == "valid";
            assert_eq!(signature.starts_with(test["tag"].as_str().unwrap()), valid, "test {}", test["tcId"]);
            if group["tagSize"] == 256 {
                let verdict =
                    Verifier::new(&secret).verify(only(test["tag"].as_str().unwrap()), &hex(&test["msg"]), NOW);
                assert_eq!(verdict.is_ok(), valid, "test {}", test["tcId"]);
                verified += 1;
            }
            seen += 1;
        }
    }
    assert!(seen > 150 && verified > 70, "{seen} Wycheproof cases, {verified} by the verifier");
}

#[test]
fn a_signature_with_any_one_bit_changed_is_refused() {
    let signed = Signed::by(&Signer::new(&secret()), BODY, NOW);
    let verifier = Verifier::new(&secret());
    let bytes: Vec<u8> = (0..64).step_by(2).map(|i| u8::from_str_radix(&signed.svc[i..i + 2], 16).unwrap()).collect();
    let item = STANDARD.decode(signed.standard.strip_prefix("v1,").unwrap()).unwrap();
    for bit in 0..256 {
        let flip = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        let hex: String = flip(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            verifier.verify(only(&hex), BODY, NOW),
            Err(VerifyError::Mismatch(Header::SvcSignature)),
            "bit {bit}"
        );
        let standard = format!("v1,{}", STANDARD.encode(flip(&item)));
        let received = Received { signature: Some(standard.as_bytes()), ..signed.received() };
        assert_eq!(
            verifier.verify(received, BODY, NOW),
            Err(VerifyError::Mismatch(Header::WebhookSignature)),
            "bit {bit}"
        );
    }
}

#[test]
fn w03_another_spelling_of_the_same_json_is_refused() {
    let text = String::from_utf8(BODY.to_vec()).unwrap();
    for changed in [text.replace("\",\"", "\", \""), text.replace("ACEITO", "\\u0041CEITO"), text.clone() + "\n"] {
        let verdict = Verifier::new(&secret()).verify(only(SIGNATURE), changed.as_bytes(), NOW);
        assert_eq!(verdict, Err(VerifyError::Mismatch(Header::SvcSignature)));
    }
}

#[test]
fn w04_bytes_are_signed_not_text() {
    for (body, is_notification) in [
        (r#"{"id_proposta_svc":"ação 😊","id_proposta_parceiro":"p","status":"ACEITO","timestamp":"2026-11-27T20:31:44Z"}"#.as_bytes(), true),
        (&b"\xff\xfe{}"[..], false),
    ] {
        let signed = Signed::by(&Signer::new(&secret()), body, NOW);
        assert_eq!(Verifier::new(&secret()).verify(signed.received(), body, NOW), Ok(()));
        assert_eq!(Notificacao::from_json(body).is_ok(), is_notification);
    }
}

#[test]
fn w06_a_secret_is_read_padded_or_not_and_nothing_else_is() {
    let key = [9; 25];
    let written = Secret::from_raw_key_bytes(&key).unwrap().expose();
    let expected = Signer::new(&Secret::from_raw_key_bytes(&key).unwrap()).svc_signature(BODY);
    assert!(written.ends_with("=="));
    for text in [written.as_str(), written.trim_end_matches('='), &format!("\t {}\r\n", *written)] {
        assert_eq!(Signer::new(&Secret::parse(text).unwrap()).svc_signature(BODY), expected);
    }
    for length in [24, 64] {
        let written = Secret::from_raw_key_bytes(&vec![9; length]).unwrap().expose();
        assert!(Secret::parse(&written).is_ok(), "{length} bytes");
    }
    assert!(Secret::parse(&written[..written.len() - 1]).is_err(), "half of its padding");
    let short = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"; // 23 bytes
    let long = format!("whsec_{}", "A".repeat(87)); // 65 bytes
    for bad in ["", "whsec_", "AAAA", "whsec_!!!!", "whsec_AAAA AAAA", "WHSEC_AAAA", "whsec_AAAA-___", short, &long] {
        assert!(Secret::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn w07_hex_of_any_case_and_nothing_that_is_no_hex() {
    let verifier = Verifier::new(&secret());
    let upper = SIGNATURE.to_uppercase();
    for good in [&upper, &format!("sha256={SIGNATURE}"), &format!("  {SIGNATURE}\t")] {
        assert_eq!(verifier.verify(only(good), BODY, NOW), Ok(()), "{good}");
    }
    let every_byte_but_hex = (0..=255_u8).filter(|byte| !byte.is_ascii_hexdigit() && !byte.is_ascii_whitespace());
    for byte in every_byte_but_hex {
        let mut value = SIGNATURE.as_bytes().to_vec();
        value[63] = byte;
        let received = Received { svc_signature: Some(&value), ..Received::default() };
        assert_eq!(verifier.verify(received, BODY, NOW), Err(VerifyError::Malformed(Header::SvcSignature)), "{byte}");
    }
    for bad in ["", "zz", "é", &SIGNATURE[1..], &format!("{SIGNATURE}0"), &format!("sha512={SIGNATURE}")] {
        assert_eq!(verifier.verify(only(bad), BODY, NOW), Err(VerifyError::Malformed(Header::SvcSignature)), "{bad}");
    }
    assert_eq!(verifier.verify(Received::default(), BODY, NOW), Err(VerifyError::Missing(Header::SvcSignature)));
}

#[test]
fn w07_every_byte_at_every_place_is_a_digit_or_none() {
    let verifier = Verifier::new(&secret());
    for (place, byte) in (0..64).flat_map(|place| (0..=u8::MAX).map(move |byte| (place, byte))) {
        let mut value = SIGNATURE.as_bytes().to_vec();
        let right = byte.eq_ignore_ascii_case(&value[place]);
        value[place] = byte;
        let verdict = verifier.verify(Received { svc_signature: Some(&value), ..Received::default() }, BODY, NOW);
        let header = Header::SvcSignature;
        let expected = match byte {
            _ if right => Ok(()),
            b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' => Err(VerifyError::Mismatch(header)),
            _ => Err(VerifyError::Malformed(header)),
        };
        assert_eq!(verdict, expected, "{byte:#x} at {place}");
    }
}

#[test]
fn w08_any_live_secret_among_at_most_32_items() {
    let valid = Signer::new(&secret()).webhook_signature("evt_1", NOW, BODY);
    let wrong = |byte| Signer::new(&other(byte)).webhook_signature("evt_1", NOW, BODY);
    let verifier = Verifier::new(&other(9)).also(&secret());
    let verify = |items: String| {
        let received = Received {
            svc_signature: Some(SIGNATURE.as_bytes()),
            id: Some(b"evt_1"),
            timestamp: Some(b"1795811504"),
            signature: Some(items.as_bytes()),
        };
        verifier.verify(received, BODY, NOW)
    };
    assert_eq!(verify(format!("{valid} {} {}", wrong(1), wrong(2))), Ok(()));
    assert_eq!(verify(format!("{} {valid} {}", wrong(1), wrong(2))), Ok(()));
    assert_eq!(verify(format!("{} {} {valid}", wrong(1), wrong(2))), Ok(()));
    assert_eq!(verify(format!("{} {}", wrong(1), wrong(2))), Err(VerifyError::Mismatch(Header::WebhookSignature)));
    let filled = |count| format!("{}{valid}", format!("{} ", wrong(1)).repeat(count - 1));
    assert_eq!(verify(filled(MAX_SIGNATURES)), Ok(()));
    assert_eq!(verify(filled(MAX_SIGNATURES + 1)), Err(VerifyError::Malformed(Header::WebhookSignature)));
    assert_eq!(verify(filled(1_000)), Err(VerifyError::Malformed(Header::WebhookSignature)));
}

#[test]
fn w09_other_versions_and_stray_items_are_passed_over() {
    let mut signed = Signed::by(&Signer::new(&secret()), BODY, NOW);
    signed.standard = format!("v1a,AAAA  v2,{} plain v1, v1,!! {}", "A".repeat(44), signed.standard);
    assert_eq!(Verifier::new(&secret()).verify(signed.received(), BODY, NOW), Ok(()));
}

#[test]
fn w11_names_in_any_case_and_blanks_around_values() {
    let signed = Signed::by(&Signer::new(&secret()), BODY, NOW);
    let (svc, standard) = (format!(" {} ", signed.svc), format!("\t{} ", signed.standard));
    let pairs = [
        ("X-SVC-Signature", svc.as_str()),
        ("Webhook-Id", " evt_1 "),
        ("WEBHOOK-TIMESTAMP", " 1795811504"),
        ("webhook-signature", &standard),
        ("webhook-id", " evt_1 "), // twice the same is once
    ];
    let received = Received::from_pairs(pairs.map(|(name, value)| (name, value.as_bytes()))).unwrap();
    assert_eq!(Verifier::new(&secret()).verify(received, BODY, NOW), Ok(()));
}

#[test]
fn w13_a_changed_timestamp_is_a_mismatch_whatever_its_age() {
    let mut signed = Signed::by(&Signer::new(&secret()), BODY, NOW);
    for changed in [NOW + 1, 0] {
        signed.timestamp = changed.to_string();
        let verdict = Verifier::new(&secret()).verify(signed.received(), BODY, NOW);
        assert_eq!(verdict, Err(VerifyError::Mismatch(Header::WebhookSignature)));
    }
    for bad in ["", "-1", "+1795811504", "1795811504.0", "0x6b", "99999999999999999999", "１"] {
        signed.timestamp = bad.to_owned();
        let verdict = Verifier::new(&secret()).verify(signed.received(), BODY, NOW);
        assert_eq!(verdict, Err(VerifyError::Malformed(Header::WebhookTimestamp)), "{bad}");
    }
}

#[test]
fn w14_all_four_headers_or_the_first_alone() {
    let signed = Signed::by(&Signer::new(&secret()), BODY, NOW);
    let verifier = Verifier::new(&secret());
    let verify = |change: fn(&mut Received<'_>)| {
        let mut received = signed.received();
        change(&mut received);
        verifier.verify(received, BODY, NOW)
    };
    assert_eq!(verify(|_| ()), Ok(()));
    assert_eq!(verify(|r| r.id = None), Err(VerifyError::Missing(Header::WebhookId)));
    assert_eq!(verify(|r| r.timestamp = None), Err(VerifyError::Missing(Header::WebhookTimestamp)));
    assert_eq!(verify(|r| r.signature = None), Err(VerifyError::Missing(Header::WebhookSignature)));
    assert_eq!(verify(|r| r.svc_signature = None), Err(VerifyError::Missing(Header::SvcSignature)));
    assert_eq!(verify(|r| r.signature = Some(b"v1,AAAA")), Err(VerifyError::Mismatch(Header::WebhookSignature)));
    assert_eq!(verify(|r| r.id = Some(b"evt_2")), Err(VerifyError::Mismatch(Header::WebhookSignature)));
    let stripped = only(&signed.svc);
    assert_eq!(verifier.verify(stripped, BODY, NOW), Ok(()));
    let strict = verifier.require_timestamp();
    assert_eq!(strict.verify(stripped, BODY, NOW), Err(VerifyError::Missing(Header::WebhookTimestamp)));
}

#[test]
fn w16_the_tolerance_is_exact_and_zero_is_not_off() {
    let signed = Signed::by(&Signer::new(&secret()), BODY, NOW);
    for (tolerance, offset) in [(300, 300), (0, 0), (1, 1)] {
        let verifier = Verifier::new(&secret()).tolerance(tolerance);
        assert_eq!(verifier.verify(signed.received(), BODY, NOW + offset), Ok(()));
        assert_eq!(verifier.verify(signed.received(), BODY, NOW - offset), Ok(()));
        assert_eq!(verifier.verify(signed.received(), BODY, NOW + offset + 1), Err(VerifyError::TooOld));
        assert_eq!(verifier.verify(signed.received(), BODY, NOW - offset - 1), Err(VerifyError::TooNew));
    }
    let far = Signed::by(&Signer::new(&secret()), BODY, u64::MAX);
    assert_eq!(Verifier::new(&secret()).verify(far.received(), BODY, 0), Err(VerifyError::TooNew));
    assert_eq!(Verifier::new(&secret()).verify(signed.received(), BODY, u64::MAX), Err(VerifyError::TooOld));
}

#[test]
fn rotation_never_signs_what_a_receiver_on_one_secret_refuses() {
    let (old, new) = (other(1), other(2));
    let rotating = Signed::by(&Signer::new(&new).also(&old), BODY, NOW);
    assert_eq!(Verifier::new(&old).verify(rotating.received(), BODY, NOW), Ok(()), "knows the old one only");
    assert_eq!(Verifier::new(&new).also(&old).verify(rotating.received(), BODY, NOW), Ok(()), "knows both");
    let rotated = Signed::by(&Signer::new(&new), BODY, NOW);
    assert_eq!(Verifier::new(&new).also(&old).verify(rotated.received(), BODY, NOW), Ok(()), "old one removed");
}

#[test]
fn a_notification_is_read_with_unknown_words_kept() {
    let body = br#"{"novo":1,"timestamp":"2026-11-27T17:31:44.5-03:00","status":"EXPIRADO","id_proposta_parceiro":"p","id_proposta_svc":"s"}"#;
    let read = Notificacao::from_json(body).unwrap();
    assert_eq!(read.status, Resposta::Outro("EXPIRADO".to_owned()));
    assert_eq!(read.timestamp.to_rfc3339(), "2026-11-27T20:31:44.500+00:00");
    for bad in [&b"[]"[..], b"", b"{", br#"{"id_proposta_svc":1}"#] {
        assert!(Notificacao::from_json(bad).is_err());
    }
}

#[test]
fn w18_nothing_is_allocated_for_a_verdict() {
    let signer = Signer::new(&secret()).also(&other(1));
    let signed = Signed::by(&signer, BODY, NOW);
    let verifier = Verifier::new(&other(1)).also(&secret());
    let verdicts = [
        (signed.received(), BODY, NOW),
        (only(&signed.svc), BODY, NOW),
        (signed.received(), b"{}", NOW),
        (signed.received(), BODY, NOW + 301),
        (only("zz"), BODY, NOW),
        (Received { signature: Some(b"v1,AAAA v1,!!"), ..signed.received() }, BODY, NOW),
        (Received { id: None, ..signed.received() }, BODY, NOW),
    ];
    let mut wins = 0;
    let counted = allocation_counter::measure(|| {
        for (received, body, now) in verdicts {
            wins += u32::from(verifier.verify(received, body, now).is_ok());
        }
    });
    assert_eq!(counted.count_total, 0);
    assert_eq!(wins, 2);
    // The counter counts: a signature is text of its own.
    assert_ne!(allocation_counter::measure(|| drop(signer.svc_signature(BODY))).count_total, 0);
}
