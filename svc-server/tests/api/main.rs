//! The server as its callers meet it: real HTTP on a free port of this machine.

mod confirmar;
mod harness;
mod http;
mod login;
mod program;
mod propostas;
mod webhooks;
