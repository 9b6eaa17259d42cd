//! Files: where they are, and what they are said to be.

use super::{exactly, has_variable};
use crate::convert::Scope;
use crate::document::{list, string};
use crate::mapping::Level::{Http, Location, Server};
use crate::mapping::{How, Level, Row, Verdict};
use crate::tree::Directive;
use crate::values;

const fn row(directive: &'static str, becomes: &'static str, levels: &'static [Level], how: How) -> Row {
    Row { directive, becomes, levels, how }
}

const ALL: &[Level] = &[Http, Server, Location];

pub(super) const ROWS: &[Row] = &[
    row("root", "root", &[Server, Location], How::By(root)),
    row("alias", "alias", &[Location], How::By(alias)),
    row("try_files", "try_files", &[Location], How::By(try_files)),
    row("index", "index", &[Server, Location], How::By(index)),
    row("autoindex", "autoindex", &[Server, Location], How::Flag),
    row("stub_status", "status", &[Server, Location], How::By(stub_status)),
    row("autoindex_exact_size", "the listing has a form of its own", ALL, How::Nothing),
    row("autoindex_localtime", "the listing has a form of its own", ALL, How::Nothing),
    row("autoindex_format", "the listing is a page", ALL, How::By(autoindex_format)),
    row("charset", "types, return.content_type", &[Http], How::By(charset)),
    row("types", "types", &[Http], How::By(types)),
    row(
        "default_type",
        "default_type, return.content_type",
        &[Http, Server, Location],
        How::By(default_type),
    ),
    row("sendfile", "sendfile", &[Http], How::Flag),
    row("max_ranges", "max_ranges", &[Http], How::Integer),
    row("gzip_static", "precompressed", &[Server, Location], How::By(gzip_static)),
    row("open_file_cache", "open_file_cache.entries", &[Http], How::By(open_file_cache)),
    row("open_file_cache_valid", "open_file_cache.valid", &[Http], How::Duration),
    row("open_file_cache_min_uses", "the files used last are kept", &[Http], How::Nothing),
    row("open_file_cache_errors", "files that are missing are looked for again", &[Http], How::Nothing),
    row("gzip", "compression, compression.encodings", &[Http, Location], How::By(gzip)),
    row("gzip_types", "compression.types", &[Http], How::By(gzip_types)),
    row("gzip_min_length", "compression.min_length", &[Http], How::Size),
    row("gzip_comp_level", "compression.gzip_level", &[Http], How::Integer),
    row("gzip_vary", "the field Vary is always sent where it belongs", &[Http], How::Nothing),
    row("gzip_buffers", "buffers are the worker's", &[Http], How::Nothing),
    row("gzip_proxied", "responses are encoded whoever asks, proxies too", &[Http], How::Nothing),
    row("gzip_http_version", "a client of HTTP/1.0 gets them up to the close", &[Http], How::Nothing),
    row("gzip_disable", "no client of today needs it", &[Http], How::Nothing),
    row("etag", "files always have an ETag", &[Http], How::Nothing),
    row("aio", "files are sent by the kernel", &[Http], How::Nothing),
    row("directio", "files are sent by the kernel", &[Http], How::Nothing),
    row("output_buffers", "files are sent by the kernel", &[Http], How::Nothing),
    row("sendfile_max_chunk", "the turn's budget bounds it", &[Http], How::Nothing),
    row("log_not_found", "a missing file is no error in drover's log", &[Http], How::Nothing),
    row("disable_symlinks", "links never lead out of the root", &[Http], How::Nothing),
];

fn root(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [path] = exactly(&directive.arguments)?;
    if has_variable(path) {
        return Err("a root has no variables in drover".to_owned());
    }
    let (path, remark) = scope.facts.directories.at_prefix(path);
    scope.set("root", string(&path));
    Ok(remark)
}

fn alias(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [path] = exactly(&directive.arguments)?;
    if has_variable(path) {
        return Err("a directory has no variables in drover".to_owned());
    }
    if !scope.path.starts_with('"') && !scope.path.contains("exact =") && !scope.path.contains("prefix =") {
        return Err("an expression has no path in place of which a directory could stand".to_owned());
    }
    let (path, remark) = scope.facts.directories.at_prefix(path);
    scope.set("alias", string(&path));
    let slashes = [scope.path.trim_end_matches([' ', '}', '"']).ends_with('/'), path.ends_with('/')];
    let uneven = scope.path.starts_with('"') && slashes[0] != slashes[1];
    Ok(remark.or(uneven.then(|| "what stands behind the location's path begins with \"/\"".to_owned())))
}

fn try_files(scope: &mut Scope, directive: &Directive) -> Verdict {
    if directive.arguments.len() < 2 {
        return Err("files and what happens without them are expected".to_owned());
    }
    let texts: Vec<String> = directive.arguments.iter().map(|text| string(text)).collect();
    scope.set("try_files", list(&texts));
    Ok(None)
}

fn index(scope: &mut Scope, directive: &Directive) -> Verdict {
    if directive.arguments.iter().any(|name| has_variable(name) || name.starts_with('/')) {
        return Err("drover looks for plain names in the directory itself".to_owned());
    }
    let names: Vec<String> = directive.arguments.iter().map(|name| string(name)).collect();
    scope.set("index", list(&names));
    Ok(None)
}

/// The block has noted it for its answers; files have one type in the whole service.
fn default_type(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [kind] = exactly(&directive.arguments)?;
    if scope.level == Http {
        scope.set("default_type", string(kind));
        return Ok(None);
    }
    Ok(Some("it is the type of what `return` answers here, not of files".to_owned()))
}

/// Types that drover knows as well need not be said.
fn types(scope: &mut Scope, directive: &Directive) -> Verdict {
    for entry in directive.inner() {
        for extension in &entry.arguments {
            let known = mime_guess::from_ext(extension).first_raw();
            if known != Some(entry.name.as_str()) {
                scope.set(&format!("types.{}", crate::document::key(extension)), string(&entry.name));
            }
        }
    }
    Ok(Some("types that drover knows by itself stay known".to_owned()))
}

fn stub_status(scope: &mut Scope, _: &Directive) -> Verdict {
    scope.set("status", string("json"));
    Ok(Some("the numbers are those of drover, as JSON".to_owned()))
}

fn autoindex_format(_: &mut Scope, directive: &Directive) -> Verdict {
    let [form] = exactly(&directive.arguments)?;
    if form == "html" { Ok(None) } else { Err("the listing is a page".to_owned()) }
}

/// The block has noted it.
fn charset(_: &mut Scope, directive: &Directive) -> Verdict {
    let [name] = exactly(&directive.arguments)?;
    if has_variable(name) { Err("a charset has a fixed name in drover".to_owned()) } else { Ok(None) }
}

/// Types that nginx adds a charset to, and extensions that they go with.
const WITH_CHARSET: &[(&str, &[&str])] = &[
    ("text/html", &["html", "htm", "shtml"]),
    ("text/xml", &["xml"]),
    ("text/plain", &["txt"]),
    ("text/vnd.wap.wml", &["wml"]),
    ("application/javascript", &["js"]),
    ("application/rss+xml", &["rss"]),
];

/// A type with the charset that goes with it.
pub(super) fn with_charset(kind: &str, charset: Option<&str>) -> String {
    match charset {
        Some(charset) if WITH_CHARSET.iter().any(|(known, _)| *known == kind) => {
            format!("{kind}; charset={charset}")
        }
        _ => kind.to_owned(),
    }
}

/// Writes the types of the service's files that have a charset.
pub(crate) fn write_charsets(scope: &mut Scope) {
    let Some(charset) = scope.charset.clone() else { return };
    for (kind, extensions) in WITH_CHARSET {
        for extension in *extensions {
            let key = format!("types.{extension}");
            // nginx's table of types has one for each of them.
            scope.set(&key, string(&format!("{kind}; charset={charset}")));
        }
    }
}

fn gzip_static(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    match value.as_str() {
        "on" => scope.set("precompressed", list(&[string("gzip")])),
        "off" => scope.set("precompressed", list(&[])),
        _ => return Err("drover sends them only to clients that accept them".to_owned()),
    }
    Ok(None)
}

fn open_file_cache(scope: &mut Scope, directive: &Directive) -> Verdict {
    let mut difference = None;
    for argument in &directive.arguments {
        match argument.split_once('=') {
            None if argument == "off" => scope.set("open_file_cache.entries", "0".to_owned()),
            Some(("max", text)) if super::number(text).is_some() => {
                scope.set("open_file_cache.entries", super::number(text).unwrap_or_default());
            }
            Some(("inactive", _)) => {
                difference = Some("files stay open until the place is needed".to_owned())
            }
            _ => return Err(format!("drover has nothing for `{argument}`")),
        }
    }
    Ok(difference)
}

fn gzip(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    let encodings: &[String] = match values::flag(value) {
        Some(true) => &[string("gzip")],
        Some(false) => &[],
        None => return Err(format!("`{value}` is not on or off")),
    };
    let key = if scope.level == Http { "compression.encodings" } else { "compression" };
    scope.set(key, list(encodings));
    Ok(None)
}

/// nginx always encodes text/html beside what is listed.
fn gzip_types(scope: &mut Scope, directive: &Directive) -> Verdict {
    let all = directive.arguments.iter().any(|kind| kind == "*");
    let mut kinds = vec!["text/html".to_owned()];
    kinds.extend(directive.arguments.iter().filter(|kind| *kind != "text/html").cloned());
    let kinds: Vec<String> = kinds.iter().map(|kind| string(kind)).collect();
    if all {
        return Err("drover encodes the types that are listed".to_owned());
    }
    scope.set("compression.types", list(&kinds));
    Ok(None)
}
