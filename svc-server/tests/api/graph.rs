//! A double of Meta's API, as far as a sender meets it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use svc_server::{Config, Sender, WhatsApp, WhatsAppAccount};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::canary;
use crate::harness::{Received, Server, read, read_request, within};

pub(crate) const TOKEN: &str = "EAAG-canario-do-token";
pub(crate) const TAKEN: &str = r#"{"messaging_product":"whatsapp","contacts":[{"input":"5511900000018","wa_id":"551100000018"}],
    "messages":[{"id":"wamid.HBgNNTUxMQ==","message_status":"accepted"}],"novo":1}"#;

/// What the double says to a message; `None` is nothing at all.
pub(crate) type Answer = Option<(u16, String)>;

/// Meta's API, as far as a sender meets it.
pub(crate) struct Graph {
    api: String,
    pub(crate) requests: UnboundedReceiver<Received>,
}

impl Graph {
    pub(crate) async fn answering(answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        // What Meta calls a message, and whom it went to, can tell of the customer's number.
        for secret in [TOKEN, "HBgNNTUxMQ==", "551100000018"] {
            canary::forbid(secret);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = format!("http://{}", listener.local_addr().unwrap());
        let (tell, requests) = unbounded_channel();
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, tell) = (Arc::clone(&answer), tell.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some(request) = read_request(&mut stream).await {
                        let body = serde_json::from_slice(&request.body).unwrap();
                        let _ = tell.send(request);
                        let Some((status, body)) = answer(&body) else { std::future::pending().await };
                        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
                        stream.write_all((head + &body).as_bytes()).await.unwrap();
                    }
                });
            }
        });
        Self { api, requests }
    }

    pub(crate) fn sender(&self, config: &mut Config) {
        let mut account = WhatsAppAccount::new("106540352242922", TOKEN, "proposta_de_emprestimo");
        account.api = self.api.clone();
        config.sender = Sender::WhatsApp(Arc::new(WhatsApp::new(account).unwrap()));
    }

    pub(crate) async fn server(&self) -> Server {
        Server::with(|config| self.sender(config)).await
    }

    pub(crate) async fn next(&mut self) -> (Received, Value) {
        let request = within(self.requests.recv()).await.unwrap();
        let body = serde_json::from_slice(&request.body).unwrap();
        (request, body)
    }
}

pub(crate) fn taken(_: &Value) -> Answer {
    Some((200, TAKEN.to_owned()))
}

pub(crate) fn error(status: u16, code: impl Into<Value>) -> Answer {
    let error = json!({"message": "(#1) x", "type": "OAuthException", "code": code.into(), "error_data": "text",
        "error_subcode": 1, "fbtrace_id": "A"});
    Some((status, json!({"error": error}).to_string()))
}

/// What the partner sees of the message once it is no more `estado`.
pub(crate) async fn after(server: &Server, token: &str, id: &str, estado: &str) -> Value {
    within(async {
        loop {
            let (_, body) = read(server.get(&format!("/v1/propostas/{id}")).bearer_auth(token)).await;
            if body["mensagem"] != json!({"estado": estado}) {
                return body["mensagem"].clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

pub(crate) async fn create(server: &Server, token: &str, body: String) -> String {
    let (status, body) = read(server.post_proposta(token, body)).await;
    assert_eq!(status, 200, "{body}");
    body["id_proposta_svc"].as_str().unwrap().to_owned()
}
