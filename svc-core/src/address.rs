//! Where a webhook may not go (C31): private, local, reserved and tunnelling address ranges.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address range in CIDR notation.
///
/// ```
/// use svc_core::IpRange;
/// let range = IpRange::parse("10.0.0.0/8").unwrap();
/// assert!(range.contains("10.255.0.1".parse().unwrap()));
/// assert!(IpRange::parse("10.0.0.0").is_err()); // a range says its length
/// assert!(IpRange::parse("10.0.0.1/8").is_err()); // and has no host bits
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpRange {
    network: IpAddr,
    prefix: u8,
}

/// The text is no address range: `ADDRESS/LENGTH`, with no bit set behind the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address range such as 10.0.0.0/8 or fd00::/8")]
pub struct BadRange;

impl IpRange {
    /// Reads `ADDRESS/LENGTH`, for example `127.0.0.0/8` or `::1/128`.
    pub fn parse(text: &str) -> Result<Self, BadRange> {
        let (network, prefix) = text.split_once('/').ok_or(BadRange)?;
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return Err(BadRange);
        }
        let network: IpAddr = network.parse().map_err(|_| BadRange)?;
        let prefix: u8 = prefix.parse().map_err(|_| BadRange)?;
        let (bits, width) = bits(network);
        if prefix > width || bits & !mask(prefix, width) != 0 {
            return Err(BadRange);
        }
        Ok(Self { network, prefix })
    }

    /// Whether the address lies in the range. IPv4 and IPv6 never match each other.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (network, width) = bits(self.network);
        let (address, other) = bits(address);
        width == other && address & mask(self.prefix, width) == network
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl fmt::Debug for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether a webhook may be sent to this address when no range is opened (C31).
///
/// ```
/// use svc_core::is_public;
/// assert!(is_public("8.8.8.8".parse().unwrap()));
/// assert!(!is_public("169.254.169.254".parse().unwrap())); // cloud metadata
/// assert!(!is_public("64:ff9b::a00:1".parse().unwrap())); // 10.0.0.1 behind NAT64
/// ```
pub fn is_public(address: IpAddr) -> bool {
    match behind_nat64(address) {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => !REFUSED_V6.iter().any(|&(net, prefix)| within(v6.to_bits(), net.to_bits(), prefix, 128)),
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let bits = u128::from(v4.to_bits());
    !REFUSED_V4.iter().any(|&(net, prefix)| within(bits, u128::from(net.to_bits()), prefix, 32))
}

/// An address in 64:ff9b::/96 as the IPv4 address inside (RFC 6052), which it leads to; any other as it is.
pub(crate) fn behind_nat64(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match v6.octets() {
            [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            _ => address,
        },
        IpAddr::V4(_) => address,
    }
}

fn within(address: u128, network: u128, prefix: u8, width: u8) -> bool {
    address & mask(prefix, width) == network
}

fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

/// The upper `prefix` bits of a number `width` bits wide. A shift by the whole width is a mask of nothing.
fn mask(prefix: u8, width: u8) -> u128 {
    let all = u128::MAX >> (128 - u32::from(width));
    let host = u32::from(width.saturating_sub(prefix));
    all & u128::MAX.checked_shl(host).unwrap_or(0)
}

/// IANA's special-purpose registry, multicast, class E, and the metadata address of one large cloud.
const REFUSED_V4: [(Ipv4Addr, u8); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// `::/8` holds the unspecified, loopback, mapped and compatible addresses; the rest are special, local,
/// multicast, or tunnels that could end at a private IPv4 address.
const REFUSED_V6: [(Ipv6Addr, u8); 12] = [
    (Ipv6Addr::UNSPECIFIED, 8),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 63),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
];
