//! When an attempt is made again (C33): pure arithmetic over a list of waits.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};

/// The waits of a delivery: the first before its first attempt, each other after the end of the attempt before it.
///
/// ```
/// use std::time::Duration;
/// use svc_core::Schedule;
/// let schedule = Schedule::parse("0,5s,30s,2m,10m").unwrap();
/// assert_eq!(schedule, Schedule::HOMOLOGACAO);
/// assert_eq!(schedule.wait(1), Some(Duration::from_secs(5))); // after one attempt
/// assert_eq!(schedule.wait(5), None); // five attempts are all
/// for bad in ["", "5", "5s,,5s", "-5s", "5 s", "1.5s", "5s,", "721h"] {
///     assert!(Schedule::parse(bad).is_err(), "{bad:?}");
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule(Cow<'static, [Duration]>);

/// A longer wait is a slip of the pen.
const MAX_WAIT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// No schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a list of waits such as 0,5s,30s,2m,10m,1h")]
pub struct BadSchedule;

impl Schedule {
    /// Webhooks in the test environment: 0, 5 s, 30 s, 2 min, 10 min.
    pub const HOMOLOGACAO: Self = Self(Cow::Borrowed(&[secs(0), secs(5), secs(30), secs(120), secs(600)]));

    /// Webhooks in production: 0, 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h.
    pub const PRODUCAO: Self = Self(Cow::Borrowed(&[
        secs(0),
        secs(5),
        secs(300),
        secs(1_800),
        secs(7_200),
        secs(18_000),
        secs(36_000),
        secs(50_400),
        secs(72_000),
        secs(86_400),
    ]));

    /// The customer's message (C35): 0, 5 s, 30 s, 2 min, 10 min, 1 h, 6 h, 24 h.
    pub const MENSAGEM: Self = Self(Cow::Borrowed(&[
        secs(0),
        secs(5),
        secs(30),
        secs(120),
        secs(600),
        secs(3_600),
        secs(21_600),
        secs(86_400),
    ]));

    /// Takes the waits: at least one, none longer than 30 days.
    ///
    /// ```
    /// use std::time::Duration;
    /// use svc_core::Schedule;
    /// assert!(Schedule::new(vec![Duration::ZERO, Duration::from_secs(5)]).is_ok());
    /// assert!(Schedule::new(Vec::new()).is_err());
    /// ```
    pub fn new(waits: Vec<Duration>) -> Result<Self, BadSchedule> {
        if waits.is_empty() || waits.iter().any(|wait| *wait > MAX_WAIT) {
            return Err(BadSchedule);
        }
        Ok(Self(Cow::Owned(waits)))
    }

    /// Reads waits separated by commas: `0`, or a whole number with `s`, `m` or `h`.
    pub fn parse(text: &str) -> Result<Self, BadSchedule> {
        let waits: Option<Vec<Duration>> = text.split(',').map(|wait| parse_wait(wait.trim())).collect();
        Self::new(waits.ok_or(BadSchedule)?)
    }

    /// The wait after `attempts` attempts; `None` when that was the last.
    pub fn wait(&self, attempts: u32) -> Option<Duration> {
        self.0.get(usize::try_from(attempts).ok()?).copied()
    }
}

/// A drawn number that spreads attempts which failed together: it adds up to a tenth of a wait and takes nothing away.
#[derive(Clone, Copy, Debug)]
pub struct Jitter(u32);

impl Jitter {
    /// Nothing is added.
    pub const NONE: Self = Self(0);

    /// Takes any random number; the shell draws it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use svc_core::Jitter;
    /// let wait = Duration::from_secs(100);
    /// assert_eq!(Jitter::NONE.spread(wait), wait);
    /// assert_eq!(Jitter::from_random(u32::MAX).spread(wait), Duration::from_secs(110));
    /// ```
    pub const fn from_random(number: u32) -> Self {
        Self(number)
    }

    /// The wait with its share added.
    pub fn spread(self, wait: Duration) -> Duration {
        let share = wait.as_nanos() / 10 * u128::from(self.0) / u128::from(u32::MAX);
        wait.saturating_add(Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX)))
    }
}

/// A later moment; one beyond the calendar is its end.
pub(crate) fn later(now: DateTime<Utc>, wait: Duration) -> DateTime<Utc> {
    let wait = TimeDelta::from_std(wait).ok();
    wait.and_then(|wait| now.checked_add_signed(wait)).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// Reads a `Retry-After` header (RFC 9110, 10.2.3): seconds, or one of the three forms of an HTTP date.
///
/// A date that has passed is no wait; what is neither is `None`. No cap: each caller has its own.
///
/// ```
/// use std::time::Duration;
/// use chrono::DateTime;
/// use svc_core::retry_after;
/// let now = DateTime::from_timestamp(784_111_777, 0).unwrap(); // 1994-11-06 08:49:37
/// assert_eq!(retry_after(b"2", now), Some(Duration::from_secs(2)));
/// assert_eq!(retry_after(b"Sun, 06 Nov 1994 08:49:40 GMT", now), Some(Duration::from_secs(3)));
/// assert_eq!(retry_after(b"-1", now), None);
/// assert_eq!(retry_after(b"soon", now), None);
/// ```
pub fn retry_after(header: &[u8], now: DateTime<Utc>) -> Option<Duration> {
    let text = str::from_utf8(header).ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More seconds than a number holds are as many as it holds.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let at = HTTP_DATES.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())?.and_utc();
    Some(at.signed_duration_since(now).to_std().unwrap_or_default())
}

/// IMF-fixdate, and the two obsolete forms that a recipient must read (RFC 9110, 5.6.7).
const HTTP_DATES: [&str; 3] = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

fn parse_wait(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let unit = match text.as_bytes().last()? {
        b's' => 1,
        b'm' => 60,
        b'h' => 3_600,
        _ => return None,
    };
    let digits = text.get(..text.len() - 1)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(unit).map(Duration::from_secs)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, wait) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "," };
            match wait.as_secs() {
                0 => write!(f, "{separator}0")?,
                s if s % 3_600 == 0 => write!(f, "{separator}{}h", s / 3_600)?,
                s if s % 60 == 0 => write!(f, "{separator}{}m", s / 60)?,
                s => write!(f, "{separator}{s}s")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_print_as_they_are_read() {
        for (schedule, text) in [
            (Schedule::HOMOLOGACAO, "0,5s,30s,2m,10m"),
            (Schedule::PRODUCAO, "0,5s,5m,30m,2h,5h,10h,14h,20h,24h"),
            (Schedule::MENSAGEM, "0,5s,30s,2m,10m,1h,6h,24h"),
        ] {
            assert_eq!(schedule.to_string(), text);
            assert_eq!(Schedule::parse(text), Ok(schedule));
        }
    }

    #[test]
    fn t18_retry_after_in_every_form() {
        let now = DateTime::from_timestamp(784_111_777, 0).unwrap();
        let seconds = |text: &str| retry_after(text.as_bytes(), now).map(|wait| wait.as_secs());
        assert_eq!(seconds("0"), Some(0));
        assert_eq!(seconds(" 999999 "), Some(999_999));
        assert_eq!(seconds("99999999999999999999999"), Some(u64::MAX));
        assert_eq!(seconds("Sunday, 06-Nov-94 08:50:37 GMT"), Some(60));
        assert_eq!(seconds("Sun Nov  6 08:49:38 1994"), Some(1));
        assert_eq!(seconds("Sat, 05 Nov 1994 08:49:37 GMT"), Some(0), "the past");
        for bad in ["", "-1", "abc", "1.5", "+1", "1994-11-06", "Sun, 06 Nov 1994 08:49:37 PST"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
        assert_eq!(retry_after(&[0xff], now), None);
    }
}
