//! A partner's receiver of notifications, on hyper alone: a capped raw body, one call, one status.
//!
//! `SVC_WEBHOOK_SECRET=whsec_… cargo run -p svc-examples --bin receiver-hyper`

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use svc_client::webhook::{ParseError, Secret, Verifier};
use tokio::net::TcpListener;

/// A notification has less than 2 KiB; nobody may send us a gigabyte.
const MAX_BODY_BYTES: usize = 64 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let secret = std::env::var("SVC_WEBHOOK_SECRET").map_err(|_| "SVC_WEBHOOK_SECRET is not set")?;
    let verifier = Arc::new(Verifier::new(&Secret::parse(&secret)?));
    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("notifications to http://{}/webhooks/svc", listener.local_addr()?);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // One caller's broken connection, or no descriptor left: neither is a reason to stop.
            Err(error) => {
                eprintln!("accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let verifier = Arc::clone(&verifier);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&verifier), request));
            // With a timer, so that a connection on which nothing comes ends after half a minute.
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
            if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
                eprintln!("connection: {error}");
            }
        });
    }
}

async fn answer(verifier: Arc<Verifier>, request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let mut response = Response::new(Empty::new());
    *response.status_mut() = receive(&verifier, request).await;
    Ok(response)
}

async fn receive(verifier: &Verifier, request: Request<Incoming>) -> StatusCode {
    if (request.method(), request.uri().path()) != (&Method::POST, "/webhooks/svc") {
        return StatusCode::NOT_FOUND;
    }
    let (head, body) = request.into_parts();
    // The raw bytes: a body that was parsed and written again has other bytes, and no signature.
    let body = match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return StatusCode::PAYLOAD_TOO_LARGE,
        Err(_) => return StatusCode::BAD_REQUEST,
    };
    match verifier.parse(&head.headers, &body) {
        Ok(notificacao) => {
            // Here it is stored, once for each `dedup_key`, before it is answered.
            println!("{} is {}", notificacao.id_proposta_parceiro, notificacao.status);
            StatusCode::NO_CONTENT
        }
        Err(error) => {
            eprintln!("refused, {}: {error}\n  {}", error.code(), error.hint());
            match error {
                ParseError::Body(_) => StatusCode::BAD_REQUEST,
                _ => StatusCode::UNAUTHORIZED,
            }
        }
    }
}
