//! svc-core inside a server of your own: here axum and a map, no svc-server.
//!
//! `cargo run -p svc-examples --bin embed`, then post a proposal to http://127.0.0.1:3000/propostas and open
//! /confirmar/{id}?acao=aceitar. What is left out is what you have already: authentication, a database, a retry loop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::Utc;
use svc_core::{
    Acao, Confirmacao, Delivery, DigestKey, Falha, IpRange, Jitter, NotApplied, NovaProposta, Outcome, Perfil, Policy,
    Proposta, PropostaId, PropostaRecebida, Schedule, Secret, Signer, Tentativa, today_in_brasilia,
};
use tokio::net::TcpListener;

/// What the handlers share.
#[derive(Clone)]
struct App {
    policy: Arc<Policy>,
    digest_key: DigestKey,
    signer: Signer,
    http: reqwest::Client,
    store: Arc<Mutex<HashMap<PropostaId, Proposta>>>,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("post a proposal to http://{}/propostas", listener.local_addr()?);
    axum::serve(listener, router()).await
}

fn router() -> Router {
    // Real keys come from your settings, the partner's secret from your database.
    let secret = Secret::from_raw_key_bytes(b"segredo-de-exemplo").expect("it is not empty");
    // A test server may reach this machine. In production open nothing, and resolve names through `may_reach` too.
    let loopback = IpRange::parse("127.0.0.0/8").expect("a range");
    let app = App {
        policy: Arc::new(Policy::new(Perfil::Homologacao).open(loopback)),
        digest_key: DigestKey::derive(b"thirty-two bytes from your settings").expect("long enough"),
        signer: Signer::new(&secret),
        http: reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a TLS back end"),
        store: Arc::default(),
    };
    Router::new().route("/propostas", post(create)).route("/confirmar/{id}", get(confirm)).with_state(app)
}

/// Bytes to a proposal, or everything that is wrong with them; then to a record, into the store.
async fn create(State(app): State<App>, body: Bytes) -> Response {
    let now = Utc::now();
    let nova = match NovaProposta::from_json(&body, &app.policy, today_in_brasilia(now)) {
        Ok(nova) => nova,
        Err(invalid) => return (StatusCode::BAD_REQUEST, Json(invalid.violacoes())).into_response(),
    };
    let mut random = [0; 16];
    if getrandom::fill(&mut random).is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let proposta = nova.open(PropostaId::from_random(random), "parceiro", &app.digest_key, now);
    let mut store = app.store.lock().unwrap_or_else(PoisonError::into_inner);
    // C9: a database would have a unique index on partner and id_proposta_parceiro.
    let first = store.values().find(|first| first.id_proposta_parceiro() == proposta.id_proposta_parceiro());
    match first {
        Some(first) if first.digest() == proposta.digest() => Json(PropostaRecebida::new(first.id())).into_response(),
        Some(_) => StatusCode::CONFLICT.into_response(),
        None => {
            let answer = Json(PropostaRecebida::new(proposta.id()));
            store.insert(proposta.id(), proposta);
            answer.into_response()
        }
    }
}

/// The customer's answer: one transition, whose two halves are stored together.
async fn confirm(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let Some(acao) = query.get("acao").and_then(|acao| Acao::parse(acao)) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let mut store = app.store.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(proposta) = PropostaId::parse(&id).and_then(|id| store.get_mut(&id)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match proposta.apply(acao, Utc::now()) {
        Ok(transition) => {
            // With a database: the record and the delivery in one transaction.
            let delivery = Delivery::of(&transition, &Schedule::HOMOLOGACAO, Utc::now());
            *proposta = transition.proposta;
            tokio::spawn(deliver(app.signer.clone(), app.http.clone(), delivery));
            Json(Confirmacao::of(proposta, false)).into_response()
        }
        Err(NotApplied::AlreadySo) => Json(Confirmacao::of(proposta, true)).into_response(),
        Err(NotApplied::Refused { .. }) => StatusCode::CONFLICT.into_response(),
    }
}

/// One attempt. A service would store the delivery that comes out, and come back when it is due.
async fn deliver(signer: Signer, http: reqwest::Client, delivery: Delivery) -> Delivery {
    let (em, began) = (Utc::now(), Instant::now());
    let signed = delivery.request(&signer, em);
    let mut request = http.post(signed.url).body(signed.body.to_vec());
    for (name, value) in signed.headers {
        request = request.header(name, value);
    }
    let resultado = match request.send().await {
        Ok(answer) => Outcome::Status { code: answer.status().as_u16(), retry_after: None },
        Err(_) => Outcome::Failed(Falha::Conexao),
    };
    let duracao_ms = began.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
    delivery.after(Tentativa { em, duracao_ms, resultado }, &Schedule::HOMOLOGACAO, Jitter::NONE, Utc::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderMap;
    use svc_client::webhook::{Notificacao, Verifier};
    use tokio::sync::mpsc;

    async fn serve(router: Router) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await });
        base
    }

    #[tokio::test]
    async fn the_embedded_core_takes_a_proposal_to_a_verified_webhook() {
        let (sender, mut received) = mpsc::unbounded_channel();
        let verifier = Verifier::new(&Secret::from_raw_key_bytes(b"segredo-de-exemplo").unwrap());
        let receive = async move |headers: HeaderMap, body: Bytes| {
            sender.send(verifier.parse(&headers, &body)).unwrap();
        };
        let (base, receiver) = (serve(router()).await, serve(Router::new().route("/", post(receive))).await);
        let http = reqwest::Client::new();
        let body = include_str!("../svc-core/tests/proposals/valid/walkthrough.json");
        let body = body.replace("https://parceiro.example.com/webhooks/svc", &receiver);
        let created = http.post(format!("{base}/propostas")).body(body).send().await.unwrap();
        let created: PropostaRecebida = serde_json::from_slice(&created.bytes().await.unwrap()).unwrap();
        let answer =
            http.get(format!("{base}/confirmar/{}?acao=aceitar", created.id_proposta_svc)).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let told: Notificacao = received.recv().await.unwrap().unwrap();
        assert_eq!(told.id_proposta_svc, created.id_proposta_svc);
    }
}
