//! The first message of a TLS client, byte by byte.

/// A ClientHello of TLS 1.2 in one record that asks for `name`, or for none. RFC 5246, 7.4.1.2, and RFC 6066, 3.
pub fn client_hello(name: Option<&str>) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    // No session; two cipher suites; no compression.
    body.extend([0, 0, 4, 0x13, 0x01, 0xc0, 0x2f, 1, 0]);
    let mut extensions = vec![0, 10, 0, 4, 0, 2, 0, 29];
    if let Some(name) = name {
        let list = [&[0][..], &sized(name.as_bytes())].concat();
        extensions.extend([0, 0]);
        extensions.extend(sized(&sized(&list)));
    }
    body.extend(sized(&extensions));
    let length = (body.len() as u32).to_be_bytes();
    let message = [&[1], &length[1..], &body].concat();
    [&[22, 3, 1][..], &sized(&message)].concat()
}

/// Behind its length in two bytes.
fn sized(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u16).to_be_bytes(), content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_add_up() {
        let hello = client_hello(Some("a.example"));
        assert_eq!(usize::from(u16::from_be_bytes([hello[3], hello[4]])), hello.len() - 5);
        assert_eq!(usize::from(hello[8]), hello.len() - 9);
        assert!(hello.len() > client_hello(None).len());
    }
}
