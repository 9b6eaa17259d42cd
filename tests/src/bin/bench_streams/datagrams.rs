//! Both ends of the datagrams.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::load::{MESSAGE, Outcome, Servers};
use crate::rows::Row;

/// The number of the server's socket among what is watched.
const SERVER: u64 = u64::MAX;
/// Silence after which what is under way counts as lost.
const LOST: Duration = Duration::from_millis(200);
/// Datagrams of one socket before others have their turn.
const TURN: usize = 64;

/// Each client has one datagram under way.
pub(crate) fn run(row: &Row, servers: &Servers, proxy: SocketAddrV4, time: Duration) -> io::Result<Outcome> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(&servers.socket, EpollEvent::new(EpollFlags::EPOLLIN, SERVER))?;
    let clients: Vec<UdpSocket> = (0..row.clients).map(|_| client(proxy)).collect::<io::Result<_>>()?;
    for (client, number) in clients.iter().zip(0..) {
        epoll.add(client, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
        client.send(&[b'x'; MESSAGE])?;
    }
    let (begun, mut passed) = (Instant::now(), 0);
    let mut last = begun;
    let mut events = [EpollEvent::empty(); 128];
    loop {
        let count = epoll.wait(&mut events, EpollTimeout::ZERO)?;
        for event in &events[..count] {
            match event.data() {
                SERVER => answer(&servers.socket)?,
                number => passed += ask(&clients[number as usize])?,
            }
        }
        let now = Instant::now();
        if now - begun > time {
            break;
        }
        if count > 0 {
            last = now;
        } else if now - last > LOST {
            clients.iter().try_for_each(|client| client.send(&[b'x'; MESSAGE]).map(|_| ()))?;
            last = now;
        }
    }
    Ok(Outcome { passed: f64::from(passed), seconds: begun.elapsed().as_secs_f64() })
}

fn client(proxy: SocketAddrV4) -> io::Result<UdpSocket> {
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    client.connect(proxy)?;
    client.set_nonblocking(true)?;
    Ok(client)
}

/// Sends back what is there.
fn answer(server: &UdpSocket) -> io::Result<()> {
    let mut buffer = [0; 2048];
    for _ in 0..TURN {
        match server.recv_from(&mut buffer) {
            Ok((count, from)) => drop(server.send_to(&buffer[..count], from)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes an answer and sends the next datagram.
fn ask(client: &UdpSocket) -> io::Result<u32> {
    match client.recv(&mut [0; 2048]) {
        Ok(_) => client.send(&[b'x'; MESSAGE]).map(|_| 1),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error),
    }
}
