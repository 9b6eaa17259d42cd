//! Questions and answers of DNS, as much of them as tests need. RFC 1035, 4.

use std::net::Ipv4Addr;

const HEADER: usize = 12;

/// A question for the IPv4 address of a name, with this number.
pub fn question(number: u16, name: &str) -> Vec<u8> {
    let mut message = number.to_be_bytes().to_vec();
    // Recursion is desired; one question.
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

/// The address that a message answers `question` with; none where it answers another one, or with none.
pub fn answer(question: &[u8], message: &[u8]) -> Option<Ipv4Addr> {
    let is_answer = message.get(2)? & 0x80 != 0 && message.get(3)? & 0x0f == 0;
    let same = message.get(..2)? == &question[..2]
        && message.get(HEADER..question.len())?.eq_ignore_ascii_case(&question[HEADER..]);
    // A pointer to the name, type A, class IN, four bytes of time to live, four bytes of data.
    let record = message.get(question.len()..question.len() + 16)?;
    let bytes: [u8; 4] = record[12..].try_into().ok()?;
    (is_answer && same && record[2..6] == [0, 1, 0, 1] && record[10..12] == [0, 4]).then(|| bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_from_others() {
        let question = question(7, "a.test");
        let mut message = question.clone();
        message[2] = 0x81;
        message[7] = 1;
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
        assert_eq!(answer(&question, &message), Some(Ipv4Addr::new(192, 0, 2, 1)));
        message[1] = 8;
        assert_eq!(answer(&question, &message), None);
        assert_eq!(answer(&question, &question), None);
    }
}
