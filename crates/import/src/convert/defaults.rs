//! What nginx does without being told, and drover does not.
//!
//! Only for whole configurations: a part of one, such as a server, says nothing about the rest. nginx itself refuses a
//! configuration without `events`.

use super::{Converter, Scope};
use crate::document::string;

/// Said behind what stands in the output because nginx has it by default.
const WHY: &str = "nginx's default";

impl Converter {
    pub(super) fn is_whole(&self) -> bool {
        self.facts.says("events")
    }

    /// Keys of the process whose defaults differ.
    pub(super) fn default_process(&self, main: &mut Scope) {
        if !self.is_whole() {
            return;
        }
        for (directive, key, value) in [
            ("user", "process.user", string("nobody")),
            ("worker_processes", "process.workers", "1".to_owned()),
        ] {
            if !self.facts.says(directive) {
                main.set_default(key, value, WHY);
            }
        }
    }

    /// Keys of the HTTP service whose defaults differ.
    pub(super) fn default_http(&self, http: &mut Scope) {
        if self.is_whole() {
            for (key, value) in
                [("default_type", string("text/plain")), ("client_header_size", string("32k"))]
            {
                if !http.has(key) {
                    http.set_default(key, value, WHY);
                }
            }
        }
        if self.facts.says("gzip") {
            for (key, value) in [("types", "[\"text/html\"]"), ("min_length", "\"20b\"")] {
                let key = format!("compression.{key}");
                if !http.has(&key) {
                    http.set_default(&key, value.to_owned(), WHY);
                }
            }
        }
        if self.facts.says("proxy_pass") {
            http.set("proxy.forwarded", string("off"));
            http.set("proxy.upgrade", "[]".to_owned());
            http.set("proxy.via", string("off"));
        }
    }

    /// Differences that are nobody's directive.
    pub(super) fn note_defaults(&mut self) {
        if !self.is_whole() {
            return;
        }
        let facts = std::rc::Rc::clone(&self.facts);
        let http = facts.says("http");
        let passes = http && facts.says("proxy_pass");
        let remarks = [
            (
                http && !facts.says("access_log"),
                "no `access_log`: nginx logs requests to a file of its own, drover to none",
            ),
            (
                http && facts.says("access_log"),
                "lines of access logs are gathered for up to a second; `buffer = \"0b\"` writes each at once",
            ),
            (
                !facts.says("error_log"),
                "no `error_log`: nginx has a file of its own for it, drover logs to standard error",
            ),
            (
                !facts.says("worker_shutdown_timeout"),
                "no `worker_shutdown_timeout`: workers that leave close what is left after 30 seconds, nginx's never",
            ),
            (
                passes && !facts.says("proxy_connect_timeout"),
                "no `proxy_connect_timeout`: connecting to a server may take 5 seconds, with nginx 60",
            ),
            (
                passes && !facts.says("proxy_http_version"),
                "no `proxy_http_version`: servers are spoken to in HTTP/1.1 over connections that are kept, by nginx in \
                 HTTP/1.0",
            ),
            (
                http && facts.says("return") && ["auth_basic", "deny"].iter().any(|name| facts.says(name)),
                "who may is asked before a location's `return` answers; nginx answers at once",
            ),
            (http && facts.says("auth_basic"), "who is asked for a password is told that it is in UTF-8"),
            (
                http && ["root", "alias"].iter().any(|name| facts.says(name)),
                "symbolic links that lead out of a root are not followed",
            ),
            (
                http && ["return", "rewrite", "root"].iter().any(|name| facts.says(name)),
                "Location of a redirect to a path is that path; nginx puts scheme, name and port before it",
            ),
        ];
        remarks.iter().filter(|(holds, _)| *holds).for_each(|(_, remark)| self.report.say(*remark));
    }
}
