//! Proxies, and what is built in (T37, T38).

use std::path::Path;
use std::process::Command;

use svc_client::{Client, ErrorKind, Outcome};
use svc_server::fake::{Fake, Route};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpSocket};

use crate::{alone, is_alone, proposta, ran};

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
    // Held, and nobody listens.
    let held = TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let dead = format!("http://{}", held.local_addr().unwrap());
    let mut command = alone("network::t38_a_proxy_of_the_environment_is_used_only_when_asked_for");
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env(name, &dead);
    }
    for name in ["NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
        command.env_remove(name);
    }
    ran(command).await.unwrap();
}

#[tokio::test]
async fn a_service_under_a_path_is_called_under_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/svc%20a/b/", listener.local_addr().unwrap());
    let client = Client::builder(base, "p", "segredo").max_retries(0).build().unwrap();
    let seen = async {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        line
    };
    let (error, line) = tokio::join!(client.login(), seen);
    assert_eq!(line, "POST /svc%20a/b/v1/login HTTP/1.1\r\n");
    assert_eq!(error.unwrap_err().outcome(), Outcome::NotSent);
}

#[test]
fn t37_what_is_built_in_is_what_the_features_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tree = |features: &[&str]| {
        let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
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
