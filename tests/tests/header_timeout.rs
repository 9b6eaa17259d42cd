//! The header time-out counts from the accept over the whole head; slow bytes do not extend it.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use drover_tests::http::Failure;
use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, Port, eventually};

fn start(directory: &Directory, port: &Port) -> Drover {
    let config = Config::new(directory, 1)
        .http("client_header_timeout = \"1500ms\"")
        .answering(port)
        .location("/slow", "return = { status = 200, body = \"slow\\n\", delay = \"2500ms\" }");
    Drover::start(directory, &config)
}

/// The time-out, less what a coarse clock may take off; a busy machine may add some.
fn about_the_timeout(after: Duration) -> bool {
    (Duration::from_millis(1200)..SOON).contains(&after)
}

#[test]
fn a_silent_client_is_closed() {
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = start(&directory, &port);
    let mut client = Client::to(port.address());
    let start = Instant::now();
    assert!(client.is_closed_within(SOON));
    assert!(about_the_timeout(start.elapsed()), "{:?}", start.elapsed());
}

#[test]
fn a_client_that_dribbles_is_closed_as_well() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    let mut client = Client::to(port.address());
    let start = Instant::now();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n");
    // A header every 200 ms, for ever.
    let mut dribbling = client.stream().try_clone().expect("a second handle");
    let dribbler = thread::spawn(move || {
        while dribbling.write_all(b"X: y\r\n").is_ok() {
            thread::sleep(Duration::from_millis(200));
        }
    });
    match client.receive(true) {
        Ok(response) => assert_eq!(response.status, 408),
        Err(Failure::Closed | Failure::Io(_)) => {}
        Err(failure) => panic!("{failure}"),
    }
    assert!(about_the_timeout(start.elapsed()), "{:?}", start.elapsed());
    // Whoever dribbled through the time-out has no slot for longer.
    eventually("the connection is gone", || (drover.status().workers[0].connections == 0).then_some(()));
    dribbler.join().expect("the connection ends");
}

#[test]
fn a_whole_request_is_not_subject_to_it() {
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = start(&directory, &port);
    let mut client = Client::to(port.address());
    assert_eq!(client.get("/slow").text(), "slow\n");
    assert_eq!(client.get("/").text(), "ok\n");
}
