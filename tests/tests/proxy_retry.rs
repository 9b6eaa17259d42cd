//! Another server where that can do no harm, and never a second time what a server may have acted on.

use std::time::Duration;

use drover_tests::http::request;
use drover_tests::http_backend::response;
use drover_tests::{Client, HttpBackend, Port, Proxying};

const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";

/// A server that takes a request whole and closes without a word.
fn taking() -> HttpBackend {
    HttpBackend::new(|connection| drop(connection.request()))
}

fn post() -> String {
    request("POST", "/", "Content-Length: 4\r\n") + "body"
}

#[test]
fn what_was_never_sent_goes_to_another_server_whatever_it_is() {
    let (closed, good) = (Port::new(), HttpBackend::answering(GOOD));
    let proxying = Proxying::start(&[closed.address(), good.address()], "", "");
    for _ in 0..4 {
        assert_eq!(proxying.ask(post()).text(), "good");
    }
    assert_eq!(good.requests().len(), 4);
    assert!(good.requests().iter().all(|got| got.body == b"body"));
    proxying.logged(&[
        "POST",
        "200",
        &format!("[{}, {}]", closed.address(), good.address()),
        "[-, 200] refused, -",
    ]);
    assert!(proxying.counter("upstream_refused") > 0 && proxying.counter("upstream_retries") > 0);
}

#[test]
fn what_a_server_may_have_acted_on_is_repeated_only_if_twice_is_as_good_as_once() {
    let (bad, good) = (taking(), HttpBackend::answering(GOOD));
    let servers = [bad.address(), good.address()];
    let proxying = Proxying::start(&servers, "balance = \"round_robin\"", "");
    // Each server in turn: at least one of two requests meets the bad one first.
    let answers = [proxying.ask(post()).status, proxying.ask(post()).status];
    assert!(answers.contains(&502), "{answers:?}");
    let posts = bad.requests().len() + good.requests().len();
    assert_eq!(posts, 2, "each request reached one server alone");

    let (bad, good) = (taking(), HttpBackend::answering(GOOD));
    let proxying = Proxying::start(&[bad.address(), good.address()], "", "");
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "HEAD"] {
        let mut client = proxying.client();
        client.send(request(method, "/", ""));
        assert_eq!(client.receive(method != "HEAD").expect("an answer").status, 200, "{method}");
    }
    assert_eq!(good.requests().len(), 5);

    // Whoever says so in the config gets it.
    let (bad, good) = (taking(), HttpBackend::answering(GOOD));
    let keys = "next_upstream = [\"error\", \"non_idempotent\"]";
    let proxying = Proxying::start(&[bad.address(), good.address()], "", keys);
    for _ in 0..2 {
        assert_eq!(proxying.ask(post()).status, 200);
    }
    assert_eq!(good.requests().len(), 2);
}

#[test]
fn a_body_that_is_gone_cannot_be_sent_again() {
    let bad = HttpBackend::new(|connection| {
        let mut request = connection.head().expect("a head");
        let _ = connection.body(&mut request);
    });
    let good = HttpBackend::answering(GOOD);
    let proxying = Proxying::with(
        |config| config.http("client_body_size = \"10m\""),
        &[bad.address(), good.address()],
        "",
        "",
    );
    let body = vec![b'x'; 1_000_000];
    let head = request("PUT", "/", &format!("Content-Length: {}\r\n", body.len()));
    let put = [head.as_bytes(), &body].concat();
    let answers = [proxying.ask(&put).status, proxying.ask(&put).status];
    assert!(answers.contains(&502) && answers.contains(&200), "{answers:?}");
}

#[test]
fn a_kept_connection_that_was_closed_meanwhile_costs_nobody_anything() {
    // Closes each connection when its second request comes: the race of keep-alive, every time.
    let backend = HttpBackend::new(|connection| {
        if connection.request().is_some() {
            connection.send(GOOD);
            let _ = connection.receive();
        }
    });
    let proxying = Proxying::to(&backend);
    let mut client = proxying.client();
    for _ in 0..5 {
        assert_eq!(client.get("/").text(), "good");
    }
    assert_eq!(backend.connections(), 5);
    assert_eq!(proxying.counter("upstream_retries"), 4);
    // What must not be repeated is not: the server may have read it.
    assert_eq!(proxying.ask(post()).status, 502);
}

#[test]
fn a_kept_connection_that_says_something_unasked_is_not_used_again() {
    let backend = HttpBackend::new(|connection| {
        if connection.request().is_some() {
            connection.send(GOOD);
            std::thread::sleep(Duration::from_millis(100));
            connection.send("HTTP/1.1 408 Request Timeout\r\nContent-Length: 5\r\n\r\nstale");
            let _ = connection.is_closed_within(Duration::from_secs(10));
        }
    });
    let proxying = Proxying::to(&backend);
    for number in 1..4 {
        assert_eq!(proxying.client().get("/").text(), "good");
        // The worker has seen what came meanwhile.
        drover_tests::wait::stays(Duration::from_millis(300), || true);
        assert_eq!(backend.connections(), number);
    }
}

#[test]
fn chosen_statuses_go_to_another_server_and_the_last_one_is_passed_on() {
    let busy = || HttpBackend::answering("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
    let (first, second, good) = (busy(), busy(), HttpBackend::answering(GOOD));
    let keys = "next_upstream = [\"http_503\"]";
    let proxying = Proxying::start(&[first.address(), second.address(), good.address()], "", keys);
    for _ in 0..3 {
        assert_eq!(proxying.client().get("/").text(), "good");
    }
    assert!(proxying.counter("upstream_answers") > 0);
    // Unless that would send what must not be sent twice.
    let (first, good) = (busy(), HttpBackend::answering(GOOD));
    let proxying = Proxying::start(&[first.address(), good.address()], "", keys);
    let answers: Vec<u16> = (0..2).map(|_| proxying.ask(post()).status).collect();
    assert!(answers.contains(&503), "{answers:?}");

    let (first, second) = (busy(), busy());
    let proxying = Proxying::start(&[first.address(), second.address()], "", keys);
    let answer = proxying.client().get("/");
    assert_eq!((answer.status, answer.text().as_str()), (503, "busy"));
    assert_eq!(first.requests().len() + second.requests().len(), 2);
}

#[test]
fn no_further_server_is_tried_when_time_is_up() {
    let slow = || {
        HttpBackend::new(|connection| {
            drop(connection.request());
            let _ = connection.is_closed_within(Duration::from_secs(10));
        })
    };
    let (first, second, good) = (slow(), slow(), HttpBackend::answering(GOOD));
    let keys = "read_timeout = \"400ms\"\nnext_upstream_timeout = \"200ms\"";
    let proxying = Proxying::start(&[first.address(), second.address(), good.address()], "", keys);
    let answers: Vec<u16> = (0..3).map(|_| proxying.client().get("/").status).collect();
    assert_eq!(answers.iter().filter(|status| **status == 504).count(), 2, "{answers:?}");
}

#[test]
fn nothing_is_repeated_once_the_client_has_something() {
    let cut = HttpBackend::new(|connection| {
        if connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        }
    });
    let whole = HttpBackend::new(|connection| {
        while connection.request().is_some() {
            connection.send(response("200 OK", "", "0123456789"));
        }
    });
    let proxying = Proxying::start(&[cut.address(), whole.address()], "", "");
    let outcomes: Vec<_> = (0..2)
        .map(|_| {
            let mut client: Client = proxying.client();
            client.ask("/");
            client.receive(true).map(|answer| answer.text())
        })
        .collect();
    assert!(outcomes.iter().any(|outcome| outcome.is_err()), "{outcomes:?}");
    assert_eq!(cut.requests().len() + whole.requests().len(), 2);
    assert_eq!(proxying.counter("upstream_retries"), 0);
    proxying.logged(&["GET / 200 4", "body_cut"]);
}
