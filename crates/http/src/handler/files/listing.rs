//! A directory's entries as a page, where `autoindex` asks for it.
//!
//! Names are the choice of whoever may write into the directory: they are escaped in the text and encoded in
//! links. What could not be served is not listed: links that lead nowhere or out of the root, pipes, sockets and
//! devices. Hidden files (`.name`) are left out too, though they are served to who knows them.

use std::cmp::Ordering;
use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use jiff::Timestamp;
use nix::dir::{Dir, Type};
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};

use crate::{open, path};

pub(super) const CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// More entries are not shown: each costs a system call, while nobody else is served.
const MOST: usize = 2_000;

struct Entry {
    name: Vec<u8>,
    is_directory: bool,
    size: u64,
    /// Seconds since the epoch.
    modified: i64,
}

/// The page for `directory`, which is `relative` to `root`, with a slash at its end unless it is the root.
///
/// # Errors
/// When it cannot be read.
pub(super) fn page(root: &OwnedFd, relative: &[u8], directory: OwnedFd) -> io::Result<Vec<u8>> {
    let mut entries = Vec::new();
    let mut directory = Dir::from_fd(directory)?;
    let place = directory.as_fd().try_clone_to_owned()?;
    let mut more = false;
    for found in directory.iter() {
        let found = found?;
        let name = found.file_name().to_bytes();
        if name.starts_with(b".") {
            continue;
        }
        if entries.len() == MOST {
            more = true;
            break;
        }
        entries.extend(entry(root, relative, &place, name, found.file_type()));
    }
    entries.sort_unstable_by(Entry::order);
    Ok(write(relative, &entries, more).into_bytes())
}

/// What is said about an entry; none if it is not served.
fn entry(root: &OwnedFd, relative: &[u8], place: &OwnedFd, name: &[u8], kind: Option<Type>) -> Option<Entry> {
    let status = match kind {
        // Where it leads to, if that is beneath the root.
        Some(Type::Symlink) | None => {
            let target = open::beneath(root.as_fd(), &[relative, name].concat()).ok()?;
            fstat(target).ok()?
        }
        Some(Type::File | Type::Directory) => fstatat(place, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?,
        Some(_) => return None,
    };
    Entry::new(name, &status)
}

impl Entry {
    fn new(name: &[u8], status: &FileStat) -> Option<Entry> {
        let kind = SFlag::from_bits_truncate(status.st_mode & SFlag::S_IFMT.bits());
        let is_directory = kind == SFlag::S_IFDIR;
        (is_directory || kind == SFlag::S_IFREG).then(|| Entry {
            name: name.to_vec(),
            is_directory,
            size: u64::try_from(status.st_size).unwrap_or(0),
            modified: status.st_mtime,
        })
    }

    /// Directories first, then by name.
    fn order(&self, other: &Entry) -> Ordering {
        other.is_directory.cmp(&self.is_directory).then_with(|| self.name.cmp(&other.name))
    }
}

const STYLE: &str = "body{font-family:sans-serif;margin:2em}td,th{padding:.1em 1.5em .1em 0;text-align:left}\
                     td+td{white-space:nowrap;color:#555}td.size{text-align:right}";

fn write(relative: &[u8], entries: &[Entry], more: bool) -> String {
    let title = format!("/{}", escaped(relative));
    let mut page = format!(
        "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Index of {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>Index of {title}</h1>\n\
         <table>\n<tr><th>Name</th><th>Size</th><th>Changed (UTC)</th></tr>\n"
    );
    if !relative.is_empty() {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for entry in entries {
        let slash = if entry.is_directory { "/" } else { "" };
        let mut link = Vec::new();
        path::encode(&entry.name, &mut link);
        // "./" in front, or "a:b" would be a scheme. Writing to a `String` cannot fail.
        let _ = writeln!(
            page,
            "<tr><td><a href=\"./{}{slash}\">{}{slash}</a></td><td class=\"size\">{}</td><td>{}</td></tr>",
            escaped(&link),
            escaped(&entry.name),
            if entry.is_directory { String::new() } else { readable_size(entry.size) },
            Timestamp::from_second(entry.modified)
                .map_or(String::new(), |time| time.strftime("%Y-%m-%d %H:%M").to_string()),
        );
    }
    page.push_str("</table>\n");
    if more {
        let _ = writeln!(page, "<p>There are more entries than the {MOST} shown.</p>");
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// Text for between tags and in quotes; bytes that are no UTF-8 are shown as such.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for letter in String::from_utf8_lossy(bytes).chars() {
        match letter {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            letter => text.push(letter),
        }
    }
    text
}

/// A size with three digits or so: `512 B`, `1.5 KiB`.
fn readable_size(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size < 1024.0 {
            return match unit {
                "B" => format!("{bytes} B"),
                _ if size < 10.0 => format!("{size:.1} {unit}"),
                _ => format!("{size:.0} {unit}"),
            };
        }
        size /= 1024.0;
    }
    format!("{size:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        for (bytes, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (102_400, "100 KiB"),
            (5 << 20, "5.0 MiB"),
            (3 << 40, "3.0 TiB"),
        ] {
            assert_eq!(readable_size(bytes), want);
        }
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let entry = |name: &str, is_directory| Entry {
            name: name.into(),
            is_directory,
            size: 5,
            modified: 1_000_000_000,
        };
        let mut entries = vec![
            entry("b", false),
            entry("\"><script>alert('x')</script>&", false),
            entry("z", true),
            entry("javascript:x", false),
        ];
        entries.sort_unstable_by(Entry::order);
        let page = write(b"<i>/", &entries, false);
        assert!(page.contains("<title>Index of /&lt;i&gt;/</title>"), "{page}");
        assert!(!page.contains("<script") && !page.contains("<i>"), "{page}");
        assert!(page.contains(
            "<a href=\"./%22%3E%3Cscript%3Ealert(&#39;x&#39;)%3C/script%3E&amp;\">\
             &quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;</a>"
        ));
        assert!(page.contains("<a href=\"./javascript:x\">javascript:x</a>"), "{page}");
        assert!(
            page.contains("<a href=\"./z/\">z/</a></td><td class=\"size\"></td><td>2001-09-09 01:46</td>")
        );
        let order: Vec<_> = ["./z/", "./%22", "./b", "./javascript"].map(|link| page.find(link)).into();
        assert!(order.is_sorted() && order[0].is_some(), "{page}");
        assert!(page.contains("href=\"../\""));
        assert!(!write(b"", &[], false).contains("../") && write(b"", &[], true).contains("more entries"));
    }

    #[test]
    fn bytes_that_are_no_text_still_make_a_link() {
        let entries = [Entry { name: b"\xff%?#".to_vec(), is_directory: false, size: 0, modified: i64::MAX }];
        let page = write(b"", &entries, false);
        assert!(page.contains("<a href=\"./%FF%25%3F%23\">\u{fffd}%?#</a>"), "{page}");
    }
}
