//! Upstreams as they are written, and what is found wrong with them.

use drover_config::{effective, parse};

use super::*;

drover_config::table! {
    /// A config with upstreams only.
    pub struct Root {
        /// By name.
        pub upstreams: std::collections::BTreeMap<String, Upstream> = std::collections::BTreeMap::new(),
    }
}

/// The findings about an upstream with these lines.
fn findings(lines: &str) -> Vec<String> {
    let (root, mut findings) = parse::<Root>("test.toml", &format!("[upstreams.app]\n{lines}\n"));
    if let Some(root) = root {
        root.upstreams.iter().for_each(|(name, upstream)| upstream.check(name, &mut findings));
    }
    findings.iter().map(|finding| finding.message().to_owned()).collect()
}

#[test]
fn what_is_written_is_what_is_read() {
    let text = r#"
[upstreams.app]
balance = "hash"
hash = "$remote_addr"
hash_balance_factor = 150
source = "127.0.0.1"
servers = [
    "127.0.0.1:9000",
    { address = "app.internal:9000", weight = 3, slow_start = "30s", max_connections = 100 },
    { address = "unix:/run/app.sock", backup = true },
    { address = "[::1]:9000", down = true, max_fails = 0, fail_timeout = "1m" },
]
health_check = { interval = "2s", path = "/health", status = [200, 204] }
"#;
    let (root, findings) = parse::<Root>("test.toml", text);
    assert!(findings.is_empty(), "{findings}");
    let root = root.expect("read");
    let app = &root.upstreams["app"];
    assert_eq!((*app.balance, app.keepalive, app.servers.len()), (Balance::Hash, 64, 4));
    assert_eq!((app.servers[1].weight, app.servers[1].max_fails, app.servers[2].backup), (3, 1, true));
    assert!(app.servers[1].has_name());
    assert_eq!(app.health_check.as_ref().map(|check| (check.rise, check.fall)), Some((2, 3)));
    let written = effective(&root);
    let (again, findings) = parse::<Root>("written.toml", &written);
    assert!(findings.is_empty(), "{findings}\n{written}");
    assert_eq!(again, Some(root));
}

#[test]
fn an_upstream_that_works_has_no_findings() {
    for lines in [
        r#"servers = ["127.0.0.1:9000"]"#,
        r#"servers = ["a:1", "b:2"]
           balance = "least_connections""#,
        r#"servers = ["a:1"]
           health_check = { send = "PING\r\n", expect = "+PONG" }"#,
        r#"servers = [{ address = "a:1", slow_start = "1s" }]"#,
    ] {
        assert_eq!(findings(lines), [""; 0], "{lines}");
    }
}

#[test]
fn what_goes_across_keys_is_found() {
    for (lines, wanted) in [
        ("servers = []", "upstream \"app\" has no servers"),
        (r#"servers = [{ address = "a:1", down = true }]"#, "all servers of upstream \"app\" are down"),
        (r#"servers = [{ address = "a:1", backup = true }]"#, "all servers of upstream \"app\" are backups"),
        (r#"servers = ["127.0.0.1:1", "127.0.0.1:1"]"#, "127.0.0.1:1 is listed twice"),
        (r#"servers = [{ address = "127.0.0.1:1", slow_start = "1s" }]"#, "`slow_start` has no effect here"),
        ("servers = [\"a:1\"]\nbalance = \"hash\"", "balance = \"hash\" needs a key"),
        ("servers = [\"a:1\"]\nhash = \"$uri\"", "`hash` has no effect here"),
        ("servers = [\"a:1\"]\nhash_balance_factor = 150", "`hash_balance_factor` has no effect here"),
        (
            "servers = [\"a:1\"]\nbalance = \"hash\"\nhash = \"x\"\nhash_balance_factor = 90",
            "`hash_balance_factor` is out of range",
        ),
        ("servers = [\"127.0.0.1:1\"]\nsource = \"::1\"", "127.0.0.1:1 cannot be reached from ::1"),
        ("servers = [\"a:1\"]\nhealth_check = { path = \"x\" }", "`path` is no path of a request"),
        (
            "servers = [\"a:1\"]\nhealth_check = { path = \"/\", send = \"x\" }",
            "`send` and `path` exclude each other",
        ),
        ("servers = [\"a:1\"]\nhealth_check = { status = [200] }", "`status` has no effect here"),
        ("servers = [\"a:1\"]\nhealth_check = { path = \"/\", status = [99] }", "`status` is out of range"),
        (
            "servers = [\"a:1\"]\nhealth_check = { path = \"/\", host = \"a b\" }",
            "`host` is no value of the field Host",
        ),
        ("servers = [\"a:1\"]\nhealth_check = { expect = \"\" }", "`expect` is empty"),
        (
            "servers = [\"a:1\"]\nhealth_check = { interval = \"1s\", timeout = \"2s\" }",
            "checks take longer than the time between them",
        ),
    ] {
        assert_eq!(findings(lines), [wanted], "{lines}");
    }
    let many = format!(
        "servers = [{}]",
        (1..=2049).map(|port| format!("\"a:{port}\"")).collect::<Vec<_>>().join(",")
    );
    assert_eq!(findings(&many), ["upstream \"app\" has too many servers"]);
}

#[test]
fn values_that_are_none_are_refused() {
    for (lines, wanted) in [
        (r#"servers = ["localhost"]"#, "`servers` is not an address"),
        (r#"servers = [9000]"#, "`servers` is not an address"),
        (r#"servers = [{ address = "a:1", weight = 0 }]"#, "`weight` is out of range"),
        ("servers = [\"a:1\"]\nsource = \"127.0.0.1:80\"", "`source` is not an IP address"),
        ("servers = [\"a:1\"]\nbalance = \"ip_hash\"", "`balance` cannot be \"ip_hash\""),
        ("servers = [\"a:1\"]\ntries = 17", "`tries` is out of range"),
        ("balance = \"round_robin\"", "`servers` is missing in [upstreams.app]"),
    ] {
        assert_eq!(findings(lines).first().map(String::as_str), Some(wanted), "{lines}");
    }
}
