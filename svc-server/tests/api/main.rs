//! The server as its callers meet it: real HTTP on a free port of this machine.

mod canary;
#[cfg(feature = "postgres")]
mod cluster;
mod confirmar;
mod corpora;
mod delivery;
mod harness;
mod http;
mod isolation;
mod login;
mod metrics;
mod network;
#[cfg(feature = "postgres")]
mod postgres;
mod program;
mod propostas;
mod raw;
mod resend;
mod rotation;
mod schedule;
mod situacao;
mod tls;
mod webhooks;
