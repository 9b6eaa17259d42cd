//! Sending: the output, and the rest of an answer that does not stand in it.
//!
//! A body is never longer or shorter than its head said: where bytes are missing, because a file shrank, the
//! connection ends, and in a way that no client takes for the end of the body.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use drover_event::{CloseReason, Phase, StreamError};
use tracing::warn;

use super::chunks;
use super::connection::Conversation;
use super::sending::Sending;
use super::work::{OUTPUT_IN_ONE_GO, Work};
use crate::encoding::PIECE;
use crate::handler::files::multipart::Parts;
use crate::handler::files::offers::Encoded;
use crate::handler::files::open_file::{Content, OpenFile};

/// Sends the output.
pub(super) async fn flush(on: &Conversation, work: &mut Work) -> Result<(), StreamError> {
    if work.output.is_empty() {
        return Ok(());
    }
    Sending::new(on, work).flush(false).await
}

/// From this size on a part of a file is sent apart from the head. Joined by `MSG_MORE`, the head would
/// shift every page of the file over the borders of segments, which costs the kernel 40 % more for 100 KiB.
const HEAD_ALONE: u64 = 16 * 1024;

/// Sends the output and a part of a file, and finishes the answer.
pub(super) async fn file(
    on: &mut Conversation,
    work: &mut Work,
    file: &OpenFile,
    range: Range<u64>,
) -> Result<(), StreamError> {
    // Here and not only where it waits: a disk that is slow keeps the worker inside the calls that follow.
    on.stream.set_phase(Phase::Sending);
    let mut at = range.start;
    let more = range.end - range.start < HEAD_ALONE;
    let mut sending = Sending::new(on, work);
    let sent = match sending.flush(more).await {
        Ok(()) => send_part(&mut sending, file, &mut at, range.end).await,
        fault => fault,
    };
    finish(on, work, at - range.start);
    sent
}

/// Sends the output and several parts of a file, and finishes the answer.
pub(super) async fn parts(on: &mut Conversation, work: &mut Work, parts: &Parts) -> Result<(), StreamError> {
    on.stream.set_phase(Phase::Sending);
    let mut sent = 0;
    let result = send_parts(&mut Sending::new(on, work), parts, &mut sent).await;
    finish(on, work, sent);
    result
}

async fn send_parts(sending: &mut Sending<'_>, parts: &Parts, sent: &mut u64) -> Result<(), StreamError> {
    for (before, range) in &parts.parts {
        sending.output.extend_from_slice(before);
        sending.flush(true).await?;
        *sent += before.len() as u64;
        let mut at = range.start;
        let part = send_part(sending, &parts.file, &mut at, range.end).await;
        *sent += at - range.start;
        part?;
    }
    sending.output.extend_from_slice(&parts.end);
    sending.flush(false).await?;
    *sent += parts.end.len() as u64;
    Ok(())
}

/// So much of a file is encoded before what came out is sent, however little that is: the client sees that it goes
/// on, and one that is gone is noticed.
const ENCODED_IN_ONE_GO: u64 = 8 * PIECE as u64;

/// Sends the output and a file in its coding, and finishes the answer.
pub(super) async fn encoded(
    on: &mut Conversation,
    work: &mut Work,
    mut encoded: Encoded,
) -> Result<(), StreamError> {
    on.stream.set_phase(Phase::Sending);
    let mut sent = 0;
    let result = send_encoded(&mut Sending::new(on, work), &mut encoded, &mut sent).await;
    if result.is_err() && !encoded.chunked {
        // The end of the connection would be taken for that of the body.
        // Where that fails the connection is gone.
        let _ = on.stream.close_by_reset();
    }
    finish(on, work, sent);
    result
}

async fn send_encoded(
    sending: &mut Sending<'_>,
    encoded: &mut Encoded,
    sent: &mut u64,
) -> Result<(), StreamError> {
    let on = sending.on;
    let (mut at, mut done) = (0, false);
    while !done {
        let begin = sending.output.len();
        let chunk = encoded.chunked.then(|| chunks::begin(sending.output));
        let sent_by = at + ENCODED_IN_ONE_GO;
        while !done && sending.output.len() < OUTPUT_IN_ONE_GO && at < sent_by {
            done = encode_piece(on, encoded, &mut at, sending.output)?;
            on.stream.core().yield_now().await;
        }
        if let Some(chunk) = chunk {
            chunks::end(sending.output, chunk);
            if done {
                sending.output.extend_from_slice(chunks::LAST);
            }
        }
        let made = sending.output.len() - begin;
        sending.flush(!done).await?;
        *sent += made as u64;
    }
    Ok(())
}

/// Reads a piece of the file and appends what comes out of its coding. True once all is out.
fn encode_piece(
    on: &Conversation,
    encoded: &mut Encoded,
    at: &mut u64,
    out: &mut Vec<u8>,
) -> Result<bool, StreamError> {
    let left = encoded.size - *at;
    let mut buffer = on.stream.core().take_buffer();
    let room = buffer.len().min(PIECE).min(usize::try_from(left).unwrap_or(usize::MAX));
    let piece = match &encoded.file.content {
        Content::Memory(bytes) => &bytes[*at as usize..][..room],
        Content::Descriptor(descriptor) => {
            let count = read(on, descriptor, &mut buffer[..room], *at)?;
            if count == 0 && left > 0 {
                return Err(shrank(on, left));
            }
            &buffer[..count]
        }
    };
    encoded.encoder.push(piece, out)?;
    *at += piece.len() as u64;
    let done = *at == encoded.size;
    if done {
        encoded.encoder.finish(out)?;
    }
    Ok(done)
}

/// The answer is out, or as much of it as there will be.
fn finish(on: &Conversation, work: &mut Work, sent: u64) {
    work.output.clear();
    work.sent = 0;
    work.finish(on, sent);
}

/// Reads a part of a file that is being sent.
fn read(on: &Conversation, file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    file.read_at(buffer, at).inspect_err(|fault| {
        warn!(connection = on.stream.number(), "a file cannot be read any further: {fault}");
        on.stream.close_because(CloseReason::InternalError);
    })
}

#[cold]
fn shrank(on: &Conversation, missing: u64) -> StreamError {
    let number = on.stream.number();
    warn!(connection = number, "a file shrank while it was sent: {missing} bytes are missing");
    on.stream.close_because(CloseReason::InternalError);
    io::Error::from(io::ErrorKind::UnexpectedEof).into()
}

async fn send_part(
    sending: &mut Sending<'_>,
    file: &OpenFile,
    at: &mut u64,
    end: u64,
) -> Result<(), StreamError> {
    let on = sending.on;
    let descriptor = match &file.content {
        Content::Memory(bytes) => {
            let part = &bytes[*at as usize..end as usize];
            sending.all(part, false).await?;
            *at = end;
            return Ok(());
        }
        Content::Descriptor(descriptor) => descriptor,
    };
    while *at < end {
        let sent = match on.worker.plan.sendfile {
            true => on.stream.try_send_file(descriptor.as_fd(), at, end - *at),
            false => send_copied(on, descriptor, at, end),
        };
        match sent {
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => {}
            sent => {
                if sent? == 0 {
                    return Err(shrank(on, end - *at));
                }
            }
        }
        if *at < end {
            // Past its budget, the connection gives way here.
            sending.writable().await?;
        }
    }
    Ok(())
}

/// Sends a piece of a file through memory. What the client does not take is read again later: nothing is held while
/// it is waited for.
fn send_copied(on: &Conversation, file: &File, at: &mut u64, end: u64) -> io::Result<usize> {
    let mut buffer = on.stream.core().take_buffer();
    let room = buffer.len().min(usize::try_from(end - *at).unwrap_or(usize::MAX));
    let count = read(on, file, &mut buffer[..room], *at)?;
    if count == 0 {
        return Ok(0);
    }
    let sent = on.stream.try_send(&buffer[..count], *at + (count as u64) < end)?;
    *at += sent as u64;
    Ok(sent)
}
