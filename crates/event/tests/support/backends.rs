//! What the cases of the backend suite share.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use drover_event::backend::{Backend, Registration, Report};
use drover_event::{BackendKind, Token};

pub fn each_backend(case: impl Fn(&mut dyn Backend)) {
    for &kind in BackendKind::ALL {
        let mut backend = kind.open(64).unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        assert_eq!(backend.name(), kind.name());
        eprintln!("backend {}", kind.name());
        case(&mut *backend);
    }
}

pub fn target(descriptor: &impl AsRawFd, index: u32) -> Registration {
    let token = Token::new(index, 1);
    Registration { descriptor: descriptor.as_raw_fd(), token, reading: false, writing: false }
}

pub fn wait(backend: &mut dyn Backend, timeout_ms: Option<u32>) -> Vec<Report> {
    let mut reports = Vec::new();
    backend.process_events(timeout_ms, None, &mut reports).expect("waiting");
    reports
}

pub fn pair() -> (UnixStream, UnixStream) {
    let (left, right) = UnixStream::pair().expect("pair");
    left.set_nonblocking(true).expect("non-blocking");
    (left, right)
}
