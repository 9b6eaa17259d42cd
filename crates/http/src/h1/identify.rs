//! Who the client is, where a location asks for a password.

use drover_event::Phase;
use tracing::warn;

use super::connection::Conversation;
use super::route::Course;
use super::work::{Stage, Work};
use crate::basic_auth::{BasicAuth, Credentials, Unverified};

impl Work {
    /// Lets in whose credentials were right before. Others have to be checked, unless there are none that could be
    /// right.
    #[cold]
    pub(super) fn identify(&mut self, on: &Conversation, auth: &BasicAuth) {
        self.route.course = Course::Unauthorized;
        let Some(credentials) = Credentials::of(&self.head, self.head_bytes()) else { return };
        let mark = on.worker.verified.mark(&auth.users, &credentials);
        if on.worker.verified.has(&mark) {
            self.let_in(credentials.user());
        } else if let Some((hash, is_known)) = auth.users.find(credentials.user()) {
            let (user, password) = (credentials.user().to_vec(), credentials.password().to_vec());
            self.route.unverified = Some(Box::new(Unverified { user, password, hash, is_known, mark }));
        }
    }

    fn let_in(&mut self, user: &[u8]) {
        self.route.course = Course::Handler;
        self.route.values.user.clear();
        self.route.values.user.extend_from_slice(user);
    }

    /// The client's credentials were checked; goes on where that was waited for.
    fn identified(&mut self, on: &Conversation, user: Option<&[u8]>) {
        if let Some(user) = user {
            self.let_in(user);
        }
        if let Stage::Verify = self.stage {
            self.stage = Stage::Answer;
            self.begin_body(on);
        }
    }
}

/// Checks a password, off the loop.
pub(super) async fn verify(on: &Conversation, work: &mut Work, unverified: Unverified) {
    on.stream.set_phase(Phase::Working);
    let verified = &on.worker.verified;
    if !verified.begin() {
        warn!(connection = on.stream.number(), "too many passwords are being checked");
        work.route.course = Course::Error(503);
        return work.identified(on, None);
    }
    let checked = on.stream.core().run_blocking(move || unverified.verify()).await;
    verified.end();
    match checked {
        Ok((known, true)) => {
            verified.add(known.mark);
            work.identified(on, Some(&known.user));
        }
        Ok((unknown, false)) => {
            if on.may_complain() {
                let (number, user) = (on.stream.number(), unknown.user.escape_ascii());
                warn!(connection = number, "a wrong password for \"{user}\"");
            }
            work.identified(on, None);
        }
        Err(fault) => {
            warn!(connection = on.stream.number(), "checking a password: {fault}");
            work.route.course = Course::Error(503);
            work.identified(on, None);
        }
    }
}
