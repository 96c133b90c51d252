//! W32, C39: whatever the tests of this binary do, no log line at any level, of any crate, no error body and no metric holds
//! what nobody may read there. The first that does ends the whole run.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::{LazyLock, Mutex, Once};

use svc_core::{IpRange, Perfil, Policy, Schedule};
use svc_server::Config;
use tracing_subscriber::fmt::MakeWriter;

use crate::harness::{Receiver, Server, TYPICAL, WALKTHROUGH, read, within};

/// What the test data hold of people, and the secrets that are fixed.
const FORBIDDEN: [&str; 19] = [
    "João da Silva",
    "Beltrano da Silva",
    "111.444.777-35",
    "11144477735",
    "123.456.789-09",
    "12345678909",
    "5511900000018",
    "11900000018",
    "5521900000002",
    "21900000002",
    "segredo-demo",
    "outro-segredo",
    "whsec_",
    "c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj",
    "segredo-de-demonstracao-svc",
    "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "eyJ0eXAi",
    "chave=",
    "canario-da-query",
];

/// Words that were looked at, and words that are drawn in a run and may not be among them.
#[derive(Default)]
struct Words {
    seen: HashSet<String>,
    forbidden: HashSet<String>,
    lines: usize,
    targets: HashSet<String>,
}

static WORDS: LazyLock<Mutex<Words>> = LazyLock::new(Mutex::default);

/// Long runs of the letters that keys, tokens, signatures and ids are written in.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '_'))).filter(|word| word.len() >= 10)
}

/// What must not be in a text and is.
fn leak(text: &str, forbidden: &HashSet<String>) -> Option<String> {
    let fixed = FORBIDDEN.iter().find(|forbidden| text.contains(**forbidden)).map(|found| (*found).to_owned());
    fixed.or_else(|| words(text).find(|word| forbidden.contains(*word)).map(str::to_owned))
}

/// From now on, and looking back, this value may be nowhere.
pub(crate) fn forbid(value: &str) {
    let words_of_run = &mut *WORDS.lock().unwrap();
    for word in words(value) {
        if words_of_run.seen.contains(word) {
            end(&format!("{word} was in a log line, an error or a metric"));
        }
        words_of_run.forbidden.insert(word.to_owned());
    }
}

/// Looks at what an operator or a caller can read.
pub(crate) fn look_at(text: &str) {
    let words_of_run = &mut *WORDS.lock().unwrap();
    if let Some(found) = leak(text, &words_of_run.forbidden) {
        end(&format!("{found} is in: {text}"));
    }
    words_of_run.seen.extend(words(text).map(str::to_owned));
}

/// Not a panic: a task of the server would swallow it.
fn end(why: &str) {
    let _ = writeln!(io::stderr(), "\na secret or a person's data came out: {why}");
    std::process::exit(101);
}

/// Looks at all logs of this process at TRACE, dependencies' included, whether they use `tracing` or `log`.
pub(crate) fn watch_logs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        subscriber.with_writer(Log).init();
    });
}

struct Log;

impl MakeWriter<'_> for Log {
    type Writer = Log;

    fn make_writer(&self) -> Self::Writer {
        Log
    }

    fn make_writer_for(&self, meta: &tracing::Metadata<'_>) -> Self::Writer {
        WORDS.lock().unwrap().targets.insert(meta.target().split("::").next().unwrap_or_default().to_owned());
        Log
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        look_at(&String::from_utf8_lossy(line));
        WORDS.lock().unwrap().lines += 1;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn w32_the_check_finds_what_it_looks_for() {
    let drawn = HashSet::from(["k3y-drawn_in-this-run".to_owned()]);
    for text in [
        "nome=João da Silva Exemplo",
        "cpf 111.444.777-35",
        "authorization: Bearer eyJ0eXAiOiJhdCtqd3QifQ.x.y",
        "GET /confirmar/x?acao=aceitar&chave=abc",
        "key=k3y-drawn_in-this-run, and more",
    ] {
        assert!(leak(text, &drawn).is_some(), "{text}");
    }
    for text in ["request method=GET route=/v1/propostas status=200", "key=k3y", ""] {
        assert_eq!(leak(text, &drawn), None, "{text}");
    }
}

#[tokio::test]
async fn w32_a_full_run_at_trace_shows_no_secret_and_no_person() {
    for perfil in [Perfil::Homologacao, Perfil::Producao] {
        full_run(perfil, |_| ()).await;
    }
    let words = WORDS.lock().unwrap();
    assert!(words.lines > 50 && words.forbidden.len() > 5, "{} lines", words.lines);
    // Ours, and those of crates below us.
    assert!(words.targets.contains("svc_server") && words.targets.len() > 2, "{:?}", words.targets);
}

/// The whole journey in a profile, with what it may show of a proposal: its id, or nothing that leads to it.
pub(crate) async fn full_run(perfil: Perfil, change: impl FnOnce(&mut Config)) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let metrics = format!("http://{}/metrics", listener.local_addr().unwrap());
    let mut server = Server::with(|config| {
        config.policy = Policy::new(perfil).open(IpRange::parse("127.0.0.0/8").unwrap());
        config.metrics = Some(listener);
        config.schedule = Schedule::parse("0,0").unwrap();
        change(config);
    })
    .await;
    // A webhook in clear in one profile; in the other a handshake with somebody who does not speak TLS.
    let receiver = Receiver::answering(["HTTP/1.1 500 Oops", "HTTP/1.1 200 OK"]).await;
    let url = match perfil {
        Perfil::Homologacao => receiver.url.clone(),
        Perfil::Producao => receiver.url.replace("http://", "https://"),
    };
    let token = server.token().await;
    let body = TYPICAL.replace("https://parceiro.example.com/webhooks/svc", &url);
    let (status, created) = read(server.post_proposta(&token, body.clone())).await;
    assert_eq!(status, 200, "{created}");
    let id = created["id_proposta_svc"].as_str().unwrap().to_owned();
    if perfil == Perfil::Producao {
        forbid(&id);
    }
    let link = within(server.next_link()).await;
    // Each kind of refusal, with something in it that must not come back.
    for bad in [
        body.replace("123.456.789-09", "123.456.789-0"),
        body.replace("5521900000002", "+5521900000002"),
        body.replace("\"nome\"", "\"nome\": \"Beltrano da Silva Exemplo\", \"nome\""),
        body.replace(&url, "ftp://beltrano.example/?k=canario-da-query"),
        body.replace("PX-2026-000002\",", "PX-2026-000002\", \"simulacao\": \"123.456.789-09\","),
        body.replace('}', ""),
        WALKTHROUGH.replace("PARC-12345", "PX-2026-000002").replace("João", "\u{202e}João"),
    ] {
        let (status, _) = read(server.post_proposta(&token, bad)).await;
        assert_eq!(status, 400);
    }
    assert_eq!(read(server.post_proposta(&token, body.replace("Beltrano", "Fulano"))).await.0, 409);
    assert_eq!(server.login("parceiro-demo", "outro-segredo").await.0, 401);
    assert_eq!(read(server.get(&format!("/v1/propostas/{id}")).bearer_auth(&token[1..])).await.0, 401);
    let post = |acao: &str| {
        let form = server.http.post(&link).header("content-type", "application/x-www-form-urlencoded");
        read(form.body(format!("acao={acao}")))
    };
    assert_eq!(post("talvez").await.0, 400);
    assert_eq!(post("aceitar").await.0, 200);
    assert_eq!(post("recusar").await.0, 409);
    let page = server.http.get(&link).header("accept", "text/html").send().await.unwrap();
    assert_eq!(page.status(), 200);
    let webhook = server.ended(&token, &id).await;
    assert_eq!(webhook["estado"], if perfil == Perfil::Producao { "falhou" } else { "entregue" });
    assert_eq!(read(server.post(&format!("/v1/propostas/{id}/reenviar-webhook"), &token)).await.0, 202);
    server.ended(&token, &id).await;
    let counted = server.http.get(&metrics).send().await.unwrap().text().await.unwrap();
    assert!(counted.contains("svc_webhook_attempts_total"));
    look_at(&counted);
    server.stop().await;
}
