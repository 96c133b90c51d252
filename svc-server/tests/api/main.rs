//! The server as its callers meet it: real HTTP on a free port of this machine.

mod confirmar;
mod corpora;
mod harness;
mod http;
mod login;
mod program;
mod propostas;
mod raw;
mod situacao;
mod webhooks;
