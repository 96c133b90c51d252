//! `/confirmar/{id}`: the customer's page, and the customer's answer (C12, C14, C15, C16).

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Method, Request, StatusCode};
use svc_core::{Acao, BadAcao, Confirmacao, Delivery, NotApplied, Perfil, Proposta, PropostaId};

use crate::reply::{Problem, Reply, json};
use crate::request::{Accepts, BodyType, Twice, accepts, body_type, field, is_preview, is_preview_agent, read_body};
use crate::routes::{App, detached};
use crate::store::CommitError;

impl App {
    pub(crate) async fn confirmar(self: Arc<Self>, id: &str, request: Request<Incoming>) -> Result<Reply, Problem> {
        let (head, body) = request.into_parts();
        let query = head.uri.query().unwrap_or_default();
        let accepts = accepts(&head.headers);
        let chave = field(query, "chave").unwrap_or_default();
        let admitted = PropostaId::parse(id).filter(|id| self.links.admits(*id, chave.as_deref()));
        let stored = match admitted {
            Some(id) => self.store.find(id).await?,
            None => None,
        };
        let Some(proposta) = stored else {
            return if accepts.prefers_html { Ok(self.pages.not_found()) } else { Err(Problem::ProposalNotFound) };
        };
        let acao = match head.method {
            Method::POST => Some(body_acao(&head.headers, &read_body(&head.headers, body).await?)?),
            _ => self.query_acao(query, &head.method, &head.headers)?,
        };
        match acao {
            Some(acao) => self.answer(proposta, acao, accepts).await,
            None if accepts.html
                || is_preview_agent(&head.headers)
                || field(query, "acao").is_ok_and(|acao| acao.is_some()) =>
            {
                Ok(self.page(&proposta, query))
            }
            None => Err(Problem::ActionMissing),
        }
    }

    /// The action of a GET: none where it would be a preview's, a HEAD's, or production's.
    fn query_acao(&self, query: &str, method: &Method, headers: &HeaderMap) -> Result<Option<Acao>, Problem> {
        let acao = match field(query, "acao").map_err(|Twice| Problem::ActionInvalid)? {
            None => return Ok(None),
            given => parse_acao(given)?,
        };
        let acts = self.perfil() == Perfil::Homologacao && method == Method::GET && !is_preview(headers);
        Ok(acts.then_some(acao))
    }

    /// Stores the answer and its event in one step, in a task that nobody can cut short.
    async fn answer(self: Arc<Self>, found: Proposta, acao: Acao, accepts: Accepts) -> Result<Reply, Problem> {
        detached(async move {
            let mut proposta = found;
            loop {
                let now = self.config.clock.now();
                let transition = match proposta.apply(acao, now) {
                    Ok(transition) => transition,
                    Err(NotApplied::AlreadySo) => return Ok(self.answered(&proposta, true, accepts)),
                    Err(NotApplied::Refused { stored }) if accepts.prefers_html => {
                        tracing::info!(proposta = self.links.log_name(proposta.id()), %stored, "answered already");
                        return Ok(self.pages.conflict(&proposta, self.creditor(&proposta)));
                    }
                    Err(NotApplied::Refused { stored }) => return Err(Problem::AlreadyAnswered(stored)),
                };
                let delivery = Delivery::of(&transition, &self.config.schedule, now);
                match self.store.commit(&transition, delivery).await {
                    Ok(()) => {
                        self.wake.notify_one();
                        let status = transition.proposta.status();
                        tracing::info!(proposta = self.links.log_name(proposta.id()), %status, "customer answered");
                        return Ok(self.answered(&transition.proposta, false, accepts));
                    }
                    // Another answer was faster, and is now to be looked at.
                    Err(CommitError::Conflict) => {
                        proposta = self.store.find(proposta.id()).await?.ok_or(Problem::ProposalNotFound)?;
                    }
                    Err(CommitError::Store(error)) => return Err(error.into()),
                }
            }
        })
        .await
    }

    fn answered(&self, proposta: &Proposta, before: bool, accepts: Accepts) -> Reply {
        match Confirmacao::of(proposta, before) {
            Some(_) if accepts.prefers_html => self.pages.answered(proposta, self.creditor(proposta)),
            Some(confirmacao) => json(StatusCode::OK, &confirmacao),
            None => Problem::Internal.reply("sem-resposta"),
        }
    }

    fn page(&self, proposta: &Proposta, query: &str) -> Reply {
        match proposta.respondida_em() {
            Some(_) => self.pages.answered(proposta, self.creditor(proposta)),
            None => {
                let chave = field(query, "chave").unwrap_or_default();
                self.pages.offer(proposta, self.creditor(proposta), chave.as_deref())
            }
        }
    }

    fn creditor(&self, proposta: &Proposta) -> &str {
        self.partners().get(proposta.client_id()).map_or("", |partner| partner.creditor_name())
    }
}

/// The action of a POST, from its form or its JSON.
fn body_acao(headers: &HeaderMap, body: &[u8]) -> Result<Acao, Problem> {
    match body_type(headers)? {
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

fn parse_acao(acao: Option<String>) -> Result<Acao, Problem> {
    Acao::parse(&acao.ok_or(Problem::ActionMissing)?).ok_or(Problem::ActionInvalid)
}
