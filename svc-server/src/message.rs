//! The customer's message on its way out (C35).

use std::sync::Arc;
use std::time::Duration;

use svc_core::{Acao, Mensagem, Next, Perfil, Proposta, PropostaId, Schedule, SendOutcome, Status};
use tokio::sync::Notify;

use crate::app::App;
use crate::bounds::{Bounds, Limits};
use crate::outbox::{Lease, Leased, Work};
use crate::store::StoreError;

/// When a message is tried again.
pub(crate) const SCHEDULE: Schedule = Schedule::MENSAGEM;
/// A worker that has not recorded an attempt by then has lost it.
const LEASE: Duration = Duration::from_secs(30);

/// So long does a simulated customer think.
const SIMULATED_THOUGHT: Duration = Duration::from_secs(2);

/// The messages of a server.
pub(crate) struct Messages(Arc<App>);

impl Messages {
    pub(crate) fn new(app: Arc<App>) -> Self {
        Self(app)
    }

    /// Sends a message. The first attempt is always made, since the creation's answer promised it; an answer that came
    /// before a later one makes that needless.
    async fn send(&self, mensagem: &Mensagem) -> Result<SendOutcome, StoreError> {
        let id = mensagem.proposta();
        let Some(proposta) = self.0.store.find(id).await? else {
            return Ok(SendOutcome::Refused("proposta_nao_encontrada".into()));
        };
        if proposta.status() != Status::AguardandoResposta && !mensagem.is_fresh() {
            return Ok(SendOutcome::Refused(Mensagem::JA_RESPONDIDA.into()));
        }
        let app = &*self.0;
        if self.simulates() && simulated(&proposta) == Some(Simulated::Unreachable) {
            return Ok(SendOutcome::Refused("destinatario_inalcancavel".into()));
        }
        Ok(app.config.sender.send(&proposta, &app.creditor(&proposta), &app.links, &app.config.clock).await)
    }

    /// Whatever the settings say, nobody is answered for in production.
    fn simulates(&self) -> bool {
        self.0.config.simulate && self.0.perfil() == Perfil::Homologacao
    }

    /// Plays the customer of a number that answers by itself.
    async fn answer_for_customer(&self, id: PropostaId) {
        let app = &*self.0;
        let Ok(Some(proposta)) = app.store.find(id).await else { return };
        let Some(Simulated::Answers(acao)) = simulated(&proposta) else { return };
        self.wake().notify_one();
        tokio::time::sleep(SIMULATED_THOUGHT).await;
        if let Err(problem) = app.decide(proposta, acao).await {
            tracing::warn!(proposta = app.links.log_name(id), ?problem, "no answer simulated");
        }
    }
}

impl Work for Messages {
    type Task = Mensagem;
    const NAME: &str = "messages";
    const LIMITS: Limits = Limits { total: 64, per_partner: 16, per_host: 64 };

    fn wake(&self) -> &Notify {
        &self.0.wake_messages
    }

    fn is_shared(&self) -> bool {
        self.0.store.lasts()
    }

    async fn lease(&self, bounds: &Bounds, most: usize) -> Result<Leased<Mensagem>, StoreError> {
        // No attempt is spent on what nobody could be sent.
        if let Some(pause) = self.0.config.sender.pause(&self.0.config.clock) {
            return Ok(Leased { leases: Vec::new(), next: Some(pause) });
        }
        let partners = self.0.config.partners.current();
        self.0.store.lease(&bounds.room(&partners).at_most(most), LEASE).await
    }

    async fn attempt(&self, lease: Lease<Mensagem>) {
        let Lease { task: mensagem, fence, permit } = lease;
        let app = &*self.0;
        let name = app.links.log_name(mensagem.proposta());
        let outcome = match self.send(&mensagem).await {
            Ok(outcome) => outcome,
            Err(error) => return tracing::warn!(proposta = name, %error, "message waits for the store"),
        };
        drop(permit);
        let mensagem = mensagem.after(outcome, &SCHEDULE, app.jitter(), app.config.clock.now());
        let (id, was_sent) = (mensagem.proposta(), mensagem.next() == Next::Done);
        let motivo = mensagem.motivo().unwrap_or("-");
        match mensagem.next() {
            Next::Done => tracing::info!(proposta = name, "customer told"),
            Next::At(_) => tracing::warn!(proposta = name, motivo, "customer not told; to be repeated"),
            Next::GiveUp => tracing::warn!(proposta = name, motivo, "customer not told; given up"),
        }
        app.metrics.message(&mensagem);
        match app.store.record(fence, mensagem).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!(proposta = name, "another worker took over; this message is not recorded"),
            Err(error) => tracing::warn!(proposta = name, %error, "message not recorded; it is sent again"),
        }
        if self.simulates() && was_sent {
            self.answer_for_customer(id).await;
        }
    }
}

/// What a number does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Simulated {
    Answers(Acao),
    Unreachable,
}

/// By the number's last four digits. One that ends in 9904 does nothing, like any other; it is there to be named.
fn simulated(proposta: &Proposta) -> Option<Simulated> {
    let number = proposta.dados()?.cliente.whatsapp.as_str();
    match number.get(number.len().checked_sub(4)?..)? {
        "9901" => Some(Simulated::Answers(Acao::Aceitar)),
        "9902" => Some(Simulated::Answers(Acao::Recusar)),
        "9903" => Some(Simulated::Unreachable),
        _ => None,
    }
}
