//! `/confirmar/{id}`: the customer's page, and the customer's answer (C12, C14, C15, C16).

use std::pin::pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Method, Request, StatusCode};
use svc_core::{Acao, BadAcao, Confirmacao, Delivery, NotApplied, Perfil, Proposta, PropostaId};

use crate::app::{App, in_time};
use crate::detached::detached;
use crate::page;
use crate::reply::{Problem, Reply, json};
use crate::request::{Accepts, BodyType, Fetch, Twice, accepts, body_type, fetch, field, read_body};
use crate::store::CommitError;

/// What became of an answer, with the proposal as it is then.
#[derive(Debug)]
pub(crate) enum Decided {
    /// It was stored.
    Now(Proposta),
    /// It had been given before.
    Before(Proposta),
    /// The other had.
    Otherwise(Proposta),
}

impl App {
    pub(crate) async fn confirmar(self: Arc<Self>, id: &str, request: Request<Incoming>) -> Result<Reply, Problem> {
        let (head, body) = request.into_parts();
        let query = head.uri.query().unwrap_or_default();
        let accepts = accepts(&head.headers);
        let chave = field(query, "chave").unwrap_or_default();
        let fetch = fetch(&head.headers);
        let preview = head.method != Method::POST && fetch == Fetch::ByPreviewAgent;
        let acts = head.method == Method::POST
            || (self.perfil() == Perfil::Homologacao && head.method == Method::GET && fetch == Fetch::ByPerson);
        // Looked at once it is known that there is such a proposal.
        let acao = match head.method {
            Method::POST => posted_acao(&head.headers, body).await.map(Some),
            _ => query_acao(query),
        };
        let admitted = PropostaId::parse(id).filter(|id| self.links.admits(*id, chave.as_deref()));
        let answer = pin!(async move {
            let stored = match admitted {
                Some(id) => self.store.find(id).await?,
                None => None,
            };
            let Some(proposta) = stored else {
                let page = accepts.prefers_html || preview;
                return if page { Ok(page::not_found().into()) } else { Err(Problem::ProposalNotFound) };
            };
            // Whatever it was sent to, a preview is drawn of the page.
            if preview {
                return Ok(self.page(&proposta));
            }
            match acao? {
                Some(acao) if acts => self.answer(proposta, acao, accepts).await,
                Some(_) => Ok(self.page(&proposta)),
                None if accepts.html => Ok(self.page(&proposta)),
                None => Err(Problem::ActionMissing),
            }
        });
        in_time(answer).await
    }

    async fn answer(self: Arc<Self>, found: Proposta, acao: Acao, accepts: Accepts) -> Result<Reply, Problem> {
        let app = Arc::clone(&self);
        // Nobody can cut it short.
        match detached(async move { app.decide(found, acao).await }).await? {
            Decided::Now(proposta) => Ok(self.answered(&proposta, false, accepts)),
            Decided::Before(proposta) => Ok(self.answered(&proposta, true, accepts)),
            Decided::Otherwise(proposta) if accepts.prefers_html => {
                Ok(page::conflict(&proposta, &self.creditor(&proposta)).into())
            }
            Decided::Otherwise(proposta) => Err(Problem::AlreadyAnswered(proposta.status())),
        }
    }

    /// Stores the answer and its event in one step.
    pub(crate) async fn decide(&self, found: Proposta, acao: Acao) -> Result<Decided, Problem> {
        let mut proposta = found;
        loop {
            let now = self.config.clock.now();
            let transition = match proposta.apply(acao, now) {
                Ok(transition) => transition,
                Err(NotApplied::AlreadySo) => return Ok(Decided::Before(proposta)),
                Err(NotApplied::Refused { stored }) => {
                    tracing::info!(proposta = self.links.log_name(proposta.id()), %stored, "answered already");
                    return Ok(Decided::Otherwise(proposta));
                }
            };
            let delivery = Delivery::of(&transition, &self.config.schedule, now);
            match self.store.commit(&transition, delivery).await {
                Ok(()) => {
                    self.wake_webhooks.notify_one();
                    let status = transition.proposta.status();
                    self.metrics.reached(status);
                    tracing::info!(proposta = self.links.log_name(proposta.id()), %status, "customer answered");
                    return Ok(Decided::Now(transition.proposta));
                }
                // Another answer was faster, and is now to be looked at.
                Err(CommitError::Conflict) => {
                    proposta = self.store.find(proposta.id()).await?.ok_or(Problem::ProposalNotFound)?;
                }
                Err(CommitError::Store(error)) => return Err(error.into()),
            }
        }
    }

    fn answered(&self, proposta: &Proposta, before: bool, accepts: Accepts) -> Reply {
        match Confirmacao::of(proposta, before) {
            Some(_) if accepts.prefers_html => page::answered(proposta, &self.creditor(proposta)).into(),
            Some(confirmacao) => json(StatusCode::OK, &confirmacao),
            None => Problem::Internal.reply("sem-resposta"),
        }
    }

    fn page(&self, proposta: &Proposta) -> Reply {
        let creditor = self.creditor(proposta);
        match proposta.respondida_em() {
            Some(_) => page::answered(proposta, &creditor).into(),
            None => page::offer(proposta, &creditor).into(),
        }
    }

    pub(crate) fn creditor(&self, proposta: &Proposta) -> String {
        let partners = self.config.partners.current();
        partners.get(proposta.client_id()).map_or_else(String::new, |partner| partner.creditor_name().to_owned())
    }
}

async fn posted_acao(headers: &HeaderMap, body: Incoming) -> Result<Acao, Problem> {
    let body_type = body_type(headers, &body)?;
    body_acao(body_type, &read_body(headers, body).await?)
}

/// The action of a POST, from its form or its JSON.
fn body_acao(body_type: BodyType, body: &[u8]) -> Result<Acao, Problem> {
    if body.is_empty() {
        return Err(Problem::ActionMissing);
    }
    match body_type {
        BodyType::Form => {
            let form = str::from_utf8(body).map_err(|_| Problem::ActionInvalid)?;
            parse_acao(field(form, "acao").map_err(|Twice| Problem::ActionInvalid)?)
        }
        BodyType::Json => Acao::from_json(body).map_err(|bad| match bad {
            BadAcao::Missing => Problem::ActionMissing,
            BadAcao::Body(invalid) => Problem::Invalid(invalid),
            _ => Problem::ActionInvalid,
        }),
    }
}

/// The action of a query, if there is one.
fn query_acao(query: &str) -> Result<Option<Acao>, Problem> {
    match field(query, "acao").map_err(|Twice| Problem::ActionInvalid)? {
        None => Ok(None),
        given => parse_acao(given).map(Some),
    }
}

fn parse_acao(acao: Option<String>) -> Result<Acao, Problem> {
    Acao::parse(&acao.ok_or(Problem::ActionMissing)?).ok_or(Problem::ActionInvalid)
}
