//! What the measuring programs share: the server in a process of its own, a plain HTTP client on one connection, a receiver of webhooks, and quantiles.

pub mod load;
pub mod process;
pub mod table;

use std::io;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::UnboundedSender;

/// Starts the server that the first argument names, on a free port, and gives it with its address. It ends with its handle.
pub async fn start(arguments: &[&str]) -> (Child, String) {
    let mut server = Command::new(program())
        .args(["--listen", "127.0.0.1:0"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("a server");
    let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines();
    let greeting = lines.next_line().await.expect("readable").expect("a greeting");
    let address =
        greeting.split("http://").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address").to_owned();
    // The customers' links: read, so that the pipe does not fill.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (server, address)
}

/// The same on the processor that [`load`] leaves to servers. What it writes, customers' links too, goes to nowhere.
pub async fn start_pinned(arguments: &[&str]) -> (Child, String) {
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = free.local_addr().expect("bound").to_string();
    drop(free);
    let mut server = load::pinned(&program());
    let server = server.args(["--listen", &address]).args(arguments).spawn().expect("a server");
    while TcpStream::connect(&address).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (server, address)
}

fn program() -> String {
    std::env::args().nth(1).expect("the path of svc-server")
}

/// One connection that is kept.
#[derive(Debug)]
pub struct Http {
    stream: BufReader<TcpStream>,
}

/// A head and a body.
#[derive(Debug)]
pub struct Message {
    /// Start line and headers, each with its line's end.
    pub head: String,
    /// As many bytes as `content-length` says.
    pub body: Vec<u8>,
}

impl Http {
    /// Connects.
    pub async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("a server that listens");
        stream.set_nodelay(true).expect("a socket");
        Self { stream: BufReader::new(stream) }
    }

    /// Sends a request, and gives its answer's status and body.
    pub async fn send(&mut self, method: &str, path: &str, token: &str, body: &str) -> (u16, String) {
        self.send_with(method, path, &format!("authorization: Bearer {token}\r\n"), body).await
    }

    async fn send_with(&mut self, method: &str, path: &str, header: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{header}content-length: {length}\r\n\r\n{body}");
        self.stream.write_all(request.as_bytes()).await.expect("taken");
        let answer = read(&mut self.stream).await.expect("whole").expect("an answer");
        let status = answer.head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, String::from_utf8(answer.body).expect("text"))
    }

    /// Logs in.
    pub async fn login(&mut self, client_id: &str, client_secret: &str) -> String {
        let body = format!(r#"{{"client_id":"{client_id}","client_secret":"{client_secret}"}}"#);
        let (status, body) = self.send("POST", "/v1/login", "", &body).await;
        assert_eq!(status, 200, "{body}");
        between(&body, r#""access_token":""#).to_owned()
    }

    /// Posts a proposal whose notification goes to `url`, and gives its id.
    pub async fn create(&mut self, token: &str, id: &str, url: &str) -> String {
        const WALKTHROUGH: &str = include_str!("../svc-core/tests/proposals/valid/walkthrough.json");
        let body = WALKTHROUGH.replace("https://parceiro.example.com/webhooks/svc", url).replace("PARC-12345", id);
        let (status, body) = self.send("POST", "/v1/propostas", token, &body).await;
        assert_eq!(status, 200, "{body}");
        between(&body, r#""id_proposta_svc":""#).to_owned()
    }

    /// Looks at a proposal as its customer.
    pub async fn page(&mut self, id: &str) {
        let (status, body) = self.send_with("GET", &format!("/confirmar/{id}"), "accept: text/html\r\n", "").await;
        assert!(status == 200 && body.contains("</html>"), "{body}");
    }

    /// Accepts a proposal.
    pub async fn accept(&mut self, id: &str) {
        let (status, body) = self.send("GET", &format!("/confirmar/{id}?acao=aceitar"), "", "").await;
        assert_eq!(status, 200, "{body}");
    }
}

/// The text between a beginning and the next quotation mark.
pub fn between<'t>(text: &'t str, begin: &str) -> &'t str {
    text.split_once(begin).and_then(|(_, rest)| rest.split('"').next()).expect("a field of the answer")
}

/// Answers every webhook with 204, and tells when it came.
pub async fn receive(arrivals: UnboundedSender<(Instant, Message)>) -> SocketAddr {
    receive_answering(arrivals, no_content).await
}

/// The same with an answer that depends on the request, after a while.
pub async fn receive_answering(
    arrivals: UnboundedSender<(Instant, Message)>,
    answer: fn(&Message) -> (Duration, &'static str),
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(receive_on(stream, arrivals.clone(), answer));
        }
    });
    address
}

/// The same on one connection.
pub async fn receive_on(
    stream: TcpStream,
    arrivals: UnboundedSender<(Instant, Message)>,
    answer: fn(&Message) -> (Duration, &'static str),
) {
    let mut stream = BufReader::new(stream);
    while let Ok(Some(request)) = read(&mut stream).await {
        let (wait, answer) = answer(&request);
        let told = arrivals.send((Instant::now(), request));
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n");
        if told.is_err() || stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// 204 at once.
pub fn no_content(_: &Message) -> (Duration, &'static str) {
    (Duration::ZERO, "204 No Content")
}

/// Reads a request or an answer; `None` at the connection's end.
async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Message>> {
    let mut head = Vec::with_capacity(1024);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut head).await? == 0 {
            return Ok(None);
        }
    }
    let mut message = Message { head: String::from_utf8(head).map_err(io::Error::other)?, body: Vec::new() };
    let length = match message.header("content-length") {
        "" => 0,
        length => length.parse().map_err(io::Error::other)?,
    };
    message.body.resize(length, 0);
    stream.read_exact(&mut message.body).await?;
    Ok(Some(message))
}

impl Message {
    /// A header's value.
    pub fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(header, _)| header.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }
}

/// The value that this share of the sorted values does not exceed.
pub fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let index = (share * (sorted.len() - 1) as f64).round() as usize;
    sorted[index]
}

/// The middle one, or the mean of the two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}
