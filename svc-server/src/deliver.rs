//! Webhooks on their way out: sign, POST, record what came of it (C29–C34).

use std::sync::Arc;
use std::time::Duration;

use svc_core::{Delivery, Jitter, Next, Outcome, Tentativa, retry_after};
use tokio::sync::Notify;

use crate::app::App;
use crate::bounds::{Bounds, Limits};
use crate::outbound::{ATTEMPT_DEADLINE, Answer, Outbound, Unanswered};
use crate::outbox::{Lease, Leased, Work};
use crate::store::StoreError;

/// A lease outlives its attempt by this.
const LEASE_RESERVE: Duration = Duration::from_secs(15);
/// After this an attempt that was not made for want of room is looked at again.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// The deliveries of a server.
pub(crate) struct Webhooks {
    app: Arc<App>,
    outbound: Outbound,
}

impl Webhooks {
    pub(crate) fn new(app: Arc<App>) -> Self {
        let outbound = Outbound::new(&app.config);
        Self { app, outbound }
    }

    /// An attempt that was not made is none: the delivery is due again as it was.
    async fn put_back(&self, delivery: &Delivery, fence: u64) {
        self.app.metrics.put_back();
        if let Err(error) = self.app.store.put_back(fence, delivery, BUSY_PAUSE).await {
            let name = self.app.links.log_name(delivery.evento().id().proposta());
            tracing::warn!(proposta = name, %error, "lease not given back; it runs out");
        }
    }
}

impl Work for Webhooks {
    type Task = Delivery;
    const NAME: &str = "webhooks";
    const LIMITS: Limits = Limits { total: 256, per_partner: 64, per_host: 8 };

    fn wake(&self) -> &Notify {
        &self.app.wake_webhooks
    }

    fn is_shared(&self) -> bool {
        self.app.store.lasts()
    }

    async fn lease(&self, bounds: &Bounds, most: usize) -> Result<Leased<Delivery>, StoreError> {
        let partners = self.app.config.partners.current();
        self.app.store.lease(&bounds.room(&partners).at_most(most), ATTEMPT_DEADLINE + LEASE_RESERVE).await
    }

    fn tidy(&self) {
        self.outbound.close_idle();
    }

    async fn attempt(&self, lease: Lease<Delivery>) {
        let Lease { task: delivery, fence, permit } = lease;
        let app = &*self.app;
        // Without its partner there is no secret to sign with (C24).
        let partners = app.config.partners.current();
        let Some(partner) = partners.get(delivery.client_id()) else { return self.put_back(&delivery, fence).await };
        let (em, began) = (app.config.clock.now(), app.config.clock.monotonic());
        let posted = self.outbound.post(delivery.client_id(), delivery.request(partner.signer(), em)).await;
        drop(permit);
        let now = app.config.clock.now();
        let (resultado, cause) = match posted {
            Ok(Answer { code, retry_after: header }) => {
                let retry_after = header.and_then(|header| retry_after(&header, now));
                (Outcome::Status { code, retry_after }, "answered")
            }
            Err(Unanswered::Failed(falha, cause)) => (Outcome::Failed(falha), cause),
            Err(Unanswered::Busy) => return self.put_back(&delivery, fence).await,
        };
        let took = app.config.clock.monotonic().saturating_sub(began);
        let duracao_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let lag = match delivery.next() {
            Next::At(due) => em.signed_duration_since(due).to_std().unwrap_or_default(),
            Next::Done | Next::GiveUp => Duration::ZERO,
        };
        let delivery = delivery.after(Tentativa { em, duracao_ms, resultado }, &app.config.schedule, app.jitter(), now);
        let name = app.links.log_name(delivery.evento().id().proposta());
        let (partner, attempt) = (delivery.client_id(), delivery.tentativas().len());
        match delivery.next() {
            Next::Done => {
                tracing::info!(proposta = name, partner, attempt, %resultado, duracao_ms, "webhook delivered");
            }
            Next::At(due) => {
                let again_in_s = due.signed_duration_since(now).num_seconds();
                tracing::info!(proposta = name, partner, attempt, %resultado, cause, duracao_ms, again_in_s, "webhook failed");
            }
            Next::GiveUp => {
                tracing::warn!(proposta = name, partner, attempt, %resultado, cause, duracao_ms, "webhook given up");
            }
        }
        app.metrics.attempted(&delivery, resultado, lag, took);
        match app.store.record(fence, delivery).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!(proposta = name, "another worker took over; this attempt is not recorded"),
            Err(error) => {
                tracing::warn!(proposta = name, %error, "attempt not recorded; it is repeated after its lease")
            }
        }
    }
}

impl App {
    /// Jitter without randomness is no jitter, and no reason to stop.
    pub(crate) fn jitter(&self) -> Jitter {
        self.config.random.bytes().map_or(Jitter::NONE, |bytes| Jitter::from_random(u32::from_ne_bytes(bytes)))
    }
}
