//! The engine of one worker: loop, backends, slots, timers, posted queues, accept, tasks and streams.
