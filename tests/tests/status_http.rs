//! Locations that serve the daemon's status: as JSON, for Prometheus, and as a page.

use std::io::Write;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::Path;
use std::process::{Command, Stdio};

use drover_tests::binary::{self, source_root};
use drover_tests::config::toml_string;
use drover_tests::datagrams::{UdpBackend, ask, socket};
use drover_tests::http::{get, request};
use drover_tests::openmetrics::{self, Family, Sample};
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

/// A python with that client: the first in the path that has it, else the distribution's.
fn python() -> Option<&'static str> {
    let has_it = |python: &&str| {
        let imported = Command::new(python).args(["-c", "import prometheus_client"]).output();
        imported.is_ok_and(|output| output.status.success())
    };
    let distributions = "/usr/bin/python3";
    ["python3", distributions].into_iter().find(has_it).or_else(|| {
        let module = Path::new("/usr/lib/python3/dist-packages/prometheus_client");
        let brought = packages::file(module, "python3-prometheus-client");
        brought.map_err(|reason| packages::skip(&reason)).ok().map(|()| distributions)
    })
}

/// HTTP with servers and limits, streams of both kinds, and a path that labels have to escape.
fn everything(
    directory: &Directory,
    [port, tcp, udp, dead]: [&Port; 4],
    server: SocketAddrV4,
    echo: SocketAddr,
) -> Config {
    let proxy = |listen: &str, keys: &str| format!("listen = [{listen}]\n{keys}");
    let odd = toml_string(&format!("unix:{}", directory.join("a \"socket\" \\ of ours").display()));
    config(directory, port)
        .http("request_limits.per_client = { key = \"$remote_addr\", rate = \"1/m\" }")
        .http("connection_limits.per_client = { key = \"$remote_addr\" }")
        .stream("connection_limits.per_client = { key = \"$remote_addr\" }")
        .stream("accept_limits.per_client = { key = \"$remote_addr\", rate = \"100/s\" }")
        .upstream("app", &[server, dead.address()], "")
        .passing("/app", "app", "buffer_responses = \"1m\"")
        .location(
            "/limited",
            "return = { status = 200 }\nlimit_requests = [{ limit = \"per_client\" }]\n\
             limit_connections = [{ limit = \"per_client\", most = 1 }]",
        )
        .stream_upstream("servers", &format!("servers = [\"{server}\", \"{}\"]", dead.address()))
        .proxy(&proxy(
            &format!("\"{}\", {odd}", tcp.address()),
            "proxy_pass = \"servers\"\nlimit_connections = [{ limit = \"per_client\", most = 1 }]\n\
             limit_accepts = [{ limit = \"per_client\" }]",
        ))
        .proxy(&proxy(
            &format!("{{ address = \"{}\", udp = true }}", udp.address()),
            &format!("proxy_pass = \"{echo}\""),
        ))
}

#[test]
fn another_strict_reader_understands_the_metrics_of_everything() {
    let Some(python) = python() else { return };
    let (directory, port, tcp, udp, dead) =
        (Directory::new(), Port::new(), Port::new(), Port::new(), Port::new());
    let good = HttpBackend::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let echo = UdpBackend::echo();
    let config = everything(&directory, [&port, &tcp, &udp, &dead], good.address(), echo.address());
    let drover = Drover::start(&directory, &config);
    for target in ["/app", "/app", "/limited", "/limited"] {
        get(port.address(), target);
    }
    let mut passed = Client::to(tcp.address());
    passed.ask("/");
    assert_eq!(passed.response().status, 200);
    ask(&socket(), udp.address().into(), b"x");
    drover.reload_begun();
    let text = metrics(&port);
    let mut python = Command::new(python)
        .args(["-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    python.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let output = python.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let families = openmetrics::parse(&text).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), families.len().to_string());
    for (name, label) in [
        ("drover_server_requests", ("upstream", "app")),
        ("drover_server_requests", ("upstream", "servers")),
        ("drover_listener_accepts", ("address", &*tcp.address().to_string())),
        ("drover_listener_waiting_bytes", ("address", &*format!("udp:{}", udp.address()))),
    ] {
        let has_it = |sample: &Sample| sample.labels.get(label.0).is_some_and(|value| value == label.1);
        assert!(families[name].samples.iter().any(has_it), "no {name} with {label:?}");
    }
    let odd = |sample: &Sample| sample.labels["address"].ends_with("a \"socket\" \\ of ours");
    assert!(families["drover_listener_accepts"].samples.iter().any(odd), "{text}");
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
