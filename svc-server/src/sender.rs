//! How the customer is told of a proposal (C35).

use std::io::Write;
use std::sync::LazyLock;
use std::sync::mpsc::{SyncSender, sync_channel};

use svc_core::{Proposta, SendOutcome};

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
    pub(crate) fn send(&self, _proposta: &Proposta, link: &str) -> SendOutcome {
        let sent = match self {
            Self::Log => PRINTER.try_send(format!("customer's link: {link}\n")).is_ok(),
            Self::Channel(links) => links.send(link.to_owned()).is_ok(),
        };
        if sent { SendOutcome::Sent } else { SendOutcome::Failed(NOT_SENT.into()) }
    }
}

/// Nobody takes the messages.
const NOT_SENT: &str = "nao_enviada";
/// Lines that wait to be printed; more are sent later.
const WAITING_LINES: usize = 1_024;

/// A thread of its own: standard output can be a pipe that nobody reads, and must hold nobody up but itself.
static PRINTER: LazyLock<SyncSender<String>> = LazyLock::new(|| {
    let (sender, lines) = sync_channel::<String>(WAITING_LINES);
    std::thread::spawn(move || {
        for line in lines {
            // Whoever closed standard output does not want to read.
            let _ = std::io::stdout().write_all(line.as_bytes());
        }
    });
    sender
});
