//! Calendar dates as the wire writes them (C3), and today where the customer lives (C40).

use std::fmt;

use chrono::{DateTime, Datelike, NaiveDate, TimeDelta, Utc};
use serde::{Serialize, Serializer};

use crate::error::Codigo;

/// A real date from 1900 to 2199.
///
/// ```
/// use svc_core::{Codigo, Data};
/// assert_eq!(Data::parse("2028-02-29").unwrap().to_string(), "2028-02-29");
/// for bad in ["2027-02-29", "29/02/2028", "2028-2-29", " 2028-02-29", "2028-02-29T00:00", "1899-12-31"] {
///     assert_eq!(Data::parse(bad), Err(Codigo::DataInvalida));
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Data(NaiveDate);

impl Data {
    /// Takes a date of the calendar crate; [`Codigo::DataInvalida`] outside 1900 to 2199.
    ///
    /// ```
    /// use chrono::NaiveDate;
    /// use svc_core::Data;
    /// assert!(Data::new(NaiveDate::from_ymd_opt(2026, 11, 27).unwrap()).is_ok());
    /// assert!(Data::new(NaiveDate::from_ymd_opt(2200, 1, 1).unwrap()).is_err());
    /// ```
    pub fn new(date: NaiveDate) -> Result<Self, Codigo> {
        if (1900..=2199).contains(&date.year()) { Ok(Self(date)) } else { Err(Codigo::DataInvalida) }
    }

    /// Reads exactly ten ASCII bytes `AAAA-MM-DD`; anything else is [`Codigo::DataInvalida`].
    pub fn parse(text: &str) -> Result<Self, Codigo> {
        // The calendar crate's own parser takes blanks, signs and one-digit months.
        let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text.as_bytes() else {
            return Err(Codigo::DataInvalida);
        };
        let number = |digits: &[u8]| {
            digits.iter().try_fold(0_u32, |n, byte| byte.is_ascii_digit().then(|| n * 10 + u32::from(byte - b'0')))
        };
        let (Some(year), Some(month), Some(day)) = (number(&[y1, y2, y3, y4]), number(&[m1, m2]), number(&[d1, d2]))
        else {
            return Err(Codigo::DataInvalida);
        };
        let date = i32::try_from(year).ok().and_then(|year| NaiveDate::from_ymd_opt(year, month, day));
        Self::new(date.ok_or(Codigo::DataInvalida)?)
    }

    /// The calendar date.
    pub const fn date(self) -> NaiveDate {
        self.0
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Digit by digit: through the formatter, a body's dates and CPF took a third of its time.
        let (year, month, day) = (self.0.year().unsigned_abs(), self.0.month(), self.0.day());
        let [y1, y2, y3, y4] = [year / 1_000, year / 100, year / 10, year].map(digit);
        let [m1, m2, d1, d2] = [month / 10, month, day / 10, day].map(digit);
        let text = [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2];
        serializer.serialize_str(str::from_utf8(&text).map_err(serde::ser::Error::custom)?)
    }
}

/// A number's last digit.
fn digit(number: u32) -> u8 {
    b'0' + u8::try_from(number % 10).unwrap_or_default()
}

/// The date in Brasília, which is UTC−03:00 all year.
///
/// ```
/// use chrono::DateTime;
/// let late = DateTime::parse_from_rfc3339("2026-11-28T02:59:59Z").unwrap().to_utc();
/// assert_eq!(svc_core::today_in_brasilia(late).to_string(), "2026-11-27");
/// let later = DateTime::parse_from_rfc3339("2026-11-28T03:00:00Z").unwrap().to_utc();
/// assert_eq!(svc_core::today_in_brasilia(later).to_string(), "2026-11-28"); // not the date in UTC
/// ```
pub fn today_in_brasilia(now: DateTime<Utc>) -> NaiveDate {
    TimeDelta::try_hours(3).and_then(|behind| now.checked_sub_signed(behind)).unwrap_or(now).date_naive()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_date_is_written_as_it_is_displayed() {
        let first = NaiveDate::from_ymd_opt(1900, 1, 1).unwrap();
        let all = first.iter_days().map_while(|day| Data::new(day).ok());
        let count = all.inspect(|data| assert_eq!(serde_json::to_string(data).unwrap(), format!("\"{data}\""))).count();
        assert_eq!(count, 300 * 365 + 73); // 75 years that four divides, less 2100 and 1900
    }
}
