//! Bodies that wait on a disk where the config wants that: within bounds, and without harm where there is no room.

use std::fs;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use drover_tests::daemon::Surroundings;
use drover_tests::http::request;
use drover_tests::http_backend::{pattern, response};
use drover_tests::{Config, Directory, Drover, HttpBackend, Port, Proxying, eventually, packages};

/// More than sockets hold.
const LARGE: usize = 24_000_000;

/// Passes on to these servers with these keys of `proxy`, and `buffer_dir`.
fn buffering(backends: &[&HttpBackend], keys: &str) -> Proxying {
    let (directory, port) = (Directory::new(), Port::new());
    let config = config(&directory, &port, backends, keys);
    Proxying { drover: Drover::start(&directory, &config), directory, port }
}

fn config(directory: &Directory, port: &Port, backends: &[&HttpBackend], keys: &str) -> Config {
    let place = directory.shared_folder("spool");
    let servers: Vec<_> = backends.iter().map(|backend| backend.address()).collect();
    Config::new(directory, 1)
        .http("client_body_size = \"100m\"")
        .upstream("app", &servers, "")
        .server(port)
        .passing("/", "app", &format!("buffer_dir = \"{}\"\n{keys}", place.display()))
}

/// The same on a disk of 1 MiB; none, with a message, where that is not permitted.
fn on_a_small_disk(backend: &HttpBackend, keys: &str) -> Option<Proxying> {
    let unshare = packages::tool_or_skip("unshare", "util-linux")?;
    let (directory, port) = (Directory::new(), Port::new());
    let config = config(&directory, &port, &[backend], keys);
    let mount = "mount -t tmpfs -o size=1m,mode=1777 spool \"$0\" && exec \"$@\"";
    let line = ["--mount", "sh", "-c", mount].map(Into::into);
    let mut wrapper = vec![unshare.into_os_string()];
    wrapper.extend(line);
    wrapper.push(directory.join("spool").into_os_string());
    match Drover::try_start(&directory, &config, &Surroundings { wrapper, ..Surroundings::default() }) {
        Ok(drover) => Some(Proxying { drover, directory, port }),
        Err(failure) if failure.stderr.contains("denied") || failure.stderr.contains("not permitted") => {
            packages::skip(&failure.stderr);
            None
        }
        Err(failure) => panic!("drover ended with {:?}: {}", failure.code, failure.stderr),
    }
}

/// Sizes of the worker's files without a name.
fn files_without_a_name(proxying: &Proxying) -> Vec<u64> {
    let descriptors =
        fs::read_dir(format!("/proc/{}/fd", proxying.drover.worker())).expect("the worker lives");
    let spool = proxying.directory.join("spool");
    let is_one = |path: &std::path::Path| {
        fs::read_link(path)
            .is_ok_and(|file| file.starts_with(&spool) && file.to_string_lossy().ends_with("(deleted)"))
    };
    let paths = descriptors.flatten().map(|entry| entry.path()).filter(|path| is_one(path));
    paths.filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).collect()
}

/// Sends a large response to each request in the framing that its path tells of, and tells when it is done.
fn generous() -> (HttpBackend, Receiver<()>) {
    let (told, tell) = channel();
    let told = Mutex::new(told);
    let backend = HttpBackend::new(move |connection| {
        while let Some(request) = connection.request() {
            let body = pattern(LARGE);
            match request.target.as_str() {
                "/small" => connection.send(response("200 OK", "", "small")),
                "/length" => connection.send(response("200 OK", "", body)),
                "/chunked" => {
                    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                    for chunk in body.chunks(500_003) {
                        connection.send(format!("{:x}\r\n", chunk.len()));
                        connection.send(chunk);
                        connection.send("\r\n");
                    }
                    connection.send("0\r\n\r\n");
                }
                _ => {
                    connection.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
                    connection.send(body);
                    let _ = told.lock().expect("one at a time").send(());
                    return;
                }
            }
            let _ = told.lock().expect("one at a time").send(());
        }
    });
    (backend, tell)
}

const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_server_is_done_before_a_slow_client_is() {
    let (backend, done) = generous();
    let proxying = buffering(&[&backend], "buffer_responses = \"64m\"");
    for target in ["/length", "/chunked", "/close"] {
        let mut slow = proxying.client();
        slow.ask(target);
        done.recv_timeout(SOON).expect("the server need not wait");
        eventually("the server has nothing to do", || (proxying.of_server("active") == 0).then_some(()));
        let [size] = files_without_a_name(&proxying)[..] else { panic!("one file") };
        assert!(size > 1_000_000 && size < LARGE as u64 + 100_000, "{target}: {size}");
        let answer = slow.response();
        assert!(answer.body == pattern(LARGE), "{target}: {} bytes", answer.body.len());
        assert_eq!(slow.get("/small").text(), "small", "the client's connection goes on");
        done.recv_timeout(SOON).expect("the server has answered");
        eventually("the file is gone", || files_without_a_name(&proxying).is_empty().then_some(()));
    }
    assert_eq!((proxying.counter("spooled"), proxying.counter("spool_failures")), (3, 0));
}

#[test]
fn no_more_waits_than_may() {
    let (backend, done) = generous();
    let proxying = buffering(&[&backend], "buffer_responses = \"1m\"");
    let mut slow = proxying.client();
    slow.ask("/length");
    eventually("the file is full", || {
        (files_without_a_name(&proxying).first().is_some_and(|size| *size == 1 << 20)).then_some(())
    });
    assert!(done.recv_timeout(Duration::from_millis(300)).is_err(), "the server waits");
    let answer = slow.response();
    assert!(answer.body == pattern(LARGE), "{} bytes", answer.body.len());
    done.recv_timeout(SOON).expect("the server has answered");
}

#[test]
fn a_response_that_is_cut_does_not_look_whole() {
    let backend = HttpBackend::new(|connection| {
        if connection.request().is_some() {
            connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", LARGE + 1));
            connection.send(pattern(LARGE));
        }
    });
    let proxying = buffering(&[&backend], "buffer_responses = \"64m\"");
    let mut client = proxying.client();
    client.ask("/");
    assert!(client.receive(true).is_err());
    proxying.drover.log_line(&["the server closed within its response", "the response 200 is cut"]);
}

#[test]
fn without_room_the_server_waits_and_nothing_is_lost() {
    let (backend, done) = generous();
    let Some(proxying) = on_a_small_disk(&backend, "buffer_responses = \"64m\"\nbuffer_requests = \"64m\"")
    else {
        return;
    };
    let mut slow = proxying.client();
    slow.ask("/length");
    proxying.drover.log_line(&["WARN", "a body goes on unbuffered", "No space left on device"]);
    assert!(done.recv_timeout(Duration::from_millis(300)).is_err(), "the server waits");
    let answer = slow.response();
    assert!(answer.body == pattern(LARGE), "{} bytes", answer.body.len());
    done.recv_timeout(SOON).expect("the server has answered");
    assert_eq!((proxying.counter("spooled"), proxying.counter("spool_failures")), (1, 1));
    // A request that has no room either goes on as it comes.
    let mut client = proxying.client();
    let body = pattern(LARGE);
    client.send(request("PUT", "/small", &format!("Content-Length: {LARGE}\r\n")));
    client.send(&body);
    assert_eq!(client.response().text(), "small");
    let requests = backend.requests();
    assert!(requests.last().expect("a request").body == body);
    assert_eq!((proxying.counter("spooled"), proxying.counter("spool_failures")), (2, 2));
}

#[test]
fn without_a_directory_bodies_go_on_as_they_come() {
    let (backend, done) = generous();
    let proxying =
        Proxying::to_with(&backend, "buffer_responses = \"64m\"\nbuffer_dir = \"/nowhere/at/all\"");
    let mut client = proxying.client();
    client.ask("/chunked");
    proxying.drover.log_line(&["WARN", "/nowhere/at/all: No such file or directory"]);
    let answer = client.response();
    assert!(answer.body == pattern(LARGE), "{} bytes", answer.body.len());
    done.recv_timeout(SOON).expect("the server has answered");
}

#[test]
fn a_body_is_received_before_a_server_is_asked() {
    let backend = HttpBackend::echoing();
    let proxying = buffering(&[&backend], "buffer_requests = \"16m\"");
    for (length, spooled) in [(1_000, 0), (40_000, 0), (3_000_000, 1)] {
        let body = pattern(length);
        let (before, behind) = body.split_at(length / 2);
        let mut client = proxying.client();
        client.send(request("POST", "/", &format!("Content-Length: {length}\r\n")));
        client.send(before);
        let asked = backend.requests().len();
        // Another request of this worker has its answer while the first one waits for the rest.
        assert_eq!(proxying.ask(request("GET", "/other", "")).status, 200);
        assert_eq!(backend.connections(), 1, "nobody else was connected to");
        client.send(behind);
        assert!(client.response().body.ends_with(&body));
        let requests = backend.requests();
        assert!(requests[asked + 1].body == body, "{length}");
        assert_eq!(proxying.counter("spooled"), spooled);
    }
    let mut chunked = request("POST", "/c", "Transfer-Encoding: chunked\r\n").into_bytes();
    let body = pattern(300_000);
    for chunk in body.chunks(5_003) {
        chunked.extend(
            format!("{:X};x=y\r\n", chunk.len()).bytes().chain(chunk.iter().copied()).chain(*b"\r\n"),
        );
    }
    chunked.extend_from_slice(b"0\r\nX-Sum: 5\r\n\r\n");
    let mut client = proxying.client();
    client.send(chunked);
    assert_eq!(client.response().status, 200);
    let last = backend.requests().pop().expect("a request");
    assert!(last.body == body);
    assert_eq!(last.trailers, [("X-Sum".to_owned(), "5".to_owned())]);
    assert_eq!(proxying.counter("spooled"), 2);
}

#[test]
fn a_body_on_the_disk_can_be_sent_again() {
    // Reads it all, and then breaks.
    let broken = HttpBackend::new(|connection| {
        let _ = connection.request();
        connection.reset();
    });
    let other = HttpBackend::echoing();
    let proxying = buffering(&[&broken, &other], "buffer_requests = \"16m\"");
    let body = pattern(2_000_000);
    let mut client = proxying.client();
    for _ in 0..2 {
        client.send(request("PUT", "/", &format!("Content-Length: {}\r\n", body.len())));
        client.send(&body);
        assert_eq!(client.response().status, 200);
        assert!(other.requests().pop().expect("a request").body == body);
    }
    assert!(broken.requests().first().is_some_and(|first| first.body == body));
    // Whatever is not to arrive twice does not.
    let retries = proxying.counter("upstream_retries");
    assert!(retries >= 1);
    let statuses: Vec<u16> = (0..2)
        .map(|_| {
            client.send(request("POST", "/", &format!("Content-Length: {}\r\n", body.len())));
            client.send(&body);
            client.response().status
        })
        .collect();
    assert!(statuses.contains(&502) || broken.requests().len() == 1, "{statuses:?}");
    assert_eq!(proxying.counter("upstream_retries"), retries);
}

#[test]
fn who_waits_to_be_told_to_go_on_is_told_without_a_server() {
    let backend = HttpBackend::echoing();
    let proxying = buffering(&[&backend], "buffer_requests = \"16m\"");
    let mut client = proxying.client();
    client.send(request("PUT", "/", "Expect: 100-continue\r\nContent-Length: 4\r\n"));
    assert_eq!(client.response().status, 100);
    assert_eq!(backend.connections(), 0);
    client.send("body");
    assert_eq!(client.response().text(), "PUT /\nbody");
    assert_eq!(backend.request().header("expect"), None);
}

#[test]
fn longer_bodies_go_on_as_they_come() {
    let backend = HttpBackend::echoing();
    let proxying = buffering(&[&backend], "buffer_requests = \"1m\"");
    let body = pattern(4_000_000);
    let mut client = proxying.client();
    client.send(request("PUT", "/", &format!("Content-Length: {}\r\n", body.len())));
    eventually("a server is asked", || (backend.connections() == 1).then_some(()));
    client.send(&body);
    assert!(client.response().body.ends_with(&body));
    // One whose length nobody knows is found to be too long on its way.
    client.send(request("PUT", "/", "Transfer-Encoding: chunked\r\n"));
    client.send(format!("{:x}\r\n", body.len()));
    client.send(&body);
    client.send("\r\n0\r\n\r\n");
    assert!(client.response().body.ends_with(&body));
    assert!(backend.requests().iter().all(|request| request.body == body));
    assert_eq!(proxying.counter("spooled"), 1);
}
