//! The test data of others, through the SDK's verifier (W1).

use std::fs;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use svc_client::webhook::{Secret, Verifier};

use crate::verifying::hex;

fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// A foreign file of test data, if this machine has them.
fn vectors(file: &str) -> Option<Value> {
    let Some(root) = std::env::var_os("SVC_VECTORS") else {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "SVC_VECTORS is not set");
        return None;
    };
    Some(serde_json::from_slice(&fs::read(PathBuf::from(root).join(file)).unwrap()).unwrap())
}

#[test]
fn w01_rfc_4231_and_wycheproof_through_the_sdk_s_verifier() {
    let verdict = |key: &[u8], message: &[u8], tag: &str| {
        let verifier = Verifier::new(&Secret::from_raw_key_bytes(key).unwrap());
        verifier.verify(&[("x-svc-signature", tag)], message)
    };
    let Some(rfc) = vectors("rfc/rfc4231_hmac_sha256.json") else { return };
    for case in rfc["tests"].as_array().unwrap() {
        let (key, data, tag) = (unhex(&case["key"]), unhex(&case["data"]), case["tag"].as_str().unwrap());
        // Case 5 is cut to 128 bits, which is no signature here.
        assert_eq!(verdict(&key, &data, tag).is_ok(), tag.len() == 64, "case {}", case["case"]);
    }
    let (mut seen, mut valid) = (0, 0);
    for group in vectors("wycheproof/hmac_sha256_test.json").unwrap()["testGroups"].as_array().unwrap() {
        for test in group["tests"].as_array().unwrap().iter().filter(|test| test["key"] != "") {
            let (key, message, tag) = (unhex(&test["key"]), unhex(&test["msg"]), test["tag"].as_str().unwrap());
            let right = test["result"] == "valid" && group["tagSize"] == 256;
            assert_eq!(verdict(&key, &message, tag).is_ok(), right, "test {}", test["tcId"]);
            (seen, valid) = (seen + 1, valid + usize::from(right));
        }
    }
    assert!(seen > 150 && valid > 30, "{seen} cases, {valid} valid");
}

/// A JWS in its compact form, its MAC checked by our verifier over what is signed there; all else as RFC 7515 says.
fn is_valid_jws(key: &[u8], jws: &str) -> bool {
    let parts: Vec<&str> = jws.split('.').collect();
    let [header, payload, signature] = parts[..] else { return false };
    let decoded = [header, payload, signature].map(|part| URL_SAFE_NO_PAD.decode(part));
    let [Ok(head), Ok(_), Ok(signature)] = decoded else { return false };
    let head: Value = serde_json::from_slice(&head).unwrap_or_default();
    let signed = [("x-svc-signature", hex(&signature))];
    let verifier = Verifier::new(&Secret::from_raw_key_bytes(key).unwrap());
    head["alg"] == "HS256" && verifier.verify(&signed, format!("{header}.{payload}").as_bytes()).is_ok()
}

#[test]
fn w01_jws_hs256_of_wycheproof_through_the_sdk_s_verifier() {
    let Some(file) = vectors("wycheproof/json_web_signature_test.json") else { return };
    let mut seen = 0;
    for group in file["testGroups"].as_array().unwrap().iter().filter(|group| group["private"]["kty"] == "oct") {
        let key = URL_SAFE_NO_PAD.decode(group["private"]["k"].as_str().unwrap()).unwrap();
        for test in group["tests"].as_array().unwrap() {
            let valid = match test["tcId"].as_u64().unwrap() {
                // Byte for byte the valid 357.
                367 | 370 => continue,
                // Valid to a decoder that passes over what is no digit.
                372 | 373 => false,
                _ => test["result"] == "valid",
            };
            assert_eq!(is_valid_jws(&key, test["jws"].as_str().unwrap_or_default()), valid, "test {}", test["tcId"]);
            seen += 1;
        }
    }
    assert_eq!(seen, 38);
}
