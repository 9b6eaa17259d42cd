//! One suite of cases that every backend passes.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use drover_event::backend::{Mode, Registration};
use drover_event::{Direction, Token};
use support::backends::{each_backend, pair, target, wait};

fn filled(socket: &mut UnixStream) {
    while socket.write(&[0; 4096]).is_ok() {}
}

#[test]
fn reading_is_reported_when_there_is_something_to_read() {
    each_backend(|backend| {
        let (left, mut right) = pair();
        backend.add(target(&left, 3), Direction::Read, Mode::Connection).expect("adding");
        assert_eq!(wait(backend, Some(0)), []);
        right.write_all(b"x").expect("writing");
        let reports = wait(backend, None);
        assert_eq!(reports.len(), 1);
        assert_eq!((reports[0].token, reports[0].readable), (Token::new(3, 1), true));
        assert!(!reports[0].writable && !reports[0].ended);
    });
}

#[test]
fn both_directions_live_in_one_registration_and_leave_apart() {
    each_backend(|backend| {
        let (left, mut right) = pair();
        let fresh = target(&left, 1);
        backend.add(fresh, Direction::Read, Mode::Connection).expect("adding reading");
        let reading = Registration { reading: true, ..fresh };
        backend.add(reading, Direction::Write, Mode::Connection).expect("adding writing");
        let both = Registration { reading: true, writing: true, ..fresh };
        right.write_all(b"x").expect("writing");
        let reports = wait(backend, None);
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(reports[0].readable && reports[0].writable);

        backend.del(both, Direction::Write).expect("removing writing");
        right.write_all(b"y").expect("writing");
        let reports = wait(backend, None);
        assert!(reports[0].readable && !reports[0].writable, "{reports:?}");

        backend.del(reading, Direction::Read).expect("removing reading");
        right.write_all(b"z").expect("writing");
        assert_eq!(wait(backend, Some(0)), []);
    });
}

#[test]
fn what_was_disabled_is_reported_once_enabled_again() {
    each_backend(|backend| {
        let (left, mut right) = pair();
        let fresh = target(&left, 1);
        backend.add(fresh, Direction::Read, Mode::Connection).expect("adding");
        backend.disable(Registration { reading: true, ..fresh }, Direction::Read).expect("disabling");
        right.write_all(b"x").expect("writing");
        assert_eq!(wait(backend, Some(0)), []);
        backend.enable(fresh, Direction::Read).expect("enabling");
        assert!(wait(backend, None)[0].readable);
    });
}

#[test]
fn writing_is_reported_when_there_is_room_again() {
    each_backend(|backend| {
        let (mut left, mut right) = pair();
        filled(&mut left);
        backend.add(target(&left, 1), Direction::Write, Mode::Connection).expect("adding");
        assert_eq!(wait(backend, Some(0)), []);
        let mut sink = vec![0; 1 << 20];
        assert!(right.read(&mut sink).expect("reading") > 0);
        right.set_nonblocking(true).expect("non-blocking");
        while right.read(&mut sink).is_ok() {}
        assert!(wait(backend, None)[0].writable);
    });
}

#[test]
fn the_end_of_the_stream_makes_readable() {
    each_backend(|backend| {
        let (left, right) = pair();
        backend.add(target(&left, 1), Direction::Read, Mode::Connection).expect("adding");
        right.shutdown(std::net::Shutdown::Write).expect("shutting down");
        let reports = wait(backend, None);
        assert!(reports[0].readable);
        assert_eq!(reports[0].ended, backend.kind().reports_end);
    });
}

#[test]
fn a_hang_up_wakes_whichever_direction_waits() {
    each_backend(|backend| {
        let (left, right) = pair();
        backend.add(target(&left, 1), Direction::Read, Mode::Connection).expect("adding");
        drop(right);
        assert!(wait(backend, None)[0].readable);

        let (mut left, right) = pair();
        filled(&mut left);
        backend.add(target(&left, 2), Direction::Write, Mode::Connection).expect("adding");
        drop(right);
        let reports = wait(backend, None);
        let report = reports.iter().find(|report| report.token == Token::new(2, 1));
        assert!(report.expect("reported").writable);
        backend.del_connection(Registration { writing: true, ..target(&left, 2) }, true).expect("closing");
    });
}

#[test]
fn an_error_without_readiness_wakes_both_directions() {
    each_backend(|backend| {
        // A connection that is refused ends in POLLERR and POLLHUP.
        let refused = TcpListener::bind("127.0.0.1:0").expect("binding");
        let address = refused.local_addr().expect("address");
        let socket = nix::sys::socket::socket(
            nix::sys::socket::AddressFamily::Inet,
            nix::sys::socket::SockType::Stream,
            nix::sys::socket::SockFlag::SOCK_NONBLOCK,
            None,
        )
        .expect("socket");
        drop(refused);
        let std::net::SocketAddr::V4(address) = address else { panic!("an IPv4 address") };
        let storage = nix::sys::socket::SockaddrIn::from(address);
        let _ = nix::sys::socket::connect(socket.as_raw_fd(), &storage);
        backend.add_connection(target(&socket, 1)).expect("adding");
        let reports = wait(backend, Some(1000));
        assert!(reports[0].readable && reports[0].writable, "{reports:?}");
        let both = Registration { reading: true, writing: true, ..target(&socket, 1) };
        backend.del_connection(both, true).expect("closing");
    });
}

#[test]
fn a_listener_is_reported_as_long_as_connections_are_queued() {
    each_backend(|backend| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binding");
        let mode = if backend.kind().exclusive { Mode::ExclusiveListener } else { Mode::Listener };
        backend.add(target(&listener, 1), Direction::Read, mode).expect("adding");
        let _client = TcpStream::connect(listener.local_addr().expect("address")).expect("connecting");
        for _ in 0..3 {
            assert!(wait(backend, Some(1000))[0].readable, "level-triggered");
        }
        let reading = Registration { reading: true, ..target(&listener, 1) };
        backend.del(reading, Direction::Read).expect("removing");
        assert_eq!(wait(backend, Some(0)), []);
        backend.add(target(&listener, 1), Direction::Read, mode).expect("adding again");
        assert!(wait(backend, Some(1000))[0].readable);
    });
}

#[test]
fn a_closed_descriptor_is_forgotten_and_its_number_can_be_used_again() {
    each_backend(|backend| {
        let (left, right) = pair();
        let number = left.as_raw_fd();
        backend.add(target(&left, 1), Direction::Read, Mode::Connection).expect("adding");
        backend.del_connection(Registration { reading: true, ..target(&left, 1) }, true).expect("closing");
        drop((left, right));
        let mut pairs = Vec::new();
        let (again, mut other) = loop {
            let (left, right) = pair();
            if left.as_raw_fd() == number || pairs.len() > 64 {
                break (left, right);
            }
            pairs.push((left, right));
        };
        let second_life = Registration { token: Token::new(1, 2), ..target(&again, 1) };
        backend.add(second_life, Direction::Read, Mode::Connection).expect("adding");
        other.write_all(b"x").expect("writing");
        let reports = wait(backend, Some(1000));
        assert_eq!(reports.iter().map(|report| report.token).collect::<Vec<_>>(), [Token::new(1, 2)]);
    });
}

#[test]
fn a_thread_ends_the_wait_through_the_notifier() {
    each_backend(|backend| {
        let notifier = drover_event::Notifier::descriptor().expect("eventfd");
        backend.notify(notifier.as_fd(), Token::NOTIFIER).expect("watching");
        let writer = notifier.try_clone().expect("clone");
        let thread = std::thread::spawn(move || {
            nix::unistd::write(&writer, &1u64.to_ne_bytes()).expect("notifying");
        });
        let reports = wait(backend, None);
        assert_eq!(reports[0].token, Token::NOTIFIER);
        thread.join().expect("thread");
    });
}

#[test]
fn time_outs_of_nothing_and_of_a_while_are_kept() {
    each_backend(|backend| {
        let begun = Instant::now();
        assert_eq!(wait(backend, Some(0)), []);
        assert!(begun.elapsed() < Duration::from_secs(10));
        let begun = Instant::now();
        assert_eq!(wait(backend, Some(30)), []);
        assert!(begun.elapsed() >= Duration::from_millis(29), "{:?}", begun.elapsed());
    });
}
