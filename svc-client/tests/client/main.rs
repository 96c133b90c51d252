//! The SDK against the real server, over TCP.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use svc_client::webhook::{ParseError, Resposta, Secret, Verifier, VerifyError};
use svc_client::{Acao, Client, ErrorKind, NovaProposta, Outcome};
use svc_server::{Config, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, Partners, Sender, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;

/// A server on a free port; it ends with the test's runtime.
async fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let mut config = Config::homologacao(Partners::demonstration()).unwrap();
    config.sender = Sender::Channel(unbounded_channel().0);
    tokio::spawn(run(listener, config, std::future::pending()));
    base
}

async fn client() -> Client {
    Client::builder(server().await, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET).build().unwrap()
}

fn proposta(id: &str, nome: &str) -> NovaProposta {
    NovaProposta::builder(id)
        .nome(nome)
        .cpf("111.444.777-35")
        .whatsapp("5511900000018")
        .solicitado(2_000)
        .webhook_url("https://parceiro.example.com/webhooks/svc")
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_proposal_is_created_replayed_and_answered() {
    let client = client().await;
    client.login().await.unwrap();
    let first = client.create_proposta(&proposta("P-1", "Ana")).await.unwrap();
    assert_eq!((first.status().as_u16(), first.replayed()), (200, false));
    assert_eq!(first.request_id().map(str::len), Some(32));
    let again = client.create_proposta(&proposta("P-1", "Ana")).await.unwrap();
    assert!(again.replayed());
    assert_eq!(again.id_proposta_svc, first.id_proposta_svc);
    let answer = client.simulate_answer(&first.id_proposta_svc, Acao::Recusar).await.unwrap();
    assert_eq!((answer.status.as_str(), answer.ja_respondida), ("RECUSADO", false));
}

#[tokio::test]
async fn t23_another_proposal_under_the_same_id_is_rejected() {
    let client = client().await;
    client.create_proposta(&proposta("P-1", "Ana")).await.unwrap();
    let error = client.create_proposta(&proposta("P-1", "Bia")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Api, Outcome::Rejected));
    assert_eq!((error.status().unwrap().as_u16(), error.code()), (409, Some("id_proposta_parceiro_em_uso")));
    let text = error.to_string();
    assert!(
        text.starts_with("the service answered with an error, status 409, code id_proposta_parceiro_em_uso, request "),
        "{text}"
    );
}

#[tokio::test]
async fn the_server_s_violations_are_the_caller_s() {
    let client = client().await;
    // Only the server knows that it sends nothing to this address.
    let private = NovaProposta::builder("P-1").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018");
    let private = private.webhook_url("http://10.0.0.1/").build().unwrap();
    let error = client.create_proposta(&private).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Rejected);
    let violation = &error.violations()[0];
    assert_eq!((violation.pointer.as_str(), violation.code.as_str()), ("/webhook_url", "url_invalida"));
    let invalid: svc_client::Error = NovaProposta::builder("P-1").build().unwrap_err().into();
    assert_eq!((invalid.kind(), invalid.outcome()), (ErrorKind::Config, Outcome::NotSent));
    assert_eq!(invalid.violations()[0].code, "campo_obrigatorio");
}

#[tokio::test]
async fn t11_refused_credentials_are_a_login_error_without_the_secret() {
    let client = Client::builder(server().await, DEMO_CLIENT_ID, "segredo-errado").build().unwrap();
    let error = client.create_proposta(&proposta("P-1", "Ana")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome(), error.code()),
        (ErrorKind::Login, Outcome::NotSent, Some("credenciais_invalidas"))
    );
    for text in [format!("{error}"), format!("{error:?}"), format!("{client:?}")] {
        assert!(!text.contains("segredo-errado"), "{text}");
    }
}

#[tokio::test]
async fn t15_no_listener_means_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::builder(base, "p", "s").build().unwrap();
    let error = client.create_proposta(&proposta("P-1", "Ana")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Connect, Outcome::NotSent));
}

/// Answers each connection's one request with the next of these answers, and tells the requests' first lines.
async fn scripted(answers: Vec<&'static str>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let mut seen = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !complete(&request) {
                let mut part = [0; 4096];
                match stream.read(&mut part).await.unwrap() {
                    0 => break,
                    n => request.extend_from_slice(&part[..n]),
                }
            }
            seen.push(String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        seen
    });
    (base, task)
}

fn complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    body.len() >= length.unwrap_or(0)
}

const TOKEN: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"access_token\":\"t\",\"token_type\":\"Bearer\",\"expires_in\":3600}";
const UNAUTHORIZED: &str = "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\n\r\n{\"codigo\":\"token_expirado\"}";
const CREATED: &str =
    "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"status\":\"ok\",\"id_proposta_svc\":\"s\",\"novo\":1}";

#[tokio::test]
async fn t08_t09_a_401_is_one_login_and_one_replay() {
    let other_token = TOKEN.replace("\"t\"", "\"u\"").leak();
    let (base, server) = scripted(vec![TOKEN, UNAUTHORIZED, other_token, CREATED]).await;
    let client = Client::builder(base, "p", "s").build().unwrap();
    assert_eq!(client.create_proposta(&proposta("P-1", "Ana")).await.unwrap().id_proposta_svc, "s");
    let (login, create) = ("POST /v1/login HTTP/1.1", "POST /v1/propostas HTTP/1.1");
    assert_eq!(server.await.unwrap(), [login, create, login, create]);

    let (base, server) = scripted(vec![TOKEN, UNAUTHORIZED, other_token, UNAUTHORIZED]).await;
    let client = Client::builder(base, "p", "s").build().unwrap();
    let error = client.create_proposta(&proposta("P-1", "Ana")).await.unwrap_err();
    assert_eq!((error.outcome(), error.code()), (Outcome::Rejected, Some("token_expirado")));
    assert_eq!(server.await.unwrap().len(), 4);
}

#[tokio::test]
async fn t13_t26_what_became_of_a_proposal_is_told_by_its_answer() {
    for (answer, kind, outcome) in [
        ("", ErrorKind::Transport, Outcome::Unknown),
        ("HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\n\r\n<html>", ErrorKind::Api, Outcome::Unknown),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\n\r\n",
            ErrorKind::Api,
            Outcome::Unknown,
        ),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<html>", ErrorKind::Decode, Outcome::Accepted),
        ("HTTP/1.1 200 OK\r\ncontent-length: 99\r\nconnection: close\r\n\r\n{", ErrorKind::Decode, Outcome::Accepted),
        (
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 99\r\nconnection: close\r\n\r\n{",
            ErrorKind::Api,
            Outcome::Rejected,
        ),
        ("HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n", ErrorKind::Api, Outcome::Unknown),
    ] {
        let (base, server) = scripted(vec![TOKEN, answer]).await;
        let client = Client::builder(base, "p", "s").build().unwrap();
        let error = client.create_proposta(&proposta("P-1", "Ana")).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, outcome), "{answer}");
        assert_eq!(server.await.unwrap().len(), 2, "nothing is sent twice");
    }
}

#[tokio::test]
async fn t11_callers_that_wait_for_a_login_share_its_failure() {
    let (base, logins) =
        scripted(vec!["HTTP/1.1 401 Unauthorized\r\nconnection: close\r\n\r\n{\"codigo\":\"credenciais_invalidas\"}"])
            .await;
    let client = Client::builder(base, "p", "s").build().unwrap();
    let calls: Vec<_> =
        (0..20).map(|_| client.clone()).map(|client| tokio::spawn(async move { client.login().await })).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap_err().code(), Some("credenciais_invalidas"));
    }
    assert_eq!(logins.await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_stranger_s_answer_does_not_write_into_the_log() {
    let odd = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n{\"codigo\":\"a\\nlinha 111.444.777-35\",\"violacoes\":[{\"propriedade\":\"/x\\ny\",\"codigo\":\"ok\"},7]}";
    let (base, _server) = scripted(vec![TOKEN, odd]).await;
    let client = Client::builder(base, "p", "s").build().unwrap();
    let error = client.create_proposta(&proposta("P-1", "Ana")).await.unwrap_err();
    assert_eq!(error.to_string(), "the service answered with an error, status 400, (field) ok");
    assert_eq!(error.violations().len(), 1, "the other is no violation");
}

#[tokio::test]
async fn t01_tasks_that_start_together_share_one_login() {
    let (base, logins) = scripted(vec![TOKEN]).await;
    let client = Client::builder(base, "p", "s").build().unwrap();
    let calls: Vec<_> = (0..100)
        .map(|_| (client.clone(),))
        .map(|(client,)| tokio::spawn(async move { client.login().await }))
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(logins.await.unwrap().len(), 1);
}

#[tokio::test]
async fn t30_an_id_that_is_none_is_refused_before_sending() {
    let client = Client::builder("http://127.0.0.1:1", "p", "s").build().unwrap();
    for bad in ["", "a/b", "..", "%2F", "x?y", "a\r\nb", "😊"] {
        let error = client.simulate_answer(bad, Acao::Aceitar).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Config, Outcome::NotSent), "{bad}");
    }
}

#[test]
fn t12_a_client_is_built_outside_a_runtime_and_used_in_two() {
    let client = Client::builder("http://127.0.0.1:1", "p", "s").build().unwrap();
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(runtime.block_on(client.login()).unwrap_err().outcome(), Outcome::NotSent);
    }
}

#[test]
fn base_urls_that_would_leak_are_refused() {
    for bad in [
        "",
        "propostas.example.com",
        "ftp://example.com",
        "http://example.com",
        "https://u:p@example.com",
        "https://example.com?x",
    ] {
        assert_eq!(Client::builder(bad, "p", "s").build().unwrap_err().kind(), ErrorKind::Config, "{bad}");
    }
    for good in ["https://example.com/", "http://localhost:1", "http://[::1]:1", "http://127.0.0.2"] {
        assert!(Client::builder(good, "p", "s").build().is_ok(), "{good}");
    }
    assert!(Client::builder("http://example.com", "p", "s").allow_http(true).build().is_ok());
}

#[test]
fn a_webhook_is_parsed_from_any_kind_of_headers() {
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let body = br#"{"id_proposta_svc":"s","id_proposta_parceiro":"P-1","status":"ACEITO","timestamp":"2026-11-27T20:31:44.000Z"}"#;
    let signature = svc_core::Signer::new(&secret).svc_signature(body);
    let verifier = Verifier::new(&secret);
    let mut map = http::HeaderMap::new();
    map.insert("X-Svc-Signature", signature.parse().unwrap());
    assert_eq!(verifier.parse(&map, body).unwrap().status, Resposta::Aceito);
    assert_eq!(verifier.parse(&map, body).unwrap().event_id(), None);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let standard = svc_core::Signer::new(&secret).webhook_signature("evt_1", now, body);
    let all = [
        ("x-svc-signature", signature.clone()),
        ("webhook-id", "evt_1".to_owned()),
        ("webhook-timestamp", now.to_string()),
        ("webhook-signature", standard),
    ];
    let told = verifier.parse(&all[..], body).unwrap();
    assert_eq!((told.event_id(), told.id_proposta_parceiro.as_str()), (Some("evt_1"), "P-1"));
    assert_eq!(told.attempted_at(), Some(UNIX_EPOCH + Duration::from_secs(now)));
    assert!(verifier.parse(&[("X-SVC-SIGNATURE", signature.as_str())][..], body).is_ok());
    assert!(verifier.parse(&vec![("x-svc-signature".to_owned(), signature.clone().into_bytes())], body).is_ok());
    map.append("x-svc-signature", "00".parse().unwrap());
    let error = verifier.parse(&map, body).unwrap_err();
    assert!(matches!(error, ParseError::Verify(VerifyError::Repeated(_))));
    assert_eq!(error.code(), "header_repeated");
    let odd = b"[]";
    let signature = svc_core::Signer::new(&secret).svc_signature(odd);
    assert_eq!(verifier.parse(&[("x-svc-signature", signature)][..], odd).unwrap_err().code(), "body_malformed");
}
