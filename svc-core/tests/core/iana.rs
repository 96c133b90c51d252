//! C31 beside a second table: IANA's registries of special-purpose addresses, and where we are stricter than they are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use svc_core::is_public;

/// IANA IPv4 Special-Purpose Address Registry: block, and whether it is globally reachable; blocks inside blocks follow
/// them. Where the registry says "N/A" (deprecated blocks), it is not.
const IPV4: [(&str, bool); 25] = [
    ("0.0.0.0/8", false),          // "this network", RFC 791
    ("10.0.0.0/8", false),         // private use, RFC 1918
    ("100.64.0.0/10", false),      // shared address space, RFC 6598
    ("127.0.0.0/8", false),        // loopback, RFC 1122
    ("169.254.0.0/16", false),     // link local, RFC 3927
    ("172.16.0.0/12", false),      // private use, RFC 1918
    ("192.0.0.0/24", false),       // IETF protocol assignments, RFC 6890
    ("192.0.0.0/29", false),       // IPv4 service continuity prefix, RFC 7335
    ("192.0.0.8/32", false),       // IPv4 dummy address, RFC 7600
    ("192.0.0.9/32", true),        // port control protocol anycast, RFC 7723
    ("192.0.0.10/32", true),       // traversal using relays around NAT anycast, RFC 8155
    ("192.0.0.170/31", false),     // NAT64/DNS64 discovery, RFC 8880
    ("192.0.2.0/24", false),       // TEST-NET-1, RFC 5737
    ("192.31.196.0/24", true),     // AS112-v4, RFC 7535
    ("192.52.193.0/24", true),     // AMT, RFC 7450
    ("192.88.99.0/24", false),     // deprecated 6to4 relay anycast, RFC 7526
    ("192.88.99.2/32", false),     // 6a44 relay anycast, RFC 6751
    ("192.168.0.0/16", false),     // private use, RFC 1918
    ("192.175.48.0/24", true),     // direct delegation AS112 service, RFC 7534
    ("198.18.0.0/15", false),      // benchmarking, RFC 2544
    ("198.51.100.0/24", false),    // TEST-NET-2, RFC 5737
    ("203.0.113.0/24", false),     // TEST-NET-3, RFC 5737
    ("240.0.0.0/4", false),        // reserved, RFC 1112
    ("255.255.255.255/32", false), // limited broadcast, RFC 919
    ("224.0.0.0/4", false),        // the IPv4 multicast registry, RFC 5771
];

/// IANA IPv6 Special-Purpose Address Registry, likewise.
const IPV6: [(&str, bool); 25] = [
    ("::1/128", false),          // loopback, RFC 4291
    ("::/128", false),           // unspecified, RFC 4291
    ("::ffff:0:0/96", false),    // IPv4-mapped, RFC 4291
    ("64:ff9b::/96", true),      // IPv4-IPv6 translation, RFC 6052; see `iana`
    ("64:ff9b:1::/48", false),   // the same, local use, RFC 8215
    ("100::/64", false),         // discard only, RFC 6666
    ("100:0:0:1::/64", false),   // dummy prefix, RFC 9780
    ("2001::/23", false),        // IETF protocol assignments, RFC 2928
    ("2001::/32", false),        // TEREDO, RFC 4380
    ("2001:1::1/128", true),     // port control protocol anycast, RFC 7723
    ("2001:1::2/128", true),     // traversal using relays around NAT anycast, RFC 8155
    ("2001:1::3/128", true),     // DNS-SD service registration anycast, RFC 9665
    ("2001:2::/48", false),      // benchmarking, RFC 5180
    ("2001:3::/32", true),       // AMT, RFC 7450
    ("2001:4:112::/48", true),   // AS112-v6, RFC 7535
    ("2001:10::/28", false),     // deprecated ORCHID, RFC 4843
    ("2001:20::/28", true),      // ORCHIDv2, RFC 7343
    ("2001:30::/28", true),      // drone remote identification, RFC 9374
    ("2001:db8::/32", false),    // documentation, RFC 3849
    ("2002::/16", false),        // 6to4, RFC 3056
    ("2620:4f:8000::/48", true), // direct delegation AS112 service, RFC 7534
    ("3fff::/20", false),        // documentation, RFC 9637
    ("5f00::/16", false),        // segment routing identifiers, RFC 9602
    ("fc00::/7", false),         // unique local, RFC 4193
    ("fe80::/10", false),        // link local, RFC 4291
];

/// Refused although no registry entry says so, each for a reason.
const STRICTER: [(&str, &str); 6] = [
    ("192.0.0.0/24", "its two reachable anycast services are no webhook receivers"),
    ("168.63.129.16/32", "a cloud's host agent answers there, from inside its machines only"),
    ("::/8", "reserved by IETF; IPv4-compatible addresses lie in it"),
    ("2001::/23", "its reachable parts are protocol anycast and identifiers"),
    ("fec0::/10", "deprecated site-local addresses, still routed in some networks"),
    ("ff00::/8", "multicast, which has a registry of its own"),
];

#[derive(Clone, Copy)]
struct Block {
    first: u128,
    last: u128,
    is_v4: bool,
}

impl Block {
    fn parse(text: &str) -> Self {
        let (address, length) = text.split_once('/').unwrap();
        let length: u32 = length.parse().unwrap();
        let (first, width, is_v4) = match address.parse().unwrap() {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32, true),
            IpAddr::V6(v6) => (v6.to_bits(), 128, false),
        };
        Self { first, last: first + ((1_u128 << (width - length)).wrapping_sub(1)), is_v4 }
    }

    fn contains(self, address: IpAddr) -> bool {
        let (bits, is_v4) = bits(address);
        is_v4 == self.is_v4 && (self.first..=self.last).contains(&bits)
    }

    fn at(self, bits: u128) -> IpAddr {
        if self.is_v4 { Ipv4Addr::from_bits(bits as u32).into() } else { Ipv6Addr::from_bits(bits).into() }
    }
}

fn bits(address: IpAddr) -> (u128, bool) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), true),
        IpAddr::V6(v6) => (v6.to_bits(), false),
    }
}

/// What the registries and our additions say; the smallest block that holds an address decides.
fn expected(address: IpAddr) -> bool {
    if let IpAddr::V6(v6) = address
        && Block::parse("64:ff9b::/96").contains(address)
    {
        // A translator passes it on to the IPv4 address inside.
        return expected(Ipv4Addr::from_bits(v6.to_bits() as u32).into());
    }
    if STRICTER.iter().any(|(block, _)| Block::parse(block).contains(address)) {
        return false;
    }
    let blocks = IPV4.iter().chain(&IPV6).map(|(block, reachable)| (Block::parse(block), *reachable));
    let smallest =
        blocks.filter(|(block, _)| block.contains(address)).min_by_key(|(block, _)| block.last - block.first);
    smallest.is_none_or(|(_, reachable)| reachable)
}

#[test]
fn c31_agrees_with_iana_at_every_edge() {
    let mut looked_at = 0;
    for text in IPV4.iter().chain(&IPV6).map(|(block, _)| block).chain(STRICTER.iter().map(|(block, _)| block)) {
        let block = Block::parse(text);
        let most = if block.is_v4 { u128::from(u32::MAX) } else { u128::MAX };
        let middle = block.first + (block.last - block.first) / 2;
        let edges = [Some(block.first), Some(middle), Some(block.last), block.first.checked_sub(1)];
        for bits in edges.into_iter().chain([block.last.checked_add(1).filter(|bits| *bits <= most)]).flatten() {
            assert_eq!(is_public(block.at(bits)), expected(block.at(bits)), "{} of {text}", block.at(bits));
            looked_at += 1;
        }
    }
    assert!(looked_at > 250, "{looked_at}");
}

proptest! {
    #[test]
    fn c31_agrees_with_iana_everywhere(v4: u32, v6: u128, block in 0_usize..50, inside: u128) {
        let (text, _) = IPV4.iter().chain(&IPV6).nth(block).unwrap();
        let block = Block::parse(text);
        let size = block.last - block.first;
        let inside = block.at(block.first + if size == u128::MAX { inside } else { inside % (size + 1) });
        for address in [Ipv4Addr::from_bits(v4).into(), Ipv6Addr::from_bits(v6).into(), inside] {
            prop_assert_eq!(is_public(address), expected(address), "{}", address);
        }
        // Most of what is in use lies in 2000::/3.
        let unicast = Ipv6Addr::from_bits((v6 >> 3) | 1 << 125).into();
        prop_assert_eq!(is_public(unicast), expected(unicast), "{}", unicast);
    }
}
