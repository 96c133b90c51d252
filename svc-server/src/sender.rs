//! How the customer is told of a proposal (C35).

#[cfg(feature = "whatsapp")]
use std::sync::Arc;
use std::sync::LazyLock;
use std::time::Duration;

use svc_core::{Proposta, SendOutcome};

use crate::lines::Lines;
use crate::link::Links;
use crate::seams::Clock;
#[cfg(feature = "whatsapp")]
use crate::whatsapp::WhatsApp;

/// A way to the customer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Sender {
    /// Prints the customer's link on standard output, apart from the log: for trying the service out. It is printed some
    /// milliseconds after it counts as sent, which a killed process may not live to.
    Log,
    /// Hands the link to a channel: for programs that play the customer.
    Channel(tokio::sync::mpsc::UnboundedSender<String>),
    /// Sends a WhatsApp template message.
    #[cfg(feature = "whatsapp")]
    WhatsApp(Arc<WhatsApp>),
}

impl Sender {
    /// Sends the message with the customer's link. Where the link alone is handed on, the name stays where it is (C39).
    #[cfg_attr(not(feature = "whatsapp"), expect(unused_variables, reason = "WhatsApp alone needs them"))]
    pub(crate) async fn send(&self, proposta: &Proposta, creditor: &str, links: &Links, clock: &Clock) -> SendOutcome {
        let link = links.of(proposta.id());
        let sent = match self {
            Self::Log => PRINTER.push(format!("customer's link: {link}\n").as_bytes()),
            Self::Channel(channel) => channel.send(link).is_ok(),
            #[cfg(feature = "whatsapp")]
            Self::WhatsApp(whatsapp) => {
                let Some(dados) = proposta.dados() else { return SendOutcome::Refused("dados_removidos".into()) };
                return whatsapp.send(dados, creditor, &links.suffix(proposta.id()), clock).await;
            }
        };
        if sent { SendOutcome::Sent } else { SendOutcome::Failed(NOT_SENT.into()) }
    }

    /// Waits a moment until all that was sent has left.
    pub(crate) async fn flush(&self) {
        if matches!(self, Self::Log) {
            let _ = tokio::task::spawn_blocking(|| PRINTER.flush()).await;
        }
    }

    /// Whether nothing could be sent to anybody, as far as is known.
    pub(crate) fn is_held(&self) -> bool {
        match self {
            Self::Log | Self::Channel(_) => false,
            #[cfg(feature = "whatsapp")]
            Self::WhatsApp(whatsapp) => whatsapp.is_held(),
        }
    }

    /// How long nothing can be sent to anybody.
    #[cfg_attr(not(feature = "whatsapp"), expect(unused_variables, reason = "WhatsApp alone needs them"))]
    pub(crate) fn pause(&self, clock: &Clock) -> Option<Duration> {
        match self {
            Self::Log | Self::Channel(_) => None,
            #[cfg(feature = "whatsapp")]
            Self::WhatsApp(whatsapp) => whatsapp.pause(clock),
        }
    }
}

/// Nobody takes the messages.
const NOT_SENT: &str = "nao_enviada";

/// Standard output can be a pipe that nobody reads. What finds no room is sent later.
static PRINTER: LazyLock<Lines> = LazyLock::new(|| Lines::to(std::io::stdout()));
