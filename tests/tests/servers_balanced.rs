//! Who is chosen: each way to balance, backups, and servers that come back slowly, with requests over HTTP.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use drover_tests::http::request;
use drover_tests::http_backend::response;
use drover_tests::{Client, Config, Directory, Drover, HttpBackend, Port, eventually};

/// Answers with its name; on `/hold` not before the test ends.
fn named(name: &'static str, port: Port) -> HttpBackend {
    HttpBackend::on(port, move |connection| {
        while let Some(request) = connection.request() {
            if request.target == "/hold" {
                let _ = connection.is_closed_within(std::time::Duration::from_secs(30));
                return;
            }
            connection.send(response("200 OK", "", name));
        }
    })
}

struct Setup {
    port: Port,
    _drover: Drover,
    _directory: Directory,
}

/// Passes everything on to an upstream with these keys.
fn start(workers: u32, upstream: &str) -> Setup {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, workers).server(&port).passing("/", "group", "");
    let text = config.text() + &format!("\n[http.upstreams.group]\n{upstream}\n");
    Setup { _drover: Drover::start_text(&directory, &text), port, _directory: directory }
}

impl Setup {
    fn ask(&self, target: &str) -> String {
        let mut client = Client::to(self.port.address());
        client.send(request("GET", target, ""));
        client.response().text()
    }

    /// How many of these requests each server answered.
    fn shares(&self, targets: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for target in targets {
            *shares.entry(self.ask(&target)).or_default() += 1;
        }
        shares
    }
}

fn targets(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("/{number}"))
}

fn server(backend: &HttpBackend, keys: &str) -> String {
    format!("{{ address = \"{}\"{keys} }}", backend.address())
}

#[test]
fn one_after_another_by_weight() {
    let servers = ["a", "b", "c"].map(|name| named(name, Port::new()));
    let [a, b, c] = &servers;
    let list = format!(
        "servers = [{}, {}, {}]",
        server(a, ", weight = 5"),
        server(b, ", weight = 2"),
        server(c, "")
    );
    let setup = start(1, &list);
    let shares = setup.shares(targets(40));
    assert_eq!(shares.values().copied().collect::<Vec<_>>(), [25, 10, 5], "{shares:?}");
}

#[test]
fn the_fewest_under_way() {
    let (a, b) = (named("a", Port::new()), named("b", Port::new()));
    let list = format!("balance = \"least_connections\"\nservers = [{}, {}]", server(&a, ""), server(&b, ""));
    let setup = start(1, &list);
    // One of them is kept busy: the other one gets the rest.
    let mut held = Client::to(setup.port.address());
    held.ask("/hold");
    eventually("one is busy", || (a.requests().len() + b.requests().len() == 1).then_some(()));
    let idle = if a.requests().is_empty() { "a" } else { "b" };
    assert_eq!(setup.shares(targets(20)), BTreeMap::from([(idle.to_owned(), 20)]));
}

#[test]
fn the_same_for_the_same_key_and_no_more_than_its_share() {
    let servers = ["a", "b", "c"].map(|name| named(name, Port::new()));
    let [a, b, c] = &servers;
    let list = format!(
        "balance = \"hash\"\nhash = \"$uri\"\nservers = [{}, {}, {}]",
        server(a, ", weight = 2"),
        server(b, ""),
        server(c, "")
    );
    let setup = start(2, &list);
    let first: Vec<String> = targets(400).map(|target| setup.ask(&target)).collect();
    let again: Vec<String> = targets(400).map(|target| setup.ask(&(target + "?other=query"))).collect();
    assert_eq!(first, again, "whichever worker is asked");
    let share = |name: &str| first.iter().filter(|chosen| *chosen == name).count();
    assert!(share("a") > share("b") && share("a") > share("c"), "{first:?}");
    assert!(share("b") > 3 && share("c") > 3, "{first:?}");
}

#[test]
fn of_two_the_one_with_less_to_do() {
    let (a, b) = (named("a", Port::new()), named("b", Port::new()));
    let list = format!("balance = \"random_two\"\nservers = [{}, {}]", server(&a, ""), server(&b, ""));
    let setup = start(1, &list);
    let shares = setup.shares(targets(60));
    assert!(shares.len() == 2 && shares.values().all(|share| *share > 5), "{shares:?}");
    // Of two servers, both are drawn: the busy one is never chosen.
    let before = (a.requests().len(), b.requests().len());
    let mut held = Client::to(setup.port.address());
    held.ask("/hold");
    eventually("one is busy", || ((a.requests().len(), b.requests().len()) != before).then_some(()));
    let idle = if a.requests().len() == before.0 { "a" } else { "b" };
    assert_eq!(setup.shares(targets(20)), BTreeMap::from([(idle.to_owned(), 20)]));
}

#[test]
fn a_backup_serves_while_no_other_can() {
    let port = Port::new();
    let backup = named("backup", Port::new());
    let list = format!(
        "servers = [{{ address = \"{}\", fail_timeout = \"300ms\" }}, {}]",
        port.address(),
        server(&backup, ", backup = true")
    );
    let setup = start(1, &list);
    assert_eq!(setup.shares(targets(10)), BTreeMap::from([("backup".to_owned(), 10)]));
    let _main = named("main", port);
    eventually("the other one is tried again", || (setup.ask("/") == "main").then_some(()));
    assert_eq!(setup.shares(targets(10)), BTreeMap::from([("main".to_owned(), 10)]));
}

#[test]
fn who_comes_back_begins_slowly() {
    let (port, steady) = (Port::new(), named("steady", Port::new()));
    let list = format!(
        "servers = [{{ address = \"{}\", fail_timeout = \"300ms\", slow_start = \"60s\" }}, {}]",
        port.address(),
        server(&steady, "")
    );
    let setup = start(1, &list);
    assert_eq!(setup.shares(targets(10)), BTreeMap::from([("steady".to_owned(), 10)]));
    let _back = named("back", port);
    eventually("it is tried again", || (setup.ask("/") == "back").then_some(()));
    let shares = setup.shares(targets(100));
    assert!(shares.get("back").copied().unwrap_or_default() < 20, "{shares:?}");
}

#[test]
fn a_full_server_is_passed_over_and_with_all_full_there_is_no_service() {
    let (told, tell) = channel();
    let told = Mutex::new(told);
    let busy = HttpBackend::new(move |connection| {
        while connection.request().is_some() {
            told.lock().expect("one at a time").send(()).expect("the test listens");
            let _ = connection.is_closed_within(std::time::Duration::from_secs(30));
        }
    });
    let setup = start(2, &format!("servers = [{}]", server(&busy, ", max_connections = 2")));
    let held: Vec<Client> = (0..2)
        .map(|_| {
            let mut client = Client::to(setup.port.address());
            client.ask("/");
            tell.recv_timeout(std::time::Duration::from_secs(10)).expect("it is passed on");
            client
        })
        .collect();
    let mut third = Client::to(setup.port.address());
    assert_eq!(third.get("/").status, 503);
    drop(held);
    let asks_again = || {
        let mut client = Client::to(setup.port.address());
        client.ask("/");
        tell.recv_timeout(std::time::Duration::from_millis(500)).ok()
    };
    eventually("there is room again", asks_again);
}
