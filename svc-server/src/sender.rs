//! How the customer is told of a proposal (C35).

use std::io::Write;

use svc_core::Proposta;

/// A way to the customer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Sender {
    /// Prints the customer's link on standard output, apart from the log: for trying the service out.
    Log,
    /// Hands the link to a channel: for programs that play the customer.
    Channel(tokio::sync::mpsc::UnboundedSender<String>),
}

impl Sender {
    /// Sends the message with the customer's link. The name stays where it is: only the link is printed (C39).
    pub(crate) fn send(&self, _proposta: &Proposta, link: &str) -> Result<(), SendError> {
        match self {
            Self::Log => writeln!(std::io::stdout(), "customer's link: {link}").map_err(|_| SendError),
            Self::Channel(links) => links.send(link.to_owned()).map_err(|_| SendError),
        }
    }
}

/// The message did not go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the customer's message was not sent")]
pub(crate) struct SendError;
