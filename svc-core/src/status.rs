//! The states of a proposal and the one table that moves between them (C11, C12).

use std::fmt;

use serde::{Serialize, Serializer};

use crate::acao::Acao;

/// Where a proposal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Stored; the customer has not answered. Never sent in a notification.
    AguardandoResposta,
    /// The customer accepted.
    Aceito,
    /// The customer refused.
    Recusado,
}

/// What an action does to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// The state changes to this one.
    Moved(Status),
    /// The same answer was given before: nothing changes, and it is no fault.
    AlreadySo,
    /// The other answer was given before: the first one stands.
    Refused,
}

impl Status {
    /// The state machine: every state, every action, no exception.
    ///
    /// ```
    /// use svc_core::{Acao, Answer, Status};
    /// assert_eq!(Status::AguardandoResposta.after(Acao::Aceitar), Answer::Moved(Status::Aceito));
    /// assert_eq!(Status::Aceito.after(Acao::Recusar), Answer::Refused);
    /// ```
    pub const fn after(self, acao: Acao) -> Answer {
        match (self, acao) {
            (Self::AguardandoResposta, Acao::Aceitar) => Answer::Moved(Self::Aceito),
            (Self::AguardandoResposta, Acao::Recusar) => Answer::Moved(Self::Recusado),
            (Self::Aceito, Acao::Aceitar) | (Self::Recusado, Acao::Recusar) => Answer::AlreadySo,
            (Self::Aceito, Acao::Recusar) | (Self::Recusado, Acao::Aceitar) => Answer::Refused,
        }
    }

    /// Reads the wire's spelling.
    ///
    /// ```
    /// use svc_core::Status;
    /// assert_eq!(Status::parse("RECUSADO"), Some(Status::Recusado));
    /// assert_eq!(Status::parse("recusado"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        [Self::AguardandoResposta, Self::Aceito, Self::Recusado].into_iter().find(|status| status.as_str() == text)
    }

    /// `AGUARDANDO_RESPOSTA`, `ACEITO` or `RECUSADO`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AguardandoResposta => "AGUARDANDO_RESPOSTA",
            Self::Aceito => "ACEITO",
            Self::Recusado => "RECUSADO",
        }
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
