//! Partner SDK of the Loan Proposal Partner Service.
#![cfg_attr(
    not(feature = "client"),
    doc = "\nWithout the feature `client`: the types and the webhook check, see [`webhook`]."
)]
#![cfg_attr(feature = "client", doc = include_str!("page.md"))]

pub mod webhook;

#[cfg(feature = "client")]
pub mod recipes {
    #![doc = include_str!("../RECIPES.md")]
}

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
pub use error::{Error, ErrorKind, Outcome, Result};

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

/// The READMEs' Rust is compiled with the tests.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../README.pt-BR.md")]
mod readmes {}
