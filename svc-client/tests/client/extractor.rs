//! The axum extractor: what it lets through, and what it says to the rest.

use axum::Router;
use axum::routing::post;
use svc_client::webhook::Secret;
use svc_client::webhook::{MAX_BODY_BYTES, SignedNotificacao, sign_for_test};
use svc_server::fake::{Fake, Webhook, WebhookFault};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::unbounded_channel;

use crate::{to, within};

#[tokio::test]
async fn the_extractor_gives_what_is_believed_and_answers_the_rest_without_detail() {
    let fake = Fake::start();
    let (tell, mut told) = unbounded_channel();
    let receive = move |SignedNotificacao(notificacao): SignedNotificacao| async move {
        tell.send(notificacao).unwrap();
    };
    let app = Router::new().route("/webhook", post(receive)).with_state(fake.verifier());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/webhook", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, app).await });

    let id = fake.client().create_proposta(&to("P-1", "Ana", &url)).await.unwrap().id_proposta_svc.clone();
    let webhook = fake.accept(&id).await.unwrap();
    assert_eq!(within(told.recv()).await.unwrap().id_proposta_svc, id, "from the service itself");

    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let send = async |webhook: &Webhook| {
        let mut request = http.post(&url).body(webhook.body.clone());
        for (name, value) in &webhook.headers {
            request = request.header(name, value);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.bytes().await.unwrap().len())
    };
    assert_eq!(send(&webhook).await, (200, 0));
    for fault in [WebhookFault::WrongSignature, WebhookFault::StaleTimestamp, WebhookFault::AlteredBody] {
        assert_eq!(send(&webhook.clone().with(fault)).await, (401, 0), "{fault:?}");
    }
    let secret = Secret::parse(fake.webhook_secret()).unwrap();
    let signed = |body: &str| {
        let mut other = webhook.clone();
        let headers = sign_for_test(&secret, body.as_bytes(), fake.clock().now());
        other.headers = headers.map(|(name, value)| (name.to_owned(), value)).to_vec();
        other.body = body.to_owned().into();
        other
    };
    assert_eq!(send(&signed("[]")).await, (400, 0));
    let body = |length: usize| {
        let text = String::from_utf8(webhook.body.to_vec()).unwrap();
        format!("{}{text}", " ".repeat(length - text.len()))
    };
    assert_eq!(send(&signed(&body(MAX_BODY_BYTES))).await, (200, 0));
    assert_eq!(MAX_BODY_BYTES, 65_536);
    // Of a length that is not told before, so that all of it is read before it is too long.
    let mut stream = TcpStream::connect(url.trim_start_matches("http://").trim_end_matches("/webhook")).await.unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", MAX_BODY_BYTES + 1, body(MAX_BODY_BYTES + 1));
    let request =
        format!("POST /webhook HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{chunk}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}
