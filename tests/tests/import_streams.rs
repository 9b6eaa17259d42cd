//! `drover import` of a `stream` block: both nginx and drover pass the same bytes to the same servers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use drover_tests::binary::{self, source_root};
use drover_tests::daemon::Surroundings;
use drover_tests::datagrams::{UdpBackend, ask, socket};
use drover_tests::nginx::{self, Nginx};
use drover_tests::wait::SOON;
use drover_tests::{Backend, Config, Directory, Drover, Port, eventually, packages};

/// The addresses of one of the two.
struct Side {
    directory: Directory,
    port: Port,
    sni: Port,
    spare: Port,
    told: Port,
}

impl Side {
    fn new() -> Side {
        let port = Port::new;
        Side { directory: Directory::new(), port: port(), sni: port(), spare: port(), told: port() }
    }

    fn text(&self, template: &str, servers: [u16; 4]) -> String {
        let mut text = template.replace("{dir}", &self.directory.path().display().to_string());
        let [one, two, nobody, udp] = servers;
        for (place, number) in [
            ("{port}", self.port.number()),
            ("{sni}", self.sni.number()),
            ("{spare}", self.spare.number()),
            ("{told}", self.told.number()),
            ("{one}", one),
            ("{two}", two),
            ("{nobody}", nobody),
            ("{udp}", udp),
        ] {
            text = text.replace(place, &number.to_string());
        }
        text
    }

    /// What comes back for these bytes; of the PROXY protocol without the client's port.
    fn answers(&self) -> Vec<String> {
        let hello = |name: &str| exchange(&self.sni, &client_hello(name));
        let mut answers = vec![exchange(&self.port, b"question\n")];
        answers.extend(["one.example", "two.example", "www.two.example", "other.example"].map(hello));
        answers.push(exchange(&self.spare, b"spare\n"));
        answers.push(
            String::from_utf8_lossy(&ask(&socket(), self.port.address().into(), b"datagram").0).into_owned(),
        );
        answers.push(exchange(&self.told, b"behind\n"));
        answers.iter().map(|answer| without_ports(answer)).collect()
    }

    /// The second connection of a client that may have one.
    fn second_connection(&self) -> String {
        let mut first = connect(&self.spare);
        let mut answer = [0; 5];
        first.read_exact(&mut answer).expect("answered");
        let mut second = String::new();
        let _ = connect(&self.spare).read_to_string(&mut second);
        second
    }

    fn log(&self) -> Vec<String> {
        self.directory.read("access.log").lines().map(str::to_owned).collect()
    }
}

fn connect(port: &Port) -> TcpStream {
    let stream = TcpStream::connect(port.address()).expect("connects");
    stream.set_read_timeout(Some(SOON)).expect("a time-out");
    stream
}

fn exchange(port: &Port, bytes: &[u8]) -> String {
    let mut stream = connect(port);
    stream.write_all(&[bytes, END].concat()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    answer.escape_ascii().to_string()
}

/// `PROXY TCP4 127.0.0.1 127.0.0.1 1234 5678` without its ports.
fn without_ports(answer: &str) -> String {
    match answer.split_once("PROXY TCP4 127.0.0.1 127.0.0.1 ") {
        Some((_, rest)) => {
            rest.split_once("\\r\\n").map_or("", |(_, behind)| behind).to_owned() + " was told"
        }
        None => answer.to_owned(),
    }
}

/// The first message of a TLS client that asks for a name, with nothing in it but that (RFC 8446, 4.1.2; RFC 6066, 3).
fn client_hello(name: &str) -> Vec<u8> {
    let long = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let entry = [&[0][..], &long(name.as_bytes())].concat();
    let extension = [&[0, 0][..], &long(&long(&entry))].concat();
    let versions_and_random = [&[3, 3][..], &[7; 32], &[0]].concat();
    let hello = [&versions_and_random[..], &long(&[0x13, 0x01]), &[1, 0], &long(&extension)].concat();
    let handshake = [&[1, 0][..], &long(&hello)].concat();
    [&[22, 3, 1][..], &long(&handshake)].concat()
}

/// What ends all that a client says.
const END: &[u8] = b"!\n";

/// A server that names itself, sends back what it is told, and closes.
fn server(name: &'static str) -> Backend {
    Backend::new(move |mut stream| {
        let _ = stream.write_all(name.as_bytes());
        let (mut told, mut buffer) = (Vec::new(), [0; 1024]);
        while !told.ends_with(END) {
            match stream.read(&mut buffer) {
                Ok(count @ 1..) => told.extend_from_slice(&buffer[..count]),
                _ => return,
            }
        }
        let _ = stream.write_all(&told);
    })
}

#[test]
fn streams() {
    let Some(nginx) = packages::tool_or_skip("nginx", "nginx") else { return };
    let Some(module) = nginx::stream_module() else { return };
    let template = fs::read_to_string(source_root().join("tests/nginx/streams.conf")).expect("the config");
    let (one, two, nobody, udp) = (server("one: "), server("two: "), Port::new(), UdpBackend::echo());
    let servers = [one.address().port(), two.address().port(), nobody.number(), udp.address().port()];
    let (theirs, ours) = (Side::new(), Side::new());
    let text = module + &theirs.text(&template, servers);
    let _nginx = Nginx::start(&nginx, &theirs.directory, &text, &theirs.port);
    let file = ours.directory.write("nginx.conf", ours.text(&template, servers));
    let output =
        Command::new(binary::drover()).args(["import", "--strict"]).arg(file).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let place = format!("[process]\nruntime_dir = \"{}\"\n", ours.directory.join("run").display());
    let text = String::from_utf8(output.stdout).expect("text").replacen("[process]\n", &place, 1);
    let config = Config::written(text);
    let drover = Drover::try_start(&ours.directory, &config, &Surroundings::default());
    let _drover = drover.unwrap_or_else(|failure| panic!("{}\n{}", failure.stderr, config.text()));
    // That nginx listens was found out by a connection.
    eventually("nginx logs the first connection", || Some(theirs.log()).filter(|log| !log.is_empty()));
    let before = theirs.log().len();

    assert_eq!(theirs.answers(), ours.answers(), "nginx left, drover right");
    assert_eq!(theirs.second_connection(), ours.second_connection(), "nginx left, drover right");
    let sorted = |side: &Side, skip: usize, count: usize| {
        let mut log = eventually("all lines are in the log", || {
            Some(side.log()).filter(|log| log.len() >= count + skip)
        });
        log.drain(..skip);
        log.sort();
        log
    };
    const COUNT: usize = 10;
    assert_eq!(sorted(&theirs, before, COUNT), sorted(&ours, 0, COUNT), "nginx left, drover right");
}
