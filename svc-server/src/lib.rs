//! Reference server of the Loan Proposal Partner Service.
//!
//! A partner logs in and posts a loan proposal; the end customer gets a link and accepts or refuses; the partner is told by
//! a signed webhook. The rules are [`svc_core`]'s; this crate adds HTTP, access tokens, a store, the customer's page and
//! the task that delivers webhooks. The program reads settings and binds; [`run`] is all the rest, for whoever wants the
//! server inside a program of their own:
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use svc_server::{Config, Partners, run};
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! let config = Config::homologacao(Partners::demonstration()).expect("random numbers");
//! run(listener, config, std::future::pending()).await
//! # }
//! ```
//!
//! Numbers such as C12 name decisions; see [`svc_core::decisions`].
//!
//! # What is absent
//!
//! TLS and HTTP/2, which belong to a proxy in front.

mod seams;
pub use seams::{Clock, NoRandomness, Random, Resolver, Stream, Transport};

mod key;
mod partners;
pub use key::ServerKey;
pub use partners::{
    DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_WEBHOOK_SECRET, NewPartner, Partner, Partners, PartnersError,
    SharedPartners,
};

mod config;
mod lines;
mod sender;
#[cfg(feature = "whatsapp")]
mod whatsapp;
pub use config::{Config, DEFAULT_MAX_CONNECTIONS, DEFAULT_MAX_IN_FLIGHT, DEFAULT_MAX_PROPOSALS};
pub use lines::Lines;
pub use sender::Sender;
#[cfg(feature = "whatsapp")]
pub use whatsapp::{BadWhatsAppAccount, WhatsApp, WhatsAppAccount, WhatsAppWebhook};

mod store;
#[cfg(feature = "postgres")]
pub use store::{BadDatabaseUrl, DatabaseUrl};

mod settings;
pub use settings::{BadSetting, LogFormat, SETTINGS, Setting, Settings};

mod server;
pub use server::run;

#[cfg(feature = "fake")]
pub mod fake;

mod app;
mod auth;
mod bounds;
mod confirmar;
mod deliver;
mod detached;
mod format;
mod limiter;
mod link;
mod lookup;
mod message;
mod metrics;
mod outbound;
mod outbox;
mod page;
mod propostas;
mod reply;
mod request;
mod routes;
#[cfg(all(test, not(shuttle)))]
mod simulation;
mod tls;
