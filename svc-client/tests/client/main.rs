//! The SDK against the fake server, over TCP: one binary, by what it shows.

#[cfg(any(feature = "rustls", feature = "native-tls"))]
mod certificates;
#[cfg(feature = "axum")]
mod extractor;
mod login;
mod network;
mod repeating;
mod retrying;
mod sending;
mod silence;
mod time;
mod vectors;
mod verifying;

use std::future::Future;
use std::process::Command;

use svc_client::webhook::{Secret, Verifier};
use svc_client::{ClientSecret, NovaProposta};

/// A proposal of the partner, whose notification nobody takes.
fn proposta(id: &str) -> NovaProposta {
    named(id, "Ana Exemplo")
}

fn named(id: &str, nome: &str) -> NovaProposta {
    to(id, nome, "https://parceiro.example.com/webhooks/svc")
}

fn to(id: &str, nome: &str, webhook_url: &str) -> NovaProposta {
    NovaProposta::builder(id)
        .nome(nome)
        .cpf("111.444.777-35")
        .whatsapp("5511900000018")
        .solicitado(2_000)
        .webhook_url(webhook_url)
        .build()
        .unwrap()
}

/// Guards a test against waiting for what never comes; no test passes by it.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(std::time::Duration::from_secs(20), future).await.expect("it never came")
}

static_assertions::assert_impl_all!(svc_client::Client: Clone, Send, Sync);
static_assertions::assert_impl_all!(svc_client::Error: Clone, Send, Sync, std::error::Error);
static_assertions::assert_not_impl_any!(ClientSecret: std::fmt::Display, PartialEq, serde::Serialize);
static_assertions::assert_not_impl_any!(Secret: std::fmt::Display, PartialEq, serde::Serialize);
static_assertions::assert_not_impl_any!(Verifier: std::fmt::Display, PartialEq, serde::Serialize);

/// This binary once more, with one of its tests alone: for what belongs to a whole process.
fn alone(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env("SVC_TEST_ALONE", "1");
    command
}

/// Whether this is it.
fn is_alone() -> bool {
    std::env::var_os("SVC_TEST_ALONE").is_some()
}

/// Runs it; what it said if it failed, or if there is no such test.
async fn ran(mut command: Command) -> Result<(), String> {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() && said.contains("1 passed") { Ok(()) } else { Err(said) }
}
