//! A partner's receiver of notifications, on axum: the extractor believes, the handler works it off once.
//!
//! `SVC_WEBHOOK_SECRET=whsec_… cargo run -p svc-examples --bin receiver-axum`, then send proposals whose `webhook_url` is
//! `http://127.0.0.1:3000/webhooks/svc`. Its own crate would need
//! `svc-client = { version = "0.1", default-features = false, features = ["axum"] }` and `axum` with the feature `macros`.

use std::time::SystemTime;

use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::routing::post;
use svc_client::webhook::{
    Claim, Deduper, MemoryDeduper, Resposta, Secret, SignedNotificacao, SignedNotificacaoRejection, Verifier,
};
use tokio::net::TcpListener;

/// What the handler shares. The extractor takes its verifier from here.
#[derive(Clone, FromRef)]
struct Receiver {
    verifier: Verifier,
    seen: MemoryDeduper,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Made once: it holds the keyed hash. While the secret is rotated, `.also(&previous)` believes both.
    let secret = std::env::var("SVC_WEBHOOK_SECRET").map_err(|_| "SVC_WEBHOOK_SECRET is not set")?;
    let verifier = Verifier::new(&Secret::parse(&secret)?).require_timestamp();
    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("notifications to http://{}/webhooks/svc", listener.local_addr()?);
    axum::serve(listener, router(verifier)).await?;
    Ok(())
}

pub(crate) fn router(verifier: Verifier) -> Router {
    let receiver = Receiver { verifier, seen: MemoryDeduper::new() };
    Router::new().route("/webhooks/svc", post(receive)).with_state(receiver)
}

/// Called for every request; `Err` is one that is not believed. A handler that takes [`SignedNotificacao`] alone is called
/// for the believed ones only, and the rest is answered by itself.
async fn receive(
    State(receiver): State<Receiver>,
    notificacao: Result<SignedNotificacao, SignedNotificacaoRejection>,
) -> StatusCode {
    let notificacao = match notificacao {
        Ok(SignedNotificacao(notificacao)) => notificacao,
        Err(error) => {
            // For our log; whoever sent it learns nothing but the status.
            eprintln!("refused, {}: {error}", error.code());
            return error.status();
        }
    };
    // It comes until we answer 2xx, so the same one can come again.
    let key = notificacao.dedup_key();
    match receiver.seen.claim(key, SystemTime::now()).await {
        Ok(Claim::New) => {}
        Ok(Claim::InProgress) => return StatusCode::SERVICE_UNAVAILABLE,
        Ok(Claim::Done) => return StatusCode::NO_CONTENT,
    }
    // Here it is stored, before it is answered. If that fails: `receiver.seen.release(key)`, and 503.
    match &notificacao.status {
        Resposta::Aceito => println!("{} is accepted", notificacao.id_proposta_parceiro),
        Resposta::Recusado => println!("{} is refused", notificacao.id_proposta_parceiro),
        // A later service may know more than this program: keep the word, and look at it.
        other => println!("{} is {other}", notificacao.id_proposta_parceiro),
    }
    let Ok(()) = receiver.seen.done(key, SystemTime::now()).await;
    StatusCode::NO_CONTENT
}
