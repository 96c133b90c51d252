//! `/v1/…`: a partner logs in, posts proposals, and asks what became of them (C9, C10, C19, C22, C23).

use std::net::IpAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};
use svc_core::{
    IdParceiro, LoginRequest, LoginResponse, Mensagem, NovaProposta, Proposta, PropostaId, PropostaRecebida, Situacao,
    today_in_brasilia,
};

use crate::app::{App, detached};
use crate::reply::{Problem, Reply, X_SVC_CAPABILITIES, X_SVC_REPLAYED, json};
use crate::request::{BodyType, body_type, client_address, read_body};
use crate::store::{Inserted, Whole};

impl App {
    /// `POST /v1/login`.
    pub(crate) async fn login(&self, request: Request<Incoming>, peer: IpAddr) -> Result<Reply, Problem> {
        let (head, body) = request.into_parts();
        expect_json(&head.headers, &body)?;
        let login = LoginRequest::from_json(&read_body(&head.headers, body).await?)?;
        let (now, address) =
            (self.config.clock.now(), client_address(peer, &head.headers, &self.config.trusted_proxies));
        self.limiter.check(login.client_id(), address, now).map_err(Problem::TooManyAttempts)?;
        if !self.config.partners.current().authenticate(login.client_id(), login.client_secret()) {
            self.limiter.failed(login.client_id(), address, now);
            return Err(Problem::Credentials);
        }
        let token = self.tokens.issue(login.client_id(), self.config.random.bytes()?, now).map_err(|error| {
            tracing::error!(%error, "no token could be signed");
            Problem::Internal
        })?;
        let mut reply = json(StatusCode::OK, &LoginResponse::bearer(token));
        reply.headers_mut().insert(X_SVC_CAPABILITIES, HeaderValue::from_static("idempotent-propostas"));
        Ok(reply)
    }

    /// `POST /v1/propostas`. Stored in a task of its own, which a caller who hangs up does not stop.
    pub(crate) async fn create(self: Arc<Self>, request: Request<Incoming>) -> Result<Reply, Problem> {
        let (head, body) = request.into_parts();
        let client_id = self.authorize(&head.headers)?;
        expect_json(&head.headers, &body)?;
        let body = read_body(&head.headers, body).await?;
        let now = self.config.clock.now();
        let nova = NovaProposta::from_json(&body, &self.config.policy, today_in_brasilia(now))?;
        let id = PropostaId::from_random(self.config.random.bytes()?);
        let proposta = nova.open(id, &client_id, &self.digest_key, now);
        detached(async move {
            match self.store.insert(&proposta).await? {
                Inserted::New => {
                    tracing::info!(proposta = self.links.log_name(id), "proposal stored");
                    self.tell(&proposta).await;
                    Ok(json(StatusCode::OK, &PropostaRecebida::new(id)))
                }
                Inserted::Exists(first) if first.digest() == proposta.digest() => {
                    let mut reply = json(StatusCode::OK, &PropostaRecebida::new(first.id()));
                    reply.headers_mut().insert(X_SVC_REPLAYED, HeaderValue::from_static("true"));
                    Ok(reply)
                }
                Inserted::Exists(_) => Err(Problem::PartnerIdInUse),
            }
        })
        .await
    }

    /// Sends the customer's message. Whatever comes of it, the proposal is stored, and the status shows it.
    async fn tell(&self, proposta: &Proposta) {
        let name = self.links.log_name(proposta.id());
        let mensagem = match self.config.sender.send(proposta, &self.links.of(proposta.id())) {
            Ok(()) => Mensagem::enviada(),
            Err(error) => {
                tracing::warn!(proposta = name, %error, "customer not told");
                Mensagem::falhou("nao_enviada")
            }
        };
        if let Err(error) = self.store.record_message(proposta.id(), mensagem).await {
            tracing::warn!(proposta = name, %error, "message not recorded");
        }
    }

    /// `GET /v1/propostas/{id_proposta_svc}`.
    pub(crate) async fn show(&self, id: &str, request: &Request<Incoming>) -> Result<Reply, Problem> {
        let client_id = self.authorize(request.headers())?;
        let whole = match PropostaId::parse(id) {
            Some(id) => self.store.whole(id).await?,
            None => None,
        };
        situation(whole.filter(|whole| whole.proposta.client_id() == client_id))
    }

    /// `GET /v1/propostas?id_proposta_parceiro=…`: how a partner whose call broke finds out.
    pub(crate) async fn find(&self, request: &Request<Incoming>) -> Result<Reply, Problem> {
        let client_id = self.authorize(request.headers())?;
        let id = IdParceiro::from_query(request.uri().query().unwrap_or_default())?;
        situation(self.store.whole_by_partner(&client_id, &id).await?)
    }
}

fn situation(whole: Option<Whole>) -> Result<Reply, Problem> {
    let Whole { proposta, mensagem, delivery } = whole.ok_or(Problem::ProposalNotFound)?;
    Ok(json(StatusCode::OK, &Situacao::of(&proposta, mensagem, delivery.as_ref())))
}

fn expect_json(headers: &HeaderMap, body: &Incoming) -> Result<(), Problem> {
    match body_type(headers, body)? {
        BodyType::Json => Ok(()),
        BodyType::Form => Err(Problem::ContentType),
    }
}
