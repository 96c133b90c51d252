//! The program: one clear line for each bad setting, a greeting that leads on, an end on request.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

use crate::harness::within;

fn program() -> Command {
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
        ("SVC_PROFILE", "teste", "SVC_PROFILE: not homologacao or producao"),
        ("SVC_PROFILE", "producao", "SVC_LINK_KEY: required in producao, here or in SVC_LINK_KEY_FILE"),
        ("SVC_RULES_OFF", "R1,R10", "SVC_RULES_OFF: not a list of rules R1 to R9"),
        ("SVC_PARTNERS", "/nada.json", "SVC_PARTNERS: cannot be read: No such file or directory (os error 2)"),
        ("SVC_PARTNERS", empty, "SVC_PARTNERS: no partner in it"),
        ("SVC_TOKEN_KEY", "curta", "SVC_TOKEN_KEY: key has fewer than 32 bytes"),
        ("SVC_TOKEN_KEY_PREVIOUS", "curta", "SVC_TOKEN_KEY_PREVIOUS: key has fewer than 32 bytes"),
        ("SVC_LINK_KEY_FILE", "/nada", "SVC_LINK_KEY_FILE: cannot be read: No such file or directory (os error 2)"),
        ("SVC_SENDER", "pombo", "SVC_SENDER: not log"),
        ("SVC_WEBHOOK_ALLOW", "10.0.0.1/8", "SVC_WEBHOOK_ALLOW: not an address range such as 10.0.0.0/8 or fd00::/8"),
        ("SVC_RETRY_SCHEDULE", "5", "SVC_RETRY_SCHEDULE: not a list of waits such as 0,5s,30s,2m,10m"),
        ("SVC_MAX_IN_FLIGHT", "0", "SVC_MAX_IN_FLIGHT: not a whole number from 1"),
        ("SVC_MAX_CONNECTIONS", "-1", "SVC_MAX_CONNECTIONS: not a whole number from 1"),
        ("SVC_MAX_PROPOSALS", "muitas", "SVC_MAX_PROPOSALS: not a whole number from 1"),
        ("SVC_DATABASE_URL", "postgres://x", "SVC_DATABASE_URL: this version keeps proposals in memory only"),
        ("SVC_LOG", "xml", "SVC_LOG: not text or json"),
        ("SVC_LISTEN", &taken, &format!("SVC_LISTEN: {taken} cannot be bound: Address already in use (os error 98)")),
    ] {
        let output = within(program().env(var, value).output()).await.unwrap();
        assert_eq!(output.status.code(), Some(64), "{var}={value}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("svc-server: {line}\n"), "{var}={value}");
        assert!(output.stdout.is_empty(), "{var}={value}");
    }
    std::fs::remove_dir_all(files).unwrap();
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
