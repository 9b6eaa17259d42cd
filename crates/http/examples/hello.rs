//! The smallest HTTP server on the engine: a `return` at `/` and, where a directory is given, its files
//! beneath `/files/`.
//!
//! `cargo run -p drover-http --example hello -- 127.0.0.1:8088 [DIRECTORY]`

use std::error::Error;
use std::net::{SocketAddr, TcpListener};

use drover_config::ListenAddress;
use drover_event::{ListenerOptions, Settings, Shared, Stats, Strategy, Worker};
use drover_http::Plan;
use drover_http::config::{Http, Listen, Location, PathMatch, Return, Server};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpNoDelay;

fn location(path: &str) -> Location {
    Location::at(PathMatch::Prefix(path.to_owned()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().as_deref().unwrap_or("127.0.0.1:8088").parse()?;
    let hello = Return { body: Some("hello\n".to_owned().into()), ..Return::with(200) };
    let mut locations = vec![Location { return_: Some(hello.into()), ..location("/") }];
    if let Some(root) = arguments.next() {
        locations.push(Location { root: Some(std::path::PathBuf::from(root).into()), ..location("/files/") });
    }
    let listen = Listen::new(ListenAddress::Tcp(address));
    let server = Server { locations, ..Server::on(vec![listen.into()]) };
    let config = Http { servers: vec![server], keepalive_requests: 1_000_000_000, ..Http::default() };

    let plan = Plan::new(&config, 1)?;
    let settings = Settings { buffer_size: plan.buffer_size(), ..Settings::default() };
    let shared = Shared::alone(Stats::private()?);
    let mut worker = Worker::new(settings, shared)?;
    let started = plan.start(worker.core())?;
    for (listener, service) in plan.listeners().iter().zip(&started.services) {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        // Connections inherit it. Without it the end of a file waits for the client's acknowledgement.
        setsockopt(&socket, TcpNoDelay, &true)?;
        let options = ListenerOptions {
            address: listener.socket.address.to_string(),
            strategy: Strategy::Shared,
            deferred: listener.socket.deferred,
            client_first: true,
        };
        worker.core().listen(socket.into(), options, service.clone())?;
    }
    loop {
        worker.turn()?;
    }
}
