//! Real programs at both ends of TCP connections: PostgreSQL with pgbench, redis with its own benchmark.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use drover_tests::program::as_user;
use drover_tests::stream_log::{eventually_lines, lines};
use drover_tests::{Config, Directory, Drover, Port, Program, eventually, packages};
use nix::sys::signal::Signal;

fn proxy(directory: &Directory, port: &Port, inner: &Port) -> Drover {
    let keys = format!("listen = [\"{}\"]\nproxy_pass = \"{}\"", port.address(), inner.address());
    Drover::start(directory, &Config::new(directory, 2).events("accept = \"balanced\"").proxy(&keys))
}

/// All that was begun has ended, and ended well.
#[track_caller]
fn all_finished(directory: &Directory, drover: &Drover, least: usize) {
    eventually("all slots are free again", || {
        drover.status().workers.iter().all(|worker| worker.connections == 0).then_some(())
    });
    eventually_lines(directory, least);
    let odd: Vec<_> = lines(directory).into_iter().filter(|line| line.reason != "finished").collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    let said = String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// A database at work.
struct Postgres {
    port: Port,
    /// The folder of its programs.
    programs: PathBuf,
    _server: Program,
    _directory: Directory,
}

impl Postgres {
    /// None, loudly, where it cannot be had.
    fn start() -> Option<Postgres> {
        packages::tool_or_skip("pgbench", "postgresql")?;
        let programs = newest(Path::new("/usr/lib/postgresql"))?.join("bin");
        let (directory, port) = (Directory::new(), Port::new());
        // It refuses to run as root; its own user has to reach its folder.
        directory.set_mode("", 0o755);
        let place = directory.shared_folder("db");
        let data = place.join("data");
        let mut line = as_user(Some("postgres"));
        line.push(programs.join("initdb").into());
        line.extend(["--auth=trust", "--username=postgres", "--no-sync", "-D"].map(Into::into));
        let made = Command::new(&line[0]).args(&line[1..]).arg(&data).current_dir(&place).output();
        succeeds(&made.expect("initdb runs"));
        let settings = [
            format!("port={port}"),
            "listen_addresses=127.0.0.1".to_owned(),
            format!("unix_socket_directories={}", place.display()),
            "fsync=off".to_owned(),
            "max_connections=120".to_owned(),
        ];
        let arguments = ["-D".to_owned(), data.display().to_string()];
        let arguments =
            arguments.into_iter().chain(settings.into_iter().flat_map(|set| ["-c".to_owned(), set]));
        let server = Program::start_as(&directory, Some("postgres"), &programs.join("postgres"), arguments);
        let postgres =
            Postgres { port, programs, _server: server.ended_by(Signal::SIGINT), _directory: directory };
        eventually("PostgreSQL answers", || {
            postgres.run("psql", &postgres.port, &["-c", "select 1"]).status.success().then_some(())
        });
        Some(postgres)
    }

    fn run(&self, program: &str, port: &Port, arguments: &[&str]) -> Output {
        Command::new(self.programs.join(program))
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-U", "postgres"])
            .args(arguments)
            .arg("postgres")
            .output()
            .expect("it runs")
    }
}

/// The folder of the highest version.
fn newest(folder: &Path) -> Option<PathBuf> {
    let folders = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let version = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let newest = folders.filter(|path| version(path).is_some()).max_by_key(version);
    if newest.is_none() {
        packages::skip("there is no PostgreSQL in /usr/lib/postgresql");
    }
    newest
}

#[test]
fn postgresql_with_many_connections() {
    let Some(postgres) = Postgres::start() else { return };
    let (directory, port) = (Directory::new(), Port::new());
    let drover = proxy(&directory, &port, &postgres.port);
    let run = |program: &str, arguments: &[&str]| succeeds(&postgres.run(program, &port, arguments));
    run("pgbench", &["--initialize", "--quiet", "--scale=1"]);
    let said = run("pgbench", &["--client=80", "--jobs=2", "--transactions=10"]);
    assert!(said.contains("actually processed: 800/800"), "{said}");
    // A connection for each transaction.
    let said = run("pgbench", &["--client=10", "--transactions=20", "--connect", "--select-only"]);
    assert!(said.contains("actually processed: 200/200"), "{said}");
    // Much in both directions on one connection: sums tell whether a byte was lost.
    let upload = "create table t as select repeat(md5(n::text), 100) as x from generate_series(1, 5000) n";
    run("psql", &["-c", upload]);
    let said = run("psql", &["-At", "-c", "copy (select x from t) to stdout"]);
    assert_eq!(said.len(), 5000 * (3200 + 1));
    all_finished(&directory, &drover, 283);
}

#[test]
fn redis_with_many_connections() {
    let Some(server) = packages::tool_or_skip("redis-server", "redis-server") else { return };
    let Some(benchmark) = packages::tool_or_skip("redis-benchmark", "redis-tools") else { return };
    let (directory, port, inner) = (Directory::new(), Port::new(), Port::new());
    let listen = inner.to_string();
    let arguments = ["--port", &listen, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let _server = Program::start(&directory, &server, arguments);
    eventually("redis listens", || TcpStream::connect(inner.address()).ok());
    let drover = proxy(&directory, &port, &inner);
    let run = |arguments: &[&str]| {
        let output = Command::new(&benchmark)
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "--csv"])
            .args(arguments)
            .output();
        succeeds(&output.expect("it runs"))
    };
    // Few bytes on many connections, values of 100 KiB, many questions at once, a connection for each question.
    for (arguments, rows) in [
        (["-c", "300", "-n", "6000", "-t", "ping,set,get"].as_slice(), 4),
        (&["-c", "20", "-n", "400", "-d", "102400", "-t", "set,get"], 2),
        (&["-c", "50", "-n", "20000", "-P", "32", "-t", "set,get"], 2),
        (&["-c", "50", "-n", "2000", "-k", "0", "-t", "get"], 1),
    ] {
        let said = run(arguments);
        let found =
            said.lines().filter(|line| line.starts_with('"') && !line.starts_with("\"test\"")).count();
        assert!(found == rows && !said.contains("rror"), "{arguments:?}: {said}");
    }
    eventually("all slots are free again", || {
        drover.status().workers.iter().all(|worker| worker.connections == 0).then_some(())
    });
    let lines = eventually_lines(&directory, 2000);
    let odd = |reason: &str| !["finished", "client_failed"].contains(&reason);
    assert!(!lines.iter().any(|line| odd(&line.reason)), "{lines:?}");
}
