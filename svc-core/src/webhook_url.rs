//! The address that receives a partner's notifications (C3, C4, C31).

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde::{Serialize, Serializer};
use url::{Host, Url};

use crate::error::Codigo;
use crate::policy::Policy;

/// An absolute http or https URL with a host, without user, password or fragment, at most 2,048 bytes; kept byte for
/// byte. `Debug` hides the query, which partners use for keys.
///
/// ```
/// use svc_core::{Codigo, Perfil, Policy, WebhookUrl};
/// let url = WebhookUrl::parse("https://parceiro.example.com/webhooks?k=1").unwrap();
/// assert_eq!(url.as_str(), "https://parceiro.example.com/webhooks?k=1");
/// assert_eq!(format!("{url:?}"), r#"WebhookUrl("https://parceiro.example.com/…")"#);
///
/// for bad in ["parceiro.example.com", "https://a:b@example.com/", "https:example.com", "https://example.com/#x"] {
///     assert_eq!(WebhookUrl::parse(bad), Err(Codigo::UrlInvalida), "{bad}");
/// }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    /// Shared among clones: a proposal, its delivery and that one's attempts.
    text: Arc<str>,
    host: Kind,
    /// How long a [common](common_host) host is, behind `https://` or `http://`; 0 for any other.
    common_len: u16,
}

/// What the policy asks of a host, kept from the one time it is parsed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An address, as HTTP clients read it.
    Literal(IpAddr),
    /// RFC 6761: `localhost` and `*.localhost` are this machine, whatever a resolver says.
    Localhost,
    /// A name, judged when it is resolved.
    Name,
}

impl Kind {
    /// The kind of host in a URL that is [plain](is_plain), and its length if it is [common](common_host); `None` where the
    /// parser finds no URL.
    fn of(text: &str) -> Option<(Self, u16)> {
        let of_name = |name: &str| if is_localhost(name) { Self::Localhost } else { Self::Name };
        if let Some(host) = common_host(text) {
            let kind = host.parse::<Ipv4Addr>().map_or_else(|_| of_name(host), |v4| Self::Literal(v4.into()));
            return Some((kind, u16::try_from(host.len()).ok()?));
        }
        let kind = match Url::parse(text).ok()?.host()? {
            Host::Ipv4(v4) => Self::Literal(IpAddr::V4(v4)),
            Host::Ipv6(v6) => Self::Literal(IpAddr::V6(v6)),
            Host::Domain(name) => of_name(name),
        };
        Some((kind, 0))
    }
}

impl WebhookUrl {
    /// Most bytes.
    pub const MAX_BYTES: usize = 2_048;

    /// Checks the shape; where the address may lie is the [`Policy`]'s question, see [`host_allowed`](Self::host_allowed).
    ///
    /// [`Codigo::TamanhoExcedido`] over 2,048 bytes, else [`Codigo::UrlInvalida`].
    pub fn parse(text: impl AsRef<str>) -> Result<Self, Codigo> {
        let text = text.as_ref();
        if text.len() > Self::MAX_BYTES {
            return Err(Codigo::TamanhoExcedido);
        }
        if !is_plain(text) {
            return Err(Codigo::UrlInvalida);
        }
        let (host, common_len) = Kind::of(text).ok_or(Codigo::UrlInvalida)?;
        Ok(Self { text: text.into(), host, common_len })
    }

    /// The text as sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the scheme is https.
    pub fn is_https(&self) -> bool {
        self.text.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
    }

    /// The host as HTTP clients read it: a name in lower case and ASCII, without a last dot, an address in its usual form.
    /// What one host may be asked at a time is counted by it (C34).
    ///
    /// ```
    /// use svc_core::WebhookUrl;
    /// assert_eq!(WebhookUrl::parse("https://AÇÃO.example:8443/x").unwrap().host(), "xn--ao-siap.example");
    /// assert_eq!(WebhookUrl::parse("https://example.com./").unwrap().host(), "example.com");
    /// assert_eq!(WebhookUrl::parse("http://0x7f.1/").unwrap().host(), "127.0.0.1");
    /// ```
    pub fn host(&self) -> Cow<'_, str> {
        if self.common_len > 0 {
            let start = if self.is_https() { "https://".len() } else { "http://".len() };
            return Cow::Borrowed(self.text.get(start..start + usize::from(self.common_len)).unwrap_or_default());
        }
        let url = Url::parse(&self.text).ok();
        url.as_ref().and_then(Url::host_str).unwrap_or_default().trim_end_matches('.').to_owned().into()
    }

    /// Whether a literal address in it may be reached (C31). A name is judged when it is resolved, before connecting.
    ///
    /// ```
    /// use svc_core::{IpRange, Policy, WebhookUrl};
    /// let policy = Policy::default();
    /// let local = WebhookUrl::parse("http://0x7f.1:9000/").unwrap(); // 127.0.0.1, as HTTP clients read it
    /// assert!(!local.host_allowed(&policy));
    /// assert!(local.host_allowed(&policy.open(IpRange::parse("127.0.0.0/8").unwrap())));
    /// ```
    pub fn host_allowed(&self, policy: &Policy) -> bool {
        match self.host {
            Kind::Literal(address) => policy.may_reach(address),
            Kind::Localhost | Kind::Name => true,
        }
    }

    /// What the policy makes of it.
    pub(crate) fn standing(&self, policy: &Policy) -> Standing {
        if !self.host_allowed(policy) {
            return Standing::Refused;
        }
        if self.is_https() && self.host != Kind::Localhost { Standing::Good } else { Standing::TestOnly }
    }
}

/// A DNS name of 253 bytes, a colon and a port.
const MAX_AUTHORITY_BYTES: usize = 259;

/// How a policy stands to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// No profile sends there.
    Refused,
    /// `homologacao` does, `producao` would not (C4).
    TestOnly,
    Good,
}

impl Serialize for WebhookUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = Url::parse(&self.text).map(|url| url.origin().ascii_serialization());
        write!(f, "WebhookUrl(\"{}/…\")", host.as_deref().unwrap_or_default())
    }
}

fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}

/// What stands between `://` and the path or query.
fn authority(text: &str) -> Option<&str> {
    text.split_once("://").and_then(|(_, rest)| rest.split(['/', '?']).next())
}

/// A name or an IPv4 address in which the parser would change nothing, and would only take its time; `None` for other hosts.
fn common_host(text: &str) -> Option<&str> {
    let authority = authority(text)?;
    let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
    if port.is_some_and(|port| !port.bytes().all(|byte| byte.is_ascii_digit()) || port.parse::<u16>().is_err()) {
        return None;
    }
    (is_common_name(host) || host.parse::<Ipv4Addr>().is_ok()).then_some(host)
}

/// Labels of lower-case letters, digits and hyphens, the last one beginning with a letter: no address, and nothing that
/// Unicode's rules for names (`xn--`) have a say in.
fn is_common_name(name: &str) -> bool {
    let is_common = |label: &str| {
        !label.is_empty()
            && !label.starts_with("xn--")
            && label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    name.split('.').all(is_common)
        && name.rsplit('.').next().is_some_and(|last| last.starts_with(|first: char| first.is_ascii_lowercase()))
}

/// Refuses what URL parsers forgive: blanks and controls, backslashes, a missing `//` or host, `@`, fragments.
fn is_plain(text: &str) -> bool {
    if text.bytes().any(|byte| byte <= b' ' || matches!(byte, 0x7F | b'\\' | b'#')) {
        return false;
    }
    let (Some((scheme, _)), Some(authority)) = (text.split_once("://"), authority(text)) else { return false };
    // No name is longer, and the parser's work on names of other alphabets is.
    if authority.len() > MAX_AUTHORITY_BYTES {
        return false;
    }
    (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
        && !authority.is_empty()
        && !authority.starts_with(':')
        && !authority.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_common_host_the_parser_says_the_same() {
        // All authorities of up to five of these, which make every kind of label, of address, of port and of end.
        const PARTS: [&str; 11] = ["a", "0", "0x", "-", ".", "xn--", "localhost", "com", ":", "65536", "9.0.255.1"];
        let mut authorities = vec![String::new()];
        let (mut names, mut addresses, mut ports) = (0, 0, 0);
        for _ in 0..5 {
            authorities = authorities.iter().flat_map(|text| PARTS.map(|part| format!("{text}{part}"))).collect();
            for authority in &authorities {
                let text = format!("https://{authority}/x?y=é");
                let Some(host) = common_host(&text) else { continue };
                let url = Url::parse(&text).unwrap();
                let kept = WebhookUrl::parse(&text).unwrap();
                assert_eq!((url.host_str().unwrap(), kept.host()), (host, Cow::Borrowed(host)));
                assert_eq!(usize::from(kept.common_len), host.len());
                assert_eq!(WebhookUrl::parse(text.replacen("https", "HTTP", 1)).unwrap().host(), host);
                ports += usize::from(authority.contains(':'));
                match url.host().unwrap() {
                    Host::Domain(_) => {
                        assert!(matches!(kept.host, Kind::Name | Kind::Localhost));
                        names += 1;
                    }
                    Host::Ipv4(v4) => {
                        assert!(kept.host == Kind::Literal(IpAddr::V4(v4)));
                        addresses += 1;
                    }
                    Host::Ipv6(_) => panic!("{host}"),
                }
            }
        }
        assert!(names > 1_000 && addresses > 5 && ports > 100, "{names}, {addresses}, {ports}");
    }
}
