//! The server as its callers meet it: real HTTP on a free port of this machine.

#[cfg(feature = "postgres")]
mod away;
mod canary;
#[cfg(feature = "postgres")]
mod cluster;
mod confirmar;
mod corpora;
#[cfg(feature = "postgres")]
mod crash;
mod delivery;
#[cfg(feature = "whatsapp")]
mod graph;
mod harness;
mod http;
mod isolation;
#[cfg(feature = "postgres")]
mod links;
mod login;
mod metrics;
mod network;
mod page;
#[cfg(feature = "postgres")]
mod postgres;
mod program;
mod propostas;
#[cfg(feature = "postgres")]
mod proxy;
mod raw;
mod resend;
mod rotation;
mod schedule;
mod situacao;
mod tls;
mod webhooks;
#[cfg(feature = "whatsapp")]
mod whatsapp;
#[cfg(feature = "whatsapp")]
mod whatsapp_statuses;
