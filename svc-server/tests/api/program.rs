//! The program: one clear line for each bad setting, a greeting that leads on, an end on request.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use crate::canary;
use crate::harness::within;

pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svc-server"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SVC_") {
            command.env_remove(name);
        }
    }
    command.kill_on_drop(true).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[tokio::test]
async fn a_bad_setting_is_one_line_that_names_its_variable_and_exit_64() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let files = std::env::temp_dir().join(format!("svc-server-{}", std::process::id()));
    std::fs::create_dir_all(&files).unwrap();
    let empty = files.join("partners.json");
    std::fs::write(&empty, "[]").unwrap();
    let empty = empty.to_str().unwrap();
    for (var, value, line) in [
        ("SVC_LISTEN", "8080", "SVC_LISTEN: not an address such as 127.0.0.1:8080"),
        (
            "SVC_LISTEN",
            "0.0.0.0:0",
            "SVC_BASE_URL: required when SVC_LISTEN names no address that customers could open",
        ),
        ("SVC_LISTEN", "192.0.2.1:0", "SVC_PARTNERS: required unless the server listens on loopback"),
        ("SVC_BASE_URL", "propostas", "SVC_BASE_URL: not an address such as https://propostas.example.com"),
        ("SVC_BASE_URL", "https:exemplo.com", "SVC_BASE_URL: not an address such as https://propostas.example.com"),
        (
            "SVC_BASE_URL",
            "https://a:b@exemplo.com",
            "SVC_BASE_URL: not an address such as https://propostas.example.com",
        ),
        ("SVC_TRUSTED_PROXY", "10.0.0.1", "SVC_TRUSTED_PROXY: not an address range such as 10.0.0.0/8 or fd00::/8"),
        ("SVC_PROFILE", "teste", "SVC_PROFILE: not homologacao or producao"),
        (
            "SVC_PROFILE",
            "producao",
            "SVC_LINK_KEY: required in producao and with a database, here or in SVC_LINK_KEY_FILE",
        ),
        ("SVC_RULES_OFF", "R1,R10", "SVC_RULES_OFF: not a list of rules R1 to R9"),
        ("SVC_PARTNERS", "/nada.json", "SVC_PARTNERS: cannot be read: No such file or directory (os error 2)"),
        ("SVC_PARTNERS", empty, "SVC_PARTNERS: no partner in it"),
        ("SVC_TOKEN_KEY", "curta", "SVC_TOKEN_KEY: key has fewer than 32 bytes"),
        ("SVC_TOKEN_KEY_PREVIOUS", "curta", "SVC_TOKEN_KEY_PREVIOUS: key has fewer than 32 bytes"),
        ("SVC_LINK_KEY_FILE", "/nada", "SVC_LINK_KEY_FILE: cannot be read: No such file or directory (os error 2)"),
        ("SVC_SENDER", "pombo", "SVC_SENDER: not log or whatsapp"),
        (
            "SVC_SENDER",
            "whatsapp",
            "SVC_WHATSAPP_TOKEN: required with the sender whatsapp, here or in SVC_WHATSAPP_TOKEN_FILE",
        ),
        ("SVC_WHATSAPP_VERIFY_TOKEN", "x", "SVC_WHATSAPP_APP_SECRET: required with the verify token"),
        ("SVC_WEBHOOK_ALLOW", "10.0.0.1/8", "SVC_WEBHOOK_ALLOW: not an address range such as 10.0.0.0/8 or fd00::/8"),
        ("SVC_RETRY_SCHEDULE", "5", "SVC_RETRY_SCHEDULE: not a list of waits such as 0,5s,30s,2m,10m"),
        ("SVC_MAX_IN_FLIGHT", "0", "SVC_MAX_IN_FLIGHT: not a whole number from 1"),
        ("SVC_MAX_CONNECTIONS", "-1", "SVC_MAX_CONNECTIONS: not a whole number from 1"),
        ("SVC_MAX_PROPOSALS", "muitas", "SVC_MAX_PROPOSALS: not a whole number from 1"),
        ("SVC_DATABASE_URL", "segredo", "SVC_DATABASE_URL: not a URL such as postgres://user:password@host/database"),
        (
            "SVC_DATABASE_URL",
            "postgres://svc:segredo@db.example/svc",
            "SVC_DATABASE_URL: another machine is reached with sslmode=require or verify-full only",
        ),
        ("SVC_RETENTION", "0", "SVC_RETENTION: not a whole number of days from 1"),
        ("SVC_METRICS_LISTEN", "9090", "SVC_METRICS_LISTEN: not an address such as 127.0.0.1:9090"),
        (
            "SVC_METRICS_LISTEN",
            &taken,
            &format!("SVC_METRICS_LISTEN: {taken} cannot be bound: Address already in use (os error 98)"),
        ),
        ("SVC_LOG", "xml", "SVC_LOG: not text or json"),
        ("SVC_SIMULATE", "sim", "SVC_SIMULATE: not on or off"),
        ("SVC_LISTEN", &taken, &format!("SVC_LISTEN: {taken} cannot be bound: Address already in use (os error 98)")),
    ] {
        let output = within(program().env("SVC_LISTEN", "127.0.0.1:0").env(var, value).output()).await.unwrap();
        assert_eq!(output.status.code(), Some(64), "{var}={value}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("svc-server: {line}\n"), "{var}={value}");
        assert!(output.stdout.is_empty(), "{var}={value}");
    }
    std::fs::remove_dir_all(files).unwrap();
}

#[tokio::test]
async fn a_partners_file_is_told_what_is_wrong_with_it_and_never_a_secret() {
    let folder = std::env::temp_dir().join(format!("svc-server-partners-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("partners.json");
    let new = within(program().args(["partner", "new", "parceiro-novo"]).output()).await.unwrap();
    assert_eq!(new.status.code(), Some(0));
    let entry = String::from_utf8(new.stdout).unwrap();
    assert!(String::from_utf8_lossy(&new.stderr).starts_with("client_secret, shown this once: "));
    for (change, why) in [
        (entry.replace("creditor_name", "credor"), "unknown field `credor`"),
        (
            entry.replace("\"creditor_name\": \"parceiro-novo\"", "\"creditor_name\": \" \""),
            "partner parceiro-novo has an empty creditor_name",
        ),
        (entry.replace("whsec_", "whsec-"), "partner parceiro-novo: webhook secret does not begin with whsec_"),
        (format!("{entry},{entry}"), "partner parceiro-novo is in it twice"),
        (
            entry.replace("\"webhook_secrets\": [", "\"webhook_secrets\": \"whsec_segredo\", \"x\": ["),
            "no JSON list of partners",
        ),
    ] {
        std::fs::write(&file, format!("[{change}]")).unwrap();
        let output = within(program().env("SVC_PARTNERS", &file).output()).await.unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{line}");
        assert!(line.starts_with("svc-server: SVC_PARTNERS: ") && line.contains(why), "{line}");
        assert!(!line.contains("segredo"), "{line}");
    }
    let sample = entry.replacen("whsec_", "whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj\", \"whsec_", 1);
    std::fs::write(&file, format!("[{sample}]")).unwrap();
    let key = "0123456789012345678901234567890123456789";
    let producao = program()
        .envs([
            ("SVC_PROFILE", "producao"),
            ("SVC_TOKEN_KEY", key),
            ("SVC_LINK_KEY", key),
            ("SVC_BASE_URL", "https://x.example"),
        ])
        .env("SVC_PARTNERS", &file)
        .output();
    let output = within(producao).await.unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line, "svc-server: SVC_PARTNERS: holds a secret of the demonstration partner, which everybody knows\n");
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn hangup_without_a_partners_file_says_so_and_goes_on() {
    let (mut child, address) = start(program().args(["--metrics-listen", "127.0.0.1:0"])).await;
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    signal(&child, "-HUP").await;
    while !within(log.next_line()).await.unwrap().unwrap().contains("no partners file to read again") {}
    assert_eq!(reqwest::get(format!("{address}/saude")).await.unwrap().status(), 200);
    signal(&child, "-TERM").await;
    assert_eq!(within(child.wait()).await.unwrap().code(), Some(0));
}

#[cfg(unix)]
#[tokio::test]
async fn a_variable_that_is_no_text_and_a_flag_without_a_value_are_exit_64() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"producao\xff");
    let output = within(program().env("SVC_PROFILE", odd).output()).await.unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "svc-server: SVC_PROFILE: is not UTF-8\n");
    let output = within(program().env("SVC_PROFILE", "producao").args(["--profile", ""]).output()).await.unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--profile"));
}

#[tokio::test]
async fn a_flag_wins_over_its_variable_and_an_unknown_one_is_exit_64() {
    let output = within(program().env("SVC_LOG", "xml").args(["--log", "yaml"]).output()).await.unwrap();
    assert_eq!(output.status.code(), Some(64));
    let output = within(program().arg("--porta").output()).await.unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unexpected argument '--porta'"));
    let output = within(program().arg("--token-key=x").output()).await.unwrap();
    assert_eq!(output.status.code(), Some(64), "a secret is no flag");
}

#[tokio::test]
async fn help_names_every_setting() {
    let output = within(program().arg("--help").output()).await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    let help = String::from_utf8(output.stdout).unwrap();
    for setting in svc_server::SETTINGS {
        assert!(help.contains(setting.var), "{}", setting.var);
        assert!(setting.flag.is_none_or(|flag| help.contains(&format!("--{flag}"))), "{}", setting.var);
    }
}

/// A running program and its address.
pub(crate) async fn start(command: &mut Command) -> (Child, String) {
    start_at(command, "127.0.0.1:0").await
}

pub(crate) async fn start_at(command: &mut Command, listen: &str) -> (Child, String) {
    let mut child = command.args(["--listen", listen]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = within(lines.next_line()).await.unwrap().unwrap();
    // The rest of the output stays unread: nothing may depend on it.
    std::mem::forget(lines);
    let address = first.split_once(" listens on ").unwrap().1.split(' ').next().unwrap().to_owned();
    (child, address)
}

pub(crate) async fn signal(child: &Child, name: &str) {
    let pid = child.id().unwrap().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().await.unwrap().success());
}

#[tokio::test]
async fn f40_a_second_signal_ends_at_once() {
    let (mut child, address) = start(&mut program()).await;
    let mut held = tokio::net::TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
    held.write_all(b"POST /v1/login HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n")
        .await
        .unwrap();
    let mut interim = [0; 25];
    within(held.read_exact(&mut interim)).await.unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    signal(&child, "-TERM").await;
    while !within(log.next_line()).await.unwrap().unwrap().contains("stopping") {}
    signal(&child, "-INT").await;
    assert_eq!(within(child.wait()).await.unwrap().code(), Some(130));
}

#[tokio::test]
async fn c24_hangup_reads_the_partners_again_and_a_bad_file_changes_nothing() {
    let file = std::env::temp_dir().join(format!("svc-server-hangup-{}.json", std::process::id()));
    let entry = |client: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_svc-server"))
            .args(["partner", "new", client])
            .output()
            .unwrap();
        format!("[{}]", String::from_utf8(output.stdout).unwrap())
    };
    std::fs::write(&file, entry("um")).unwrap();
    let (mut child, _address) = start(program().env("SVC_PARTNERS", &file)).await;
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    for (content, line) in [(entry("dois"), "partners read again"), ("[]".to_owned(), "no partner in it")] {
        std::fs::write(&file, content).unwrap();
        signal(&child, "-HUP").await;
        while !within(log.next_line()).await.unwrap().unwrap().contains(line) {}
    }
    signal(&child, "-TERM").await;
    assert_eq!(within(child.wait()).await.unwrap().code(), Some(0));
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn f29_without_descriptors_the_server_waits_and_recovers_alone() {
    let mut limited = Command::new("bash");
    limited.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_svc-server")]);
    limited.kill_on_drop(true).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, address) = start(&mut limited).await;
    let target = address.trim_start_matches("http://");
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(tokio::net::TcpStream::connect(target).await.unwrap());
    }
    let mut failures = 0;
    while failures == 0 {
        failures += u32::from(within(log.next_line()).await.unwrap().unwrap().contains("accept fails"));
    }
    drop(held);
    assert_eq!(reqwest::get(format!("{address}/saude")).await.unwrap().status(), 200);
    signal(&child, "-TERM").await;
    assert_eq!(within(child.wait()).await.unwrap().code(), Some(0));
    while let Some(line) = log.next_line().await.unwrap() {
        failures += u32::from(line.contains("accept fails"));
    }
    assert!(failures <= 2, "said {failures} times: it spins");
}

#[tokio::test]
async fn the_log_is_one_object_a_line_with_route_status_time_and_request_and_no_query() {
    let (mut child, address) = start(program().env("SVC_LOG", "json")).await;
    let path = "/confirmar/07070707-0707-4707-8707-070707070707?acao=aceitar&chave=segredo";
    let answer = reqwest::Client::new().get(format!("{address}{path}")).header("x-request-id", "pedido-1").send().await;
    assert_eq!(answer.unwrap().status(), 404);
    signal(&child, "-TERM").await;
    assert_eq!(within(child.wait()).await.unwrap().code(), Some(0));
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = lines.iter().find(|line| line["message"] == "request").unwrap();
    assert_eq!((&line["method"], &line["status"]), (&"GET".into(), &404.into()));
    assert_eq!(line["route"], "/confirmar/{id_proposta_svc}");
    assert_eq!(line["request_id"], "pedido-1");
    assert!(line["duration_ms"].is_number() && line["level"] == "INFO");
    let form: String = line["timestamp"].as_str().unwrap().replace(|digit: char| digit.is_ascii_digit(), "0");
    assert_eq!(form, "0000-00-00T00:00:00.000000Z");
    assert!(!log.contains("segredo") && !log.contains("0707"), "{log}");
    canary::look_at(&log);
}

#[tokio::test]
async fn a_standard_output_that_nobody_reads_holds_nobody_up() {
    let (child, address) = start(&mut program()).await;
    let http = reqwest::Client::new();
    let login = r#"{"client_id":"parceiro-demo","client_secret":"segredo-demo"}"#;
    let token = http.post(format!("{address}/v1/login")).body(login).send().await.unwrap().bytes().await.unwrap();
    let token: serde_json::Value = serde_json::from_slice(&token).unwrap();
    // A pipe holds 64 KiB, and each proposal prints its link.
    for i in 0..1_000 {
        let body = crate::harness::WALKTHROUGH.replace("PARC-12345", &format!("P-{i}"));
        let request = http.post(format!("{address}/v1/propostas")).bearer_auth(token["access_token"].as_str().unwrap());
        assert_eq!(within(request.body(body).send()).await.unwrap().status(), 200);
    }
    drop(child);
}

#[tokio::test]
async fn it_greets_serves_and_ends_when_it_is_asked_to() {
    let mut child = program().args(["--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = within(lines.next_line()).await.unwrap().unwrap();
    let address = first.split_once(" listens on ").unwrap().1.trim_end_matches(" (homologacao)").to_owned();
    let health = reqwest::get(format!("{address}/saude")).await.unwrap();
    assert_eq!(health.status(), 200);
    let mut greeting = String::new();
    while !greeting.contains("Ctrl-C") {
        greeting += &within(lines.next_line()).await.unwrap().unwrap();
    }
    assert!(greeting.contains(&format!("curl {address}/v1/login")));
    let pid = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
    assert_eq!(within(child.wait()).await.unwrap().code(), Some(0));
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
    assert!(log.contains("demonstration partner"), "{log}");
}
