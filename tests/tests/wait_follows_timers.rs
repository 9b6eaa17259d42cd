//! Experiment: the time-out of the backend's wait follows the timers, seen with strace. Header time-out
//! 7 s, keep-alive 3 s, one worker.

use drover_tests::strace::Call;
use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, Port, Strace, descriptors, eventually, sockets};
use nix::unistd::Pid;

const CALLS: &str = "epoll_wait,epoll_pwait,epoll_pwait2,epoll_ctl,accept,accept4,recvfrom,recvmsg,read,readv,\
    sendto,sendmsg,sendfile,writev,close,shutdown";

#[test]
fn minus_one_seven_seconds_three_seconds_minus_one() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1)
        .http("client_header_timeout = \"7s\"")
        .http("keepalive_timeout = \"3s\"")
        .http("access_log = \"off\"")
        .answering(&port);
    let drover = Drover::start(&directory, &config);
    let worker = drover.worker();
    let before = descriptors::registrations(worker);
    let Some(strace) = Strace::attach(&directory, worker, CALLS) else { return };

    // Of what it does first, strace may miss the beginning.
    drop(Client::to(port.address()));
    eventually("strace sees the worker", || {
        let calls = strace.calls();
        (calls.iter().any(accepts) && calls.last().is_some_and(|call| call.name == "close")).then_some(())
    });
    let mut client = Client::to(port.address());
    let connection = eventually("the connection is registered", || {
        descriptors::registrations(worker).into_iter().find(|r| !before.contains(r))
    });
    assert!(connection.is_edge_triggered(), "{connection:x?}");
    assert_listener_is_level_triggered(worker, &port);

    assert_eq!(client.get("/").status, 200);
    assert!(client.is_closed_within(SOON), "the keep-alive time-out closes it");
    // strace tells the time-out of a wait when the wait has ended.
    Client::to(port.address());
    let calls = eventually("the last accept", || {
        let calls = strace.calls();
        (calls.iter().filter(|call| accepts(call)).count() == 3).then_some(calls)
    });
    assert_story(&calls);
}

fn assert_listener_is_level_triggered(worker: Pid, port: &Port) {
    let listeners = sockets::watched(worker, port.number());
    assert_eq!(listeners.len(), 1, "{listeners:?}");
    assert!(!listeners[0].1.is_edge_triggered(), "{listeners:?}");
}

fn accepts(call: &Call) -> bool {
    call.name.starts_with("accept") && call.value().is_some_and(|descriptor| descriptor >= 0)
}

/// What happened from the wait that reported the second connection to the accept of the third.
fn assert_story(calls: &[Call]) {
    let mut accepted = calls.iter().enumerate().filter(|(_, call)| accepts(call)).map(|(at, _)| at).skip(1);
    let (first, second) = (accepted.next().expect("first"), accepted.next().expect("second"));
    let descriptor = calls[first].value().expect("a descriptor").to_string();
    let story: Vec<String> = calls[first - 1..=second]
        .iter()
        .filter(|call| matters(call))
        .map(|call| word(call, &descriptor))
        .collect();
    // A try to receive right after the accept may find nothing yet; that is the only EAGAIN there may be.
    let story: Vec<&str> = story.iter().map(String::as_str).collect();
    let tried: Vec<&str> = story
        .iter()
        .enumerate()
        .filter(|(at, w)| !(*at == 2 && **w == "receive EAGAIN"))
        .map(|(_, w)| *w)
        .collect();
    assert_eq!(
        tried,
        [
            "wait -1",
            "accept",
            "wait 7000",
            "receive",
            "send",
            "wait 3000 ended",
            "close",
            "wait -1",
            "accept"
        ],
        "{calls:#?}"
    );
}

fn matters(call: &Call) -> bool {
    call.name != "epoll_ctl" && call.name != "shutdown"
}

fn word(call: &Call, descriptor: &str) -> String {
    let on_connection = call.arguments.split(',').next() == Some(descriptor);
    match call.name.as_str() {
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => {
            let timeout = call.timeout().expect("a wait has a time-out");
            if call.value() == Some(0) { format!("wait {timeout} ended") } else { format!("wait {timeout}") }
        }
        "accept" | "accept4" => format!("accept{}", failure(call)),
        "recvfrom" | "recvmsg" | "read" | "readv" if on_connection => format!("receive{}", failure(call)),
        "sendto" | "sendmsg" | "writev" if on_connection => format!("send{}", failure(call)),
        "close" if on_connection => "close".to_owned(),
        _ => format!("{}({}) = {}", call.name, call.arguments, call.result),
    }
}

fn failure(call: &Call) -> String {
    match call.value() {
        Some(-1) => format!(" {}", call.result.split_whitespace().nth(1).unwrap_or_default()),
        _ => String::new(),
    }
}
