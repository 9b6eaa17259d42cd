//! Chunks of a body whose length is not known beforehand
//! ([RFC 9112, 7.1](https://www.rfc-editor.org/rfc/rfc9112#section-7.1)), written in place.

/// Room for a size of up to eight digits and its line's end.
const ROOM: usize = 10;

/// The chunk that ends a body.
pub(crate) const LAST: &[u8] = b"0\r\n\r\n";

/// Begins a chunk at the end of `out`: what is appended from now on is its data. To be given to [`end`].
pub(crate) fn begin(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; ROOM]);
    at
}

/// Ends the chunk that begins `at`; none is left where it has no data, as an empty one would end the body.
///
/// # Panics
/// If it has 4 GiB or more.
pub(crate) fn end(out: &mut Vec<u8>, at: usize) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let length = out.len() - at - ROOM;
    if length == 0 {
        out.truncate(at);
        return;
    }
    assert!(u32::try_from(length).is_ok(), "a chunk of {length} bytes");
    let digits = length.ilog(16) as usize + 1;
    for (place, digit) in out[at..at + digits].iter_mut().rev().enumerate() {
        *digit = HEX[(length >> (4 * place)) & 15];
    }
    out[at + digits..at + digits + 2].copy_from_slice(b"\r\n");
    out.copy_within(at + ROOM.., at + digits + 2);
    out.truncate(at + digits + 2 + length);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_written_behind_what_is_there() {
        for (length, size) in
            [(1, "1"), (15, "f"), (16, "10"), (255, "ff"), (4096, "1000"), (70_000, "11170")]
        {
            let mut out = b"before".to_vec();
            let at = begin(&mut out);
            let data = vec![b'x'; length];
            out.extend_from_slice(&data);
            end(&mut out, at);
            let want = [format!("before{size}\r\n").as_bytes(), &data, b"\r\n"].concat();
            assert!(out == want, "{length}");
        }
    }

    #[test]
    fn an_empty_chunk_is_none() {
        let mut out = b"before".to_vec();
        let at = begin(&mut out);
        end(&mut out, at);
        assert_eq!(out, b"before");
    }
}
