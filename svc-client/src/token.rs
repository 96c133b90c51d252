//! The access token: fetched when it is needed, kept while it lives, by one caller for all.

use std::fmt;
use std::time::{Duration, Instant};

use svc_core::LoginResponse;
use tokio::sync::Mutex;

use crate::error::Error;

/// A token is not used in the last part of its life: it could end on its way.
const MARGIN: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct Tokens {
    /// Locked while somebody logs in, so that the others wait for that one login.
    current: Mutex<Option<Token>>,
}

#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) bearer: String,
    ends: Instant,
}

impl Tokens {
    /// The kept token, or the one that `login` fetches. `stale` was refused by the server, and is not given again.
    pub(crate) async fn get(
        &self,
        stale: Option<&Token>,
        login: impl Future<Output = Result<LoginResponse, Error>>,
    ) -> Result<Token, Error> {
        let mut current = self.current.lock().await;
        if let Some(token) = &*current
            && token.ends > Instant::now()
            && stale.is_none_or(|stale| stale.bearer != token.bearer)
        {
            return Ok(token.clone());
        }
        // Its life is counted by this machine's monotonic clock, from before the request.
        let asked = Instant::now();
        let answer = login.await?;
        let life = Duration::from_secs(u64::from(answer.expires_in)).saturating_sub(MARGIN);
        let token = Token { bearer: answer.access_token, ends: asked + life };
        *current = Some(token.clone());
        Ok(token)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(***)")
    }
}
