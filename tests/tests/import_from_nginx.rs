//! `drover import`: configurations of the kinds people have, served by nginx and by drover with what was written
//! for it. Both answer the same.
//!
//! The configurations stand in `tests/nginx`; their first lines say what is asked: `#> [METHOD] TARGET [FIELD: VALUE]`.

use std::fs;
use std::process::Command;

use drover_tests::binary::{self, source_root};
use drover_tests::daemon::Surroundings;
use drover_tests::http::Response;
use drover_tests::http_backend::response;
use drover_tests::nginx::Nginx;
use drover_tests::{Client, Config, Directory, Drover, HttpBackend, Port, eventually, packages};

/// What is asked.
struct Asked {
    method: String,
    target: String,
    /// A field, or nothing.
    field: String,
}

/// The lines of a configuration that say what is asked: perhaps a method, a target, and perhaps a field.
fn requests(text: &str) -> Vec<Asked> {
    let asked = |line: &str| {
        let (method, rest) = match line.starts_with('/') {
            true => ("GET", line),
            false => line.split_once(' ').expect("a target"),
        };
        let (target, field) = rest.split_once(' ').unwrap_or((rest, ""));
        Asked { method: method.into(), target: target.into(), field: field.into() }
    };
    text.lines().filter_map(|line| line.strip_prefix("#> ")).map(asked).collect()
}

fn ask(port: &Port, Asked { method, target, field }: &Asked) -> Response {
    let host = if field.starts_with("Host:") { "" } else { "Host: example.org\r\n" };
    let field = if field.is_empty() { String::new() } else { format!("{field}\r\n") };
    let body = if method == "POST" { "Content-Length: 7\r\n\r\nthe=one" } else { "\r\n" };
    let request = format!("{method} {target} HTTP/1.1\r\n{host}{field}Connection: close\r\n{body}");
    drover_tests::http::exchange(port.address(), request).expect("an answer")
}

/// A server that tells what it was asked, but for what concerns the connection. Paths say what else is wanted of it.
fn backend(name: &'static str) -> HttpBackend {
    HttpBackend::new(move |connection| {
        while let Some(request) = connection.request() {
            if request.header("upgrade").is_some() {
                connection.send(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
                );
                while let Some(bytes) = connection.receive() {
                    connection.send(bytes);
                }
                return;
            }
            let connects = |name: &str| ["connection", "keep-alive"].contains(&name);
            let mut fields: Vec<String> = request
                .headers
                .iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value))
                .filter(|(name, _)| !connects(name))
                .map(|(name, value)| format!("{name}: {value}\n"))
                .collect();
            fields.sort();
            let body = String::from_utf8_lossy(&request.body).into_owned();
            let told = format!("{name}\n{} {}\n{}{body}", request.method, request.target, fields.concat());
            let (status, more) = match request.target.rsplit('/').next() {
                Some("missing") => ("404 Not Found", ""),
                Some("failing") => ("503 Service Unavailable", ""),
                Some("redirecting" | "relative") => {
                    let to =
                        format!("Location: http://{}/to/x\r\n", request.header("host").unwrap_or("none"));
                    connection.send(response("302 Found", &to, told));
                    continue;
                }
                Some("hidden") => ("200 OK", "X-Powered-By: magic\r\nX-Kept: yes\r\n"),
                _ => ("200 OK", "Content-Type: text/x-told\r\n"),
            };
            connection.send(response(status, more, told));
        }
    })
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
    // The text of a bare error is each server's own, and so is its type, and whether it is encoded.
    let own_page = response.text().contains("<center>nginx")
        || response.status >= 300 && response.text().contains("drover");
    if own_page {
        fields.retain(|(name, _)| !["content-type", "vary"].contains(&name.as_str()));
    }
    // Each has an encoder of its own.
    let encoded = response.header("content-encoding").is_some();
    let body = if own_page || encoded { String::new() } else { response.text() };
    Seen { status: response.status, fields, body }
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
    // "me", whose password is "secret".
    directory.write("users", "me:$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1\n");
    directory.write("www/large.css", "p { color: red }\n".repeat(1000));
}

/// nginx and drover with the same configuration, and the servers behind them.
struct Both {
    theirs: Port,
    ours: Port,
    their_directory: Directory,
    directory: Directory,
    _nginx: Nginx,
    _drover: Drover,
    _servers: [HttpBackend; 2],
    _nobody: Port,
}

impl Both {
    /// None where there is no nginx.
    fn start(template: &str) -> Option<Both> {
        let nginx = packages::tool_or_skip("nginx", "nginx")?;
        let (theirs, ours) = (Port::new(), Port::new());
        let (their_directory, directory) = (Directory::new(), Directory::new());
        site(&their_directory);
        site(&directory);
        let (servers, nobody) = ([backend("one"), backend("two")], Port::new());
        let text = |directory: &Directory, port: &Port| {
            let mut text = template.replace("{dir}", &directory.path().display().to_string());
            for (place, number) in [
                ("{port}", port.number()),
                ("{one}", servers[0].address().port()),
                ("{two}", servers[1].address().port()),
                ("{nobody}", nobody.number()),
            ] {
                text = text.replace(place, &number.to_string());
            }
            text
        };
        let _nginx = Nginx::start(&nginx, &their_directory, &text(&their_directory, &theirs), &theirs);
        let _drover = start_drover(&directory, &text(&directory, &ours));
        Some(Both {
            theirs,
            ours,
            their_directory,
            directory,
            _nginx,
            _drover,
            _servers: servers,
            _nobody: nobody,
        })
    }
}

fn template(name: &str) -> String {
    fs::read_to_string(source_root().join("tests/nginx").join(name)).expect("the config")
}

fn both_answer_the_same(name: &str) {
    let template = template(name);
    let asked = requests(&template);
    assert!(asked.len() > 3, "{name} asks for {} targets", asked.len());
    let Some(Both { theirs, ours, their_directory, directory, .. }) = &Both::start(&template) else { return };
    for asked in &asked {
        let nginx = seen(&ask(theirs, asked), theirs);
        let drover = seen(&ask(ours, asked), ours);
        let Asked { method, target, field } = asked;
        assert_eq!(nginx, drover, "{name}: {method} {target} {field} (nginx left, drover right)");
    }
    if template.contains("{dir}/access.log") {
        let lines = |directory: &Directory| directory.read("access.log").lines().map(str::to_owned).collect();
        let (theirs, ours): (Vec<String>, Vec<String>) = eventually("as many lines in both logs", || {
            let (theirs, ours): (Vec<_>, Vec<_>) = (lines(their_directory), lines(directory));
            (!theirs.is_empty() && theirs.len() == ours.len()).then_some((theirs, ours))
        });
        assert_eq!(theirs, ours, "{name}: the access log (nginx left, drover right)");
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

#[test]
fn an_application_behind_a_proxy() {
    both_answer_the_same("application.conf");
}

#[test]
fn a_load_balancer() {
    both_answer_the_same("load_balancer.conf");
}

#[test]
fn one_page_for_all_paths() {
    both_answer_the_same("one_page.conf");
}

#[test]
fn a_gateway() {
    both_answer_the_same("api_gateway.conf");
}

#[test]
fn a_site_with_all_that_people_add() {
    both_answer_the_same("site_in_full.conf");
}

#[test]
fn shares_of_clients() {
    both_answer_the_same("blue_green.conf");
}

#[test]
fn web_sockets() {
    let Some(Both { theirs, ours, .. }) = &Both::start(&template("websocket.conf")) else { return };
    let head = |target: &str| {
        format!(
            "GET {target} HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
    };
    for port in [theirs, ours] {
        let mut client = Client::to(port.address());
        client.send(head("/chat/room"));
        assert_eq!(client.head_response().status, 101);
        for text in ["first", "second, a little longer"] {
            client.send(text);
            let mut echo = vec![0; text.len()];
            let mut at = 0;
            while at < echo.len() {
                at += client.read(&mut echo[at..]).expect("an echo");
            }
            assert_eq!(echo, text.as_bytes());
        }
    }
    let plain = |port: &Port| {
        seen(&drover_tests::http::exchange(port.address(), head("/plain")).expect("an answer"), port)
    };
    assert_eq!(plain(theirs), plain(ours), "nginx left, drover right");
}

#[test]
fn requests_of_other_origins() {
    both_answer_the_same("cross_origin.conf");
}

#[test]
fn no_answer() {
    let Some(Both { theirs, ours, .. }) = &Both::start(&template("cross_origin.conf")) else { return };
    for port in [theirs, ours] {
        let request = "GET /quiet/?close=1 HTTP/1.1\r\nHost: example.org\r\n\r\n";
        let answer = drover_tests::http::exchange(port.address(), request);
        assert!(answer.is_err(), "{answer:?}");
    }
}

#[test]
fn passwords_limits_and_conditions() {
    both_answer_the_same("protected.conf");
}
