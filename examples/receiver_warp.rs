//! A partner's receiver of notifications, on warp, and for any framework whose header map is not that of this crate's
//! `http`: the headers as a slice of pairs.
//!
//! `SVC_WEBHOOK_SECRET=whsec_… cargo run -p svc-examples --bin receiver-warp`

use std::net::SocketAddr;

use svc_client::webhook::{ParseError, Secret, Verifier};
use warp::Filter;
use warp::http::{HeaderMap, StatusCode};
use warp::hyper::body::Bytes;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let secret = std::env::var("SVC_WEBHOOK_SECRET").map_err(|_| "SVC_WEBHOOK_SECRET is not set")?;
    let verifier = Verifier::new(&Secret::parse(&secret)?);
    let address: SocketAddr = std::env::var("LISTEN").as_deref().unwrap_or("127.0.0.1:3000").parse()?;

    let route = warp::post()
        .and(warp::path!("webhooks" / "svc"))
        .and(warp::body::content_length_limit(64 * 1024))
        .and(warp::header::headers_cloned())
        .and(warp::body::bytes())
        .map(move |headers: HeaderMap, body: Bytes| receive(&verifier, &headers, &body));

    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("notifications to http://{}/webhooks/svc", listener.local_addr()?);
    warp::serve(route).incoming(listener).run().await;
    Ok(())
}

fn receive(verifier: &Verifier, headers: &HeaderMap, body: &[u8]) -> StatusCode {
    // Names and values, whatever the framework calls them: text or bytes, in any order and any case.
    let pairs: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    match verifier.parse(&pairs, body) {
        Ok(notificacao) => {
            println!("{} is {}", notificacao.id_proposta_parceiro, notificacao.status);
            StatusCode::NO_CONTENT
        }
        Err(error) => {
            eprintln!("refused, {}: {error}", error.code());
            if matches!(error, ParseError::Body(_)) { StatusCode::BAD_REQUEST } else { StatusCode::UNAUTHORIZED }
        }
    }
}
