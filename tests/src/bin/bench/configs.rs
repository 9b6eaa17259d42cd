//! The servers' configs: the same work for all, and each tuned for it.

use drover_tests::{Config, Directory, Port};

use crate::servers::Files;

/// As many bytes as h2o's answer to `/return` has: it can answer from memory only with a redirect.
const BODY: &str =
    "An answer of ninety-nine bytes, neither read from a file nor asked for elsewhere, but kept at hand.";

pub(crate) fn drover(directory: &Directory, files: &Files, plain: &Port, deferred: &Port) -> Config {
    let listen = format!(
        "listen = [{{ address = \"{}\", backlog = 4096 }}, {{ address = \"{}\", deferred = true, backlog = 4096 }}]",
        plain.address(),
        deferred.address()
    );
    Config::new(directory, 1)
        .log("level = \"warn\"")
        .events("worker_connections = 12000")
        .http("access_log = \"off\"")
        .http("keepalive_requests = 1000000000")
        .http("compression = { gzip_level = 1 }")
        .server_with(&format!("{listen}\nroot = \"{}\"", files.root()))
        .location("/", "")
        .location("/gzip/", "compression = [\"gzip\"]")
        .location("/return", &format!("return = {{ status = 200, body = \"{BODY}\" }}"))
        .http(&format!("client_body_size = \"{UPLOAD}m\""))
        .upstream(
            "origin",
            &[files.origin()],
            &format!("keepalive = {KEPT}\nkeepalive_requests = 1000000000"),
        )
        .passing("/pass/", "origin/", "")
}

/// What the others pass on to: answers from memory, files, and bodies read over.
pub(crate) fn origin(directory: &Directory, root: &std::path::Path, port: &Port) -> Config {
    Config::new(directory, 1)
        .log("level = \"warn\"")
        .events("worker_connections = 4096")
        .http("access_log = \"off\"")
        .http("keepalive_requests = 1000000000")
        .http(&format!("client_body_size = \"{UPLOAD}m\""))
        .server_with(&format!("listen = [\"{}\"]\nroot = \"{}\"", port.address(), root.display()))
        .location("/", "")
        .location("/return", &format!("return = {{ status = 200, body = \"{BODY}\" }}"))
}

/// The largest body that all take, in MiB.
const UPLOAD: u32 = 16;
/// Connections with the origin that each keeps.
const KEPT: u32 = 100;

/// `tcp_nopush` stays off: it would add two system calls to each file. Small files go by `sendfile` all the
/// same, which is faster here than reading them (`sendfile off` takes the same number of calls).
pub(crate) fn nginx(directory: &Directory, files: &Files, plain: &Port, deferred: &Port) -> String {
    let (directory, root) = (directory.path().display(), files.root());
    let (plain, deferred, origin) = (plain.address(), deferred.address(), files.origin());
    format!(
        r#"daemon off;
user root;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/nginx.errors crit;
worker_rlimit_nofile 20000;
events {{ worker_connections 12000; use epoll; accept_mutex off; multi_accept off; }}
http {{
    access_log off;
    client_body_temp_path {directory}/tmp-body; proxy_temp_path {directory}/tmp-proxy;
    fastcgi_temp_path {directory}/tmp-fcgi; uwsgi_temp_path {directory}/tmp-uwsgi; scgi_temp_path {directory}/tmp-scgi;
    sendfile on; tcp_nodelay on;
    keepalive_timeout 75s; keepalive_requests 1000000000;
    open_file_cache max=1024; open_file_cache_valid 60s; open_file_cache_min_uses 1;
    types {{ text/plain txt; }}
    default_type text/plain;
    root {root};
    upstream origin {{ server {origin}; keepalive {KEPT}; keepalive_requests 1000000000; }}
    server {{
        listen {plain} backlog=4096;
        listen {deferred} backlog=4096 deferred;
        location = /return {{ return 200 "{BODY}"; }}
        location / {{ }}
        location /pass/ {{
            proxy_pass http://origin/;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_request_buffering off;
            client_max_body_size {UPLOAD}m;
        }}
        location /gzip/ {{ gzip on; gzip_types text/plain; gzip_comp_level 1; }}
    }}
}}
"#
    )
}

pub(crate) fn h2o(directory: &Directory, files: &Files, plain: &Port, deferred: &Port) -> String {
    let (directory, root) = (directory.path().display(), files.root());
    let (plain, deferred, origin) = (plain.number(), deferred.number(), files.origin());
    format!(
        r#"num-threads: 1
max-connections: 12000
user: root
error-log: {directory}/h2o.errors
listen: {{host: 127.0.0.1, port: {plain}}}
listen: {{host: 127.0.0.1, port: {deferred}}}
hosts:
  default:
    paths:
      "/return":
        redirect: {{url: "http://example.org/", status: 302}}
      "/pass":
        proxy.reverse.url: http://{origin}/
        proxy.preserve-host: ON
        proxy.timeout.keepalive: 60000
      "/gzip":
        file.dir: {root}/gzip
        gzip: ON
      "/":
        file.dir: {root}
"#
    )
}

/// Passes on alone: it serves nothing by itself. It would want two descriptors for each connection there may be, more
/// than some machines allow, and most of them are never needed: hence no strict limits.
pub(crate) fn haproxy(files: &Files, plain: &Port, deferred: &Port) -> String {
    let (plain, deferred, origin) = (plain.address(), deferred.address(), files.origin());
    format!(
        r#"global
    nbthread 1
    maxconn 12000
    no strict-limits
    tune.pool-high-fd-ratio 90
defaults
    mode http
    option forwardfor
    option http-keep-alive
    http-reuse always
    timeout connect 5s
    timeout client 75s
    timeout server 60s
frontend in
    bind {plain} backlog 4096
    bind {deferred} backlog 4096 defer-accept
    http-request replace-path /pass/(.*) /\\1
    default_backend origin
backend origin
    server origin {origin} pool-max-conn {KEPT}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_of_one_size() {
        assert_eq!(BODY.len(), 99);
    }
}
