//! Collections of others, line by line: no answer but the right kinds, and never a fault of ours. They are read where
//! `SVC_VECTORS` names their folder; a run without it says what it left out, and fails in CI.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use svc_core::{Schedule, is_public};
use svc_server::Resolver;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Server, TYPICAL, read, results, within};
use crate::network::{Network, Peer};

fn vectors(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("SVC_VECTORS") else {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI reads all vectors, and SVC_VECTORS is not set");
        eprintln!("left out: SVC_VECTORS is not set, so nothing was read of {name}");
        return None;
    };
    Some(PathBuf::from(folder).join(name))
}

#[tokio::test]
async fn f11_the_json_test_suite_as_bodies() {
    let Some(folder) = vectors("json-test-suite/test_parsing") else { return };
    let server = Server::start().await;
    let token = server.token().await;
    let mut counts = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let expected = if bytes.len() > 64 * 1024 { 413 } else { 400 };
        let (status, body) = read(server.post_proposta(&token, bytes)).await;
        assert_eq!(status, expected, "{}: {body}", path.display());
        *counts.entry(status).or_insert(0) += 1;
    }
    println!("JSONTestSuite: {counts:?}");
    assert!(counts[&400] > 300);
}

#[tokio::test]
async fn f11_the_naughty_strings_as_names_and_on_the_page() {
    let Some(file) = vectors("naughty-strings/blns.txt") else { return };
    let server = Server::start().await;
    let token = server.token().await;
    let mut counts = BTreeMap::new();
    for (i, line) in fs::read_to_string(file).unwrap().lines().filter(|line| !line.starts_with('#')).enumerate() {
        let nome = serde_json::to_string(line).unwrap();
        let body = TYPICAL.replace("\"Beltrano da Silva Exemplo\"", &nome).replace("PX-2026-000002", &format!("N-{i}"));
        let (status, body) = read(server.post_proposta(&token, body)).await;
        assert!(matches!(status, 200 | 400), "{line:?}: {status} {body}");
        *counts.entry(status).or_insert(0) += 1;
        if status == 200 {
            let id = body["id_proposta_svc"].as_str().unwrap();
            let page = server.get(&format!("/confirmar/{id}")).header("accept", "text/html").send().await.unwrap();
            assert_eq!(page.status(), 200);
            // Whatever the name is, the page has the elements that it always has, and no other.
            let page = page.text().await.unwrap();
            assert_eq!(page.matches('<').count(), EXPECTED_TAGS, "{line:?}");
        }
    }
    println!("naughty strings: {counts:?}");
    assert!(counts[&200] > 400 && counts[&400] > 20);
}

/// Tags of the offer with a creditor and eleven rows.
const EXPECTED_TAGS: usize = 105;

#[tokio::test]
async fn f23_the_raw_requests_of_llhttp() {
    let Some(folder) = vectors("llhttp") else { return };
    let server = Server::start().await;
    let address = server.base.trim_start_matches("http://").to_owned();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for block in text.split("```http\n").skip(1) {
            let request = unescape(block.split("```").next().unwrap());
            let mut stream = TcpStream::connect(&address).await.unwrap();
            // The server may close before it has all.
            let _ = stream.write_all(&request).await;
            let _ = stream.shutdown().await;
            let mut answer = Vec::new();
            let _ = within(stream.read_to_end(&mut answer)).await;
            let answer = String::from_utf8_lossy(&answer);
            for line in answer.lines().filter(|line| line.starts_with("HTTP/1.1 ")) {
                let status = line.split(' ').nth(1).unwrap().to_owned();
                // An unknown method is answered by 501, and is no fault of ours (C18).
                assert!(
                    !status.starts_with('5') || status == "501",
                    "{status} for {:?}",
                    String::from_utf8_lossy(&request)
                );
                *counts.entry(status).or_default() += 1;
            }
            if answer.is_empty() {
                *counts.entry("closed".to_owned()).or_default() += 1;
            }
        }
    }
    println!("llhttp: {counts:?}");
    assert!(counts.values().sum::<u32>() > 140, "{counts:?}");
    assert_eq!(server.get("/saude").send().await.unwrap().status(), 200);
}

/// The collection writes line ends as its lines end, and other control bytes as escapes.
fn unescape(block: &str) -> Vec<u8> {
    let mut text = String::new();
    for line in block.lines() {
        match line.strip_suffix('\\') {
            Some(joined) => text.push_str(joined),
            None => {
                text.push_str(line);
                text.push_str("\r\n");
            }
        }
    }
    text.replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t").replace("\\f", "\u{c}").into_bytes()
}

#[tokio::test]
async fn f14_no_ssrf_url_leads_to_a_refused_address() {
    let (Some(urls), Some(metadata)) = (vectors("ssrf/ssrf-urls.txt"), vectors("ssrf/cloud-metadata-urls.txt")) else {
        return;
    };
    // Every name resolves to this machine and to the metadata service of clouds, which no range opens.
    let network = Network::new(|_, _| Peer::Refuses);
    let asked = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&asked);
    let server = Server::with(|config| {
        network.hold(config);
        config.schedule = Schedule::parse("0").unwrap();
        config.resolver = Resolver::from_fn(move |_| {
            *counted.lock().unwrap() += 1;
            async { Ok(vec![[127, 0, 0, 1].into(), [169, 254, 169, 254].into()]) }
        });
    })
    .await;
    let token = server.token().await;
    let (mut refused, mut blocked, mut public) = (0, 0, 0);
    let text = fs::read_to_string(urls).unwrap() + &fs::read_to_string(metadata).unwrap();
    for (i, line) in text.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        let url = serde_json::to_string(line).unwrap();
        let body = TYPICAL
            .replace("\"https://parceiro.example.com/webhooks/svc\"", &url)
            .replace("PX-2026-000002", &format!("S-{i}"));
        let (status, body) = read(server.post_proposta(&token, body)).await;
        if status == 400 {
            refused += 1;
            continue;
        }
        assert_eq!(status, 200, "{line}: {body}");
        let id = body["id_proposta_svc"].as_str().unwrap();
        read(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
        let webhook = server.ended(&token, id).await;
        // A literal that is public is tried, in this network of nobody; a name has none but refused addresses.
        if url::Url::parse(line).is_ok_and(|url| !matches!(url.host(), Some(url::Host::Domain(_)))) {
            assert_eq!(results(&webhook), ["conexao"], "{line}");
            public += 1;
        } else {
            assert_eq!(results(&webhook), ["bloqueado"], "{line}");
            blocked += 1;
        }
    }
    let connections = network.connections();
    println!("ssrf: {refused} refused, {blocked} blocked, {public} public literals, connected to {connections:?}");
    assert!(connections.iter().all(|address| is_public(address.ip())), "{connections:?}");
    assert_eq!(connections.len(), public);
    assert!(refused >= 100 && blocked > 10, "{refused} {blocked}");
    assert_eq!(*asked.lock().unwrap(), blocked);
}
