//! What `reuseport` adds: sockets that a change of the config makes surplus.
//!
//! Each worker has a socket of its own. When there are to be fewer, the master first steers new
//! connections away from the surplus sockets and lends them to workers that go on; those accept what
//! is queued, and release the sockets once every handshake under way has ended.

use crate::core::Core;

impl Core {
    /// Accepts what is queued on surplus sockets and closes this worker's descriptors of them.
    pub fn release_surplus(&self) {
        let surplus: Vec<u32> = {
            let state = self.state();
            let is_surplus =
                |number: &usize| state.listeners[*number].as_ref().is_some_and(|listener| listener.surplus);
            (0..state.listeners.len()).filter(is_surplus).map(|number| number as u32).collect()
        };
        surplus.into_iter().for_each(|listener| self.leave(listener));
    }
}
