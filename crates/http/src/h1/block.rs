//! Sixteen bytes of a head looked at together.
//!
//! A pick has all bits set in the place of each byte that is looked for; picks are joined by `|`. [`find`] gives
//! where the first such byte stands.

use wide::u8x16;

/// Bytes in a block.
const SIZE: usize = 16;

/// Picks the bytes that are `byte`.
#[inline]
pub(super) fn equal(block: u8x16, byte: u8) -> u8x16 {
    block.cmp_eq(u8x16::splat(byte))
}

/// Picks the bytes from `first` to `last`, which is not below it.
#[inline]
pub(super) fn within(block: u8x16, first: u8, last: u8) -> u8x16 {
    let above = block - u8x16::splat(first);
    above.min(u8x16::splat(last - first)).cmp_eq(above)
}

/// Picks what `pick` does not.
#[inline]
pub(super) fn not(pick: u8x16) -> u8x16 {
    pick ^ u8x16::splat(0xff)
}

/// Sets bit 5 of each byte, which makes letters lower case.
#[inline]
pub(super) fn lower(block: u8x16) -> u8x16 {
    block | u8x16::splat(0x20)
}

/// Where the first byte stands, from `at` on, that `pick` picks; the length where there is none. NUL must be
/// picked.
#[inline]
pub(super) fn find(bytes: &[u8], at: usize, pick: impl Fn(u8x16) -> u8x16) -> usize {
    // Most are in the first block, for which no loop has to be set up.
    let rest = &bytes[at..];
    let Some(block) = rest.first_chunk() else {
        return at + pick(padded(rest)).move_mask().trailing_zeros() as usize;
    };
    match pick(u8x16::new(*block)).move_mask() {
        0 => find_on(bytes, at + SIZE, pick),
        picked => at + picked.trailing_zeros() as usize,
    }
}

#[inline(never)]
fn find_on(bytes: &[u8], at: usize, pick: impl Fn(u8x16) -> u8x16) -> usize {
    let mut rest = &bytes[at..];
    while let Some((block, behind)) = rest.split_first_chunk() {
        let picked = pick(u8x16::new(*block)).move_mask();
        if picked != 0 {
            return bytes.len() - rest.len() + picked.trailing_zeros() as usize;
        }
        rest = behind;
    }
    let picked = pick(padded(rest)).move_mask();
    bytes.len() - rest.len() + picked.trailing_zeros() as usize
}

/// What [`find`] finds, as the bytes before it and those from it on.
#[inline]
pub(super) fn split(bytes: &[u8], pick: impl Fn(u8x16) -> u8x16) -> (&[u8], &[u8]) {
    bytes.split_at(find(bytes, 0, pick))
}

/// Fewer bytes than a block has, and NULs behind them. Read from both ends: where the two overlap they are the same.
#[inline(never)]
fn padded(bytes: &[u8]) -> u8x16 {
    let number = match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            let shift = 8 * (bytes.len() - size_of::<u64>());
            u128::from(u64::from_le_bytes(*first)) | u128::from(u64::from_le_bytes(*last)) << shift
        }
        _ => u128::from(padded_half(bytes)),
    };
    u8x16::new(number.to_le_bytes())
}

/// The same for half a block.
#[inline]
fn padded_half(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            let shift = 8 * (bytes.len() - size_of::<u32>());
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << shift
        }
        _ => bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_byte_picked_is_found(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'x')], 0..60),
            at in 0_usize..60,
        ) {
            let at = at.min(bytes.len());
            let first = |is: fn(u8) -> bool| {
                bytes[at..].iter().position(|byte| is(*byte)).map_or(bytes.len(), |more| at + more)
            };
            prop_assert_eq!(
                find(&bytes, at, |block| within(block, 0, b'/') | equal(block, b'?')),
                first(|byte| byte < b'0' || byte == b'?')
            );
            prop_assert_eq!(
                find(&bytes, at, |block| not(within(lower(block), b'a', b'z') | within(block, 0x80, 0xff))),
                first(|byte| byte.is_ascii() && !byte.is_ascii_alphabetic())
            );
        }
    }
}
