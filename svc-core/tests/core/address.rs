//! C3, C4, C31: where a webhook may go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use svc_core::{Codigo, IpRange, Perfil, Policy, WebhookUrl, is_public};

use crate::vectors::vectors;
use crate::{TYPICAL, in_homologacao, in_producao, lines, read};

fn with_url(url: &str) -> String {
    TYPICAL.replace("\"https://parceiro.example.com/webhooks/svc\"", &serde_json::to_string(url).unwrap())
}

#[test]
fn each_range_is_refused_to_its_edges_and_no_further() {
    // First and last address of each refused range, and the public neighbour on either side where there is one.
    for (before, first, last, behind) in [
        (None, "0.0.0.0", "0.255.255.255", Some("1.0.0.0")),
        (Some("9.255.255.255"), "10.0.0.0", "10.255.255.255", Some("11.0.0.0")),
        (Some("100.63.255.255"), "100.64.0.0", "100.127.255.255", Some("100.128.0.0")),
        (Some("126.255.255.255"), "127.0.0.0", "127.255.255.255", Some("128.0.0.0")),
        (Some("168.63.129.15"), "168.63.129.16", "168.63.129.16", Some("168.63.129.17")),
        (Some("169.253.255.255"), "169.254.0.0", "169.254.255.255", Some("169.255.0.0")),
        (Some("172.15.255.255"), "172.16.0.0", "172.31.255.255", Some("172.32.0.0")),
        (Some("191.255.255.255"), "192.0.0.0", "192.0.0.255", Some("192.0.1.0")),
        (Some("192.0.1.255"), "192.0.2.0", "192.0.2.255", Some("192.0.3.0")),
        (Some("192.88.98.255"), "192.88.99.0", "192.88.99.255", Some("192.88.100.0")),
        (Some("192.167.255.255"), "192.168.0.0", "192.168.255.255", Some("192.169.0.0")),
        (Some("198.17.255.255"), "198.18.0.0", "198.19.255.255", Some("198.20.0.0")),
        (Some("198.51.99.255"), "198.51.100.0", "198.51.100.255", Some("198.51.101.0")),
        (Some("203.0.112.255"), "203.0.113.0", "203.0.113.255", Some("203.0.114.0")),
        (Some("223.255.255.255"), "224.0.0.0", "255.255.255.255", None),
        (None, "::", "ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None),
        (None, "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", None),
        (None, "100::", "100:0:0:1:ffff:ffff:ffff:ffff", Some("100:0:0:2::")),
        (Some("2000:ffff::"), "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", Some("2001:200::")),
        (Some("2001:db7:ffff::"), "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Some("2001:db9::")),
        (Some("2001:ffff::"), "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some("2003::")),
        (Some("3ffe:ffff::"), "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", Some("3fff:1000::")),
        (Some("5eff::"), "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some("5f01::")),
        (Some("fbff::"), "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some("fe00::")),
        (Some("fe7f::"), "fe80::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None),
        (None, "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None),
    ] {
        for refused in [first, last] {
            assert!(!is_public(refused.parse().unwrap()), "{refused}");
        }
        for public in [before, behind].into_iter().flatten() {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }
}

#[test]
fn an_ipv4_address_inside_an_ipv6_one_is_not_overlooked() {
    for refused in
        ["::ffff:10.0.0.1", "::ffff:8.8.8.8", "::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "64:ff9b:1::808:808"]
    {
        assert!(!is_public(refused.parse().unwrap()), "{refused}");
    }
    assert!(is_public("64:ff9b::808:808".parse().unwrap()));
}

#[test]
fn urls_that_parsers_forgive_are_refused() {
    for bad in [
        "",
        "example.com",
        "//example.com",
        "https:example.com",
        "https:/example.com",
        "https:///example.com",
        "https://",
        "https://:443/",
        "https://?x",
        "ftp://example.com",
        "javascript://example.com",
        "https://user@example.com",
        "https://user:pw@example.com",
        "https://@example.com",
        "https://example.com#x",
        "https://example.com/#",
        " https://example.com",
        "https://example.com ",
        "https://exa\tmple.com",
        "https://example.com/\n",
        "https:\\\\example.com",
        "https://example.com\\@10.0.0.1",
        "https://exa mple.com",
        "https://[::1",
        "https://256.1.1.1",
        "https://1.2.3.4.5.",
        "https://example.com:99999",
        "https://example.com/\u{7f}",
        "https://xn--\u{fffd}/",
        "http://a b",
    ] {
        assert_eq!(WebhookUrl::parse(bad), Err(Codigo::UrlInvalida), "{bad:?}");
    }
    for good in
        ["http://example.com", "HTTPS://EXAMPLE.com:8443/a?b=c@d", "https://ação.example/ç", "https://[2606:4700::1]/"]
    {
        assert_eq!(WebhookUrl::parse(good).unwrap().as_str(), good);
    }
    let long_host = |labels: usize| format!("https://{}com/", "a123456789.".repeat(labels));
    assert!(WebhookUrl::parse(long_host(20)).is_ok());
    assert_eq!(WebhookUrl::parse(long_host(24)), Err(Codigo::UrlInvalida));
    let long = |bytes: usize| format!("https://example.com/{}", "x".repeat(bytes - 20));
    assert!(WebhookUrl::parse(long(2_048)).is_ok());
    assert_eq!(WebhookUrl::parse(long(2_049)), Err(Codigo::TamanhoExcedido));
}

#[test]
fn literals_are_judged_as_http_clients_read_them() {
    for url in [
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://017700000001/",
        "https://127.1/",
        "https://①②⑦.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://169.254.169.254/latest/",
    ] {
        let refused = ["/webhook_url url_invalida"];
        assert_eq!(in_homologacao(&with_url(url)).unwrap_err(), refused, "{url}");
        assert_eq!(in_producao(&with_url(url)).unwrap_err(), refused, "{url}");
    }
}

#[test]
fn producao_asks_for_https_and_another_machine() {
    for url in ["http://example.com/", "https://localhost/", "https://a.LOCALHOST:1/", "https://localhost./"] {
        assert_eq!(in_producao(&with_url(url)).unwrap_err(), ["/webhook_url url_invalida"], "{url}");
        assert_eq!(lines(in_homologacao(&with_url(url)).unwrap().avisos()), ["/webhook_url url_invalida"], "{url}");
    }
}

#[test]
fn an_opened_range_is_reached_in_both_profiles() {
    let open = |perfil| Policy::new(perfil).open(IpRange::parse("10.1.0.0/16").unwrap());
    let body = with_url("https://10.1.2.3/");
    assert!(read(body.as_bytes(), &open(Perfil::Producao)).is_ok());
    assert_eq!(read(body.as_bytes(), &open(Perfil::Homologacao)).unwrap().avisos(), []);
    let open = open(Perfil::Producao);
    assert!(open.may_reach("64:ff9b::a01:203".parse().unwrap()), "NAT64 takes the verdict of the address inside");
    assert!(!open.may_reach("64:ff9b::a02:203".parse().unwrap()));
    let open = |perfil| Policy::new(perfil).open(IpRange::parse("10.1.0.0/16").unwrap());
    assert!(read(with_url("https://10.2.2.3/").as_bytes(), &open(Perfil::Homologacao)).is_err());
}

#[test]
fn ranges_are_written_with_their_length_and_without_host_bits() {
    for good in ["0.0.0.0/0", "127.0.0.0/8", "1.2.3.4/32", "::/0", "::1/128", "fd00::/8"] {
        assert_eq!(IpRange::parse(good).unwrap().to_string(), good);
    }
    for bad in
        ["", "1.2.3.4", "1.2.3.4/33", "1.2.3.4/8", "::1/129", "1.2.3.4/+32", "1.2.3.4/", "/8", "a/8", "::/00000000128x"]
    {
        assert!(IpRange::parse(bad).is_err(), "{bad}");
    }
    assert!(IpRange::parse("0.0.0.0/0").unwrap().contains("9.9.9.9".parse().unwrap()));
    assert!(!IpRange::parse("0.0.0.0/0").unwrap().contains("::1".parse().unwrap()));
}

#[test]
fn f14_no_address_of_the_ssrf_lists_passes_as_a_literal() {
    for name in ["ssrf/ssrf-urls.txt", "ssrf/cloud-metadata-urls.txt"] {
        let Some(file) = vectors(name) else { return };
        let text = std::fs::read_to_string(file).unwrap();
        let (mut refused, mut names) = (0, 0);
        for line in text.lines().filter(|line| !line.is_empty()) {
            match in_homologacao(&with_url(line)) {
                Err(found) => {
                    assert!(found.iter().all(|line| line.starts_with("/webhook_url ")), "{line}: {found:?}");
                    refused += 1;
                }
                // What passes is a name, judged when it is resolved, or a public address.
                Ok(nova) => {
                    let url = url::Url::parse(nova.webhook_url().as_str()).unwrap();
                    match url.host().unwrap() {
                        url::Host::Domain(_) => names += 1,
                        url::Host::Ipv4(v4) => assert!(is_public(IpAddr::V4(v4)), "{line}"),
                        url::Host::Ipv6(v6) => assert!(is_public(IpAddr::V6(v6)), "{line}"),
                    }
                }
            }
        }
        assert!(refused > 10, "{name}: {refused} refused, {names} names");
    }
}

proptest! {
    #[test]
    fn no_url_panics(text in "\\PC{0,60}", rest in "(https?://)?[a-z0-9.:@\\[\\]/?#%\\\\-]{0,40}") {
        for text in [&text, &rest] {
            if let Ok(url) = WebhookUrl::parse(text.as_str()) {
                prop_assert_eq!(url.as_str(), text);
                let _ = url.host_allowed(&Policy::default());
            }
        }
    }

    /// A second opinion, by the standard library's own notions where it has them.
    #[test]
    fn what_the_standard_library_calls_private_is_not_public(bits: u32, v6: u128) {
        let v4 = Ipv4Addr::from_bits(bits);
        if v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast() || v4.is_documentation() || v4.is_broadcast() {
            prop_assert!(!is_public(IpAddr::V4(v4)));
        }
        let v6 = Ipv6Addr::from_bits(v6);
        if v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_multicast() || v6.is_loopback() {
            prop_assert!(!is_public(IpAddr::V6(v6)));
        }
    }
}
