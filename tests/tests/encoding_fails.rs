//! A worker that has no memory for encoding a response: nobody takes the response for whole, and others go on.

use std::process::Command;

use drover_tests::http::request;
use drover_tests::http_backend::response;
use drover_tests::{HttpBackend, Proxying, process};

/// More than a worker needs for anything but an encoder, which takes 6.4 MiB at this level.
const BEYOND: u64 = 3 << 20;
const LEVEL: &str = "compression = { encodings = [\"zstd\"], zstd_level = 12 }";

/// Has the worker get no more memory than it has, and a little.
fn limit_memory(proxying: &Proxying) {
    let worker = proxying.drover.worker();
    let line = process::status_line(worker, "VmSize").expect("the worker runs");
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    let kilobytes: u64 = digits.parse().expect("kilobytes");
    let limit = format!("--as={}", kilobytes * 1024 + BEYOND);
    let status = Command::new("prlimit").args(["--pid", &worker.to_string(), &limit]).status();
    assert!(status.expect("prlimit of util-linux").success(), "{limit}");
}

fn check(framing: &'static str, proxy: &str) {
    let body = "a line that is worth encoding\n".repeat(20_000);
    let length = body.len();
    let backend = HttpBackend::new(move |connection| {
        while connection.request().is_some() {
            match framing {
                "length" => connection.send(response("200 OK", "Content-Type: text/plain\r\n", &body)),
                _ => {
                    connection
                        .send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n");
                    return connection.send(&body);
                }
            }
        }
    });
    let proxying = Proxying::with(|config| config.http(LEVEL), &[backend.address()], "", proxy);
    let plain = proxying.ask(request("GET", "/", ""));
    assert_eq!(plain.body.len(), length);
    limit_memory(&proxying);
    let mut client = proxying.client();
    client.send(request("GET", "/", "Accept-Encoding: zstd\r\nConnection: close\r\n"));
    let (bytes, _) = client.rest();
    let text = String::from_utf8_lossy(&bytes);
    // Where its head was not sent yet, an error is.
    let whole_error = text.starts_with("HTTP/1.1 503 ");
    let cut = text.starts_with("HTTP/1.1 200 ") && !text.ends_with("0\r\n\r\n");
    assert!(whole_error || cut, "{text}");
    proxying.logged(&["GET / ", "encoding"]);
    proxying.drover.log_line(&["encoding the response: "]);
    // It is nobody's fault but the worker's: the server is still asked, and others are answered.
    let plain = proxying.ask(request("GET", "/", ""));
    assert_eq!((plain.status, plain.body.len()), (200, length));
}

#[test]
fn without_memory_a_response_is_not_passed_on_as_whole() {
    check("length", "");
    check("close", "");
}

#[test]
fn without_memory_a_response_that_is_buffered_is_not_either() {
    check(
        "length",
        &format!("buffer_responses = \"64m\"\nbuffer_dir = \"{}\"", std::env::temp_dir().display()),
    );
}
