//! `drover import`: configurations of the kinds people have, served by nginx and by drover with what was written
//! for it. Both answer the same.
//!
//! The configurations stand in `tests/nginx`; their first lines say what is asked: `#> TARGET [FIELD: VALUE]`.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use drover_tests::binary::{self, source_root};
use drover_tests::daemon::Surroundings;
use drover_tests::http::{Client, Response};
use drover_tests::{Config, Directory, Drover, Port, eventually, packages};

/// An nginx that ends with the test.
struct Nginx(Child);

impl Nginx {
    fn start(program: &Path, directory: &Directory, text: &str, port: &Port) -> Nginx {
        let config = directory.write("nginx.conf", text);
        let mut line = Command::new(program);
        line.arg("-p").arg(directory.path()).arg("-c").arg(config);
        line.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let nginx = Nginx(line.spawn().expect("nginx starts"));
        eventually("nginx listens", || Client::connect(port.address()).ok());
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A master that is killed leaves its workers; one that is asked to stop does not.
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// What is asked: a target and perhaps a field.
fn requests(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("#> "));
    lines.map(|line| line.split_once(' ').unwrap_or((line, ""))).map(|(a, b)| (a.into(), b.into())).collect()
}

fn ask(port: &Port, target: &str, field: &str) -> Response {
    let host = if field.starts_with("Host:") { "" } else { "Host: example.org\r\n" };
    let field = if field.is_empty() { String::new() } else { format!("{field}\r\n") };
    let request = format!("GET {target} HTTP/1.1\r\n{host}{field}Connection: close\r\n\r\n");
    drover_tests::http::exchange(port.address(), request).expect("an answer")
}

/// What has to be the same of two answers.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    fields: Vec<(String, String)>,
    body: String,
}

fn seen(response: &Response, port: &Port) -> Seen {
    let interesting = |name: &str| {
        ["content-type", "location", "cache-control", "allow", "vary", "content-encoding"].contains(&name)
            || name.starts_with("x-")
    };
    // Where nginx names itself absolutely, drover gives the path.
    let own = [format!("http://example.org:{}", port.number()), "http://example.org".to_owned()];
    let mut fields: Vec<(String, String)> = response
        .headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
        .filter(|(name, _)| interesting(name))
        .map(|(name, value)| {
            let path = own.iter().find_map(|own| value.strip_prefix(own.as_str()));
            (name, path.unwrap_or(&value).to_owned())
        })
        .collect();
    fields.sort();
    // The text of a bare error is each server's own, and so is its type.
    let own_page = response.text().contains("<center>nginx")
        || response.status >= 300 && response.text().contains("drover");
    if own_page {
        fields.retain(|(name, _)| name != "content-type");
    }
    Seen { status: response.status, fields, body: if own_page { String::new() } else { response.text() } }
}

fn site(directory: &Directory) {
    for (name, text) in [
        ("www/index.html", "<p>home</p>\n"),
        ("www/style.css", "p {}\n"),
        ("www/photo.png", "not really\n"),
        ("www/404.html", "<p>not here</p>\n"),
        ("www/.hidden", "secret\n"),
        ("www/sub/index.html", "<p>sub</p>\n"),
    ] {
        fs::create_dir_all(directory.join(name).parent().expect("a folder")).expect("the directory is ours");
        directory.write(name, text);
    }
}

fn both_answer_the_same(name: &str) {
    let Some(nginx) = packages::tool_or_skip("nginx", "nginx") else { return };
    let template = fs::read_to_string(source_root().join("tests/nginx").join(name)).expect("the config");
    let asked = requests(&template);
    assert!(asked.len() > 3, "{name} asks for {} targets", asked.len());
    let (theirs, ours) = (Port::new(), Port::new());
    let (their_directory, directory) = (Directory::new(), Directory::new());
    site(&their_directory);
    site(&directory);
    let text = |directory: &Directory, port: &Port| {
        let place = directory.path().display().to_string();
        template.replace("{dir}", &place).replace("{port}", &port.number().to_string())
    };
    let _nginx = Nginx::start(&nginx, &their_directory, &text(&their_directory, &theirs), &theirs);
    let _drover = start_drover(&directory, &text(&directory, &ours));
    for (target, field) in asked {
        let nginx = seen(&ask(&theirs, &target, &field), &theirs);
        let drover = seen(&ask(&ours, &target, &field), &ours);
        assert_eq!(nginx, drover, "{name}: GET {target} {field} (nginx left, drover right)");
    }
}

/// Starts drover with what `drover import` writes.
fn start_drover(directory: &Directory, nginx_conf: &str) -> Drover {
    let file = directory.write("nginx.conf", nginx_conf);
    let output =
        Command::new(binary::drover()).arg("import").arg("--strict").arg(file).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let text = String::from_utf8(output.stdout).expect("text");
    let place = format!("[process]\nruntime_dir = \"{}\"\n", directory.join("run").display());
    let text = text.replacen("[process]\n", &place, 1);
    match Drover::try_start(directory, &Config::written(text), &Surroundings::default()) {
        Ok(drover) => drover,
        Err(failure) => panic!("drover ended with {:?}:\n{}", failure.code, failure.stderr),
    }
}

#[test]
fn a_static_site() {
    both_answer_the_same("static_site.conf");
}

#[test]
fn redirects() {
    both_answer_the_same("redirects.conf");
}

#[test]
fn virtual_hosts() {
    both_answer_the_same("virtual_hosts.conf");
}

#[test]
fn locations_and_error_pages() {
    both_answer_the_same("locations.conf");
}

#[test]
fn conditions_and_maps() {
    both_answer_the_same("conditions.conf");
}

#[test]
fn limits_and_access() {
    both_answer_the_same("limits.conf");
}
