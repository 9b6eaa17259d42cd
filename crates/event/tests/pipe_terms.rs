//! The terms of a pipe: bytes that go first, rates, half-closed streams, and a side that hears nothing more.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use drover_event::{BackendKind, PipeEnd, PipeTerms, Piped, Side, Stream, Target, pipe};
use support::Closure;
use support::running::Running;

const LIMIT: Duration = Duration::from_secs(10);

/// A worker that passes a connection on, with both of its ends outside.
struct Passed {
    client: TcpStream,
    server: TcpStream,
    piped: Receiver<Piped>,
    running: Running,
}

impl Passed {
    fn new(backend: BackendKind, terms: impl Fn() -> PipeTerms + Clone + Send + 'static) -> Passed {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
        let target = listener.local_addr().expect("address");
        let (told, piped) = channel();
        let running = Running::start(backend, move || {
            Closure(move |client: Stream| {
                let (told, terms) = (told.clone(), terms());
                async move {
                    let target = Target::Internet(target);
                    let server = client.core().connect(&target, None, LIMIT).await.expect("connecting");
                    let piped = pipe(&client, &server, terms).await;
                    drop((client, server));
                    told.send(piped).expect("telling");
                }
            })
        });
        let client = TcpStream::connect(running.address).expect("connecting");
        let (server, _) = listener.accept().expect("accepting");
        for end in [&client, &server] {
            end.set_read_timeout(Some(LIMIT)).expect("time-out");
        }
        Passed { client, server, piped, running }
    }

    fn end(&self) -> Piped {
        self.piped.recv_timeout(LIMIT).expect("the pipe ends")
    }
}

fn each_backend(case: impl Fn(BackendKind)) {
    BackendKind::ALL.iter().for_each(|&backend| case(backend));
}

#[test]
fn what_was_received_before_goes_first() {
    each_backend(|backend| {
        let terms = || PipeTerms { first_to_right: b"before ".to_vec(), ..PipeTerms::new(LIMIT) };
        let mut passed = Passed::new(backend, terms);
        passed.client.write_all(b"after").expect("sending");
        passed.client.shutdown(Shutdown::Write).expect("half-close");
        let mut text = String::new();
        passed.server.read_to_string(&mut text).expect("receiving");
        assert_eq!(text, "before after");
        passed.server.shutdown(Shutdown::Write).expect("half-close");
        let piped = passed.end();
        assert_eq!((piped.to_right, piped.to_left), (12, 0));
        assert!(matches!(piped.end, PipeEnd::Finished), "{:?}", piped.end);
        assert_eq!(passed.running.stop().panics, 0);
    });
}

/// Half a second's worth and what may come at once take at least three eighths of a second.
#[test]
fn a_rate_holds_each_direction_by_itself() {
    each_backend(|backend| {
        let rate = NonZeroU64::new(400_000);
        let terms = move || PipeTerms { rate_to_left: rate, ..PipeTerms::new(LIMIT) };
        let mut passed = Passed::new(backend, terms);
        let bytes = vec![7; 200_000];
        let begun = Instant::now();
        passed.client.write_all(&bytes).expect("sending");
        let mut received = vec![0; bytes.len()];
        passed.server.read_exact(&mut received).expect("the other direction has no limit");
        let unlimited = begun.elapsed();
        let mut writing = passed.server.try_clone().expect("clone");
        let sent = bytes.clone();
        let begun = Instant::now();
        let writer = std::thread::spawn(move || writing.write_all(&sent).expect("sending"));
        passed.client.read_exact(&mut received).expect("receiving");
        let limited = begun.elapsed();
        writer.join().expect("writer");
        assert!(received == bytes);
        assert!(limited >= Duration::from_millis(370), "200,000 bytes took {limited:?}");
        assert!(unlimited < limited, "{unlimited:?} without a limit, {limited:?} with it");
        drop(passed.client);
        drop(passed.server);
        assert_eq!(passed.piped.recv_timeout(LIMIT).expect("an end").to_left, 200_000);
        assert_eq!(passed.running.stop().panics, 0);
    });
}

#[test]
fn half_a_connection_may_be_silent_for_less_long() {
    each_backend(|backend| {
        let half_closed = Some(Duration::from_millis(400));
        let passed = Passed::new(backend, move || PipeTerms { half_closed, ..PipeTerms::new(LIMIT) });
        passed.client.shutdown(Shutdown::Write).expect("half-close");
        let begun = Instant::now();
        assert!(matches!(passed.end().end, PipeEnd::TimedOut));
        assert!(begun.elapsed() < LIMIT / 2, "took {:?}", begun.elapsed());
    });
}

/// A server that answers and closes without having read everything resets the connection; the answer still
/// arrives.
#[test]
fn what_a_side_said_before_it_went_deaf_still_passes() {
    each_backend(|backend| {
        let mut passed = Passed::new(backend, || PipeTerms::new(LIMIT));
        // Within the first window: what the kernel has not sent at a reset it throws away.
        let answer = vec![b'a'; 40_000];
        passed.client.write_all(b"question").expect("sending");
        passed.server.read_exact(&mut [0; 4]).expect("half of the question");
        passed.server.write_all(&answer).expect("sending");
        drop(passed.server);
        // More of what nobody will read, until the reset is felt.
        let begun = Instant::now();
        let mut writing = passed.client.try_clone().expect("clone");
        let writer =
            std::thread::spawn(
                move || {
                    while begun.elapsed() < LIMIT && writing.write_all(b"more").is_ok() {}
                },
            );
        let mut received = Vec::new();
        let _ = passed.client.read_to_end(&mut received);
        assert_eq!(received.len(), answer.len());
        let piped = passed.piped.recv_timeout(LIMIT).expect("an end");
        assert!(matches!(piped.end, PipeEnd::Failed(Side::Right, _)), "{:?}", piped.end);
        drop(passed.client);
        writer.join().expect("writer");
        assert_eq!(passed.running.stop().panics, 0);
    });
}
