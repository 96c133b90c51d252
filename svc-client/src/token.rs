//! The access token: fetched when it is needed, kept while it lives, by one caller for all.

use std::fmt;
use std::time::{Duration, Instant};

use svc_core::LoginResponse;
use tokio::sync::Mutex;

use crate::error::Error;

/// A token is not used in the last part of its life: it could end on its way.
const MARGIN: Duration = Duration::from_secs(10);
/// Callers that waited for a login which failed share its failure; so do those of the next moment.
pub const SHARED_FAILURE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Tokens {
    /// Locked while somebody logs in, so that the others wait for that one login.
    last: Mutex<Last>,
}

/// What the last login gave.
#[derive(Default)]
enum Last {
    #[default]
    None,
    Token(Token),
    Failure(Error, Instant),
}

#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) bearer: String,
    ends: Instant,
}

impl Tokens {
    /// The kept token, or the one that `login` fetches. `stale` was refused by the server, and is not given again.
    pub(crate) async fn get<F>(&self, stale: Option<&Token>, login: impl FnOnce() -> F) -> Result<Token, Error>
    where
        F: Future<Output = Result<LoginResponse, Error>>,
    {
        let mut last = self.last.lock().await;
        match &*last {
            Last::Token(token)
                if token.ends > Instant::now() && stale.is_none_or(|stale| stale.bearer != token.bearer) =>
            {
                return Ok(token.clone());
            }
            Last::Failure(error, at) if at.elapsed() < SHARED_FAILURE => return Err(error.clone()),
            Last::None | Last::Token(_) | Last::Failure(..) => {}
        }
        // Its life is counted by this machine's monotonic clock, from before the request.
        let asked = Instant::now();
        match login().await {
            Ok(answer) => {
                let life = Duration::from_secs(u64::from(answer.expires_in)).saturating_sub(MARGIN);
                let token = Token { bearer: answer.access_token, ends: asked + life };
                *last = Last::Token(token.clone());
                Ok(token)
            }
            Err(error) => {
                *last = Last::Failure(error.clone(), Instant::now());
                Err(error)
            }
        }
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(***)")
    }
}
