//! Loan proposals without I/O.
//!
//! A Brazilian lender or broker, the *partner*, posts a loan proposal; the end customer accepts or refuses it; the
//! partner is told by a signed webhook. This crate holds everything of that which is neither socket nor clock: the types
//! of the wire, their validation with every violation at once, the state machine, the signatures of the notification, and
//! the arithmetic of its retries. [`svc-server`] and [`svc-client`] are thin shells round it, and yours can be a third.
//!
//! Each rule has a number, C1 to C41; what it says stands in [`decisions`].
//!
//! # One proposal, travelling one way
//!
//! ```
//! use chrono::DateTime;
//! use svc_core::{
//!     Acao, Delivery, DigestKey, Jitter, Next, NovaProposta, Notificacao, Outcome, Policy, PropostaId, Received,
//!     Resposta, Schedule, Secret, Signer, Tentativa, Verifier, today_in_brasilia,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What comes from outside: bytes, a clock, randomness, keys.
//! let body = br#"{
//!     "id_proposta_parceiro": "PARC-12345",
//!     "cliente": {"nome": "Ana Exemplo", "cpf": "111.444.777-35", "whatsapp": "5511900000018"},
//!     "simulacao": {"valores": {"solicitado": 2000.00}},
//!     "webhook_url": "https://parceiro.example.com/webhooks/svc"
//! }"#;
//! let now = DateTime::from_timestamp(1_795_811_504, 0).unwrap();
//! let key = DigestKey::derive(b"at least thirty-two random bytes, kept for years")?;
//!
//! // The partner posts: bytes to a valid proposal, or every violation in them; then to a record for your store.
//! let nova = NovaProposta::from_json(body, &Policy::default(), today_in_brasilia(now))?;
//! let proposta = nova.open(PropostaId::from_random([7; 16]), "parceiro", &key, now);
//!
//! // The customer answers: a new record and its event, to be stored together. The first answer wins.
//! let transition = proposta.apply(Acao::Aceitar, now)?;
//!
//! // The partner is told: send `request` as it is, say what came back, store what follows.
//! let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
//! let delivery = Delivery::of(&transition, &Schedule::HOMOLOGACAO, now);
//! let request = delivery.request(&Signer::new(&secret), now);
//! let headers = request.headers.clone();
//! let sent = request.body.to_vec();
//! let attempt = Tentativa { em: now, duracao_ms: 12, resultado: Outcome::Status { code: 200, retry_after: None } };
//! let delivery = delivery.after(attempt, &Schedule::HOMOLOGACAO, Jitter::NONE, now);
//! assert_eq!(delivery.next(), Next::Done);
//!
//! // The partner believes it: raw headers, raw body, their clock.
//! let received = Received::from_pairs(headers.iter().map(|(name, value)| (*name, value.as_bytes())))?;
//! Verifier::new(&secret).verify(received, &sent, 1_795_811_504)?;
//! assert_eq!(Notificacao::from_json(&sent)?.status, Resposta::Aceito);
//! # Ok(())
//! # }
//! ```
//!
//! # What is absent
//!
//! Sockets, clocks, randomness, logs, async, stores: they are yours. Times come in as arguments, random numbers too, and
//! what must happen outside is returned as a value.
//!
//! [`svc-server`]: https://docs.rs/svc-server
//! [`svc-client`]: https://docs.rs/svc-client

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::get_unwrap
    )
)]

pub mod decisions {
    #![doc = include_str!("../DECISIONS.md")]
}

mod address;
mod policy;
pub use address::{BadRange, IpRange, is_public};
pub use policy::{Perfil, Policy, Regra};

mod error;
pub use error::{Codigo, Invalid, Posicao, Violacao};

mod login;
pub use login::{LoginRequest, LoginResponse, TOKEN_LIFE_SECONDS};

mod builder;
mod nova_proposta;
pub use builder::NovaPropostaBuilder;
pub use nova_proposta::{Dados, NovaProposta};

mod cliente;
mod data;
mod simulacao;
mod texto;
mod webhook_url;
pub use cliente::{Cliente, Cpf, Nome, Whatsapp};
pub use data::{Data, today_in_brasilia};
pub use simulacao::{Parcelas, Prazos, Simulacao, Taxa, Taxas, Valor, ValorPositivo, Valores};
pub use texto::IdParceiro;
pub use webhook_url::WebhookUrl;

mod digest;
mod proposta;
mod proposta_id;
pub use digest::{Digest, DigestKey, MIN_KEY_BYTES, ShortKey};
pub use proposta::{Corrupt, Proposta};
pub use proposta_id::PropostaId;

mod acao;
mod status;
pub use acao::{Acao, BadAcao};
pub use status::{Answer, Status};

mod evento;
pub use evento::{BadNotificacao, Evento, EventoId, NotApplied, Notificacao, Resposta, Transition};

mod delivery;
mod mensagem;
mod schedule;
pub use delivery::{Delivery, Falha, MAX_TENTATIVAS, Next, Outcome, RETRY_AFTER_CAP, SignedRequest, Tentativa};
pub use mensagem::{Envio, Mensagem, Noticia, SendOutcome};
pub use schedule::{BadSchedule, Jitter, Schedule, retry_after};

mod answers;
pub use answers::{
    Aviso, Confirmacao, PropostaRecebida, Situacao, SituacaoMensagem, SituacaoTentativa, SituacaoWebhook,
};

mod received;
mod secret;
mod signature;
pub use received::{Header, Received, SVC_SIGNATURE, VerifyError, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
pub use secret::{BadSecret, Secret};
pub use signature::{DEFAULT_TOLERANCE_SECONDS, MAX_SIGNATURES, Signer, Verifier};

/// The exact decimals of amounts and rates.
pub use rust_decimal::Decimal;

mod campo;
mod consistencia;
mod draft;
mod findings;
mod json;
mod key;
mod numero;
