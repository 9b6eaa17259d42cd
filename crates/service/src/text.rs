//! Writing numbers, addresses and escaped bytes without `fmt`.

use std::io::Write;
use std::net::IpAddr;

/// Appends `number` in decimal.
pub fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends milliseconds as seconds with three decimals.
pub fn push_seconds(out: &mut Vec<u8>, millis: u64) {
    push_number(out, millis / 1000);
    let rest = millis % 1000;
    let digits = [b'.', digit(rest / 100), digit(rest / 10), digit(rest)];
    out.extend_from_slice(&digits);
}

fn digit(number: u64) -> u8 {
    b'0' + (number % 10) as u8
}

/// Appends an address as it is usually written; IPv4 addresses that arrived over IPv6 as IPv4.
pub fn push_address(out: &mut Vec<u8>, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for (at, part) in address.octets().into_iter().enumerate() {
                if at > 0 {
                    out.push(b'.');
                }
                push_number(out, u64::from(part));
            }
        }
        IpAddr::V6(address) => {
            // Writing to a `Vec` cannot fail.
            let _ = write!(out, "{address}");
        }
    }
}

/// Appends `bytes` so that nothing in them can end a quoted string or a line, or reach a terminal: `"`, `\`
/// and everything that is not visible ASCII or space becomes `\xHH`.
pub fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| must_escape(*byte)) {
        let byte = rest[at];
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

fn must_escape(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || !(b' '..=b'~').contains(&byte)
}

/// Appends `bytes` as they stand within a string of JSON ([RFC 8259, 7](https://www.rfc-editor.org/rfc/rfc8259#section-7)).
/// What is no UTF-8 becomes U+FFFD: JSON has no bytes.
pub fn push_json(out: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for chunk in bytes.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                0..b' ' | 0x7f => {
                    let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                    out.extend_from_slice(b"\\u00");
                    out.extend_from_slice(&digits);
                }
                _ => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("only ASCII is written")
    }

    #[test]
    fn numbers() {
        for number in [0, 9, 10, 12345, u64::MAX] {
            assert_eq!(made(|out| push_number(out, number)), number.to_string());
        }
        assert_eq!(made(|out| push_seconds(out, 0)), "0.000");
        assert_eq!(made(|out| push_seconds(out, 12_045)), "12.045");
        assert_eq!(made(|out| push_seconds(out, 999)), "0.999");
    }

    #[test]
    fn addresses() {
        for (text, want) in [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::ffff:10.0.0.1", "10.0.0.1")] {
            let address = text.parse().expect("an address");
            assert_eq!(made(|out| push_address(out, address)), want);
        }
    }

    #[test]
    fn nothing_breaks_out_of_a_log_line() {
        let hostile = b"a\"b\\c\r\n\x1b[31m\xff\x00 d";
        assert_eq!(made(|out| push_escaped(out, hostile)), r"a\x22b\x5Cc\x0D\x0A\x1B[31m\xFF\x00 d");
    }
}
