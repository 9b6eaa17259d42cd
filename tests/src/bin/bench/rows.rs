//! What is measured: one row a kind of request.

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
    /// h2o defers all its listeners and cannot be told not to.
    pub(crate) fn suits(&self, kind: Kind) -> bool {
        kind != Kind::H2o || !self.closes || self.deferred
    }
}

const KEPT: Row = Row {
    name: "",
    title: "",
    target: "",
    field: "",
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
];

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
