//! Whose certificate is believed, by whichever TLS library is built in (T15).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use svc_client::{Client, ErrorKind, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{alone, is_alone, proposta, ran, within};

const LOGGED_IN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 63\r\n\r\n{\"access_token\":\"t\",\"token_type\":\"Bearer\",\"expires_in\":3600   }";

/// A server for `localhost` that lets everybody in, the PEM of its certificate, and how many connected.
async fn tls_server() -> (String, String, Arc<AtomicUsize>) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let connected = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connected);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(LOGGED_IN.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (base, certificate.pem(), connected)
}

#[tokio::test]
async fn t15_a_certificate_that_nobody_vouches_for_is_not_tried_again() {
    let (base, _, connected) = tls_server().await;
    let client = Client::builder(base, "p", "s").build().unwrap();
    let error = within(client.create_proposta(&proposta("P-1"))).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome(), error.attempts()), (ErrorKind::Connect, Outcome::NotSent, 1));
    assert!(!error.is_retryable());
    assert_eq!(connected.load(Ordering::SeqCst), 1);
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "certificate is not trusted");
}

#[tokio::test]
async fn t15_a_certificate_that_the_machine_trusts_is_believed() {
    if is_alone() {
        let base = std::env::var("BASE").unwrap();
        Client::builder(&base, "p", "s").build().unwrap().login().await.unwrap();
        // The same server by a name that the certificate does not have.
        let client = Client::builder(base.replace("localhost", "127.0.0.1"), "p", "s").build().unwrap();
        let error = client.login().await.unwrap_err();
        assert_eq!((error.kind(), error.attempts(), error.is_retryable()), (ErrorKind::Connect, 1, false));
        return;
    }
    let (base, pem, _) = tls_server().await;
    let file = std::env::temp_dir().join(format!("svc-client-{}.pem", std::process::id()));
    std::fs::write(&file, pem).unwrap();
    let mut command = alone("certificates::t15_a_certificate_that_the_machine_trusts_is_believed");
    command.env("SSL_CERT_FILE", &file).env("BASE", base);
    let ran = ran(command).await;
    std::fs::remove_file(file).unwrap();
    ran.unwrap();
}
