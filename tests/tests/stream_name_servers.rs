//! Real name servers behind a proxy: dnsmasq and unbound, over UDP and TCP, with many questions.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::path::PathBuf;

use drover_tests::datagrams::socket;
use drover_tests::name_servers::{OF_DNSMASQ, OF_UNBOUND, dnsmasq, unbound};
use drover_tests::stream_log::eventually_lines;
use drover_tests::wait::SOON;
use drover_tests::{Config, Directory, Drover, Port, dns, packages};

const CLIENTS: u16 = 64;
const QUESTIONS: u16 = 4000;

fn programs() -> Option<(PathBuf, PathBuf)> {
    let dnsmasq = packages::tool_or_skip("dnsmasq", "dnsmasq-base")?;
    Some((dnsmasq, packages::tool_or_skip("unbound", "unbound")?))
}

/// A proxy for both protocols with two workers.
fn proxy(directory: &Directory, port: &Port, servers: &str, keys: &str) -> Config {
    let address = port.address();
    Config::new(directory, 2)
        .stream_upstream("names", &format!("servers = [{servers}]"))
        .proxy(&format!(
            "listen = [{{ address = \"{address}\", udp = true }}]\nproxy_pass = \"names\"\n{keys}"
        ))
        .proxy(&format!("listen = [\"{address}\"]\nproxy_pass = \"names\""))
}

/// Each client has one question under way at a time. What was answered, in the order of the questions.
fn ask_many(clients: &[UdpSocket], port: &Port) -> Vec<Ipv4Addr> {
    let mut answers = Vec::new();
    for first in (0..QUESTIONS).step_by(clients.len()) {
        let questions: Vec<Vec<u8>> = (first..)
            .take(clients.len())
            .map(|number| dns::question(number, &format!("n{number}.example.test")))
            .collect();
        for (client, question) in clients.iter().zip(&questions) {
            client.send_to(question, port.address()).expect("sent");
        }
        for (client, question) in clients.iter().zip(&questions) {
            let mut message = [0; 512];
            let length = client.recv(&mut message).expect("none is lost");
            answers.push(dns::answer(question, &message[..length]).expect("the answer to this question"));
        }
    }
    answers
}

fn ask_by_tcp(port: &Port, number: u16) -> Ipv4Addr {
    let question = dns::question(number, "tcp.example.test");
    let mut client = TcpStream::connect(port.address()).expect("connects");
    client.set_read_timeout(Some(SOON)).expect("set");
    client.write_all(&(question.len() as u16).to_be_bytes()).expect("sent");
    client.write_all(&question).expect("sent");
    let mut length = [0; 2];
    client.read_exact(&mut length).expect("answered");
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    client.read_exact(&mut message).expect("answered");
    dns::answer(&question, &message).expect("the answer to this question")
}

#[test]
fn no_question_of_many_is_lost() {
    let Some((dnsmasq_program, _)) = programs() else { return };
    let (directory, port, inner) = (Directory::new(), Port::new(), Port::new());
    let _server = dnsmasq(&directory, &dnsmasq_program, &inner);
    let config = proxy(&directory, &port, &format!("\"{}\"", inner.address()), "responses = 1");
    let _drover = Drover::start(&directory, &config);
    let clients: Vec<UdpSocket> = (0..CLIENTS).map(|_| socket()).collect();
    let answers = ask_many(&clients, &port);
    assert!(answers.len() >= usize::from(QUESTIONS) && answers.iter().all(|answer| *answer == OF_DNSMASQ));
    assert_eq!(ask_by_tcp(&port, 9), OF_DNSMASQ);
    let lines = eventually_lines(&directory, answers.len() + 1);
    assert!(lines.iter().all(|line| line.reason == "finished"), "each ends with its answer");
}

#[test]
fn one_server_may_go_while_questions_are_asked() {
    let Some((dnsmasq_program, unbound_program)) = programs() else { return };
    let (directory, port, inner) = (Directory::new(), Port::new(), [Port::new(), Port::new()]);
    let first = dnsmasq(&directory, &dnsmasq_program, &inner[0]);
    let _second = unbound(&directory, &unbound_program, &inner[1]);
    let servers = format!("\"{}\", \"{}\"", inner[0].address(), inner[1].address());
    let _drover = Drover::start(&directory, &proxy(&directory, &port, &servers, "responses = 1"));
    let clients: Vec<UdpSocket> = (0..CLIENTS).map(|_| socket()).collect();
    let answers = ask_many(&clients, &port);
    let of = |server| answers.iter().filter(|answer| **answer == server).count();
    assert!(of(OF_DNSMASQ) > 1000 && of(OF_UNBOUND) > 1000, "both are asked");
    // The kernel tells that nobody listens there any more, and each question goes to the other.
    drop(first);
    assert!(ask_many(&clients, &port).iter().all(|answer| *answer == OF_UNBOUND));
    assert_eq!(ask_by_tcp(&port, 10), OF_UNBOUND);
}
