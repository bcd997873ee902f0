//! Unloading: a session at rest, one that a stop suspends, one that is gone.
//!
//! Receives the actor's wish to end; gives back what it holds, and its place in the registry last,
//! so that the next actor finds everything free.

use super::actor::Actor;
use super::timers::Timer;
use crate::store;

impl Actor {
    /// Unloads the session, unless it has something to do by now. What a suspended turn leaves is
    /// given back before another actor can take it up.
    pub(super) async fn unload(&mut self) {
        if !self.can_stop() {
            return;
        }
        if self.services.is_draining() {
            self.end_processes().await;
        } else if self.services.tools.background().is_busy(&self.session_id) {
            // It stays for them; the conversation can be read again.
            self.window = None;
            return;
        }
        if let Some(committing) = self.committing.take() {
            match committing.await {
                Ok(appended) => self.committed(&appended, false, false),
                Err(error) => return self.commit_failed(error).await,
            }
        }
        if let Some(epoch) = self.state.epoch.take() {
            self.timers.clear(Timer::Renew);
            self.renewing = None;
            let released = self.services.journal.release(&self.session_id, epoch).await;
            if let Err(error) = released {
                tracing::warn!(session = %self.session_id, %error, "the lease was not given back");
            }
        }
        self.done = self.retire.retire(&self.mailbox);
    }

    /// Ends for good: whatever is still asked of the session gets this error.
    pub(super) fn leave(&mut self, error: &store::Error) {
        if let Some(command) = self.overtaken.take() {
            command.refuse(error);
        }
        while !self.retire.retire(&self.mailbox) {
            if let Ok(command) = self.mailbox.try_recv() {
                command.refuse(error);
            }
        }
        self.done = true;
    }
}
