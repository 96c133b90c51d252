//! F64: whose certificate is believed, and that nothing goes out before it is.

use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use svc_core::Schedule;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::sync::mpsc::unbounded_channel;
use tokio_rustls::TlsAcceptor;

use crate::harness::{Received, Server, read_request, results};
use crate::network::{Network, Peer};

const NAME: &str = "parceiro.example";

fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

/// An authority of the test's own, as PEM and as an issuer.
fn authority() -> (String, Issuer<'static, KeyPair>) {
    let key = key();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.self_signed(&key).unwrap().pem(), Issuer::new(params, key))
}

/// A receiver's end with this certificate, by our authority or by nobody.
fn acceptor(params: &CertificateParams, issuer: Option<&Issuer<'_, KeyPair>>) -> TlsAcceptor {
    let key = key();
    let certificate = match issuer {
        Some(issuer) => params.signed_by(&key, issuer).unwrap(),
        None => params.self_signed(&key).unwrap(),
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// What comes of a delivery to a receiver with this certificate, and what that receiver got to read.
async fn delivered(authority: &str, acceptor: TlsAcceptor) -> (String, String, Vec<Received>) {
    let (hand, mut connections) = unbounded_channel();
    let network = Network::new(move |_, _| Peer::Hands(hand.clone())).name(NAME, &["93.184.215.14"]);
    let read = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&read);
    tokio::spawn(async move {
        while let Some(stream) = connections.recv().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let mut stream = BufReader::new(stream);
            while let Some(request) = read_request(&mut stream).await {
                log.lock().unwrap().push(request);
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                stream.flush().await.unwrap();
            }
        }
    });
    let server = Server::with(|config| {
        network.hold(config);
        config.schedule = Schedule::parse("0").unwrap();
        config.webhook_ca = Some(authority.to_owned());
    })
    .await;
    let token = server.token().await;
    let id = server.answered(&token, &format!("https://{NAME}/webhook"), "P-1").await;
    let webhook = server.ended(&token, &id).await;
    assert_eq!(results(&webhook).len(), 1);
    let read = std::mem::take(&mut *read.lock().unwrap());
    (id, results(&webhook)[0].to_owned(), read)
}

#[tokio::test]
async fn f64_a_certificate_that_is_expired_another_s_or_nobody_s_gets_nothing() {
    let (authority, issuer) = authority();
    let params = |name: &str| CertificateParams::new(vec![name.to_owned()]).unwrap();
    let mut expired = params(NAME);
    expired.not_before = date_time_ymd(2020, 1, 1);
    expired.not_after = date_time_ymd(2021, 1, 1);
    for (what, acceptor) in [
        ("expired", acceptor(&expired, Some(&issuer))),
        ("wrong name", acceptor(&params("outro.example"), Some(&issuer))),
        ("self-signed", acceptor(&params(NAME), None)),
    ] {
        let (_, result, read) = delivered(&authority, acceptor).await;
        assert_eq!(result, "tls", "{what}");
        assert!(read.is_empty(), "{what}: nothing is sent");
    }
    let (id, result, read) = delivered(&authority, acceptor(&params(NAME), Some(&issuer))).await;
    assert_eq!(result, "204");
    assert_eq!((read.len(), read[0].head.as_str()), (1, "POST /webhook HTTP/1.1"));
    assert_eq!(read[0].header("webhook-id"), format!("evt_{id}"));
    assert!(String::from_utf8_lossy(&read[0].body).contains(&id));
}

#[tokio::test]
async fn f64_a_receiver_that_speaks_in_clear_on_an_https_address_gets_nothing() {
    let (hand, mut connections) = unbounded_channel();
    let network = Network::new(move |_, _| Peer::Hands(hand.clone())).name(NAME, &["93.184.215.14"]);
    let read = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&read);
    tokio::spawn(async move {
        use tokio::io::AsyncReadExt;
        while let Some(mut stream) = connections.recv().await {
            let mut hello = [0; 2_048];
            let length = stream.read(&mut hello).await.unwrap();
            log.lock().unwrap().extend_from_slice(&hello[..length]);
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        }
    });
    let server = Server::with(|config| {
        network.hold(config);
        config.schedule = Schedule::parse("0").unwrap();
    })
    .await;
    let token = server.token().await;
    let id = server.answered(&token, &format!("https://{NAME}/"), "P-1").await;
    assert_eq!(results(&server.ended(&token, &id).await), ["tls"]);
    let read = read.lock().unwrap();
    assert_eq!(read[0], 0x16, "a handshake");
    assert!(!read.windows(4).any(|bytes| bytes == b"POST"), "and nothing in clear");
}
