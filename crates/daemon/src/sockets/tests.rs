//! The kernel is the judge here: real sockets, real connections, counted where they queue.

use super::*;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};

/// A port below those of outgoing connections: one of these may stand, or wait after its close, on another address
/// of the port, and keep a wider address from it.
fn free_address() -> Address {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id() as u16 % 200 * 100;
    let mut ports = std::iter::repeat_with(|| 10_000 + first + NEXT.fetch_add(1, Ordering::Relaxed));
    let free = ports.find(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok());
    tcp(SocketAddr::from(([127, 0, 0, 1], free.expect("without end"))))
}

fn tcp(place: SocketAddr) -> Address {
    Address { place: ListenAddress::Tcp(place), udp: false, ipv6_only: true }
}

fn place(address: &Address) -> SocketAddr {
    match address.place {
        ListenAddress::Tcp(place) => place,
        ListenAddress::Unix(_) | ListenAddress::Systemd(_) => panic!("not an internet address"),
    }
}

fn wanted(address: &Address, sockets: usize) -> BTreeMap<Address, Wanted> {
    BTreeMap::from([(address.clone(), Wanted { sockets, backlog: 128, deferred: false, probes: None })])
}

fn start(address: &Address, sockets: usize) -> Sockets {
    let mut prepared = Sockets::prepare(&Sockets::default(), &wanted(address, sockets)).expect("prepared");
    assert!(!prepared.commit());
    prepared
}

fn reload(held: &Sockets, address: &Address, sockets: usize) -> Sockets {
    Sockets::prepare(held, &wanted(address, sockets)).expect("prepared")
}

fn connect(address: &Address, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(place(address)).expect("connect")).collect()
}

/// Accepts what is queued on each socket of `address`: counts, the surplus last.
fn queues(sockets: &Sockets, address: &Address) -> Vec<usize> {
    let group = &sockets.groups[address];
    let all = group.sockets.iter().chain(&group.surplus).chain(&group.taken_over);
    all.map(|socket| {
        let listener = TcpListener::from(socket.try_clone().expect("clone"));
        std::iter::from_fn(|| listener.accept().ok()).count()
    })
    .collect()
}

#[test]
fn a_shared_socket_becomes_the_first_of_a_group_with_its_queue() {
    let address = free_address();
    let one = start(&address, 1);
    let _early = connect(&address, 3);
    let mut many = reload(&one, &address, 4);
    let _meanwhile = connect(&address, 40);
    assert_eq!(queues(&many, &address), [43, 0, 0, 0], "until the commit nothing reaches the new sockets");
    assert!(!many.commit());
    drop(one);
    let _spread = connect(&address, 80);
    let counts = queues(&many, &address);
    assert_eq!(counts.iter().sum::<usize>(), 80);
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
}

#[test]
fn a_group_that_shrinks_is_steered_drained_and_closed() {
    let address = free_address();
    let four = start(&address, 4);
    let _early = connect(&address, 60);
    let mut one = reload(&four, &address, 1);
    assert!(one.commit(), "there is a surplus");
    one.steer_away();
    drop(four);
    let _queued_early = queues(&one, &address);
    let _steered = connect(&address, 50);
    assert_eq!(queues(&one, &address), [50, 0, 0, 0]);
    one.release();
    let _after = connect(&address, 10);
    assert_eq!(queues(&one, &address), [10]);
    let mut again = reload(&one, &address, 3);
    again.commit();
    drop(one);
    let _spread = connect(&address, 90);
    let counts = queues(&again, &address);
    assert_eq!((counts.len(), counts.iter().sum::<usize>()), (3, 90));
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
}

#[test]
fn an_abandoned_growth_leaves_the_old_sockets_as_they_were() {
    let address = free_address();
    let two = start(&address, 2);
    let five = reload(&two, &address, 5);
    let _meanwhile = connect(&address, 30);
    five.abandon();
    let _after = connect(&address, 30);
    let counts = queues(&two, &address);
    assert_eq!((counts.len(), counts.iter().sum::<usize>()), (2, 60), "{counts:?}");
}

#[test]
fn a_surplus_that_waits_to_be_released_is_the_next_generations() {
    let address = free_address();
    let four = start(&address, 4);
    let _early = connect(&address, 80);
    let mut one = reload(&four, &address, 1);
    assert!(one.commit());
    one.steer_away();
    drop(four);
    let _steered = connect(&address, 20);
    let mut three = reload(&one, &address, 3);
    assert!(three.commit(), "one is surplus still");
    three.steer_away();
    drop(one);
    let queued = queues(&three, &address);
    assert!(queued.iter().sum::<usize>() == 100 && queued[3] > 0, "nothing is lost: {queued:?}");
    let _spread = connect(&address, 90);
    let queued = queues(&three, &address);
    assert!(queued[..3].iter().all(|count| *count > 0) && queued[3] == 0, "{queued:?}");
    let mut all = reload(&three, &address, 4);
    assert!(!all.commit());
    let _everywhere = connect(&address, 120);
    assert!(queues(&all, &address).iter().all(|count| *count > 0), "steered no more");
}

#[test]
fn an_abandoned_growth_steers_away_from_the_surplus_as_before() {
    let address = free_address();
    let four = start(&address, 4);
    let mut two = reload(&four, &address, 2);
    two.commit();
    two.steer_away();
    for sockets in [6, 4, 3, 1] {
        let candidate = reload(&two, &address, sockets);
        let _meanwhile = connect(&address, 30);
        candidate.abandon();
        let _after = connect(&address, 30);
        let queued = queues(&two, &address);
        assert_eq!((queued[0] + queued[1], queued[2], queued[3]), (60, 0, 0), "{sockets} were wanted");
    }
}

#[test]
fn an_address_can_come_back_before_everybody_has_left_it() {
    let (stays, goes) = (free_address(), free_address());
    let mut both = wanted(&stays, 1);
    both.extend(wanted(&goes, 2));
    let mut first = Sockets::prepare(&Sockets::default(), &both).expect("prepared");
    first.commit();
    let mut without = reload(&first, &stays, 1);
    without.commit();
    first.leave(&without);
    let mut again = Sockets::prepare(&without, &both).expect("shared with what is left of it");
    again.commit();
    let _connections = connect(&goes, 20);
    assert_eq!(queues(&again, &goes).iter().sum::<usize>(), 20);
    assert_eq!(queues(&first, &goes), [0, 0]);
    // Once everybody has, others may have it, and are noticed.
    without.forget_left();
    let error = Sockets::prepare(&without, &both).expect_err("taken, as far as it knows");
    assert!(error.to_string().contains(&goes.to_string()), "{error}");
}

#[test]
fn surplus_goes_round_the_workers() {
    let address = free_address();
    let five = start(&address, 5);
    let mut two = reload(&five, &address, 2);
    two.commit();
    let surplus = |number| two.for_worker(number, 2)[0].surplus.len();
    assert_eq!((surplus(0), surplus(1)), (2, 1));
    assert!(!Rc::ptr_eq(&two.for_worker(0, 2)[0].socket, &two.for_worker(1, 2)[0].socket));
}

#[test]
fn a_wider_address_on_the_same_port_can_take_over() {
    let narrow = free_address();
    let held = start(&narrow, 1);
    let wide = tcp(SocketAddr::from(([0, 0, 0, 0], place(&narrow).port())));
    let mut prepared = Sockets::prepare(&held, &wanted(&wide, 1)).expect("both at once");
    let _early = connect(&narrow, 3);
    assert!(prepared.commit(), "what is queued on the narrow one is surplus");
    held.leave(&prepared);
    drop(held);
    let _late = connect(&narrow, 5);
    assert_eq!(prepared.for_worker(0, 2)[0].surplus.len(), 1);
    assert_eq!(queues(&prepared, &wide), [5, 3]);
    prepared.release();
    let _after = connect(&narrow, 4);
    assert_eq!(queues(&prepared, &wide), [4]);
}

#[test]
fn a_narrower_address_on_the_same_port_has_its_connections_at_once() {
    let narrow = free_address();
    let wide = tcp(SocketAddr::from(([0, 0, 0, 0], place(&narrow).port())));
    let held = start(&wide, 1);
    let _early = connect(&narrow, 3);
    let mut prepared = Sockets::prepare(&held, &wanted(&narrow, 1)).expect("both at once");
    assert!(!prepared.commit());
    let _late = connect(&narrow, 5);
    assert_eq!((queues(&held, &wide), queues(&prepared, &narrow)), (vec![3], vec![5]));
}

#[test]
fn an_address_takes_over_what_it_includes() {
    let at = |text: &str| tcp(text.parse().expect("an address"));
    let dual = |text: &str| Address { ipv6_only: false, ..at(text) };
    let (any, any6) = (at("0.0.0.0:80"), at("[::]:80"));
    assert!(any.takes_over(&at("127.0.0.1:80")) && any6.takes_over(&at("[::1]:80")));
    assert!(!any.takes_over(&at("127.0.0.1:81")) && !any.takes_over(&at("[::1]:80")));
    assert!(!any6.takes_over(&at("127.0.0.1:80")) && dual("[::]:80").takes_over(&at("127.0.0.1:80")));
    assert!(dual("[::]:80").takes_over(&any6), "one that was for IPv6 alone");
    assert!(!at("127.0.0.1:80").takes_over(&any), "the kernel prefers it at once");
    let unix = Address { place: ListenAddress::Unix("/x".into()), udp: false, ipv6_only: true };
    assert!(!unix.takes_over(&any) && !any.takes_over(&unix));
}

#[test]
fn an_address_that_goes_refuses_clients_while_its_queue_is_accepted() {
    let (stays, goes) = (free_address(), free_address());
    let mut both = wanted(&stays, 1);
    both.extend(wanted(&goes, 3));
    let mut held = Sockets::prepare(&Sockets::default(), &both).expect("prepared");
    held.commit();
    let _queued = connect(&goes, 9);
    let mut one = reload(&held, &stays, 1);
    one.commit();
    held.leave(&one);
    let refused = TcpStream::connect(place(&goes)).expect_err("nobody takes it");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(queues(&held, &goes).iter().sum::<usize>(), 9);
    let _served = connect(&stays, 2);
    assert_eq!(queues(&one, &stays), [2]);
}

#[test]
fn a_port_of_somebody_else_is_named_and_leaves_nothing_behind() {
    let free = free_address();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = tcp(taken.local_addr().expect("address"));
    let mut both = wanted(&free, 3);
    both.extend(wanted(&address, 3));
    let error = Sockets::prepare(&Sockets::default(), &both).expect_err("taken");
    let text = error.to_string();
    assert!(text.contains(&address.to_string()) && text.contains("another process"), "{text}");
    TcpListener::bind(place(&free)).expect("what was opened before the failure is closed again");
}

#[test]
fn options_change_in_place() {
    let address = free_address();
    for sockets in [1, 3] {
        let held = start(&address, sockets);
        let mut new = wanted(&address, sockets);
        new.values_mut().for_each(|wanted| (wanted.backlog, wanted.deferred) = (1024, true));
        let mut prepared = Sockets::prepare(&held, &new).expect("prepared");
        prepared.commit();
        for socket in &prepared.groups[&address].sockets {
            open::set_changeable(socket, new[&address], &address.place).expect("allowed by the kernel");
        }
    }
}

#[test]
fn a_unix_socket_stays_over_reloads_and_its_file_goes_with_the_last_owner() {
    let path = std::env::temp_dir().join(format!("drover-sockets-{}.sock", std::process::id()));
    let address = Address { place: ListenAddress::Unix(path.clone()), udp: false, ipv6_only: true };
    let held = start(&address, 1);
    let _early = std::os::unix::net::UnixStream::connect(&path).expect("connect");
    let mut kept = reload(&held, &address, 1);
    kept.commit();
    drop(held);
    let _late = std::os::unix::net::UnixStream::connect(&path).expect("connect");
    assert!(Sockets::prepare(&Sockets::default(), &wanted(&address, 1)).is_err(), "somebody listens there");
    let Some(socket) = kept.groups[&address].sockets.first() else { panic!("no socket") };
    let listener = std::os::unix::net::UnixListener::from(socket.try_clone().expect("clone"));
    assert_eq!(std::iter::from_fn(|| listener.accept().ok()).count(), 3, "with the question who listens");
    drop(kept);
    assert!(!path.exists());
}
