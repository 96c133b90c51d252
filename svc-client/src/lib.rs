#![cfg_attr(not(feature = "client"), doc = "Without the feature `client`: the types and the webhook check.")]
//! Partner SDK of the Loan Proposal Partner Service.
//!
//! A partner logs in, posts a loan proposal, and is told by a signed webhook what the end customer answered. Five lines to
//! send, one to believe:
//!
#![cfg_attr(feature = "client", doc = "```no_run")]
#![cfg_attr(not(feature = "client"), doc = "```ignore")]
//! use svc_client::{Client, NovaProposta};
//!
//! # async fn example() -> svc_client::Result<()> {
//! let client = Client::builder("https://propostas.example.com", "parceiro", "segredo").build()?;
//! let proposta = NovaProposta::builder("PARC-12345")
//!     .nome("João da Silva Exemplo")
//!     .cpf("111.444.777-35")
//!     .whatsapp("5511900000018")
//!     .solicitado(2_000)
//!     .webhook_url("https://parceiro.example.com/webhooks/svc")
//!     .build()?;
//! let answer = client.create_proposta(&proposta).await?;
//! println!("{}", answer.id_proposta_svc);
//! # Ok(())
//! # }
//! ```
//!
//! In the receiver, one [`webhook::Verifier`] at start and one [`parse`](webhook::Verifier::parse) a request.
//!
//! On an error, [`Error::outcome`] tells what became of the proposal: after [`Outcome::Unknown`] post the **same**
//! `id_proposta_parceiro` again; a server that keeps the promise of C9 then answers with the first id.
//!
//! Numbers such as C9 name decisions; see [`svc_core::decisions`].
//!
//! # What is absent
//!
//! Retries, for now: each call is one request, and at most one login before it.

pub mod webhook;

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
pub use client::Client;

#[cfg(feature = "client")]
mod builder;
#[cfg(feature = "client")]
pub mod defaults;
#[cfg(feature = "client")]
mod secret;
#[cfg(feature = "client")]
pub use builder::ClientBuilder;
#[cfg(feature = "client")]
pub use secret::ClientSecret;

#[cfg(feature = "client")]
mod answer;
#[cfg(feature = "client")]
mod error;
#[cfg(feature = "client")]
pub mod retry;
#[cfg(feature = "client")]
pub use answer::Answer;
#[cfg(feature = "client")]
pub use error::{Error, ErrorKind, Outcome, Result, Violation};

#[cfg(feature = "client")]
mod clock;
#[cfg(feature = "client")]
pub mod transport;
#[cfg(feature = "client")]
pub use clock::Clock;

#[cfg(feature = "client")]
mod call;
#[cfg(feature = "client")]
mod network;
#[cfg(feature = "client")]
mod span;
#[cfg(feature = "client")]
mod token;

pub use svc_core::{
    Acao, Aviso, Cliente, Codigo, Confirmacao, Cpf, Dados, Data, Decimal, IdParceiro, Invalid, Nome, NovaProposta,
    NovaPropostaBuilder, Parcelas, Prazos, PropostaId, PropostaRecebida, Simulacao, Situacao, SituacaoMensagem,
    SituacaoTentativa, SituacaoWebhook, Taxa, Taxas, Valor, ValorPositivo, Valores, Violacao, WebhookUrl, Whatsapp,
};
