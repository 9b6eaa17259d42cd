//! `drover status` shows the servers behind proxies: whether they are used, and what they have to do.

use drover_tests::{Client, Config, Directory, Drover, HttpBackend, Port, binary, eventually};
use serde_json::Value;

fn status(drover: &Drover, arguments: &[&str]) -> String {
    let config = drover.config().to_string_lossy().into_owned();
    let output = binary::run([&["status", "-c", &config][..], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn json(drover: &Drover) -> Value {
    serde_json::from_str(&status(drover, &["--json"])).expect("JSON")
}

#[test]
fn states_and_counts_of_servers_are_seen_from_outside() {
    let (directory, port, dead) = (Directory::new(), Port::new(), Port::new());
    let good = HttpBackend::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let config = Config::new(&directory, 3)
        .upstream("app", &[good.address(), dead.address()], "")
        .server(&port)
        .passing("/", "app", "");
    let drover = Drover::start(&directory, &config);
    let mut clients: Vec<Client> = (0..12).map(|_| Client::to(port.address())).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200));

    let value = json(&drover);
    let upstream = &value["upstreams"][0];
    assert_eq!((&upstream["service"], &upstream["name"]), (&"http".into(), &"app".into()));
    let peer = |number: usize| &upstream["servers"][number]["addresses"][0];
    assert_eq!((&peer(0)["state"], &peer(1)["state"]), (&"up".into(), &"given_up".into()));
    assert_eq!((&peer(0)["requests"], &peer(0)["failures"]), (&12.into(), &0.into()));
    assert_eq!((&peer(1)["requests"], &peer(1)["failures"]), (&1.into(), &1.into()));
    assert_eq!(peer(0)["connects"].as_u64().map(|connects| connects as usize), Some(good.connections()));
    assert!(peer(0)["kept"].as_u64().is_some_and(|kept| kept > 0), "{value}");
    let schema: Value = serde_json::from_str(&status(&drover, &["--schema"])).expect("JSON");
    assert_eq!(drover_tests::schema::faults(&value, &schema), [""; 0]);

    let text = status(&drover, &[]);
    let row = text.lines().find(|line| line.contains(&dead.address().to_string()));
    assert!(row.is_some_and(|row| row.contains("given up")), "{text}");
    assert!(text.contains("! upstream \"app\" (http):"), "{text}");

    // The next generation counts anew, and knows who is given up.
    drover.reload();
    let value = json(&drover);
    let peer = |number: usize| &value["upstreams"][0]["servers"][number]["addresses"][0];
    assert_eq!((&peer(0)["requests"], &peer(1)["state"]), (&0.into(), &"given_up".into()));
    drop(clients);
    eventually("the old workers are gone", || (drover.workers().len() == 3).then_some(()));
}

#[test]
fn a_daemon_without_upstreams_shows_none() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 1).answering(&port));
    assert_eq!(json(&drover)["upstreams"], Value::Array(Vec::new()));
    assert!(!status(&drover, &[]).contains("failures"));
}
