//! What is measured: one row a kind of request.

use drover_tests::http::request;

use crate::servers::Kind;

/// One kind of request.
#[derive(Debug)]
pub(crate) struct Row {
    /// How it is chosen on the command line.
    pub name: &'static str,
    /// How it is introduced in the report.
    pub title: &'static str,
    pub target: &'static str,
    /// A field of the request; empty for none.
    pub field: &'static str,
    /// Bytes of the request's body; 0 for none, and GET.
    pub upload: usize,
    /// The request is passed on.
    pub passed: bool,
    /// A new connection for each request.
    pub closes: bool,
    /// Listeners with TCP_DEFER_ACCEPT.
    pub deferred: bool,
    /// Connections of wrk. Few where a request takes long: those under way at the end are not counted.
    pub connections: u32,
    /// Requests whose instructions are counted.
    pub counted: u32,
}

impl Row {
    /// h2o defers all its listeners and cannot be told not to; haproxy does nothing but pass on.
    pub(crate) fn suits(&self, kind: Kind) -> bool {
        match kind {
            Kind::Drover | Kind::Nginx => true,
            Kind::H2o => !self.closes || self.deferred,
            Kind::Haproxy => self.passed,
        }
    }

    /// The head of the request and its body.
    pub(crate) fn request(&self) -> Vec<u8> {
        if self.upload == 0 {
            return request("GET", self.target, &self.fields()).into_bytes();
        }
        let fields = format!("Content-Length: {}\r\n{}", self.upload, self.fields());
        [request("POST", self.target, &fields).into_bytes(), vec![b'x'; self.upload]].concat()
    }
}

const KEPT: Row = Row {
    name: "",
    title: "",
    target: "",
    field: "",
    upload: 0,
    passed: false,
    closes: false,
    deferred: false,
    connections: 50,
    counted: 2_000,
};

/// All of them, in the report's order.
pub(crate) const ROWS: &[Row] = &[
    Row { name: "return", title: "`return`, connections kept", target: "/return", ..KEPT },
    Row {
        name: "return-close",
        title: "`return`, a connection per request",
        target: "/return",
        closes: true,
        ..KEPT
    },
    Row {
        name: "return-close-deferred",
        title: "`return`, a connection per request, deferred",
        target: "/return",
        closes: true,
        deferred: true,
        ..KEPT
    },
    Row { name: "1k", title: "file of 1 KiB, connections kept", target: "/1k.txt", ..KEPT },
    Row { name: "100k", title: "file of 100 KiB, connections kept", target: "/100k.txt", ..KEPT },
    Row {
        name: "10m",
        title: "file of 10 MiB, connections kept",
        target: "/10m.txt",
        connections: 8,
        counted: 100,
        ..KEPT
    },
    Row {
        name: "range",
        title: "1000 bytes of a file of 100 KiB",
        target: "/100k.txt",
        field: "Range: bytes=50000-50999",
        ..KEPT
    },
    Row {
        name: "unchanged",
        title: "file of 1 KiB that the client has",
        target: "/1k.txt",
        field: "If-Modified-Since: DATE",
        ..KEPT
    },
    Row {
        name: "gzip",
        title: "file of 100 KiB by gzip at level 1",
        target: "/gzip/100k.txt",
        field: "Accept-Encoding: gzip",
        connections: 8,
        counted: 100,
        ..KEPT
    },
    Row { name: "proxy", title: "passed on, connections kept", target: "/pass/return", ..PASSED },
    Row {
        name: "proxy-100k",
        title: "passed on, 100 KiB, connections kept",
        target: "/pass/100k.txt",
        ..PASSED
    },
    Row {
        name: "proxy-close",
        title: "passed on, a connection of the client's per request",
        target: "/pass/return",
        closes: true,
        ..PASSED
    },
    Row {
        name: "proxy-close-deferred",
        title: "passed on, a connection of the client's per request, deferred",
        target: "/pass/return",
        closes: true,
        deferred: true,
        ..PASSED
    },
    Row {
        name: "proxy-upload",
        title: "passed on, an upload of 10 MiB, connections kept",
        target: "/pass/return",
        upload: 10 * 1024 * 1024,
        connections: 8,
        counted: 40,
        ..PASSED
    },
];

const PASSED: Row = Row { passed: true, ..KEPT };

/// The date that stands for `DATE` in a field: that of all files.
pub(crate) const DATE: &str = "Sun, 01 Jan 2023 00:00:00 GMT";
/// The same in seconds since the epoch.
pub(crate) const DATE_SECONDS: u64 = 1_672_531_200;

impl Row {
    /// The field of the request, dated.
    pub(crate) fn dated_field(&self) -> Option<String> {
        (!self.field.is_empty()).then(|| self.field.replace("DATE", DATE))
    }

    /// The fields of a request as whole lines.
    pub(crate) fn fields(&self) -> String {
        let close = if self.closes { "Connection: close\r\n" } else { "" };
        self.dated_field().map_or_else(String::new, |field| format!("{field}\r\n")) + close
    }
}

/// The rows of these names, or all.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Row>, String> {
    if names.is_empty() {
        return Ok(ROWS.iter().collect());
    }
    let find = |name: &String| {
        ROWS.iter().find(|row| row.name == name).ok_or_else(|| {
            let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            format!("no row {name}; there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}
