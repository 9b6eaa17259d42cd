//! The borders between slots and the backend: lending and returning a slot, watching a direction,
//! and what a readiness report sets off.
//!
//! [`handle_read_event`] and [`handle_write_event`] are the one place that decides whether the
//! backend has to be told anything before a task waits. Callers never ask which backend it is.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tracing::{debug, error};

use crate::backend::{Mode, Registration, Report};
use crate::close::CloseReason;
use crate::connection::{Asked, Holder, NONE, PeerAddress, Phase};
use crate::core::{Core, State};
use crate::datagram;
use crate::event::{Direction, EventId, Flags, Handler};
use crate::posted::QueueName;
use crate::stats::{Counter, Gauge};
use crate::task;
use crate::token::Token;

impl Core {
    /// Lends a slot for `socket` and prepares its events; closes the socket where no slot is free.
    pub(crate) fn lend(&self, state: &mut State, socket: Option<OwnedFd>, holder: Holder) -> Option<u32> {
        let slot = state.slots.lend(socket, holder)?;
        state.events.ensure_row(slot);
        for direction in [Direction::Read, Direction::Write] {
            state.events[EventId::of_slot(slot, direction)].handler = task::resume_waiting;
        }
        // A send buffer that nothing was sent to is writable.
        state.events[EventId::of_slot(slot, Direction::Write)].flags.set(Flags::READY);
        self.stats().set(Gauge::FreeSlots, u64::from(state.slots.free()));
        Some(slot)
    }

    /// Numbers, dates and counts the connection that a slot was lent to; [`Core::give_back`] counts it off. Gives the
    /// number.
    #[inline]
    pub(crate) fn begin_connection(
        &self,
        state: &mut State,
        slot: u32,
        peer: PeerAddress,
        phase: Phase,
    ) -> u64 {
        let number = state.number_connection();
        state.open += 1;
        let connection = &mut state.slots[slot];
        connection.number = number;
        connection.peer = peer;
        connection.phase = phase;
        connection.accepted_at = self.now();
        self.stats().set(Gauge::OpenConnections, u64::from(state.open));
        self.stats().enter_phase(phase);
        number
    }

    /// Closes the slot's descriptor, cancels its timers, takes its events off every queue and
    /// returns it.
    pub(crate) fn give_back(&self, state: &mut State, slot: u32) {
        let target = registration(state, slot);
        if (target.reading || target.writing)
            && let Err(source) = state.backend.del_connection(target, true)
        {
            error!(fd = target.descriptor, "forgetting a descriptor: {source}");
        }
        for direction in [Direction::Read, Direction::Write] {
            state.retire(EventId::of_slot(slot, direction));
        }
        if state.slots[slot].holder == Holder::Peer {
            state.open -= 1;
            self.stats().set(Gauge::OpenConnections, u64::from(state.open));
            self.stats().leave_phase(state.slots[slot].phase);
            self.note_close(state, slot);
        }
        drop(state.slots.give_back(slot));
        self.stats().set(Gauge::FreeSlots, u64::from(state.slots.free()));
    }

    /// Counts why a connection that was accepted has ended.
    fn note_close(&self, state: &State, slot: u32) {
        let connection = &state.slots[slot];
        if connection.listener == NONE {
            return;
        }
        let reason = state.end_of(slot).unwrap_or(CloseReason::Finished);
        self.stats().count_close(reason);
        debug!(connection = connection.number, reason = reason.name(), "closed");
    }

    /// Asks the holder of an idle slot to close it, now; while the mutex is held, once it is released.
    pub(crate) fn ask(&self, slot: u32, asked: Asked) {
        let (event, handler) = {
            let state = &mut *self.state();
            state.slots[slot].asked = Some(asked);
            state.slots.set_idle(slot, None);
            let own = EventId::of_slot(slot, Direction::Read);
            // A kept stream has a handler that closes it, any other a task.
            let event = match state.events[own].task {
                _ if state.slots[slot].keeper != NONE => own,
                NONE => return,
                task => EventId::of_task(task),
            };
            if state.gate.is_held() {
                return self.post(state, event, QueueName::Posted);
            }
            (event, state.events[event].handler)
        };
        handler(self, event);
    }

    /// Asks those of `idle` that are idle still; tells how many. Those that were asked before one may have
    /// closed it, or changed what it waits for.
    pub(crate) fn ask_idle(&self, idle: Vec<Token>, asked: Asked) -> u32 {
        let mut count = 0;
        for token in idle {
            let waits = {
                let slots = &self.state().slots;
                slots.resolve(token).is_some_and(|slot| slots[slot].idle.is_some())
            };
            if waits {
                self.ask(token.index(), asked);
                count += 1;
            }
        }
        count
    }

    /// Acts on one readiness report, or posts what it sets off while the mutex is held.
    pub(crate) fn dispatch(&self, report: Report, posting: bool) {
        match report.token {
            Token::NOTIFIER => return self.take_notification(),
            // It has done its work by ending the wait.
            Token::ALARM => return,
            Token::INBOX => return self.take_inbox(),
            _ => {}
        }
        let Some((slot, handlers)) = self.note_readiness(report, posting) else { return };
        for (direction, handler) in DIRECTIONS.into_iter().zip(handlers) {
            let event = EventId::of_slot(slot, direction);
            // The first handler may have closed the slot, and somebody else may have it now; or its
            // task waits for this direction no longer.
            let still_waits = || {
                let state = self.state();
                state.slots.resolve(report.token).is_some() && state.events[event].flags.has(Flags::WAITING)
            };
            if let Some(handler) = handler
                && (direction == Direction::Read || still_waits())
            {
                handler(self, event);
            }
        }
    }

    /// Sets the flags that the report implies, and tells which handlers that calls for, or posts their
    /// events; `None` for a report about a slot's earlier life.
    fn note_readiness(&self, report: Report, posting: bool) -> Option<(u32, [Option<Handler>; 2])> {
        let state = &mut *self.state();
        let Some(slot) = state.slots.resolve(report.token) else {
            debug!(slot = report.token.index(), "stale event");
            self.stats().add(Counter::StaleEvents, 1);
            return None;
        };
        let mut handlers = [None; 2];
        for (direction, reported) in DIRECTIONS.into_iter().zip([report.readable, report.writable]) {
            let id = EventId::of_slot(slot, direction);
            let event = &mut state.events[id];
            // A listener may have been taken out since the report was made.
            if !reported || !event.flags.has(Flags::ACTIVE) {
                continue;
            }
            event.flags.set(Flags::of_report(&report));
            let (flags, handler) = (event.flags, event.handler);
            let accepts = flags.has(Flags::ACCEPT);
            // A level-triggered backend would report it again and again until somebody receives.
            if !state.kind.edge && !accepts {
                let target = registration(state, slot);
                state.events[id].flags.clear(Flags::ACTIVE);
                if let Err(source) = state.backend.disable(target, direction) {
                    error!(slot, "disabling {direction:?}: {source}");
                }
            }
            if !flags.has(Flags::WAITING) {
                continue;
            }
            if posting {
                self.post(state, id, if accepts { QueueName::Accept } else { QueueName::Posted });
            } else {
                handlers[direction as usize] = Some(handler);
            }
        }
        Some((slot, handlers))
    }

    fn take_notification(&self) {
        let notifier = &self.inner().notifier;
        if !self.state().kind.edge {
            notifier.reset();
        }
        notifier.take_woken().into_iter().for_each(|token| self.wake(token));
    }
}

impl Core {
    fn take_inbox(&self) {
        let inbox = self.state().sessions.inbox;
        if let Some(event) = inbox {
            datagram::take_inbox(self, event);
        }
    }
}

const DIRECTIONS: [Direction; 2] = [Direction::Read, Direction::Write];

/// The slot as the backend sees it.
pub(crate) fn registration(state: &State, slot: u32) -> Registration {
    let active = |direction| state.events[EventId::of_slot(slot, direction)].flags.has(Flags::ACTIVE);
    Registration {
        descriptor: state.slots[slot].socket.as_ref().map_or(-1, AsRawFd::as_raw_fd),
        token: state.slots.token(slot),
        reading: active(Direction::Read),
        writing: active(Direction::Write),
    }
}

/// Has the backend watch a direction, unless it does.
pub(crate) fn watch(state: &mut State, slot: u32, direction: Direction, mode: Mode) -> io::Result<()> {
    let event = EventId::of_slot(slot, direction);
    if state.events[event].flags.has(Flags::ACTIVE) {
        return Ok(());
    }
    let target = registration(state, slot);
    if mode == Mode::Connection && !state.kind.edge {
        state.backend.enable(target, direction)?;
    } else {
        state.backend.add(target, direction, mode)?;
    }
    state.events[event].flags.set(Flags::ACTIVE);
    Ok(())
}

/// Has the backend watch both directions of a connection at once.
pub(crate) fn watch_connection(state: &mut State, slot: u32) -> io::Result<()> {
    state.backend.add_connection(registration(state, slot))?;
    for direction in DIRECTIONS {
        state.events[EventId::of_slot(slot, direction)].flags.set(Flags::ACTIVE);
    }
    Ok(())
}

/// Has the backend watch a direction no longer.
pub(crate) fn unwatch(state: &mut State, slot: u32, direction: Direction) -> io::Result<()> {
    let event = EventId::of_slot(slot, direction);
    if !state.events[event].flags.has(Flags::ACTIVE) {
        return Ok(());
    }
    let target = registration(state, slot);
    state.events[event].flags.clear(Flags::ACTIVE);
    state.backend.del(target, direction)
}

/// What has to be armed before a task waits to receive: with an edge-triggered backend the first
/// wait registers and nothing more is ever needed; with a level-triggered one every wait enables
/// the direction that the last report disabled.
pub(crate) fn handle_read_event(state: &mut State, slot: u32) -> io::Result<()> {
    watch(state, slot, Direction::Read, Mode::Connection)
}

/// The same before a task waits to send.
pub(crate) fn handle_write_event(state: &mut State, slot: u32) -> io::Result<()> {
    watch(state, slot, Direction::Write, Mode::Connection)
}
