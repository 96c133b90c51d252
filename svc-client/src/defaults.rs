//! What a [`Client`](crate::Client) does unless its [builder](crate::ClientBuilder) is told otherwise.
//!
//! Each is a setting of the builder; the method's name is beside it.

use std::time::Duration;

use crate::retry::Idempotency;

/// 3 s: longest time to connect, TLS included: `connect_timeout`.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// 15 s: longest time of one attempt, to the last byte of its answer: `attempt_timeout`.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
/// 10 s: the same of a login: `login_timeout`.
pub const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// 45 s: longest time of a call, with login, waits and retries: `total_timeout`.
pub const TOTAL_TIMEOUT: Duration = Duration::from_secs(45);
/// 2: retries of a call, so that there are three attempts: `max_retries`.
pub const MAX_RETRIES: u32 = 2;
/// 500 ms: the longest wait before the first retry, doubled with each that follows: `backoff`.
pub const BACKOFF_BASE: Duration = Duration::from_millis(500);
/// 5 s: the longest wait before any: `backoff`.
pub const BACKOFF_CAP: Duration = Duration::from_secs(5);
/// 30 s: the longest `Retry-After` that is waited for; a longer one is an error at once: `max_retry_after`.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);
/// 20 %: retries in a minute, as a share of that minute's calls: `retry_budget`.
pub const BUDGET_PERCENT: u32 = 20;
/// 10: retries in a minute that are always allowed: `retry_budget`.
pub const BUDGET_FLOOR: u32 = 10;
/// Auto: whether a proposal whose fate is unknown is posted again: `idempotency`.
pub const IDEMPOTENCY: Idempotency = Idempotency::Auto;
/// 10 s: how long an idle connection is kept; the service closes it at 20 s: `pool_idle_timeout`.
pub const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// 8: most idle connections: `pool_max_idle`.
pub const POOL_MAX_IDLE: usize = 8;
/// 1 MiB: largest answer that is read: `max_answer_bytes`.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// 300 s: a token is renewed so long before its end, or in the last fifth of its life if that is later; each time up to a fifth
/// of that later, so that many clients do not come together. Not a setting.
pub const REFRESH_AHEAD: Duration = Duration::from_secs(300);
/// 10 s: in this last part of a token's life calls wait for its renewal. Not a setting.
pub const LAST_SECONDS: Duration = Duration::from_secs(10);
/// 1 s: least time between two logins, doubled while they fail. Not a setting.
pub const LOGIN_GAP: Duration = Duration::from_secs(1);
/// 30 s: the most that it is doubled to. Not a setting.
pub const LOGIN_GAP_CAP: Duration = Duration::from_secs(30);
/// 60 s: the longest `Retry-After` of a login that all calls wait for. Not a setting.
pub const LOGIN_RETRY_AFTER_CAP: Duration = Duration::from_secs(60);
/// 1 s: calls that come this soon after a login failed share its failure. Not a setting.
pub const SHARED_FAILURE: Duration = Duration::from_secs(1);
/// 8 KiB: of an error's body this much is kept. Not a setting.
pub const MAX_KEPT_BODY_BYTES: usize = 8 * 1024;
