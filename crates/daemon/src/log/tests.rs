use super::*;

use std::os::unix::net::UnixDatagram;

fn settings() -> Settings {
    Settings {
        target: Target::File(LogFile::Off),
        format: Format::Text,
        level: Level::INFO,
        levels: Vec::new(),
        rate: 0,
        debug_connections: false,
    }
}

/// Each write is a datagram.
fn receive(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let length = socket.recv(&mut bytes).expect("a line");
    String::from_utf8(bytes[..length].to_vec()).expect("text")
}

#[test]
fn a_line_is_one_write_and_lost_ones_are_told() {
    let (reader, writer) = UnixDatagram::pair().expect("sockets");
    let full = || OwnedFd::from(File::options().write(true).open("/dev/full").expect("device"));
    let sink = Sink::new(full(), settings(), "worker 1");
    let log = subscriber(sink.clone(), admission(&settings()));
    tracing::subscriber::with_default(log, || {
        tracing::warn!("lost");
        tracing::warn!("lost too");
        sink.change(&writer.into(), settings()).expect("changed");
        tracing::warn!(text = "a\nb", "written");
        sink.change(&full(), settings()).expect("changed");
        tracing::debug!("not wanted");
    });
    assert!(receive(&reader).ends_with(" worker 1: written text=a\\nb\n"));
    assert!(receive(&reader).ends_with(" worker 1: 2 lines of the log were lost\n"));
    assert_eq!(sink.state().lost, 0);
}

#[test]
fn a_socket_that_nobody_reads_holds_up_nothing() {
    let (reader, writer) = UnixDatagram::pair().expect("sockets");
    let sink = Sink::new(writer.into(), settings(), "master");
    let log = subscriber(sink.clone(), admission(&settings()));
    tracing::subscriber::with_default(log, || {
        while sink.state().lost < 10 {
            tracing::warn!("written or lost");
        }
        reader.set_nonblocking(true).expect("it is a socket");
        while reader.recv(&mut [0; 100]).is_ok() {}
        tracing::warn!("the last one");
    });
    assert!(receive(&reader).ends_with("the last one\n"));
    assert!(receive(&reader).ends_with(" 10 lines of the log were lost\n"));
}

#[test]
fn one_place_has_so_many_lines_a_second_and_the_rest_is_told() {
    let (reader, writer) = UnixDatagram::pair().expect("sockets");
    let settings = Settings { level: Level::DEBUG, rate: 3, ..settings() };
    let sink = Sink::new(writer.into(), settings.clone(), "worker 0");
    let log = subscriber(sink.clone(), admission(&settings));
    tracing::subscriber::with_default(log, || {
        for number in 0..10 {
            tracing::warn!("again {number}");
        }
        tracing::warn!("another place");
        (0..5).for_each(|_| tracing::debug!("all of them"));
        sink.state().tell_held_back(true);
    });
    let lines: Vec<String> = (0..10).map(|_| receive(&reader)).collect();
    assert!(lines[2].contains("again 2") && lines[3].contains("another place"), "{lines:?}");
    assert!(lines[4..9].iter().all(|line| line.contains("all of them")), "{lines:?}");
    let told = &lines[9];
    assert!(told.contains("WARN ") && told.contains("7 more lines of drover::log::tests ("), "{told}");
}

#[test]
fn modules_may_have_levels_of_their_own() {
    let levels = [("drover".to_owned(), Level::WARN), ("drover_http::plan".to_owned(), Level::DEBUG)];
    let of = |target| level_of(target, &levels, Level::INFO);
    assert_eq!((of("drover"), of("drover::reload")), (Level::WARN, Level::WARN));
    assert_eq!((of("drover_http"), of("drover_http::planner")), (Level::INFO, Level::INFO));
    assert_eq!((of("drover_http::plan"), of("drover_http::plan::x")), (Level::DEBUG, Level::DEBUG));
}

#[test]
fn debug_level_is_asked_for_only_where_a_connection_may_want_it() {
    let hint = |level, debug_connections| {
        let settings = Settings { level, debug_connections, ..settings() };
        let (admission, _) = reload::Layer::new(admission(&settings));
        let nowhere = open(&Target::File(LogFile::Off), None).expect("device");
        subscriber(Sink::new(nowhere, settings, "master"), admission).max_level_hint()
    };
    assert_eq!(hint(Level::WARN, false), Some(LevelFilter::WARN));
    assert_eq!(hint(Level::WARN, true), Some(LevelFilter::DEBUG));
    assert_eq!(hint(Level::TRACE, true), Some(LevelFilter::TRACE));
}

/// Where the tests may not give files away there is nothing to see.
#[test]
fn a_link_is_written_to_and_its_target_not_given_away() {
    if !Uid::effective().is_root() {
        return;
    }
    let directory = std::env::temp_dir().join(format!("drover-log-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("directory");
    let (target, link, plain) = (directory.join("target"), directory.join("link"), directory.join("plain"));
    fs::write(&target, "precious").expect("file");
    std::os::unix::fs::symlink(&target, &link).expect("link");
    let owner = Some((Uid::from_raw(65_534), Gid::from_raw(65_534)));
    open_for_append(&link, owner).expect("opened");
    open_for_append(&plain, owner).expect("opened");
    assert_eq!(fs::metadata(&target).expect("there").uid(), 0);
    assert_eq!(fs::metadata(&plain).expect("there").uid(), 65_534);
    fs::remove_dir_all(directory).expect("removed");
}
