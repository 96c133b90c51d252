//! What a request says: its body within its limits, its form fields, what its sender accepts, and who sends it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::http::uri::Authority;
use svc_core::{Invalid, IpRange};

use crate::reply::{Problem, X_REQUEST_ID};

/// Most bytes of a body (C18).
pub(crate) const MAX_BODY_BYTES: usize = 64 * 1024;
/// A body must come within this time (C38).
const BODY_DEADLINE: Duration = Duration::from_secs(10);
/// Longest id of a request that is taken from its sender (C18).
const MAX_REQUEST_ID: usize = 64;

/// Reads a body, no further than its limit and no longer than its deadline.
pub(crate) async fn read_body(headers: &HeaderMap, body: Incoming) -> Result<Bytes, Problem> {
    read_body_up_to(MAX_BODY_BYTES, headers, body).await
}

/// The same with a limit of its own.
pub(crate) async fn read_body_up_to(most: usize, headers: &HeaderMap, body: Incoming) -> Result<Bytes, Problem> {
    let declared =
        headers.get(hyper::header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > most as u64) {
        return Err(Problem::BodyTooLarge);
    }
    match tokio::time::timeout(BODY_DEADLINE, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(Problem::BodyTooLarge),
        // It ended too early, or is not in the chunks that it claims to be in.
        Ok(Err(_)) => Err(Problem::Invalid(Invalid::unreadable())),
        Err(_) => Err(Problem::Timeout),
    }
}

/// Checks that there is one `Host`, and that it is one (C18).
pub(crate) fn check_host(headers: &HeaderMap) -> Result<(), Problem> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Problem::Host) };
    let authority = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()).ok_or(Problem::Host)?;
    let text = authority.as_str();
    // The parser takes user names, and ports of any kind.
    let port = text.rsplit_once(':').filter(|_| !text.ends_with(']')).map(|(_, port)| port);
    let port_fits =
        port.is_none_or(|port| port.parse::<u16>().is_ok() && port.bytes().all(|byte| byte.is_ascii_digit()));
    if text.contains('@') || authority.host().is_empty() || !port_fits { Err(Problem::Host) } else { Ok(()) }
}

/// The address that a request comes from: the peer's, or behind trusted proxies the rightmost one that is none of them
/// (C23).
pub(crate) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpRange]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|range| range.contains(address));
    let mut address = peer.to_canonical();
    let forwarded = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let hops: Vec<&str> = forwarded.flat_map(|value| value.split(',')).map(str::trim).collect();
    for hop in hops.into_iter().rev() {
        if !is_trusted(address) {
            break;
        }
        let hop = hop.parse().or_else(|_| hop.parse::<SocketAddr>().map(|hop| hop.ip()));
        match hop {
            Ok(hop) => address = hop.to_canonical(),
            // Whoever wrote that is not to be believed any further.
            Err(_) => break,
        }
    }
    address
}

/// The type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyType {
    Json,
    Form,
}

/// Reads the `Content-Type`; an absent one is JSON, JSON is UTF-8, and no body has no type (C18).
pub(crate) fn body_type(headers: &HeaderMap, body: &Incoming) -> Result<BodyType, Problem> {
    if body.is_end_stream() { Ok(BodyType::Json) } else { parse_body_type(headers) }
}

fn parse_body_type(headers: &HeaderMap) -> Result<BodyType, Problem> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let Some(value) = values.next() else { return Ok(BodyType::Json) };
    if values.next().is_some() {
        return Err(Problem::ContentType);
    }
    let value = value.to_str().map_err(|_| Problem::ContentType)?;
    let mut parts = value.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let utf8 = parts.filter(|part| !part.is_empty()).all(|part| {
        let part = part.replace('"', "");
        part.eq_ignore_ascii_case("charset=utf-8")
    });
    match essence {
        _ if !utf8 => Err(Problem::ContentType),
        _ if essence.eq_ignore_ascii_case("application/json") => Ok(BodyType::Json),
        _ if essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") => Ok(BodyType::Form),
        _ => Err(Problem::ContentType),
    }
}

/// What the sender would rather have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepts {
    /// It names `text/html`: a browser, where curl's `*/*` is none.
    pub(crate) html: bool,
    /// And likes it no less than JSON.
    pub(crate) prefers_html: bool,
}

/// Reads `Accept` (RFC 9110, 12.5.1).
pub(crate) fn accepts(headers: &HeaderMap) -> Accepts {
    let (mut html, mut json) = (0.0_f32, 0.0_f32);
    for range in
        headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','))
    {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let quality = quality.map_or(1.0_f32, |quality| quality.parse().unwrap_or(0.0)).clamp(0.0, 1.0);
        match name.as_str() {
            "text/html" => html = html.max(quality),
            "application/json" | "application/*" | "*/*" => json = json.max(quality),
            _ => {}
        }
    }
    Accepts { html: html > 0.0, prefers_html: html > 0.0 && html >= json }
}

/// Who fetches a link: a person, or something that draws a preview of it (C14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    ByPerson,
    /// A browser that looks ahead.
    Ahead,
    /// An agent that draws previews: it always gets a page.
    ByPreviewAgent,
}

/// What a request's headers say of that. One walk over them, where to look for each of five names would hash each.
pub(crate) fn fetch(headers: &HeaderMap) -> Fetch {
    let mut fetch = Fetch::ByPerson;
    for (name, value) in headers {
        match name.as_str() {
            "user-agent" if PREVIEW_AGENTS.iter().any(|agent| says(value, agent)) => return Fetch::ByPreviewAgent,
            "sec-purpose" | "purpose" | "x-moz" if says(value, "prefetch") => fetch = Fetch::Ahead,
            "x-purpose" if says(value, "preview") => fetch = Fetch::Ahead,
            _ => {}
        }
    }
    fetch
}

/// Whether a header's value holds a word, in any case, whatever bytes are around it.
fn says(value: &HeaderValue, word: &str) -> bool {
    value.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

/// The agents of C14.
const PREVIEW_AGENTS: [&str; 11] = [
    "WhatsApp/",
    "facebookexternalhit",
    "Facebot",
    "TelegramBot",
    "Twitterbot",
    "Slackbot",
    "Discordbot",
    "LinkedInBot",
    "SkypeUriPreview",
    "Googlebot",
    "bingbot",
];

/// The caller's request id, if it is one.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&str> {
    let id = headers.get(X_REQUEST_ID)?.to_str().ok()?;
    let fits = (1..=MAX_REQUEST_ID).contains(&id.len());
    let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    (fits && plain).then_some(id)
}

/// The one value of a field in a query or a form; `Err` where it comes twice.
pub(crate) fn field(pairs: &str, name: &str) -> Result<Option<String>, Twice> {
    let mut values = url::form_urlencoded::parse(pairs.as_bytes()).filter(|(key, _)| key == name);
    let first = values.next().map(|(_, value)| value.into_owned());
    if values.next().is_some() { Err(Twice) } else { Ok(first) }
}

/// A field that comes twice has no value.
#[derive(Debug)]
pub(crate) struct Twice;

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_browser_gets_a_page_and_curl_gets_json() {
        for (accept, html, prefers) in [
            ("*/*", false, false),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true, true),
            ("application/json", false, false),
            ("text/html;q=0, */*", false, false),
            ("text/html;q=0.5, application/json", true, false),
            ("TEXT/HTML; q=0.5, application/json;q=0.5", true, true),
            ("text/*", false, false),
            ("text/html;q=x", false, false),
        ] {
            let expected = Accepts { html, prefers_html: prefers };
            assert_eq!(accepts(&headers(&[("accept", accept)])), expected, "{accept}");
        }
        assert!(!accepts(&HeaderMap::new()).html);
    }

    #[test]
    fn f25_previews_are_known_by_agent_and_by_header() {
        for (name, value, expected) in [
            ("user-agent", "WhatsApp/2.23.20.0", Fetch::ByPreviewAgent),
            (
                "user-agent",
                "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
                Fetch::ByPreviewAgent,
            ),
            ("user-agent", "Mozilla/5.0 (compatible; Googlebot/2.1)", Fetch::ByPreviewAgent),
            ("sec-purpose", "prefetch;prerender", Fetch::Ahead),
            ("purpose", "prefetch", Fetch::Ahead),
            ("x-moz", "prefetch", Fetch::Ahead),
            ("x-purpose", "preview", Fetch::Ahead),
            ("x-purpose", "prefetch", Fetch::ByPerson),
            ("referer", "https://www.facebook.com/facebookexternalhit/", Fetch::ByPerson),
        ] {
            assert_eq!(fetch(&headers(&[(name, value)])), expected, "{name}: {value}");
        }
        assert_eq!(fetch(&headers(&[("user-agent", "curl/8.5.0"), ("purpose", "navigate")])), Fetch::ByPerson);
        assert_eq!(fetch(&headers(&[("purpose", "prefetch"), ("user-agent", "bingbot")])), Fetch::ByPreviewAgent);
        let mut odd = headers(&[("user-agent", "x")]);
        odd.append("user-agent", HeaderValue::from_bytes("WhatsApp/2.23 café".as_bytes()).unwrap());
        assert_eq!(fetch(&odd), Fetch::ByPreviewAgent);
    }

    #[test]
    fn content_types_of_c18() {
        for (value, expected) in [
            ("application/json", Some(BodyType::Json)),
            ("Application/JSON; charset=UTF-8", Some(BodyType::Json)),
            ("application/json;charset=\"utf-8\"", Some(BodyType::Json)),
            ("application/x-www-form-urlencoded", Some(BodyType::Form)),
            ("application/json; charset=latin1", None),
            ("text/plain", None),
            ("application/jsonx", None),
            ("", None),
        ] {
            assert_eq!(parse_body_type(&headers(&[("content-type", value)])).ok(), expected, "{value}");
        }
        assert_eq!(parse_body_type(&HeaderMap::new()).ok(), Some(BodyType::Json));
    }

    #[test]
    fn a_host_is_one_name_or_address_and_perhaps_a_port() {
        for host in ["example.com", "example.com:8080", "127.0.0.1:1", "[::1]", "[::1]:8080", "localhost"] {
            assert!(check_host(&headers(&[("host", host)])).is_ok(), "{host}");
        }
        for host in
            ["", "a b", "user@example.com", "example.com:", "example.com:x", "example.com:99999", "a/b", ":80", "a:+1"]
        {
            assert!(check_host(&headers(&[("host", host)])).is_err(), "{host}");
        }
        assert!(check_host(&HeaderMap::new()).is_err());
        let mut twice = headers(&[("host", "a")]);
        twice.append("host", "a".parse().unwrap());
        assert!(check_host(&twice).is_err());
    }

    #[test]
    fn c23_the_client_is_the_rightmost_address_that_is_no_trusted_proxy() {
        let trusted = [IpRange::parse("10.0.0.0/8").unwrap(), IpRange::parse("127.0.0.0/8").unwrap()];
        let of = |peer: &str, forwarded: &'static str| {
            client_address(peer.parse().unwrap(), &headers(&[("x-forwarded-for", forwarded)]), &trusted).to_string()
        };
        assert_eq!(of("192.0.2.9", "203.0.113.1"), "192.0.2.9", "a stranger's word is nothing");
        assert_eq!(of("10.0.0.1", "203.0.113.1"), "203.0.113.1");
        assert_eq!(of("10.0.0.1", "1.1.1.1, 203.0.113.1, 10.0.0.2"), "203.0.113.1", "1.1.1.1 can be anybody's word");
        assert_eq!(of("::ffff:10.0.0.1", "[2001:db8::1]:4711"), "2001:db8::1");
        assert_eq!(of("10.0.0.1", "unknown, 10.0.0.2"), "10.0.0.2");
        assert_eq!(of("10.0.0.1", "10.0.0.3"), "10.0.0.3");
        assert_eq!(client_address("10.0.0.1".parse().unwrap(), &HeaderMap::new(), &trusted).to_string(), "10.0.0.1");
    }

    #[test]
    fn a_request_id_is_taken_only_when_it_is_harmless() {
        for (value, taken) in [("a-B_9.", true), ("", false), ("a b", false), ("<script>", false)] {
            assert_eq!(request_id(&headers(&[("x-request-id", value)])).is_some(), taken, "{value}");
        }
        let long: &'static str = Box::leak("x".repeat(65).into_boxed_str());
        assert_eq!(request_id(&headers(&[("x-request-id", long)])), None);
        assert!(request_id(&headers(&[("x-request-id", &long[1..])])).is_some());
    }

    #[test]
    fn a_field_has_one_value_or_none() {
        assert_eq!(field("a=1&acao=aceitar", "acao").unwrap().as_deref(), Some("aceitar"));
        assert_eq!(field("acao=%61ceitar", "acao").unwrap().as_deref(), Some("aceitar"));
        assert_eq!(field("a=1", "acao").unwrap(), None);
        assert!(field("acao=aceitar&acao=aceitar", "acao").is_err());
    }
}
