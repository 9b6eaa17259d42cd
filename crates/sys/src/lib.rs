//! The kernel, made safe: system calls that nix lacks, shared memory, fork and the raw waker.
