//! Locations that serve the daemon's status: as JSON, for Prometheus, and as a page.

use std::io::Write;
use std::process::{Command, Stdio};

use drover_tests::binary::{self, source_root};
use drover_tests::http::{get, request};
use drover_tests::openmetrics::{self, Family};
use drover_tests::{Client, Config, Directory, Drover, HttpBackend, Port, eventually, packages, schema};
use serde_json::Value;

fn config(directory: &Directory, port: &Port) -> Config {
    Config::new(directory, 2)
        .answering(port)
        .location("/json", "status = \"json\"")
        .location("/metrics", "status = \"openmetrics\"")
        .location("/page", "status = \"page\"")
}

fn metrics(port: &Port) -> String {
    let response = get(port.address(), "/metrics");
    assert_eq!(response.status, 200);
    let kind = response.header("content-type");
    assert_eq!(kind, Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    response.text()
}

fn value(families: &std::collections::BTreeMap<String, Family>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let found = families.get(name).and_then(|family| family.value(labels));
    found.unwrap_or_else(|| panic!("no {name} with {labels:?}"))
}

#[test]
fn json_is_what_the_command_prints() {
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = Drover::start(&directory, &config(&directory, &port));
    let response = get(port.address(), "/json");
    assert_eq!(response.header("content-type"), Some("application/json"));
    let status: Value = serde_json::from_str(&response.text()).expect("JSON");
    let schema_of_status = binary::run(["status", "--schema"]).stdout;
    let schema_of_status = serde_json::from_slice(&schema_of_status).expect("JSON");
    let faults = schema::faults(&status, &schema_of_status);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(status["workers"].as_array().map(Vec::len), Some(2), "any worker tells of all");
}

#[test]
fn metrics_keep_to_the_standard_and_say_what_happened() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port));
    (0..5).for_each(|_| drop(get(port.address(), "/")));
    let families = eventually("five requests are counted", || {
        let families = openmetrics::parse(&metrics(&port)).unwrap_or_else(|fault| panic!("{fault}"));
        (value(&families, "drover_requests", &[]) >= 5.0).then_some(families)
    });
    let address = port.address().to_string();
    assert!(value(&families, "drover_listener_accepts", &[("address", &address)]) >= 5.0);
    assert_eq!(value(&families, "drover_listener_backlog_granted", &[("address", &address)]), 511.0);
    assert_eq!(value(&families, "drover_worker_slots", &[("worker", "1"), ("generation", "1")]), 512.0);
    let serves = [("worker", "0"), ("generation", "1"), ("drover_worker_state", "serving")];
    assert_eq!(value(&families, "drover_worker_state", &serves), 1.0);
    assert!(value(&families, "drover_connections_closed", &[("reason", "client_closed")]) >= 4.0);
    assert_eq!(value(&families, "drover_findings", &[("about", "lag")]), 0.0);

    drover.reload();
    let after = openmetrics::parse(&metrics(&port)).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(value(&after, "drover_last_reload_accepted", &[]), 1.0);
    for (name, family) in families.iter().filter(|(name, _)| !name.starts_with("drover_worker_")) {
        for before in
            family.samples.iter().filter(|_| matches!(family.kind.as_str(), "counter" | "histogram"))
        {
            let now =
                after[name].samples.iter().find(|now| now.name == before.name && now.labels == before.labels);
            assert!(now.is_some_and(|now| now.value >= before.value), "{before:?} fell to {now:?}");
        }
    }
}

#[test]
fn metrics_tell_of_servers_and_of_datagrams() {
    let (directory, port, udp, dead) = (Directory::new(), Port::new(), Port::new(), Port::new());
    let good = HttpBackend::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    // The same server twice: each has its own place.
    let config = config(&directory, &port)
        .upstream("app", &[good.address(), good.address(), dead.address()], "")
        .passing("/app", "app", "")
        .proxy(&format!(
            "listen = [{{ address = \"{}\", udp = true }}]\nproxy_pass = \"{}\"",
            udp.address(),
            dead.address()
        ));
    let _drover = Drover::start(&directory, &config);
    (0..6).for_each(|_| assert_eq!(get(port.address(), "/app").status, 200));
    let families = openmetrics::parse(&metrics(&port)).unwrap_or_else(|fault| panic!("{fault}"));
    let of = |name: &str, number: &str| value(&families, name, &[("upstream", "app"), ("number", number)]);
    assert_eq!(of("drover_server_requests", "0") + of("drover_server_requests", "1"), 6.0);
    assert!(of("drover_server_failures", "2") >= 1.0);
    let given_up = [("upstream", "app"), ("number", "2"), ("drover_server_state", "given_up")];
    assert_eq!(value(&families, "drover_server_state", &given_up), 1.0);
    let udp = format!("udp:{}", udp.address());
    assert_eq!(value(&families, "drover_listener_waiting_bytes", &[("address", &udp)]), 0.0);
    assert_eq!(families["drover_listener_backlog_granted"].value(&[("address", &udp)]), None);
}

/// Reads OpenMetrics as Prometheus' own client for Python does.
const PYTHON: &str = "import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read
print(len(list(read(sys.stdin.read()))))";

#[test]
fn another_strict_reader_understands_the_metrics() {
    let available = Command::new("python3").args(["-c", "import prometheus_client"]).output();
    if !available.is_ok_and(|output| output.status.success()) {
        packages::skip("python3 has no module prometheus_client");
        return;
    }
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = Drover::start(&directory, &config(&directory, &port));
    let text = metrics(&port);
    let mut python = Command::new("python3")
        .args(["-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    python.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let output = python.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let families = openmetrics::parse(&text).expect("it keeps to the standard").len();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), families.to_string());
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let (directory, port, server) = (Directory::new(), Port::new(), Port::new());
    let config =
        config(&directory, &port).upstream("app", &[server.address()], "").passing("/app", "app", "");
    let drover = Drover::start(&directory, &config);
    // Before the first reload there is no verdict to show.
    drover.reload();
    let families = openmetrics::parse(&metrics(&port)).unwrap_or_else(|fault| panic!("{fault}"));
    let samples: Vec<&str> =
        families.values().flat_map(|family| &family.samples).map(|sample| sample.name.as_str()).collect();
    let dashboard =
        std::fs::read_to_string(source_root().join("config/grafana-dashboard.json")).expect("a file");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let mut asked = Vec::new();
    expressions(&dashboard, &mut asked);
    assert!(asked.len() > 30, "only {} expressions", asked.len());
    for expression in asked {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        // `drover_worker_state` is a label as well.
        for metric in words.filter(|word| word.starts_with("drover_")) {
            assert!(samples.contains(&metric), "{metric} in {expression}");
        }
    }
}

/// All expressions and queries in a dashboard.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        Value::Object(object) => {
            for (key, value) in object {
                match value.as_str() {
                    Some(text) if key == "expr" || key == "query" => found.push(text.to_owned()),
                    _ => expressions(value, found),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = Drover::start(&directory, &config(&directory, &port));
    let response = get(port.address(), "/page");
    assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = response.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let page = response.text();
    for elsewhere in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    // For those without scripts, the table.
    assert!(page.contains("worker     pid   gen state"), "{page}");
    let now = get(port.address(), "/page?json");
    assert_eq!(now.header("content-type"), Some("application/json"));
    assert!(serde_json::from_str::<Value>(&now.text()).is_ok());

    let mut client = Client::to(port.address());
    client.send(request("HEAD", "/page", ""));
    assert_eq!(client.head_response().status, 200);
    client.send(request("POST", "/page", "Content-Length: 0\r\n"));
    let refused = client.response();
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn a_browser_shows_the_page_and_keeps_it_up_to_date() {
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let has = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let Some(browser) = browsers.into_iter().find(has) else {
        packages::skip("there is no chromium");
        return;
    };
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = Drover::start(&directory, &config(&directory, &port));
    for width in [400, 1400] {
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=5000"])
            // It asks nobody but us.
            .args(["--disable-quic", "--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", directory.join("browser").display()))
            .arg(format!("--window-size={width},1000"))
            .arg(format!("http://{}/page", port.address()))
            .output()
            .expect("it starts");
        let page = String::from_utf8_lossy(&output.stdout);
        assert!(page.contains("class=\"scripted\""), "scripts run: {page}");
        assert!(page.contains("● live"), "{page}");
        assert_eq!(page.matches("class=\"state serving\"").count(), 2, "a row for each worker: {page}");
        assert!(page.contains(&port.address().to_string()), "{page}");
    }
    let asked = directory.read("access.log").lines().filter(|line| line.contains("/page?json 200")).count();
    assert!(asked >= 2, "the page asked for news {asked} times");
}
