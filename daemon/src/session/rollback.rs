//! Going back: which items are hidden, and which files are given their former content.
//!
//! A rollback looks at the record and at files, so it is prepared before it is decided, by the
//! session's own task: nothing can happen in between. Files come first and the record second. If
//! the daemon dies in between, nobody was told of a rollback, and the same request finds the files
//! as they were and says so.
//!
//! Invariants: nothing is prepared while a turn runs, or while another process has the session.
//!
//! Receives `rollback` from the actor's look-up; hands `submit/rollback.rs` what is to be recorded.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use agentd_protocol::event::RestoredFiles;
use agentd_protocol::id::{ItemId, TurnId};
use agentd_protocol::item::{Item, ItemBody, Marker, Origin};
use agentd_protocol::session::ItemsParams;
use agentd_protocol::submission::{Disposition, Op, Rollback, SubmitResult};

use super::Error;
use super::actor::Actor;
use super::command::Submitted;
use crate::store::{ChangedFile, Deeds};
use crate::tools::former::{Given, Keeper, Outcome, give_back};
use crate::tools::{FileSeen, path};

/// Items read at once, from the last one on.
const PAGE: u32 = 200;

/// A rollback that has looked at the record and did what it does to files.
#[derive(Debug)]
pub(super) struct RolledBack {
    pub(super) report: Rollback,
    /// The items that go.
    pub(super) hidden: Vec<ItemId>,
    /// The rollback that is taken back instead.
    pub(super) undo: Option<ItemId>,
    /// The turn that the marker stands with.
    pub(super) turn_id: TurnId,
    /// Files as they are now.
    pub(super) seen: Vec<FileSeen>,
    head_seq: u64,
}

impl RolledBack {
    /// The answer, where nothing is to be recorded.
    pub(super) fn only_said(&self, submitted: &Submitted) -> Option<SubmitResult> {
        self.report.item_id.is_none().then(|| SubmitResult {
            submission_id: submitted.params.submission.id.clone(),
            disposition: Disposition::Applied,
            turn_id: None,
            seq: self.head_seq,
            replayed: false,
            rollback: Some(self.report.clone()),
        })
    }
}

/// What is looked for, going back from the last item.
#[derive(Debug, Default)]
struct Found {
    hidden: Vec<ItemId>,
    /// Their turns, the last one first.
    turns: Vec<TurnId>,
    /// How many of them began with an input of a person.
    begun: u32,
}

impl Actor {
    /// Whether a rollback may look at the world.
    pub(super) fn may_roll_back(&self) -> bool {
        self.state.turn.is_none() && self.broken.is_none() && self.rival().is_none()
    }

    /// Prepares a rollback, and with `restore_files` and without `dry_run` gives files back.
    pub(super) async fn roll_back(&mut self, op: &Op) -> Result<RolledBack, Error> {
        let Op::Rollback { turns, restore_files, dry_run, undo } = op else {
            return Err(Error::Internal("no rollback".to_owned()));
        };
        let marker = ItemId::from_unique(uuid::Uuid::now_v7().simple());
        let (items, hidden, turn_id, deeds) = if let Some(undone) = undo {
            let (shown, turn_id) = self.rollback_of(undone).await?;
            let deeds = self.services.store.deeds_of(&self.session_id, undone).await;
            (shown, Vec::new(), turn_id, deeds)
        } else {
            let found = self.last_turns(turns.unwrap_or(1)).await?;
            let turn_id = found.turns.last().cloned().expect("a turn was found");
            let deeds = self.services.store.deeds_of_turns(&self.session_id, found.turns).await;
            (found.hidden.clone(), found.hidden, turn_id, deeds)
        };
        let deeds = deeds.map_err(Error::from_store)?;
        let (files, seen) = match restore_files {
            true => self.give_files_back(deeds, &marker, *dry_run).await?,
            false => (RestoredFiles::default(), Vec::new()),
        };
        Ok(RolledBack {
            report: Rollback { item_id: (!dry_run).then_some(marker), items, files },
            hidden,
            undo: undo.clone(),
            turn_id,
            seen,
            head_seq: self.state.session.head_seq,
        })
    }

    /// The items of the last turns that began with an input. Their resumes go with them.
    async fn last_turns(&mut self, wanted: u32) -> Result<Found, Error> {
        if wanted == 0 {
            return Err(invalid("turns", "0 turns are none: give 1 or more".to_owned()));
        }
        let mut found = Found::default();
        let mut before = None;
        loop {
            let page = self.items_before(before).await?;
            for item in page.0.into_iter().rev() {
                if found.takes(&item, wanted) {
                    return Ok(found.in_order());
                }
            }
            match page.1 {
                Some(next) => before = Some(next),
                None if found.begun == wanted => return Ok(found.in_order()),
                None => {
                    let message = match found.begun {
                        0 => "there is no turn to go back over".to_owned(),
                        some => format!("{wanted} turns are more than the {some} there are"),
                    };
                    return Err(invalid("turns", message));
                }
            }
        }
    }

    /// What a rollback hid, and the turn that its marker stands with.
    async fn rollback_of(&mut self, undone: &ItemId) -> Result<(Vec<ItemId>, TurnId), Error> {
        let mut before = None;
        loop {
            let page = self.items_before(before).await?;
            for item in page.0.into_iter().rev() {
                let ItemBody::Marker { marker: Marker::Rollback { hidden, undo } } = item.body
                else {
                    continue;
                };
                if undo.as_ref() == Some(undone) {
                    return Err(invalid("undo", format!("{undone} was taken back before")));
                }
                if item.item_id != *undone {
                    continue;
                }
                if undo.is_some() {
                    return Err(invalid(
                        "undo",
                        format!("{undone} hides nothing: roll back again"),
                    ));
                }
                return Ok((hidden, item.turn_id));
            }
            before = Some(page.1.ok_or_else(|| Error::ItemNotFound(undone.clone()))?);
        }
    }

    /// A page of items before an index, and where the page before it ends.
    async fn items_before(
        &mut self,
        before: Option<u64>,
    ) -> Result<(Vec<Item>, Option<u64>), Error> {
        let params = ItemsParams {
            session_id: self.session_id.clone(),
            after: None,
            before: Some(before.unwrap_or(u64::MAX)),
            limit: Some(PAGE),
        };
        let page = self.services.store.items(params).await.map_err(Error::from_store)?;
        Ok((page.items, page.next))
    }

    /// Gives files back, off the async threads.
    async fn give_files_back(
        &mut self,
        deeds: Deeds,
        marker: &ItemId,
        dry_run: bool,
    ) -> Result<(RestoredFiles, Vec<FileSeen>), Error> {
        let (context, by) = (Arc::clone(&self.context), marker.to_string());
        tokio::task::spawn_blocking(move || {
            let Deeds { files, others } = deeds;
            let mut report = RestoredFiles { not_undoable: others, ..RestoredFiles::default() };
            let mut seen = Vec::new();
            for file in files {
                let shown = path::shown(Path::new(&file.path), &context);
                match restored(&file, &by, context.keeper.as_ref(), dry_run) {
                    Ok(Outcome::Restored) => {
                        report.restored.push(shown);
                        let former = file.former.filter(|_| !dry_run);
                        if let Some(former) = former {
                            let (path, sha256) = (file.path.into(), former.sha256);
                            let now = FileSeen { path, sha256 };
                            context.files.note(&now);
                            seen.push(now);
                        }
                    }
                    Ok(Outcome::Conflict) => report.conflicts.push(shown),
                    Ok(Outcome::Failed(reason)) | Err(reason) => {
                        report.not_undoable.push(format!("{shown}: {reason}"));
                    }
                }
            }
            (report, seen)
        })
        .await
        .map_err(|_panic| Error::Internal("giving files back broke off".to_owned()))
    }
}

/// Gives one file back; `Err` where its former content is not kept.
fn restored(
    file: &ChangedFile,
    by: &str,
    keeper: &dyn Keeper,
    dry_run: bool,
) -> Result<Outcome, String> {
    let former = match &file.former {
        None => None,
        Some(former) => {
            let bytes = former.bytes.as_deref();
            let bytes = bytes.ok_or("its former content is no longer kept")?;
            Some((bytes, former.sha256.as_str()))
        }
    };
    let expected = [file.left.as_deref(), file.before_last.as_deref()];
    let given = Given { path: Path::new(&file.path), former, expected };
    Ok(give_back(&given, by, keeper, dry_run))
}

impl Found {
    /// Takes the next item, going back; whether it is one too many.
    fn takes(&mut self, item: &Item, wanted: u32) -> bool {
        let is_new = self.turns.last() != Some(&item.turn_id);
        if self.begun == wanted && is_new && !self.turns.is_empty() {
            return true;
        }
        let stays = match &item.body {
            ItemBody::System { .. } | ItemBody::Marker { marker: Marker::Rollback { .. } } => true,
            _ => item.hidden_by.is_some(),
        };
        if stays {
            return false;
        }
        if is_new {
            self.turns.push(item.turn_id.clone());
        }
        if matches!(&item.body, ItemBody::User { origin: Origin::User, .. }) {
            self.begun += 1;
        }
        self.hidden.push(item.item_id.clone());
        false
    }

    fn in_order(mut self) -> Self {
        self.hidden.reverse();
        let mut once = HashSet::new();
        self.turns.retain(|turn| once.insert(turn.clone()));
        self
    }
}

fn invalid(field: &str, message: String) -> Error {
    Error::InvalidParams { field: format!("submission.op.{field}"), message }
}
