//! `/v1/…`: a partner logs in, posts proposals, asks what became of them, and has things sent again (C9, C10, C19, C22,
//! C23).

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};
use svc_core::{
    Delivery, IdParceiro, LoginRequest, LoginResponse, Mensagem, NovaProposta, Proposta, PropostaId, PropostaRecebida,
    Situacao, Status, today_in_brasilia,
};
use tokio::sync::Notify;

use crate::app::{App, in_time};
use crate::detached::detached;
use crate::message;
use crate::reply::{Problem, Reply, X_SVC_CAPABILITIES, X_SVC_REPLAYED, json};
use crate::request::{BodyType, body_type, client_address, read_body};
use crate::store::{Inserted, Task};

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
            self.metrics.login_failed();
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

    /// `POST /v1/propostas`. Stored whole, also for a caller who hangs up meanwhile.
    pub(crate) async fn create(self: Arc<Self>, request: Request<Incoming>) -> Result<Reply, Problem> {
        let (head, body) = request.into_parts();
        let client_id = self.authorize(&head.headers)?;
        expect_json(&head.headers, &body)?;
        let body = read_body(&head.headers, body).await?;
        let now = self.config.clock.now();
        let nova = NovaProposta::from_json(&body, &self.config.policy, today_in_brasilia(now))?;
        match detached(async move { self.keep(nova, client_id, now).await }).await? {
            Posted::New(id) => Ok(json(StatusCode::OK, &PropostaRecebida::new(id))),
            Posted::Before(id) => {
                let mut reply = json(StatusCode::OK, &PropostaRecebida::new(id));
                reply.headers_mut().insert(X_SVC_REPLAYED, HeaderValue::from_static("true"));
                Ok(reply)
            }
        }
    }

    /// Stores a proposal and its message in one step, unless it is there already.
    pub(crate) async fn keep(
        &self,
        nova: NovaProposta,
        client_id: Arc<str>,
        now: DateTime<Utc>,
    ) -> Result<Posted, Problem> {
        let id = PropostaId::from_random(self.config.random.bytes()?);
        let proposta = nova.open(id, client_id, &self.digest_key, now);
        match self.store.insert(&proposta, Mensagem::of(&proposta, &message::SCHEDULE, now)).await? {
            Inserted::New => {
                self.wake_messages.notify_one();
                tracing::info!(proposta = self.links.log_name(id), "proposal stored");
                self.metrics.reached(proposta.status());
                Ok(Posted::New(id))
            }
            Inserted::Exists(first) if first.digest() == proposta.digest() => Ok(Posted::Before(first.id())),
            Inserted::Exists(_) => Err(Problem::PartnerIdInUse),
        }
    }

    /// `GET /v1/propostas/{id_proposta_svc}`.
    pub(crate) async fn show(&self, id: &str, request: &Request<Incoming>) -> Result<Reply, Problem> {
        let client_id = self.authorize(request.headers())?;
        Ok(json(StatusCode::OK, &self.own(&client_id, id, Situacao::of).await?))
    }

    /// `GET /v1/propostas?id_proposta_parceiro=…`: how a partner whose call broke finds out.
    pub(crate) async fn find(&self, request: &Request<Incoming>) -> Result<Reply, Problem> {
        let client_id = self.authorize(request.headers())?;
        let id = IdParceiro::from_query(request.uri().query().unwrap_or_default())?;
        let found = self.store.look_by_partner(&client_id, &id, Situacao::of).await?;
        Ok(json(StatusCode::OK, &found.ok_or(Problem::ProposalNotFound)?))
    }

    /// `POST /v1/propostas/{id_proposta_svc}/reenviar-webhook`: the event's next attempt is due now, and has the same id.
    pub(crate) async fn resend_webhook(
        self: Arc<Self>,
        id: &str,
        request: Request<Incoming>,
    ) -> Result<Reply, Problem> {
        let client_id = self.to_resend(request).await?;
        let resent = pin!(async {
            let look =
                |proposta: &Proposta, _: &Mensagem, delivery: Option<&Delivery>| (proposta.id(), delivery.is_some());
            let (id, is_answered) = self.own(&client_id, id, look).await?;
            if !is_answered {
                return Err(Problem::NotAnswered);
            }
            let app = Arc::clone(&self);
            detached(async move {
                let (schedule, now) = (&app.config.schedule, app.config.clock.now());
                let resend = |delivery: Delivery| delivery.resend(schedule, now);
                app.resend(id, resend, &app.wake_webhooks).await
            })
            .await
        });
        in_time(resent).await
    }

    /// `POST /v1/propostas/{id_proposta_svc}/reenviar-mensagem`: the customer's link, once more.
    pub(crate) async fn resend_message(
        self: Arc<Self>,
        id: &str,
        request: Request<Incoming>,
    ) -> Result<Reply, Problem> {
        let client_id = self.to_resend(request).await?;
        let resent = pin!(async {
            let look = |proposta: &Proposta, _: &Mensagem, _: Option<&Delivery>| (proposta.id(), proposta.status());
            let (id, status) = self.own(&client_id, id, look).await?;
            if status != Status::AguardandoResposta {
                return Err(Problem::AlreadyAnswered(status));
            }
            let app = Arc::clone(&self);
            detached(async move {
                let now = app.config.clock.now();
                let resend = |mensagem: Mensagem| mensagem.resend(&message::SCHEDULE, now);
                app.resend(id, resend, &app.wake_messages).await
            })
            .await
        });
        in_time(resent).await
    }

    /// Who asks to send again. A body is held to what any is, and says nothing.
    async fn to_resend(&self, request: Request<Incoming>) -> Result<Arc<str>, Problem> {
        let (head, body) = request.into_parts();
        let client_id = self.authorize(&head.headers)?;
        expect_json(&head.headers, &body)?;
        read_body(&head.headers, body).await?;
        Ok(client_id)
    }

    /// Makes a task due now: 202, with the proposal as it is then.
    pub(crate) async fn resend<T: Task>(
        &self,
        id: PropostaId,
        resend: impl Fn(T) -> T + Send + Sync,
        wake: &Notify,
    ) -> Result<Reply, Problem> {
        self.store.change(id, resend).await?;
        wake.notify_one();
        tracing::info!(proposta = self.links.log_name(id), work = T::TABLE, "asked for again");
        let situacao = self.store.look(id, Situacao::of).await?.ok_or(Problem::ProposalNotFound)?;
        Ok(json(StatusCode::ACCEPTED, &situacao))
    }

    /// What is seen of a partner's proposal; another's is as unknown as one that never was.
    async fn own<R: Send>(
        &self,
        client_id: &str,
        id: &str,
        look: impl FnOnce(&Proposta, &Mensagem, Option<&Delivery>) -> R + Send,
    ) -> Result<R, Problem> {
        let id = PropostaId::parse(id).ok_or(Problem::ProposalNotFound)?;
        let look = |proposta: &Proposta, mensagem: &Mensagem, delivery: Option<&Delivery>| {
            (proposta.client_id() == client_id).then(|| look(proposta, mensagem, delivery))
        };
        self.store.look(id, look).await?.flatten().ok_or(Problem::ProposalNotFound)
    }
}

/// What became of a proposal that was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Posted {
    New(PropostaId),
    /// The same had been posted before, and this is its first id (C9).
    Before(PropostaId),
}

fn expect_json(headers: &HeaderMap, body: &Incoming) -> Result<(), Problem> {
    match body_type(headers, body)? {
        BodyType::Json => Ok(()),
        BodyType::Form => Err(Problem::ContentType),
    }
}
