//! What comes from other threads: results of blocking jobs, and wakes.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::time::Duration;

use drover_event::{BackendKind, Stream};
use support::Closure;
use support::running::Running;

const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn a_blocking_job_does_not_block_the_others() {
    for &backend in BackendKind::ALL {
        let (release, gate) = channel::<()>();
        let gate = std::sync::Arc::new(std::sync::Mutex::new(gate));
        let running = Running::start(backend, move || {
            Closure(move |stream: Stream| {
                let gate = gate.clone();
                async move {
                    let mut request = [0; 1];
                    let _ = stream.receive(&mut request).await;
                    let answer = if request == *b"b" {
                        let job = move || gate.lock().expect("gate").recv_timeout(LIMIT).is_ok();
                        stream.core().run_blocking(job).await.expect("a thread")
                    } else {
                        true
                    };
                    let _ = stream.send_all(if answer { b"y" } else { b"n" }, false).await;
                }
            })
        });
        let mut blocked = TcpStream::connect(running.address).expect("connecting");
        blocked.write_all(b"b").expect("sending");
        let mut quick = TcpStream::connect(running.address).expect("connecting");
        quick.write_all(b"q").expect("sending");
        let mut answer = [0; 1];
        quick.read_exact(&mut answer).expect("answered while the job runs");
        release.send(()).expect("the job waits");
        blocked.read_exact(&mut answer).expect("answered");
        assert_eq!(&answer, b"y");
        assert_eq!(running.stop().panics, 0);
    }
}

#[test]
fn a_panic_in_a_job_ends_the_task_that_waits_for_it() {
    let running = Running::start(BackendKind::Epoll, || {
        Closure(|stream: Stream| async move {
            let _: () = stream.core().run_blocking(|| panic!("a bug in a job")).await.expect("a thread");
            let _ = stream.send_all(b"not reached", false).await;
        })
    });
    let mut client = TcpStream::connect(running.address).expect("connecting");
    assert_eq!(client.read(&mut [0; 16]).expect("closed"), 0);
    assert_eq!(running.stop().panics, 1);
}

#[test]
fn a_waker_may_be_woken_from_any_thread() {
    let (wakers, kept) = channel();
    let wakers: Sender<std::task::Waker> = wakers;
    let running = Running::start(BackendKind::Epoll, move || {
        Closure(move |stream: Stream| {
            let wakers = wakers.clone();
            async move {
                let mut asked = false;
                std::future::poll_fn(|context| {
                    if std::mem::replace(&mut asked, true) {
                        return Poll::Ready(());
                    }
                    wakers.send(context.waker().clone()).expect("keeping");
                    Poll::Pending
                })
                .await;
                let _ = stream.send_all(b"woken", false).await;
            }
        })
    });
    let mut client = TcpStream::connect(running.address).expect("connecting");
    client.set_read_timeout(Some(LIMIT)).expect("time-out");
    kept.recv_timeout(LIMIT).expect("a waker").wake();
    let mut answer = [0; 5];
    client.read_exact(&mut answer).expect("woken");
}
