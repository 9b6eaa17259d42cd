//! Names and passwords: who is let in, what others are told, and that checking holds nobody up.

mod common;

use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use common::{Answer, Scratch, Server, configured};

/// Of "secret", by bcrypt with cost 5 and by SHA-512 crypt.
const USERS: &str = "# staff
ann:$2y$05$SFTjnhAfU/ij0XKmxZi37Orm5wTXRy6PFEg2SzgPqTumdsFgfwQ0m
bob:$6$abcdefgh12345678$8qry.al/7S2fAQnDPL..k3GVAXostN0YvxqwHlKr6Jsf/74.qDax5ahH0CISuJF.P2fnhZoX0.4l8IwZUur9t1
";

fn guarded(scratch: &Scratch, more: &str) -> Server {
    let users = scratch.file("users", USERS);
    configured(&format!(
        "basic_auth = 'Staff \"only\"'\nbasic_auth_users = '{}'\n\
         [[servers.locations]]\npath = '/'\nreturn = {{ status = 200, body = 'for $remote_user' }}\n\
         [[servers.locations]]\npath = '/open/'\nbasic_auth = 'off'\nreturn = {{ status = 200, body = 'for [$remote_user]' }}\n{more}",
        users.display()
    ))
}

fn field(credentials: &str) -> String {
    format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(credentials))
}

fn ask(server: &Server, target: &str, fields: &str) -> Answer {
    server.ask(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n"))
}

#[test]
fn only_who_shows_the_right_password_is_let_in() {
    let scratch = Scratch::new();
    let server = guarded(&scratch, "");
    for user in ["ann", "bob"] {
        // The second time it is remembered, and still is not another's.
        for _ in 0..2 {
            let answer = ask(&server, "/", &field(&format!("{user}:secret")));
            assert_eq!((answer.status, answer.text()), (200, format!("for {user}").as_str()));
            let wrong = ask(&server, "/", &field(&format!("{user}:Secret")));
            assert_eq!(
                (wrong.status, wrong.field("WWW-Authenticate")),
                (401, Some("Basic realm=\"Staff \\\"only\\\"\", charset=\"UTF-8\""))
            );
        }
    }
    let twice = [field("ann:secret"), field("ann:secret")].concat();
    for fields in
        ["", "Authorization: Basic x\r\n", &field("eve:secret"), &field(":secret"), &field("ann:"), &twice]
    {
        let answer = ask(&server, "/", fields);
        assert_eq!(answer.status, 401, "{fields}");
        assert!(answer.field("WWW-Authenticate").is_some() && !answer.text().contains("for"), "{fields}");
    }
    let open = ask(&server, "/open/", &field("ann:secret"));
    assert_eq!((open.status, open.text()), (200, "for []"), "nobody was asked");
}

#[test]
fn requests_on_one_connection_are_each_somebody_elses() {
    let scratch = Scratch::new();
    let server = guarded(&scratch, "");
    let mut client = server.connect();
    let asked =
        [("ann:secret", 200, "for ann"), ("", 401, ""), ("bob:secret", 200, "for bob"), ("ann:x", 401, "")];
    let requests: String = asked
        .iter()
        .map(|(credentials, ..)| {
            let fields = if credentials.is_empty() { String::new() } else { field(credentials) };
            format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
        })
        .collect();
    client.send(requests);
    for (credentials, status, text) in asked {
        let answer = client.answer();
        assert_eq!(answer.status, status, "{credentials}");
        assert!(answer.text().starts_with(text), "{credentials}");
    }
}

#[test]
fn a_body_waits_until_the_password_is_right() {
    let scratch = Scratch::new();
    let server = guarded(&scratch, "");
    let post = |credentials: &str, more: &str| {
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n{}{more}\r\n", field(credentials))
    };
    let mut client = server.connect();
    client.send(
        post("ann:secret", "")
            + "abc"
            + &post("ann:wrong", "")
            + "abc"
            + &post("ann:secret", "Expect: 100-continue\r\n"),
    );
    assert_eq!([client.answer().status, client.answer().status], [200, 401]);
    assert_eq!(client.answer().status, 100);
    client.send("abc");
    assert_eq!(client.answer().text(), "for ann");
    client.send(post("ann:wrong", "Expect: 100-continue\r\n"));
    assert_eq!(client.answer().status, 401, "the body is not asked for");
    client.expect_end();
}

#[test]
fn an_error_page_still_asks_for_the_password() {
    let scratch = Scratch::new();
    let more = "[[servers.locations]]\npath = '/paged/'\nerror_pages = [{ statuses = [401], to = '/open/' }]\n\
                return = { status = 200, body = 'for $remote_user' }\n\
                [[servers.locations]]\npath = '/circle/'\nerror_pages = [{ statuses = [401], to = '/circle/page' }]\n";
    let server = guarded(&scratch, more);
    let answer = ask(&server, "/paged/", &field("ann:wrong"));
    assert_eq!((answer.status, answer.text()), (401, "for []"));
    assert!(answer.field("WWW-Authenticate").is_some());
    assert_eq!(ask(&server, "/paged/", &field("ann:secret")).text(), "for ann");
    let circle = ask(&server, "/circle/", "");
    assert_eq!(circle.status, 401);
    assert!(circle.field("WWW-Authenticate").is_some());
}

#[test]
fn what_takes_long_to_check_holds_up_nobody_else() {
    let scratch = Scratch::new();
    // Each password takes a large part of a second.
    let costly = bcrypt::hash("secret", 13).expect("a hash");
    let users = scratch.file("costly", format!("ann:{costly}\n"));
    let more = format!(
        "[[servers.locations]]\npath = '/costly/'\nbasic_auth_users = '{}'\nreturn = {{ status = 200 }}\n",
        users.display()
    );
    let server = guarded(&scratch, &more);
    let mut waiting = server.connect();
    let begun = Instant::now();
    waiting.send(format!("GET /costly/ HTTP/1.1\r\nHost: a\r\n{}\r\n", field("ann:secret")));
    let mut quick = server.connect();
    let answered = (0..20).map(|_| quick.get("/open/").status).filter(|status| *status == 200).count();
    let others = begun.elapsed();
    assert_eq!((answered, waiting.answer().status), (20, 200));
    let checked = begun.elapsed();
    assert!(others < checked, "20 others took {others:?}, the check {checked:?}");
    let begun = Instant::now();
    for _ in 0..5 {
        assert_eq!(ask(&server, "/costly/", &field("ann:secret")).status, 200);
    }
    assert!(begun.elapsed() < checked, "it is remembered: {:?}, {checked:?}", begun.elapsed());
    // Who is unknown is told as late as who is known.
    let begun = Instant::now();
    assert_eq!(ask(&server, "/costly/", &field("eve:secret")).status, 401);
    assert!(begun.elapsed() > checked / 10 && checked > Duration::from_millis(20), "{:?}", begun.elapsed());
}
