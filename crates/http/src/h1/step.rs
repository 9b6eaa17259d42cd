//! What must be waited for.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use crate::basic_auth::Unverified;
use crate::handler::files::multipart::Parts;
use crate::handler::files::offers::Encoded;
use crate::handler::files::open_file::OpenFile;

/// What [`Work::advance`](super::work::Work::advance) needs to go on.
pub(crate) enum Step {
    /// More of a head, or with nothing in the input a further request.
    Receive,
    /// More of a body, with room made by [`Work::room_for_body`](super::work::Work::room_for_body).
    ReceiveBody,
    /// The output sent.
    Flush,
    /// The output sent, and others given their turn.
    GiveWay,
    /// The output sent, and some time to pass.
    Delay(Duration),
    /// The output sent, and then a part of a file; then [`Work::finish`](super::work::Work::finish) called.
    Send(Rc<OpenFile>, Range<u64>),
    /// The same with several parts of a file.
    SendParts(Box<Parts>),
    /// The same with a file that is encoded on its way.
    SendEncoded(Box<Encoded>),
    /// The output sent, and a password checked; then [`Work::identified`](super::work::Work::identified) called.
    Verify(Box<Unverified>),
    /// The output sent, and the request passed on.
    Proxy,
    /// The output sent and the connection closed; `linger` where the client may still be sending.
    Close { linger: bool },
}
