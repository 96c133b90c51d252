//! One delivery verified: ours beside the floor (the hash's block function over the same blocks) and beside peers. Same
//! body, same secret; every iteration asserts its verdict. At the end a table of ratios from this run.
//!
//! `cargo bench -p svc-benches --bench verify`
//!
//! `svc`, `hmac`, `ring`, `aws-lc-rs` and `openssl` check the interface's one header; `svc, all headers` checks all four;
//! `svix` and `standardwebhooks` check the three of Standard Webhooks, and `hook0-client` its own one. Who keeps a key keeps
//! it. `hex` at a name means that the header is decoded by the hex crate, without it by a loop like our verifier's.

use std::hint::black_box;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use sha2::Sha256;
use svc_benches::table::Table;
use svc_core::{MAX_SIGNATURES, Received, Secret, Signer, Verifier, VerifyError};

const KEY: [u8; 32] = [7; 32];
const OTHER_KEY: [u8; 32] = [8; 32];
const ID: &str = "evt_0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b";
const SIZES: [usize; 4] = [170, 1 << 10, 16 << 10, 256 << 10];
const TOLERANCE: u64 = 300;

/// One body with its headers, as our service signs it.
struct Delivery {
    body: Vec<u8>,
    now: u64,
    hex: String,
    timestamp: String,
    standard: String,
}

impl Delivery {
    /// Signed now: the peers ask the system's clock, and give a signature five minutes.
    fn new(size: usize) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let body = vec![b'x'; size];
        let signer = Signer::new(&Secret::from_raw_key_bytes(&KEY).unwrap());
        let (hex, standard) = (signer.svc_signature(&body), signer.webhook_signature(ID, now, &body));
        Self { body, now, hex, timestamp: now.to_string(), standard }
    }

    fn one_header(&self) -> Received<'_> {
        Received { svc_signature: Some(self.hex.as_bytes()), ..Received::default() }
    }

    fn all_headers(&self) -> Received<'_> {
        Received {
            id: Some(ID.as_bytes()),
            timestamp: Some(self.timestamp.as_bytes()),
            signature: Some(self.standard.as_bytes()),
            ..self.one_header()
        }
    }
}

type Group<'c> = BenchmarkGroup<'c, WallTime>;

/// Measures a verdict that must be given.
fn measure(group: &mut Group<'_>, name: &str, mut verdict: impl FnMut() -> bool) {
    group.bench_function(name, |b| b.iter(|| assert!(verdict(), "the verdict of {name}")));
}

fn ours(group: &mut Group<'_>, delivery: &Delivery) {
    let Delivery { body, now, .. } = delivery;
    let [secret, other] = [KEY, OTHER_KEY].map(|key| Secret::from_raw_key_bytes(&key).unwrap());
    let blocks = blocks_of(body);
    let floor = compress(&blocks);
    measure(group, "floor", || compress(black_box(&blocks)) == floor);

    let verifier = Verifier::new(&secret);
    let (one, all) = (delivery.one_header(), delivery.all_headers());
    measure(group, "svc", || verifier.verify(black_box(one), black_box(body), *now) == Ok(()));
    measure(group, "svc, all headers", || verifier.verify(black_box(all), black_box(body), *now) == Ok(()));
    let two = Verifier::new(&other).also(&secret);
    measure(group, "svc, second of two secrets", || two.verify(black_box(one), black_box(body), *now) == Ok(()));
}

/// Each way in which a delivery is refused.
fn refusals(group: &mut Group<'_>, delivery: &Delivery) {
    let Delivery { body, now, hex, .. } = delivery;
    let verifier = Verifier::new(&Secret::from_raw_key_bytes(&KEY).unwrap());
    let (one, all) = (delivery.one_header(), delivery.all_headers());
    let mut wrong = hex.clone();
    wrong.replace_range(..1, if hex.starts_with('0') { "1" } else { "0" });
    let items = (0..MAX_SIGNATURES).map(|number| format!("v1,{}", STANDARD.encode([number as u8; 32])));
    let items = items.collect::<Vec<_>>().join(" ");
    let strict = verifier.clone().require_timestamp();
    let later = now + 2 * TOLERANCE;
    let classes = [
        ("missing", &verifier, Received::default(), *now),
        ("malformed", &verifier, Received { svc_signature: Some(b"not hex"), ..one }, *now),
        ("wrong", &verifier, Received { svc_signature: Some(wrong.as_bytes()), ..one }, *now),
        ("no timestamp", &strict, one, *now),
        ("wrong standard signature", &verifier, Received { signature: Some(b"v1,QQ=="), ..all }, *now),
        ("a header full of wrong items", &verifier, Received { signature: Some(items.as_bytes()), ..all }, *now),
        ("too old", &verifier, all, later),
    ];
    for (name, verifier, received, now) in classes {
        let expected: VerifyError = verifier.verify(received, body, now).unwrap_err();
        measure(group, &format!("svc, refused: {name}"), || {
            verifier.verify(black_box(received), black_box(body), now) == Err(expected)
        });
    }
}

fn one_header_peers(group: &mut Group<'_>, delivery: &Delivery) {
    let Delivery { body, hex, .. } = delivery;
    type Decode = fn(&[u8]) -> [u8; 32];
    let decoders: [(&str, Decode); 2] =
        [("", decode_hex), (", hex", |digits| hex::decode(digits).unwrap().try_into().unwrap())];

    let kept = Hmac::<Sha256>::new_from_slice(&KEY).unwrap();
    let check = |mut mac: Hmac<Sha256>, tag: [u8; 32]| {
        mac.update(black_box(body));
        mac.verify_slice(&tag).is_ok()
    };
    measure(group, "hmac + sha2, key kept, hex", || check(kept.clone(), decoders[1].1(black_box(hex.as_bytes()))));
    measure(group, "hmac + sha2, keyed each time, hex", || {
        check(Hmac::new_from_slice(black_box(&KEY)).unwrap(), decoders[1].1(black_box(hex.as_bytes())))
    });

    let ring_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &KEY);
    let aws_key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &KEY);
    for (with, decode) in decoders {
        measure(group, &format!("ring{with}"), || {
            ring::hmac::verify(&ring_key, black_box(body), &decode(black_box(hex.as_bytes()))).is_ok()
        });
        measure(group, &format!("aws-lc-rs{with}"), || {
            aws_lc_rs::hmac::verify(&aws_key, black_box(body), &decode(black_box(hex.as_bytes()))).is_ok()
        });
    }

    let key = PKey::hmac(&KEY).unwrap();
    measure(group, "openssl, hex", || {
        let mut signer = openssl::sign::Signer::new(MessageDigest::sha256(), &key).unwrap();
        let mut tag = [0; 32];
        signer.sign_oneshot(&mut tag, black_box(body)).unwrap();
        openssl::memcmp::eq(&tag, &decoders[1].1(black_box(hex.as_bytes())))
    });
}

fn library_peers(group: &mut Group<'_>, delivery: &Delivery) {
    let Delivery { body, timestamp, standard, .. } = delivery;
    let secret = format!("whsec_{}", STANDARD.encode(KEY));
    let pairs = [("webhook-id", ID), ("webhook-timestamp", timestamp), ("webhook-signature", standard)];
    let headers: HeaderMap =
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();

    let svix = svix::webhooks::Webhook::new(&secret).unwrap();
    measure(group, "svix", || svix.verify(black_box(body), black_box(&headers)).is_ok());
    let standardwebhooks = standardwebhooks::Webhook::new(&secret).unwrap();
    measure(group, "standardwebhooks", || standardwebhooks.verify(black_box(body), black_box(&headers)).is_ok());

    // Its own header: a timestamp, and hex of the MAC over timestamp, point and body. The secret is the key as text.
    let key = "k".repeat(32);
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(format!("{timestamp}.").as_bytes());
    mac.update(body);
    let header = format!("t={timestamp},v0={}", hex::encode(mac.finalize().into_bytes()));
    let others: [(&str, &str); 0] = [];
    let tolerance = Duration::from_secs(TOLERANCE);
    measure(group, "hook0-client", || {
        hook0_client::verify_webhook_signature(black_box(&header), black_box(body), &others, &key, tolerance).is_ok()
    });
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

/// The decoder that our verifier has, so that others are measured as they are and not as a slow decoder makes them.
#[inline(never)]
fn decode_hex(digits: &[u8]) -> [u8; 32] {
    let digits: &[u8; 64] = digits.try_into().unwrap();
    let (mut values, mut bad) = ([0; 64], false);
    for (value, digit) in values.iter_mut().zip(digits) {
        let number = digit.wrapping_sub(b'0');
        let letter = (digit | 0x20).wrapping_sub(b'a');
        *value = if number < 10 { number } else { letter.wrapping_add(10) };
        bad |= !(number < 10 || letter < 6);
    }
    let mut bytes = [0; 32];
    for (byte, [high, low]) in bytes.iter_mut().zip(values.as_chunks::<2>().0) {
        *byte = high << 4 | low;
    }
    assert!(!bad, "hex digits");
    bytes
}

fn main() {
    let table = Table::begin();
    let mut criterion = Criterion::default()
        .output_directory(table.folder())
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for size in SIZES {
        let delivery = Delivery::new(size);
        let mut group = criterion.benchmark_group(format!("verify {size}"));
        group.throughput(Throughput::Bytes(size as u64));
        ours(&mut group, &delivery);
        one_header_peers(&mut group, &delivery);
        library_peers(&mut group, &delivery);
        if size == SIZES[0] {
            refusals(&mut group, &delivery);
        }
        group.finish();
    }
    criterion.final_summary();
    table.print(SIZES.map(|size| format!("verify {size}")), "floor");
}
