//! The access token: fetched when it is needed, renewed ahead of its end, by one caller for all.
//!
//! It is never read: its life is counted by this machine's clocks from before the login, so that the service's clock may
//! be off.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::clock::{Clock, by};
use crate::defaults::{LAST_SECONDS, LOGIN_GAP, LOGIN_GAP_CAP, LOGIN_RETRY_AFTER_CAP, REFRESH_AHEAD, SHARED_FAILURE};
use crate::error::{Error, ErrorKind, Outcome};
use crate::secret::AccessToken;

/// The two clocks part this far only when somebody sets the time of day, or the machine has slept: a token's age is then
/// unknown.
const CLOCK_JUMP: Duration = Duration::from_secs(60);

/// The token of a client, and its logins.
pub(crate) struct Tokens {
    state: Mutex<State>,
    /// Held by the one who logs in; the others wait for it, or go on with the token that there is.
    login: tokio::sync::Mutex<()>,
}

struct State {
    token: Option<Token>,
    /// The last login's failure, and when it ended.
    failure: Option<(Error, Duration)>,
    /// No login before this.
    gate: Duration,
    /// How far behind the next login the gate is then.
    gap: Duration,
}

/// What a login gave.
pub(crate) struct Granted {
    pub(crate) token: AccessToken,
    pub(crate) life: Duration,
    /// Whether the service promised that repeating a proposal is harmless (C9).
    pub(crate) promised: bool,
}

/// A token in use. Clones are one and the same.
#[derive(Clone)]
pub(crate) struct Token(Arc<Issued>);

struct Issued {
    granted: Granted,
    asked: Moment,
    /// When it is renewed, and when calls wait for that.
    refresh: Duration,
    last: Duration,
}

/// A time by both clocks.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    elapsed: Duration,
    now: SystemTime,
}

/// What a caller has to do for a token.
enum Standing {
    /// Nothing.
    Good(Token),
    /// Renew it if nobody else does; it serves meanwhile.
    Due(Token),
    /// Log in, or wait for whoever does. The old one serves if that fails.
    Needed(Option<Token>),
}

impl Tokens {
    pub(crate) fn new() -> Self {
        let state = State { token: None, failure: None, gate: Duration::ZERO, gap: LOGIN_GAP };
        Self { state: Mutex::new(state), login: tokio::sync::Mutex::new(()) }
    }

    /// A token: the kept one, or the one that `login` fetches, for a call that must be over at `end`.
    ///
    /// `refused` was refused by the service, and is not given again. Who comes the `first` time shares a failure of the
    /// last moment; who comes again has waited, and waits for the next login.
    pub(crate) async fn get<F>(
        &self,
        clock: &dyn Clock,
        refused: Option<&Token>,
        first: bool,
        end: Duration,
        login: impl FnOnce() -> F,
    ) -> Result<Token, Error>
    where
        F: Future<Output = Result<Granted, Error>>,
    {
        let asked = clock.elapsed();
        let _login = match self.standing(clock, refused) {
            Standing::Good(token) => return Ok(token),
            Standing::Due(token) => match self.login.try_lock() {
                Ok(_lock) if self.lock().gate <= asked => {
                    // Of the call's time half at most: there is a token to go on with.
                    let half = asked + end.saturating_sub(asked) / 2;
                    let renewed = by(clock, half, self.renew(clock, login)).await;
                    return match renewed {
                        Some(Err(error)) => Some(token).filter(|token| token.is_alive(clock)).ok_or(error),
                        Some(renewed) => renewed,
                        None => {
                            self.failed(&Error::new(ErrorKind::Timeout, Outcome::NotSent).passing(), clock.elapsed());
                            Ok(token)
                        }
                    };
                }
                _ => return Ok(token),
            },
            Standing::Needed(_) => self.login.lock().await,
        };
        // Whoever had the lock before may have brought one, or learned that there is none.
        let old = match self.standing(clock, refused) {
            Standing::Good(token) | Standing::Due(token) => return Ok(token),
            // However short its life: it is fresh for whoever waited for it.
            Standing::Needed(Some(token)) if token.0.asked.elapsed >= asked => return Ok(token),
            Standing::Needed(old) => old,
        };
        let (failure, gate) = {
            let state = self.lock();
            (state.failure.clone(), state.gate)
        };
        let failed = match failure {
            Some((error, at)) if at >= asked || first && asked.saturating_sub(at) < SHARED_FAILURE => Some(error),
            // It would come too late: what the last one came to is more than that time ran out.
            Some((error, _)) if gate >= end => Some(error),
            _ => None,
        };
        let alive = |old: Option<Token>| old.filter(|old| old.is_alive(clock));
        if let Some(error) = failed {
            return alive(old).ok_or(error);
        }
        if gate > clock.elapsed() {
            if let Some(old) = alive(old) {
                return Ok(old);
            }
            clock.pause_until(gate).await;
            return self.renew(clock, login).await;
        }
        self.renew(clock, login).await.or_else(|error| alive(old).ok_or(error))
    }

    /// One login, its result kept for all.
    async fn renew<F>(&self, clock: &dyn Clock, login: impl FnOnce() -> F) -> Result<Token, Error>
    where
        F: Future<Output = Result<Granted, Error>>,
    {
        let asked = Moment::now(clock);
        // Also for a caller who goes away before it ends.
        self.lock().gate = asked.elapsed + LOGIN_GAP;
        let result = login().await;
        let now = clock.elapsed();
        match result {
            Ok(granted) => {
                let token = Token::new(granted, asked, random());
                let mut state = self.lock();
                (state.token, state.failure) = (Some(token.clone()), None);
                (state.gate, state.gap) = (now + LOGIN_GAP, LOGIN_GAP);
                Ok(token)
            }
            Err(error) => {
                self.failed(&error, now);
                Err(error)
            }
        }
    }

    /// The next login is later each time.
    fn failed(&self, error: &Error, now: Duration) {
        // The service may ask for more patience than we have by ourselves.
        let asked_for = error.retry_after().unwrap_or_default().min(LOGIN_RETRY_AFTER_CAP);
        let mut state = self.lock();
        state.failure = Some((error.clone(), now));
        state.gate = now + state.gap.max(asked_for);
        state.gap = (state.gap * 2).min(LOGIN_GAP_CAP);
    }

    fn standing(&self, clock: &dyn Clock, refused: Option<&Token>) -> Standing {
        let kept = {
            let state = &mut *self.lock();
            // Refused for one is refused for all.
            state.token.take_if(|token| refused.is_some_and(|refused| Arc::ptr_eq(&refused.0, &token.0)));
            state.token.clone()
        };
        let Some(token) = kept else { return Standing::Needed(None) };
        let now = clock.elapsed();
        if now >= token.0.last || token.0.asked.has_jumped(clock) {
            Standing::Needed(Some(token))
        } else if now >= token.0.refresh {
            Standing::Due(token)
        } else {
            Standing::Good(token)
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whatever of a critical section was done, each field is a legal value.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Token {
    fn new(granted: Granted, asked: Moment, random: u64) -> Self {
        let life = granted.life;
        let ahead = REFRESH_AHEAD.min(life / 5);
        let later = crate::retry::backoff(ahead / 5, ahead / 5, 1, random);
        let end = asked.elapsed.saturating_add(life);
        let refresh = end.saturating_sub(ahead) + later;
        let last = end.saturating_sub(LAST_SECONDS.min(ahead)).max(refresh);
        Self(Arc::new(Issued { granted, asked, refresh, last }))
    }

    pub(crate) fn bearer(&self) -> &str {
        self.0.granted.token.expose()
    }

    pub(crate) fn promised(&self) -> bool {
        self.0.granted.promised
    }

    fn is_alive(&self, clock: &dyn Clock) -> bool {
        clock.elapsed() < self.0.asked.elapsed.saturating_add(self.0.granted.life)
    }
}

impl Moment {
    fn now(clock: &dyn Clock) -> Self {
        Self { elapsed: clock.elapsed(), now: clock.now() }
    }

    /// Whether the two clocks have parted since then.
    fn has_jumped(self, clock: &dyn Clock) -> bool {
        let elapsed = clock.elapsed().saturating_sub(self.elapsed);
        let gone = match clock.now().duration_since(self.now) {
            Ok(forward) => forward.abs_diff(elapsed),
            Err(backward) => backward.duration().saturating_add(elapsed),
        };
        gone > CLOCK_JUMP
    }
}

/// Without random numbers a token is renewed as late as it may be, and a wait is as long.
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or(u64::MAX)
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}
