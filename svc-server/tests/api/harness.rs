//! A server of its own for each test, and a receiver of webhooks.

use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use svc_core::{Perfil, Policy};
use svc_server::{Clock, Config, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, Partners, Sender, run};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::canary;

pub(crate) const WALKTHROUGH: &str = include_str!("../../../svc-core/tests/proposals/valid/walkthrough.json");
pub(crate) const TYPICAL: &str = include_str!("../../../svc-core/tests/proposals/valid/02_tipica_12x.json");

/// Another partner beside the demonstration's, whose client secret is `outro-segredo`.
const TWO_PARTNERS: &str = r#"[
    {"client_id": "parceiro-demo", "webhook_secrets": ["whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj"],
     "client_secret_sha256": "DEMO", "creditor_name": "Credora <Um>"},
    {"client_id": "outro", "webhook_secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
     "client_secret_sha256": "OUTRO", "creditor_name": "Credora Dois"}
]"#;

/// The walkthrough's proposal under this id of the partner, answered to this address.
pub(crate) fn proposal_to(webhook_url: &str, id_proposta_parceiro: &str) -> String {
    let body = WALKTHROUGH.replace("https://parceiro.example.com/webhooks/svc", webhook_url);
    body.replace("PARC-12345", id_proposta_parceiro)
}

pub(crate) fn two_partners() -> Partners {
    Partners::from_json(two_partners_file().as_bytes()).unwrap()
}

pub(crate) fn two_partners_file() -> String {
    let digest = |secret: &str| {
        use sha2::{Digest, Sha256};
        Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    TWO_PARTNERS.replace("DEMO", &digest(DEMO_CLIENT_SECRET)).replace("OUTRO", &digest("outro-segredo"))
}

/// A clock that stands still until it is moved.
#[derive(Clone)]
pub(crate) struct TestClock(Arc<Mutex<DateTime<Utc>>>);

impl TestClock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new("2026-11-27T20:31:44.123Z".parse().unwrap())))
    }

    pub(crate) fn advance(&self, seconds: i64) {
        *self.0.lock().unwrap() += TimeDelta::seconds(seconds);
    }

    fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Clock::from_fn(move || *now.lock().unwrap())
    }
}

/// Calls to a server at an address, whoever runs it.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) base: String,
    pub(crate) http: reqwest::Client,
}

/// A server in this process, and calls to it.
pub(crate) struct Server {
    api: Api,
    pub(crate) clock: TestClock,
    /// The customers' links, as they were sent.
    pub(crate) links: UnboundedReceiver<String>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(|_| ()).await
    }

    pub(crate) async fn producao() -> Self {
        Self::with(|config| config.policy = Policy::new(Perfil::Producao)).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        canary::watch_logs();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (clock, (sender, links)) = (TestClock::new(), unbounded_channel());
        let mut config = Config::homologacao(two_partners()).unwrap();
        config.clock = clock.clock();
        config.sender = Sender::Channel(sender);
        change(&mut config);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(run(listener, config, async { drop(stopped.await) }));
        Self { api: Api::at(base), clock, links, stop, task }
    }

    /// The next customer's link.
    pub(crate) async fn next_link(&mut self) -> String {
        let link = self.links.recv().await.unwrap();
        canary::forbid(link.split_once("?chave=").map_or("", |(_, key)| key));
        link
    }

    /// Asks the server to stop, and waits until it has.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        drop(self.api);
        self.task.await.unwrap().unwrap();
    }

    /// The same in a task of its own; comes back when the listener is gone, while requests and attempts may go on.
    pub(crate) async fn begin_to_stop(self) -> JoinHandle<()> {
        let address = self.base.trim_start_matches("http://").to_owned();
        let stopping = tokio::spawn(self.stop());
        within(async {
            while TcpStream::connect(&address).await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        stopping
    }
}

impl Deref for Server {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl Api {
    pub(crate) fn at(base: String) -> Self {
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        Self { base, http: http.build().unwrap() }
    }

    pub(crate) async fn token(&self) -> String {
        self.token_of(DEMO_CLIENT_ID, DEMO_CLIENT_SECRET).await
    }

    pub(crate) async fn token_of(&self, client_id: &str, client_secret: &str) -> String {
        let (status, body) = self.login(client_id, client_secret).await;
        assert_eq!(status, 200, "{body}");
        let token = body["access_token"].as_str().unwrap();
        canary::forbid(token);
        token.to_owned()
    }

    pub(crate) async fn login(&self, client_id: &str, client_secret: &str) -> (u16, Value) {
        let body = json!({"client_id": client_id, "client_secret": client_secret}).to_string();
        let answer = self.http.post(format!("{}/v1/login", self.base)).header("content-type", "application/json");
        read(answer.body(body)).await
    }

    pub(crate) fn post_proposta(&self, token: &str, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        let request = self.http.post(format!("{}/v1/propostas", self.base)).bearer_auth(token);
        request.header("content-type", "application/json").body(body)
    }

    /// Creates a proposal whose webhook goes to this address, and gives its id.
    pub(crate) async fn create(&self, webhook_url: &str) -> String {
        let body = WALKTHROUGH.replace("https://parceiro.example.com/webhooks/svc", webhook_url);
        let (status, body) = read(self.post_proposta(&self.token().await, body)).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(body["status"], "proposta_recebida_e_notificacao_enviada");
        body["id_proposta_svc"].as_str().unwrap().to_owned()
    }

    /// Creates a proposal of the demonstration's partner under an id of its own, and answers it for the customer.
    pub(crate) async fn answered(&self, token: &str, webhook_url: &str, id_proposta_parceiro: &str) -> String {
        let body = proposal_to(webhook_url, id_proposta_parceiro);
        let (status, body) = read(self.post_proposta(token, body)).await;
        assert_eq!(status, 200, "{body}");
        let id = body["id_proposta_svc"].as_str().unwrap().to_owned();
        assert_eq!(read(self.get(&format!("/confirmar/{id}?acao=aceitar"))).await.0, 200);
        id
    }

    /// What the status says of a proposal's notification.
    pub(crate) async fn webhook(&self, token: &str, id: &str) -> Value {
        let (status, body) = read(self.get(&format!("/v1/propostas/{id}")).bearer_auth(token)).await;
        assert_eq!(status, 200, "{body}");
        body["webhook"].clone()
    }

    /// The same once it is no longer pending.
    pub(crate) async fn ended(&self, token: &str, id: &str) -> Value {
        within(async {
            loop {
                let webhook = self.webhook(token, id).await;
                if webhook["estado"] != "pendente" {
                    return webhook;
                }
            }
        })
        .await
    }

    pub(crate) fn post(&self, path: &str, token: &str) -> reqwest::RequestBuilder {
        self.http.post(format!("{}{path}", self.base)).bearer_auth(token)
    }

    pub(crate) fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.get(format!("{}{path}", self.base))
    }
}

/// The results of a notification's attempts.
pub(crate) fn results(webhook: &Value) -> Vec<&str> {
    webhook["tentativas"].as_array().unwrap().iter().map(|attempt| attempt["resultado"].as_str().unwrap()).collect()
}

/// Status and JSON body of an answer.
pub(crate) async fn read(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    let (status, body) = (answer.status().as_u16(), answer.bytes().await.unwrap());
    if status >= 400 {
        canary::look_at(&String::from_utf8_lossy(&body));
    }
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// One delivery as it came: the header pairs in lower case, and the raw body.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(header, _)| header == name);
        &found.unwrap_or_else(|| panic!("no {name} in {:?}", self.headers)).1
    }
}

/// Listens for webhooks and answers each as the script says, the last line for all that follow.
pub(crate) struct Receiver {
    pub(crate) url: String,
    deliveries: UnboundedReceiver<Received>,
}

impl Receiver {
    pub(crate) async fn answering(script: impl Into<Vec<&'static str>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/webhook?k=canario-da-query", listener.local_addr().unwrap());
        let (sender, deliveries) = unbounded_channel();
        let script = script.into();
        tokio::spawn(async move {
            let mut answers = script.iter().chain(std::iter::repeat(script.last().unwrap()));
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let mut stream = BufReader::new(stream);
                let Some(received) = read_request(&mut stream).await else { continue };
                let answer = format!("{}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", answers.next().unwrap());
                stream.write_all(answer.as_bytes()).await.unwrap();
                if sender.send(received).is_err() {
                    return;
                }
            }
        });
        Self { url, deliveries }
    }

    pub(crate) async fn next(&mut self) -> Received {
        within(self.deliveries.recv()).await.unwrap()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }
}

pub(crate) async fn read_request(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<Received> {
    let (mut head, mut headers, mut line) = (String::new(), Vec::new(), String::new());
    stream.read_line(&mut head).await.ok().filter(|read| *read > 0)?;
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    for (_, value) in headers.iter().filter(|(name, _)| name.ends_with("-signature")) {
        canary::forbid(value);
    }
    Some(Received { head: head.trim_end().to_owned(), headers, body })
}

/// Guards a test against waiting for what never comes; no test passes by it.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(std::time::Duration::from_secs(20), future).await.expect("it never came")
}
