//! What the black-box tests share: starting a daemon in a directory of its own and talking to it.
