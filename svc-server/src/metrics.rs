//! What an operator can see: counters and clocks in the OpenMetrics text format. No label holds a person's data, a partner
//! or a proposal (C39).

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use svc_core::{Delivery, Mensagem, Next, Outcome, Status};

use crate::app::App;
use crate::store::StoreError;

/// The media type of what [`App::metrics_text`] gives.
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram>,
    propostas: Family<StatusLabels, Counter>,
    attempts: Family<ResultLabels, Counter>,
    attempt_seconds: Histogram,
    lag_seconds: Histogram,
    put_back: Counter,
    webhooks: Family<StateLabels, Counter>,
    messages: Family<StateLabels, Counter>,
    login_failures: Counter,
    sender_paused: Gauge,
    waiting: Family<WorkLabels, Gauge>,
    of_removed: Family<WorkLabels, Gauge>,
    oldest: Family<WorkLabels, Gauge<f64, AtomicU64>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    resultado: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    estado: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkLabels {
    work: &'static str,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("svc"),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_5, 2.0, 16))),
            propostas: Family::default(),
            attempts: Family::default(),
            attempt_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            lag_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            put_back: Counter::default(),
            webhooks: Family::default(),
            messages: Family::default(),
            login_failures: Counter::default(),
            sender_paused: Gauge::default(),
            waiting: Family::default(),
            of_removed: Family::default(),
            oldest: Family::default(),
        };
        // What is to be alarmed about is there from the start, at 0: a counter that begins at 1 has not increased.
        for estado in ["entregue", "falhou"] {
            drop(metrics.webhooks.get_or_create(&StateLabels { estado }));
        }
        for estado in ["pendente", "enviada", "falhou"] {
            drop(metrics.messages.get_or_create(&StateLabels { estado }));
        }
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register("requests", "Requests answered", self.requests.clone());
        registry.register("request_seconds", "Time from a request's head to its answer", self.request_seconds.clone());
        registry.register("propostas", "Proposals that came into a status", self.propostas.clone());
        registry.register("webhook_attempts", "Attempts to deliver, by what came back", self.attempts.clone());
        registry.register("webhook_attempt_seconds", "Time that an attempt took", self.attempt_seconds.clone());
        registry.register(
            "webhook_lag_seconds",
            "Time from an attempt's due time to its begin",
            self.lag_seconds.clone(),
        );
        registry.register("webhooks_put_back", "Attempts not made for want of room", self.put_back.clone());
        registry.register("webhooks", "Deliveries that came to an end, again after a resend", self.webhooks.clone());
        registry.register("messages", "Customers' messages after an attempt", self.messages.clone());
        registry.register("login_failures", "Logins refused", self.login_failures.clone());
        registry.register(
            "sender_paused",
            "1 while no customer can be told, for a fault of the sender's account",
            self.sender_paused.clone(),
        );
        registry.register("waiting", "Work stored and not ended, attempts under way included", self.waiting.clone());
        registry.register("waiting_of_removed", "The same of partners that were removed", self.of_removed.clone());
        registry.register("oldest_due_seconds", "How long the oldest of it has been due", self.oldest.clone());
        self
    }

    pub(crate) fn request(&self, route: &'static str, status: u16, took: Duration) {
        self.requests.get_or_create(&RequestLabels { route, status }).inc();
        self.request_seconds.get_or_create(&RouteLabels { route }).observe(took.as_secs_f64());
    }

    /// A proposal came into this status.
    pub(crate) fn reached(&self, status: Status) {
        self.propostas.get_or_create(&StatusLabels { status: status.as_str() }).inc();
    }

    /// An attempt began so long after it was due, took so long, and left this delivery.
    pub(crate) fn attempted(&self, delivery: &Delivery, resultado: Outcome, lag: Duration, took: Duration) {
        let resultado = match resultado {
            Outcome::Status { code: 200..=299, .. } => "2xx",
            Outcome::Status { code: 300..=399, .. } => "3xx",
            Outcome::Status { code: 400..=499, .. } => "4xx",
            Outcome::Status { code: 500..=599, .. } => "5xx",
            Outcome::Failed(falha) => falha.as_str(),
            _ => "outro",
        };
        self.attempts.get_or_create(&ResultLabels { resultado }).inc();
        self.attempt_seconds.observe(took.as_secs_f64());
        self.lag_seconds.observe(lag.as_secs_f64());
        if let Next::Done | Next::GiveUp = delivery.next() {
            self.webhooks.get_or_create(&StateLabels { estado: delivery.estado() }).inc();
        }
    }

    /// An attempt was not made.
    pub(crate) fn put_back(&self) {
        self.put_back.inc();
    }

    pub(crate) fn message(&self, mensagem: &Mensagem) {
        self.messages.get_or_create(&StateLabels { estado: mensagem.estado() }).inc();
    }

    pub(crate) fn login_failed(&self) {
        self.login_failures.inc();
    }
}

impl App {
    /// The metrics as they are now.
    pub(crate) async fn metrics_text(&self) -> Result<String, StoreError> {
        let waiting = self.store.waiting(&self.config.partners.current()).await?;
        for (work, waits) in [("webhooks", waiting.webhooks), ("messages", waiting.messages)] {
            let labels = WorkLabels { work };
            self.metrics.waiting.get_or_create(&labels).set(gauge(waits.count));
            self.metrics.of_removed.get_or_create(&labels).set(gauge(waits.of_removed));
            self.metrics.oldest.get_or_create(&labels).set(waits.oldest.as_secs_f64());
        }
        self.metrics.sender_paused.set(i64::from(self.config.sender.is_held()));
        let mut text = String::new();
        encode(&mut text, &self.metrics.registry).expect("a text takes what is written to it");
        Ok(text)
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
