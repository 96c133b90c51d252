//! Certificates, proxies, and what is built in (T15, T37, T38).

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use svc_client::{Client, ErrorKind, Outcome};
use svc_server::fake::{Fake, Route};
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

#[cfg(any(feature = "rustls", feature = "native-tls"))]
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

#[cfg(any(feature = "rustls", feature = "native-tls"))]
#[tokio::test]
async fn t15_a_certificate_that_the_machine_trusts_is_believed() {
    if is_alone() {
        let client = Client::builder(std::env::var("BASE").unwrap(), "p", "s").build().unwrap();
        return client.login().await.unwrap();
    }
    let (base, pem, _) = tls_server().await;
    let file = std::env::temp_dir().join(format!("svc-client-{}.pem", std::process::id()));
    std::fs::write(&file, pem).unwrap();
    let mut command = alone("network::t15_a_certificate_that_the_machine_trusts_is_believed");
    command.env("SSL_CERT_FILE", &file).env("BASE", base);
    let ran = ran(command).await;
    std::fs::remove_file(file).unwrap();
    ran.unwrap();
}

#[tokio::test]
async fn t38_a_proxy_of_the_environment_is_used_only_when_asked_for() {
    let create = async |client: Client| client.create_proposta(&proposta("P-1")).await;
    if is_alone() {
        let fake = Fake::start();
        create(fake.client()).await.unwrap();
        assert_eq!(fake.requests(Route::Create).len(), 1);
        let proxied = fake.client_builder().proxy(std::env::var("HTTP_PROXY").unwrap()).build().unwrap();
        assert_eq!(create(proxied).await.unwrap_err().kind(), ErrorKind::Connect);
        #[cfg(feature = "system-proxy")]
        {
            let proxied = fake.client_builder().system_proxy(true).build().unwrap();
            assert_eq!(create(proxied).await.unwrap_err().kind(), ErrorKind::Connect);
        }
        return;
    }
    let dead = format!("http://{}", TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap());
    let mut command = alone("network::t38_a_proxy_of_the_environment_is_used_only_when_asked_for");
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env(name, &dead);
    }
    for name in ["NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
        command.env_remove(name);
    }
    ran(command).await.unwrap();
}

#[test]
fn t37_what_is_built_in_is_what_the_features_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tree = |features: &[&str]| {
        let mut command = Command::new(std::env::var("CARGO").unwrap());
        command.current_dir(root).args([
            "tree",
            "-q",
            "--offline",
            "-e",
            "normal",
            "--prefix",
            "none",
            "-p",
            "svc-client",
        ]);
        let output = command.args(features).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let names = String::from_utf8(output.stdout).unwrap();
        names.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect::<Vec<_>>()
    };
    let has = |names: &[String], name: &str| names.iter().any(|found| found == name);
    let default = tree(&[]);
    assert!(has(&default, "reqwest") && has(&default, "rustls"));
    assert!(
        !["openssl", "openssl-sys", "native-tls", "axum-core", "tracing-subscriber", "svc-server"]
            .iter()
            .any(|name| has(&default, name))
    );
    let webhook_only = tree(&["--no-default-features"]);
    assert!(has(&webhook_only, "svc-core"));
    assert!(
        !["tokio", "hyper", "reqwest", "rustls", "futures-core", "tracing"].iter().any(|name| has(&webhook_only, name))
    );
    assert!(has(&tree(&["--no-default-features", "--features", "native-tls"]), "native-tls"));
}
