//! Chunked bodies, taken apart strictly: what a client or a backend of a test receives is not to be in doubt.

/// A whole chunked body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunked {
    /// The data of all chunks.
    pub data: Vec<u8>,
    /// How many bytes of data each chunk had.
    pub sizes: Vec<usize>,
    /// The fields of the trailer section.
    pub trailers: Vec<(String, String)>,
    /// How many bytes it took.
    pub length: usize,
}

/// The chunked body that `bytes` begin with; `None` while it is not whole.
///
/// # Errors
///
/// What is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Option<Chunked>, String> {
    let mut body = Chunked { data: Vec::new(), sizes: Vec::new(), trailers: Vec::new(), length: 0 };
    loop {
        let Some(line) = line(&bytes[body.length..])? else { return Ok(None) };
        body.length += line.len() + 2;
        let size = usize::from_str_radix(line, 16).map_err(|_| format!("a chunk of size {line:?}"))?;
        if size == 0 {
            break;
        }
        let Some(chunk) = bytes.get(body.length..body.length + size + 2) else { return Ok(None) };
        let data = chunk.strip_suffix(b"\r\n").ok_or("no line end after a chunk")?;
        body.data.extend_from_slice(data);
        body.sizes.push(size);
        body.length += size + 2;
    }
    loop {
        let Some(line) = line(&bytes[body.length..])? else { return Ok(None) };
        body.length += line.len() + 2;
        if line.is_empty() {
            return Ok(Some(body));
        }
        let (name, value) = line.split_once(':').ok_or_else(|| format!("a trailer line {line:?}"))?;
        body.trailers.push((name.to_owned(), value.trim().to_owned()));
    }
}

/// The line that `bytes` begin with, without its end.
fn line(bytes: &[u8]) -> Result<Option<&str>, String> {
    let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let line = std::str::from_utf8(&bytes[..end]).map_err(|error| error.to_string())?;
    if line.contains(['\r', '\n']) { Err(format!("a bare CR or LF in {line:?}")) } else { Ok(Some(line)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_taken_apart_once_it_is_whole() {
        let bytes = b"3\r\nabc\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\nrest";
        let whole = bytes.len() - 4;
        for end in 0..whole {
            assert_eq!(parse(&bytes[..end]), Ok(None), "{end} bytes");
        }
        let body = parse(bytes).expect("well formed").expect("whole");
        assert_eq!((body.data.as_slice(), body.length), (b"abc0123456789".as_slice(), whole));
        assert_eq!(body.sizes, [3, 10]);
        assert_eq!(body.trailers, [("X".to_owned(), "y".to_owned())]);
        for wrong in [b"x\r\n".as_slice(), b"3\r\nabcd\r\n", b"3;a\r\nabc\r\n", b"1\na\r\n0\r\n\r\n"] {
            assert!(parse(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }
}
