//! One delivery verified: ours beside the floor (the hash's block function over the same blocks), ring, svix and
//! standardwebhooks. Same body, same secret; every iteration asserts its verdict.
//!
//! `svc` checks the interface's one header, as ring does here; `svc_all` checks all four, `svix` and `standardwebhooks`
//! the three of Standard Webhooks.

use std::hint::black_box;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use http::HeaderMap;
use svc_core::{Received, Secret, Signer, Verifier, VerifyError};

const KEY: [u8; 32] = [7; 32];
const ID: &str = "evt_0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b";

fn verify(c: &mut Criterion) {
    let secret = Secret::from_raw_key_bytes(&KEY).unwrap();
    for size in [170, 1 << 10, 16 << 10, 256 << 10] {
        // Anew for each size: the peers ask the system's clock, and give a signature five minutes.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let body = vec![b'x'; size];
        let signer = Signer::new(&secret);
        let hex = signer.svc_signature(&body);
        let standard = signer.webhook_signature(ID, now, &body);
        let timestamp = now.to_string();

        let mut group = c.benchmark_group("verify");
        group.throughput(Throughput::Bytes(size as u64));

        let blocks = blocks_of(&body);
        let floor = compress(&blocks);
        group.bench_with_input(BenchmarkId::new("floor", size), &blocks, |b, blocks| {
            b.iter(|| assert_eq!(compress(black_box(blocks)), floor));
        });

        let verifier = Verifier::new(&secret);
        let one = Received { svc_signature: Some(hex.as_bytes()), ..Received::default() };
        group.bench_with_input(BenchmarkId::new("svc", size), &body, |b, body| {
            b.iter(|| assert_eq!(verifier.verify(black_box(one), black_box(body), now), Ok(())));
        });

        let all = Received {
            svc_signature: Some(hex.as_bytes()),
            id: Some(ID.as_bytes()),
            timestamp: Some(timestamp.as_bytes()),
            signature: Some(standard.as_bytes()),
        };
        group.bench_with_input(BenchmarkId::new("svc_all", size), &body, |b, body| {
            b.iter(|| assert_eq!(verifier.verify(black_box(all), black_box(body), now), Ok(())));
        });

        let wrong = hex.replace(&hex[..1], if hex.starts_with('0') { "1" } else { "0" });
        let wrong = Received { svc_signature: Some(wrong.as_bytes()), ..Received::default() };
        group.bench_with_input(BenchmarkId::new("svc_refused", size), &body, |b, body| {
            b.iter(|| {
                let verdict = verifier.verify(black_box(wrong), black_box(body), now);
                assert!(matches!(verdict, Err(VerifyError::Mismatch(_))));
            });
        });

        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &KEY);
        group.bench_with_input(BenchmarkId::new("ring", size), &body, |b, body| {
            b.iter(|| {
                let tag = decode_hex(black_box(hex.as_bytes()));
                assert!(ring::hmac::verify(&key, black_box(body), &tag).is_ok());
            });
        });

        let secret = format!("whsec_{}", STANDARD.encode(KEY));
        let headers = headers(&timestamp, &standard);
        let svix = svix::webhooks::Webhook::new(&secret).unwrap();
        group.bench_with_input(BenchmarkId::new("svix", size), &body, |b, body| {
            b.iter(|| assert!(svix.verify(black_box(body), black_box(&headers)).is_ok()));
        });

        let standardwebhooks = standardwebhooks::Webhook::new(&secret).unwrap();
        group.bench_with_input(BenchmarkId::new("standardwebhooks", size), &body, |b, body| {
            b.iter(|| assert!(standardwebhooks.verify(black_box(body), black_box(&headers)).is_ok()));
        });
        group.finish();
    }
}

fn headers(timestamp: &str, signature: &str) -> HeaderMap {
    let pairs = [("webhook-id", ID), ("webhook-timestamp", timestamp), ("webhook-signature", signature)];
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

/// The blocks that HMAC hashes of a body once its key is taken in: the body padded, then the inner hash padded.
fn blocks_of(body: &[u8]) -> Vec<[u8; 64]> {
    let padded = (body.len() + 9).div_ceil(64) + 1;
    let mut bytes = body.to_vec();
    bytes.resize(padded * 64, 0x80);
    bytes.as_chunks::<64>().0.to_vec()
}

fn compress(blocks: &[[u8; 64]]) -> [u32; 8] {
    let mut state = [1; 8];
    sha2::block_api::compress256(&mut state, blocks);
    state
}

/// The decoder that our verifier has, so that ring is measured as it is and not as a slow decoder makes it.
fn decode_hex(digits: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (byte, [high, low]) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        let value = |digit: u8| {
            let (number, letter) = (digit.wrapping_sub(b'0'), (digit | 0x20).wrapping_sub(b'a'));
            if number < 10 { number } else { letter.wrapping_add(10) & 15 }
        };
        *byte = value(*high) << 4 | value(*low);
    }
    bytes
}

criterion_group!(benches, verify);
criterion_main!(benches);
