//! Numbers that tell requests apart everywhere, and the name of this machine.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

use crate::random;

/// Draws the numbers of one worker's requests: 128 bits, which nobody outside can foretell from a few of them.
#[derive(Debug)]
pub(crate) struct RequestIds {
    state: Cell<u128>,
    /// Odd, and different for each worker.
    step: u128,
}

impl RequestIds {
    /// Begins somewhere that only the system knows. To be called after the fork: workers must differ.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub(crate) fn new() -> io::Result<RequestIds> {
        let bytes: [u8; 32] = random::bytes()?;
        let (state, step) = bytes.split_at(16);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
        Ok(RequestIds { state: Cell::new(number(state)), step: number(step) | 1 })
    }

    #[cfg(test)]
    pub(crate) fn seeded(seed: u128) -> RequestIds {
        RequestIds { state: Cell::new(seed), step: 1 }
    }

    /// The next number: a Weyl sequence, which visits every state once, through a mixer of the kind of
    /// MurmurHash3's finaliser.
    pub(crate) fn draw(&self) -> u128 {
        let state = self.state.get().wrapping_add(self.step);
        self.state.set(state);
        let mut mixed = state ^ state >> 65;
        mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        mixed ^= mixed >> 67;
        mixed = mixed.wrapping_mul(0xff51_afd7_ed55_8ccd_c4ce_b9fe_1a85_ec53);
        mixed ^ mixed >> 63
    }

    /// Appends a number as 32 hexadecimal digits.
    pub(crate) fn push(&self, id: u128, out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        out.extend((0..32).rev().map(|digit| DIGITS[(id >> (digit * 4)) as usize & 15]));
    }
}

/// The name of this machine, as it was when it was first asked for.
pub(crate) fn hostname() -> &'static [u8] {
    static NAME: OnceLock<Vec<u8>> = OnceLock::new();
    NAME.get_or_init(|| nix::unistd::gethostname().map(|name| name.into_encoded_bytes()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_do_not_come_again() {
        let ids = RequestIds::new().expect("random bytes");
        let mut drawn: Vec<u128> = (0..1000).map(|_| ids.draw()).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 1000);
        assert_ne!(
            RequestIds::new().expect("random bytes").draw(),
            RequestIds::new().expect("random bytes").draw()
        );
    }

    #[test]
    fn they_have_32_digits() {
        let mut out = Vec::new();
        RequestIds::seeded(0).push(0x12ab, &mut out);
        assert_eq!(out, b"000000000000000000000000000012ab");
    }
}
