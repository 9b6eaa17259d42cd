//! The config as a whole: `config/full.toml`, the way through TOML and back, and the checks across tables.

use std::path::{Path, PathBuf};

use drover_config::{Findings, Key, Shape, Table, TableSchema};

use super::*;

/// A system on which nothing is short, so that tests do not depend on the machine.
fn system() -> System {
    System {
        uid: 1000,
        cpus: vec![0, 1, 2, 3],
        parallelism: 4,
        somaxconn: Some(4096),
        nofile: 65536,
        nofile_hard: 65536,
        user_runtime_dir: None,
    }
}

fn checked_on(text: &str, system: &System) -> (Config, Findings) {
    let (config, mut findings) = drover_config::parse::<Config>("drover.toml", text);
    let config = config.expect("no required key is missing at the top");
    config.check(system, &mut findings);
    (config, findings)
}

/// The messages of all findings about a config on that system.
fn findings(text: &str) -> Vec<String> {
    let (_, findings) = checked_on(text, &system());
    findings.iter().map(|finding| finding.message().to_owned()).collect()
}

/// A server that gives no cause for findings, after what a test puts before it.
fn with_server(before: &str) -> String {
    format!("{before}\n[[http.servers]]\nlisten = [\"127.0.0.1:8080\"]\nroot = \"/srv\"\n")
}

/// The defaults with one of everything that there can be many of, so that every key has its place.
fn full() -> Config {
    let text = r#"
        [http.log_formats.by_status]
        json = { status = "$status" }
        [http.maps.is_local]
        of = "$remote_addr"
        networks = { "127.0.0.0/8" = "yes" }
        [http.request_limits.per_client]
        key = "$remote_addr"
        rate = "10/s"
        [http.connection_limits.per_client]
        key = "$remote_addr"
        [[http.servers]]
        listen = [{ address = "127.0.0.1:8080" }]
        [[http.servers.rules]]
        rewrite = '^/old/(.*)$'
        to = "/$1"
        then = "permanent"
        [[http.servers.locations]]
        path = "/"
        return = { status = 200, body = "drover is running\n" }
        [http.upstreams.app]
        servers = [{ address = "127.0.0.1:9000" }]
        [[http.servers.locations.rules]]
        when = { text = "$request_method", equals = "DELETE" }
        return = { status = 403 }
        [stream.log_formats.in_json]
        json = { reason = "$close_reason" }
        [stream.accept_limits.per_client]
        key = "$remote_addr"
        rate = "10/s"
        [stream.connection_limits.per_client]
        key = "$remote_addr"
        [stream.upstreams.db]
        servers = [{ address = "127.0.0.1:5433" }]
        [[stream.servers]]
        listen = [{ address = "127.0.0.1:5432" }]
        proxy_pass = "db"
    "#;
    checked_on(text, &system()).0
}

fn full_text() -> String {
    let head = "# Every key of drover, with its default and one line about it. Keys that have no value by default are
# commented out. The same as a table: drover config --reference

# Files to merge into this one, relative to it; the one key outside a table
# include = [\"conf.d/*.toml\"]

";
    format!("{head}{}", drover_config::commented(&full()))
}

fn full_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/full.toml")
}

/// With `DROVER_BLESS=1` the file is written anew.
#[test]
fn full_toml_is_made_from_the_schema() {
    if std::env::var_os("DROVER_BLESS").is_some() {
        std::fs::write(full_path(), full_text()).expect("config/full.toml can be written");
    }
    let text = std::fs::read_to_string(full_path()).expect("config/full.toml can be read");
    assert_eq!(text, full_text(), "write it anew: DROVER_BLESS=1 cargo test -p drover-daemon full_toml");
}

#[test]
fn full_toml_has_every_default_and_no_findings() {
    let (config, findings) = checked_on(&full_text(), &system());
    assert!(findings.is_empty(), "{findings}");
    assert_eq!(config, full());
}

/// The keys that are commented out are right too: with each on its own taken in, what is read has no findings.
#[test]
fn the_examples_in_full_toml_are_right() {
    let text = full_text();
    let lines: Vec<&str> = text.lines().collect();
    for at in 0..lines.len() {
        let Some(example) = lines[at].strip_prefix("# ").filter(|line| is_key(line)) else { continue };
        if example.starts_with("include") {
            continue;
        }
        let mut taken = lines.clone();
        taken[at] = example;
        let (_, findings) = drover_config::parse::<Config>("full.toml", &taken.join("\n"));
        assert!(findings.is_empty(), "{findings}");
    }
}

fn is_key(line: &str) -> bool {
    line.split_once(" = ").is_some_and(|(key, _)| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
}

#[test]
fn every_key_is_documented_and_in_full_toml() {
    let text = full_text();
    let reference = drover_config::reference::<Config>();
    each_key(&Config::table_schema(), &mut |key| {
        assert!(key.doc.len() > 4, "{} has no documentation", key.name);
        assert!(reference.contains(&key.doc.replace('|', "\\|")), "{} is not in the reference", key.name);
        let places =
            [format!("\n{} = ", key.name), format!("\n# {} = ", key.name), format!("  {}: ", key.name)];
        let headers = [format!("{}]", key.name), format!(".{}.", key.name)];
        let there = places.iter().chain(&headers).any(|place| text.contains(place));
        assert!(there, "{}", key.name);
    });
}

fn each_key(table: &TableSchema, visit: &mut impl FnMut(&Key)) {
    for key in &table.keys {
        visit(key);
        if let Some(table) = key.shape.table() {
            each_key(table, visit);
        }
        if matches!(key.shape, Shape::Map(_)) {
            assert!(key.example.is_some(), "{} shows no example", key.name);
        }
    }
}

#[test]
fn the_effective_config_reads_back_as_itself() {
    let text = r#"
        process = { workers = 3, user = "nobody", cpu_affinity = [0, 1] }
        [events]
        worker_connections = 1024
        accept = "mutex"
        [http]
        access_log = { file = "/var/log/a \"b\".log", format = "odd" }
        [http.log_formats]
        odd = "a\tb\n\u0001\\ $status"
        object = { json = { "a b" = "$status" } }
        escaped = { text = "$uri", escape = "json" }
        [http.types]
        "tar gz" = "application/gzip"
        [[http.servers]]
        listen = ["127.0.0.1:80", { address = "[::1]:80", backlog = 9, deferred = true }, "unix:/run/x.sock"]
        server_names = ["example.org", "*.example.org"]
        [[http.servers.locations]]
        path = { exact = "/health" }
        return = { status = 301, location = "/a$request_uri", delay = "1500ms" }
        [[http.servers.locations]]
        path = "/"
        root = "/srv"
        access_log = "off"
        client_body_size = "2m"
        headers = [{ set = { X-A = "1" } }, { add = { X-B = "$own" }, remove = ["x-c"], statuses = [404] }]
        error_pages = [{ statuses = [404], to = "@named", status = "page" }]
        access = ["deny 10.0.0.13", "allow 10.0.0.0/8", "allow unix:", "deny all"]
        limit_requests = [{ limit = "by_host", burst = 3, at_once = 2 }, { limit = "by_host", at_once = "all" }]
        limit_connections = [{ limit = "by_host", most = 7, status = 503 }]
        rules = [{ when = "$arg_a", set = { own = "a" } }, { rewrite = "^/b$", to = "/c", then = "last" }]
        [[http.servers.locations.locations]]
        path = { expression = "\\.php$" }
        internal = true
        [[http.servers.locations]]
        path = { prefix = "/only/", before_expressions = true }
        [[http.servers.locations]]
        path = { name = "named" }
        return = { status = 404 }
        [http.request_limits.by_host]
        key = "$host"
        rate = "30/m"
        [http.connection_limits.by_host]
        key = "$host"
        [http.real_ip]
        from = ["10.0.0.0/8", "unix:"]
        [http.maps.looked_up]
        of = "$uri"
        values = { "/a b" = "1" }
        patterns = [{ matches = "^x(.*)$", value = "$1" }]
    "#;
    reads_back_as_itself(text);
}

#[test]
fn the_effective_config_of_streams_reads_back_as_itself() {
    let text = r#"
        [stream]
        access_log = "off"
        [stream.upstreams.db]
        servers = ["127.0.0.1:5433", { address = "unix:/run/db.sock", backup = true }]
        [[stream.servers]]
        listen = ["127.0.0.1:5432"]
        proxy_pass = "db"
        [[stream.servers]]
        listen = [{ address = "127.0.0.1:5432", udp = true }]
        proxy_pass = "127.0.0.1:53"
        responses = 1
        [[stream.servers]]
        listen = [{ address = "[::1]:443", tcp_keepalive = "75s" }]
        server_names = { "*.example.org" = "127.0.0.1:9", "a.example" = "db" }
        upload_rate = "100k"
    "#;
    reads_back_as_itself(text);
}

fn reads_back_as_itself(text: &str) {
    let (config, findings) = checked_on(text, &system());
    assert!(!findings.has_errors(), "{findings}");
    let effective = drover_config::effective(&config);
    let (again, findings) = checked_on(&effective, &system());
    assert!(!findings.has_errors(), "{findings}");
    assert_eq!(again, config);
    assert_eq!(drover_config::effective(&again), effective);
}

#[test]
fn defaults_of_the_system_are_filled_in() {
    let text = |system: &System| drover_config::effective(&full().filled_in(system));
    assert!(text(&system()).contains("pid_file = \"/tmp/drover-1000/drover.pid\""));
    let login = System { user_runtime_dir: Some("/run/user/1000".into()), ..system() };
    assert!(text(&login).contains("runtime_dir = \"/run/user/1000/drover\""));
    assert!(text(&System { uid: 0, ..login }).contains("runtime_dir = \"/run/drover\""));
}

#[test]
fn slots_must_do_for_listeners_channel_and_a_client() {
    let servers = "[[http.servers]]\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\nroot = \"/\"";
    let at = |slots: u32| checked_on(&format!("events.worker_connections = {slots}\n{servers}"), &system()).1;
    assert!(at(3).to_string().contains("must be at least 4"), "{}", at(3));
    assert!(at(4).is_empty(), "{}", at(4));
    let alone =
        checked_on(&format!("events.worker_connections = 3\nprocess.master = false\n{servers}"), &system()).1;
    assert!(alone.is_empty(), "{alone}");
}

#[test]
fn a_strategy_that_cannot_be_had_is_named_with_its_fallback() {
    let none: [&str; 0] = [];
    assert_eq!(findings(&with_server("events.accept = \"mutex\"")), none);
    assert_eq!(findings(&with_server("process.workers = 1")), none);
    assert_eq!(
        findings(&with_server("process.workers = 1\nevents.accept = \"mutex\"")),
        ["127.0.0.1:8080 uses `shared` instead of `mutex`"]
    );
    assert_eq!(
        findings(&with_server("process.workers = 1\nevents.accept = \"balanced\"")),
        ["127.0.0.1:8080 uses `shared` instead of `balanced`"]
    );
    assert_eq!(
        findings(&with_server("events.use = \"select\"")),
        ["127.0.0.1:8080 uses `shared` instead of `exclusive`"]
    );
    assert_eq!(findings(&with_server("events.use = \"poll\"\nevents.accept = \"balanced\"")), none);
    assert_eq!(
        findings(&with_server("process.master = false\nevents.accept = \"reuseport\"")),
        ["127.0.0.1:8080 uses `shared` instead of `reuseport`"]
    );
    assert_eq!(
        findings(
            "[[http.servers]]\nroot = \"/\"\nlisten = [{ address = \"unix:/run/x\", accept = \"reuseport\" }]"
        ),
        ["unix:/run/x uses `exclusive` instead of `reuseport`"]
    );
}

#[test]
fn what_the_system_will_not_grant_is_a_warning() {
    let listen = "[[http.servers]]\nroot = \"/\"\nlisten = [{ address = \"127.0.0.1:80\", backlog = 5000 }]";
    assert_eq!(findings(listen), ["`backlog` is more than the kernel grants: 5000"]);
    assert_eq!(
        findings(&with_server("events.worker_connections = 100000")),
        ["`worker_connections` is more than the descriptors allow"]
    );
    assert_eq!(
        findings(&with_server("process.rlimit_nofile = 100000")),
        ["`rlimit_nofile` is more than this user may have"]
    );
    assert_eq!(findings(&with_server("process.user = \"nobody\"")), ["`user` has no effect"]);
    let with_select = "process.rlimit_nofile = 4096\nevents.use = \"select\"\nevents.accept = \"shared\"";
    assert_eq!(findings(&with_server(with_select)), Vec::<String>::new());
    assert_eq!(
        findings(&with_server(&format!("{with_select}\nevents.worker_connections = 1010"))),
        ["`worker_connections` is more than `select` can watch"]
    );
}

#[test]
fn users_are_looked_up_for_root_only() {
    let root = System { uid: 0, ..system() };
    let (_, findings) = checked_on(&with_server("process.user = \"no-such-user\""), &root);
    assert_eq!(findings.errors(), 1, "{findings}");
    let (_, findings) = checked_on(&with_server("process.user = \"root\""), &root);
    assert!(findings.is_empty(), "{findings}");
}

#[test]
fn keys_without_effect_together_are_warnings() {
    assert_eq!(findings(&with_server("process.daemon = true")), ["log lines will be lost"]);
    assert_eq!(
        findings(&with_server("process.master = false\nprocess.workers = 4")),
        ["`workers` has no effect"]
    );
    assert_eq!(findings(&with_server("process.cpu_affinity = [0, 9]")), ["no worker can stay on CPU 9"]);
}

#[test]
fn backends_have_the_names_of_the_engine() {
    assert_eq!(Backend::Epoll.to_string(), BackendKind::from(Backend::Epoll).name());
}

#[test]
fn the_order_of_tables_does_not_matter() {
    let (forth, _) = checked_on("[events]\nepoll_events = 7\n[process]\nnice = 3", &system());
    let (back, _) = checked_on("[process]\nnice = 3\n[events]\nepoll_events = 7", &system());
    assert_eq!(forth, back);
}

#[test]
fn debug_connections_are_addresses_and_networks() {
    let none: [&str; 0] = [];
    let keys = "events.debug_connections = [\"192.0.2.7\", \"10.0.0.0/8\", \"2001:db8::/32\", \"unix:\"]";
    assert_eq!(findings(&with_server(keys)), none);
    assert_eq!(
        findings(&with_server("events.debug_connections = [\"10.0.0.0/40\"]")).len(),
        1,
        "an IPv4 network has at most 32 bits"
    );
}
