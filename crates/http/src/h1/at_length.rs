//! What a connection does where it must wait: the boxed part of its future.
//!
//! Drives [`Work`] on: fulfils what [`Work::advance`] asks for, until the connection is idle again or closed.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use drover_event::{Phase, StreamError};
use tracing::{debug, warn};

use super::connection::Conversation;
use super::work::{Step, Work};
use crate::handler::files::{Content, OpenFile};
use crate::handler::proxy;

/// What must wait: the connection, the work on it, and what it needs to go on.
pub(crate) type AtLength = (Conversation, Box<Work>, Step);

/// Goes on where waiting is needed, until the connection is idle again (true) or closed (false).
pub(crate) async fn at_length((mut on, mut work, step): AtLength) -> (Conversation, bool) {
    let stays = match go_on(&mut on, &mut work, step).await {
        Ok(stays) => stays,
        Err(fault) => {
            debug!(connection = on.stream.number(), "closing: {fault}");
            false
        }
    };
    on.worker.give_back(work);
    (on, stays)
}

async fn go_on(on: &mut Conversation, work: &mut Work, mut step: Step) -> Result<bool, StreamError> {
    loop {
        match step {
            Step::Receive => {
                flush(on, work).await?;
                if work.is_drained() {
                    on.wait_for_further();
                    return Ok(true);
                }
                receive_head(on, work).await?;
            }
            Step::ReceiveBody => {
                flush(on, work).await?;
                receive_body(on, work).await?;
            }
            Step::Flush => flush(on, work).await?,
            Step::GiveWay => {
                flush(on, work).await?;
                on.stream.core().yield_now().await;
                work.begin_again();
            }
            Step::Delay(delay) => {
                flush(on, work).await?;
                on.stream.set_phase(Phase::Working);
                on.stream.core().sleep(delay).await;
            }
            Step::Send(file, range) => send(on, work, &file, range).await?,
            Step::Proxy => {
                flush(on, work).await?;
                proxy::pass_on(on, work).await?;
            }
            Step::Close { linger } => {
                flush(on, work).await?;
                if linger {
                    close_lingering(on, work).await?;
                }
                return Ok(false);
            }
        }
        step = work.advance(on);
    }
}

/// Receives more of a head.
async fn receive_head(on: &mut Conversation, work: &mut Work) -> Result<(), StreamError> {
    on.stream.set_phase(Phase::ReadingHead);
    if !on.head_is_timed {
        on.stream.set_read_timeout(on.worker.plan.timeouts.header);
        on.head_is_timed = true;
    }
    let received = on.stream.receive(work.room_for_head()).await;
    take_received(on, work, received)
}

async fn receive_body(on: &mut Conversation, work: &mut Work) -> Result<(), StreamError> {
    on.stream.set_phase(Phase::ReadingBody);
    on.stream.set_read_timeout(on.worker.plan.timeouts.body);
    let received = on.stream.receive(work.room_for_body()).await;
    take_received(on, work, received)
}

/// What was received joins the input. A client that took too long is told so.
fn take_received(
    on: &mut Conversation,
    work: &mut Work,
    received: Result<usize, StreamError>,
) -> Result<(), StreamError> {
    match received {
        Ok(0) => return Err(closed_early()),
        Ok(count) => work.filled += count,
        Err(StreamError::TimedOut) => work.answer_error(on, 408),
        Err(fault) => return Err(fault),
    }
    Ok(())
}

fn closed_early() -> StreamError {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the client closed within a request").into()
}

/// Sends the output.
async fn flush(on: &Conversation, work: &mut Work) -> Result<(), StreamError> {
    send_all(on, &work.output[work.sent..], false).await?;
    work.output.clear();
    work.sent = 0;
    Ok(())
}

/// Sends `bytes`. The time-out is for the time between two sends.
async fn send_all(on: &Conversation, mut bytes: &[u8], more: bool) -> Result<(), StreamError> {
    while !bytes.is_empty() {
        match on.stream.try_send(bytes, more) {
            Ok(count) => bytes = &bytes[count..],
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => writable(on).await?,
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(())
}

async fn writable(on: &Conversation) -> Result<(), StreamError> {
    on.stream.set_phase(Phase::Sending);
    on.stream.set_write_timeout(on.worker.plan.timeouts.send);
    let ready = on.stream.writable().await;
    on.stream.clear_write_timeout();
    ready
}

/// From this size on a part of a file is sent apart from the head. Joined by `MSG_MORE`, the head would
/// shift every page of the file over the borders of segments, which costs the kernel 40 % more for 100 KiB.
const HEAD_ALONE: u64 = 16 * 1024;

/// Sends the output and a part of a file, and finishes the answer.
async fn send(
    on: &mut Conversation,
    work: &mut Work,
    file: &OpenFile,
    range: Range<u64>,
) -> Result<(), StreamError> {
    // Here and not only where it waits: a disk that is slow keeps the worker inside the calls that follow.
    on.stream.set_phase(Phase::Sending);
    let mut at = range.start;
    let more = range.end - range.start < HEAD_ALONE;
    let sent = match send_all(on, &work.output[work.sent..], more).await {
        Ok(()) => send_part(on, file, &mut at, range.end).await,
        fault => fault,
    };
    work.output.clear();
    work.sent = 0;
    work.finish(on, at - range.start);
    sent
}

async fn send_part(
    on: &mut Conversation,
    file: &OpenFile,
    at: &mut u64,
    end: u64,
) -> Result<(), StreamError> {
    let descriptor = match &file.content {
        Content::Memory(bytes) => {
            let part = &bytes[*at as usize..end as usize];
            send_all(on, part, false).await?;
            *at = end;
            return Ok(());
        }
        Content::Descriptor(descriptor) => descriptor,
    };
    while *at < end {
        let sent = if on.worker.plan.sendfile {
            match on.stream.try_send_file(descriptor.as_fd(), at, end - *at) {
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => {
                    writable(on).await?;
                    continue;
                }
                sent => sent?,
            }
        } else {
            let mut buffer = on.stream.core().take_buffer();
            let room = buffer.len().min(usize::try_from(end - *at).unwrap_or(usize::MAX));
            let count = descriptor.read_at(&mut buffer[..room], *at)?;
            send_all(on, &buffer[..count], *at + (count as u64) < end).await?;
            *at += count as u64;
            count
        };
        if sent == 0 {
            let number = on.stream.number();
            warn!(connection = number, "a file shrank while it was sent: {} bytes are missing", end - *at);
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if *at < end {
            // Past its budget, the connection gives way here.
            writable(on).await?;
        }
    }
    Ok(())
}

/// Closes so that the answer arrives: if bytes that the client still sends met a closed socket, the reset
/// could overtake the answer.
async fn close_lingering(on: &Conversation, work: &mut Work) -> Result<(), StreamError> {
    on.stream.set_phase(Phase::Closing);
    on.stream.shutdown_send()?;
    let timeouts = &on.worker.plan.timeouts;
    let begun = on.stream.core().now();
    loop {
        let spent = Duration::from_millis(on.stream.core().now().since(begun));
        let Some(left) = timeouts.lingering_in_all.checked_sub(spent).filter(|left| !left.is_zero()) else {
            return Ok(());
        };
        on.stream.set_read_timeout(timeouts.lingering.min(left));
        if on.stream.receive(&mut work.input).await? == 0 {
            return Ok(());
        }
    }
}
