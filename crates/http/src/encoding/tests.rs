//! What is encoded is decoded by others, whole, however it was pushed.

use std::io::Read;

use proptest::prelude::*;

use super::*;

const LEVELS: Levels = Levels { gzip: 5, brotli: 4, zstd: 3 };

/// Decodes what there is; a body that does not end is an error of its own.
fn decoded(coding: Coding, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    match coding {
        Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut out)?,
        Coding::Brotli => ::brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out)?,
        Coding::Zstd => ::zstd::stream::read::Decoder::new(bytes)?.read_to_end(&mut out)?,
    };
    Ok(out)
}

/// Text that is worth encoding.
fn text(length: usize) -> Vec<u8> {
    (0_u64..)
        .flat_map(|line| format!("line {line}, {:x}\n", line * line % 9973).into_bytes())
        .take(length)
        .collect()
}

#[test]
fn whole_bodies_come_back_smaller() {
    let text = text(100_000);
    for coding in Coding::ALL {
        let encoded = whole(coding, &LEVELS, &text).expect("memory");
        assert!(encoded.len() < text.len() / 2, "{coding}: {}", encoded.len());
        assert_eq!(decoded(coding, &encoded).expect("a whole body"), text, "{coding}");
        assert_eq!(decoded(coding, &whole(coding, &LEVELS, b"").expect("memory")).expect("a body"), b"");
    }
}

#[test]
fn every_level_works() {
    let text = text(30_000);
    let check = |coding, levels: Levels| {
        let encoded = whole(coding, &levels, &text).expect("memory");
        assert!(decoded(coding, &encoded).expect("a whole body") == text, "{coding} {levels:?}");
    };
    (1..=9).for_each(|gzip| check(Coding::Gzip, Levels { gzip, ..LEVELS }));
    (0..=6).for_each(|brotli| check(Coding::Brotli, Levels { brotli, ..LEVELS }));
    (1..=12).for_each(|zstd| check(Coding::Zstd, Levels { zstd, ..LEVELS }));
}

#[test]
fn what_was_flushed_can_be_read() {
    for coding in Coding::ALL {
        let mut encoder = Encoder::new(coding, &LEVELS, None).expect("memory");
        let mut out = Vec::new();
        encoder.push(b"first", &mut out).expect("memory");
        encoder.flush(&mut out).expect("memory");
        let mut seen = [0; 5];
        let first = match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(&out[..]).read_exact(&mut seen),
            Coding::Brotli => ::brotli::Decompressor::new(&out[..], 4096).read_exact(&mut seen),
            Coding::Zstd => {
                ::zstd::stream::read::Decoder::new(&out[..]).expect("memory").read_exact(&mut seen)
            }
        };
        first.expect("what was pushed before");
        assert_eq!(&seen, b"first", "{coding}");
        encoder.push(b" and second", &mut out).expect("memory");
        encoder.finish(&mut out).expect("memory");
        assert_eq!(decoded(coding, &out).expect("a whole body"), b"first and second", "{coding}");
    }
}

#[test]
fn a_body_that_was_not_ended_is_not_taken_for_whole() {
    let text = text(100_000);
    for coding in Coding::ALL {
        let encoded = whole(coding, &LEVELS, &text).expect("memory");
        for cut in [encoded.len() - 1, encoded.len() / 2, 1] {
            assert!(decoded(coding, &encoded[..cut]).is_err(), "{coding} up to {cut}");
        }
    }
}

#[test]
fn an_encoder_is_used_again() {
    for (coding, again) in [(Coding::Gzip, true), (Coding::Brotli, false), (Coding::Zstd, true)] {
        let mut encoder = Encoder::new(coding, &LEVELS, Some(100_000)).expect("memory");
        let mut out = Vec::new();
        // Left in the middle.
        encoder.push(&text(50_000), &mut out).expect("memory");
        assert_eq!(encoder.restart(Some(5)), again, "{coding}");
        if again {
            out.clear();
            encoder.push(b"other", &mut out).expect("memory");
            encoder.finish(&mut out).expect("memory");
            assert_eq!(decoded(coding, &out).expect("a whole body"), b"other", "{coding}");
        }
    }
}

#[test]
fn a_piece_appends_no_more_than_it_may_hold() {
    // Noise, which no coding makes smaller.
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    };
    let noise: Vec<u8> = (0..64 * PIECE).map(|_| noise()).collect();
    for coding in Coding::ALL {
        let mut encoder = Encoder::new(coding, &LEVELS, Some(noise.len() as u64)).expect("memory");
        let (mut whole, mut most) = (Vec::new(), 0);
        for piece in noise.chunks(PIECE) {
            let mut out = Vec::new();
            encoder.push(piece, &mut out).expect("memory");
            most = most.max(out.len());
            whole.extend_from_slice(&out);
        }
        encoder.finish(&mut whole).expect("memory");
        // What Brotli and Zstandard gather before they make a block of it.
        assert!(most <= 150_000, "{coding}: {most}");
        assert!(decoded(coding, &whole).expect("a whole body") == noise, "{coding}");
    }
}

proptest! {
    #[test]
    fn any_pieces_make_the_same_body(
        body in proptest::collection::vec(0_u8..8, 0..3000),
        cuts in proptest::collection::vec((0_usize..3000, any::<bool>()), 0..6),
        coding in proptest::sample::select(&Coding::ALL[..]),
    ) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut encoder = Encoder::new(coding, &LEVELS, None).expect("memory");
        let (mut out, mut at) = (Vec::new(), 0);
        for (cut, flush) in cuts {
            let cut = cut.min(body.len());
            encoder.push(&body[at..cut], &mut out).expect("memory");
            if flush {
                encoder.flush(&mut out).expect("memory");
            }
            at = cut;
        }
        encoder.push(&body[at..], &mut out).expect("memory");
        encoder.finish(&mut out).expect("memory");
        prop_assert_eq!(decoded(coding, &out).expect("a whole body"), body);
    }
}
