//! Sessions made of others: exports, imports and forks.
//!
//! Items are immutable once they are complete, so a copy needs no actor and disturbs no turn. A
//! fork goes on where its origin is, with its settings; it has what the model sees and not what was
//! rolled back. An import comes from elsewhere and brings a conversation only: what it may do, where
//! and with what is this daemon's word.
//!
//! Receives `session/export`, `session/import` and `session/fork` from the registry; hands the
//! store new sessions, and back documents.

use std::path::PathBuf;

use agentd_protocol::id::SessionId;
use agentd_protocol::item::{Item, ItemBody, Marker};
use agentd_protocol::session::{
    CreateParams, ExportFormat, ExportParams, ForkParams, ImportFileParams, ImportParams,
    ItemsParams, Session,
};

use super::document::{self, Document};
use super::services::Services;
use super::update::check_directory;
use super::{Error, create, digest};
use crate::store::{LoadedSession, NewSession};

/// Items read at once.
const PAGE: u32 = 500;

/// What a message needs beside a document, in bytes.
const ENVELOPE_BYTES: usize = 1_024;

/// The session as one document.
pub(super) async fn export(services: &Services, params: ExportParams) -> Result<String, Error> {
    let content = content(services, params).await?;
    let bytes = serde_json::to_string(&content).map_or(usize::MAX, |quoted| quoted.len());
    let max = services.config.current().server.max_message_bytes;
    if bytes + ENVELOPE_BYTES <= max {
        return Ok(content);
    }
    Err(Error::InvalidParams {
        field: "session_id".to_owned(),
        message: format!(
            "the session's document has {bytes} bytes and a message at most {max}: write it into \
             a file (`session/export_file`, `agentctl export --output FILE`)"
        ),
    })
}

/// The session as one document in a new file; its size in bytes.
pub(super) async fn export_file(
    services: &Services,
    params: ExportParams,
    path: PathBuf,
) -> Result<u64, Error> {
    let content = content(services, params).await?;
    on_disk(move || document::save(&path, &content)).await
}

async fn content(services: &Services, params: ExportParams) -> Result<String, Error> {
    let ExportParams { session_id, format } = params;
    let session = services.store.session(&session_id).await.map_err(Error::from_store)?;
    let items = items(services, &session_id).await?;
    Ok(match format {
        ExportFormat::Json => document::write(session, items, services.clock.now()),
        ExportFormat::Markdown => document::transcript(&session, &items),
    })
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Internal(error.to_string()))?
        .map_err(|message| Error::InvalidParams { field: "path".to_owned(), message })
}

/// A session with the conversation of a document.
pub(super) async fn import(services: &Services, params: ImportParams) -> Result<Session, Error> {
    let digest = digest::of(&params);
    let ImportParams { content, cwd, key } = params;
    let invalid = |message| Error::InvalidParams { field: "content".to_owned(), message };
    let document = document::read(&content).map_err(invalid)?;
    made_of(services, document, cwd, key, digest).await
}

/// A session with the conversation of a file's document.
pub(super) async fn import_file(
    services: &Services,
    params: ImportFileParams,
    path: PathBuf,
) -> Result<Session, Error> {
    let digest = digest::of(&params);
    let ImportFileParams { cwd, key, .. } = params;
    let document = on_disk(move || document::load(&path)).await?;
    made_of(services, document, cwd, key, digest).await
}

async fn made_of(
    services: &Services,
    document: Document,
    cwd: Option<String>,
    key: Option<String>,
    digest: String,
) -> Result<Session, Error> {
    // A model that is not known here is no reason to lose a conversation.
    let is_known = |model: &String| services.providers().get(model).is_ok();
    let params = CreateParams {
        cwd: cwd.unwrap_or(document.session.cwd),
        model: document.session.model.filter(is_known),
        title: Some(document.session.title),
        labels: Some(document.session.labels),
        key,
        ..CreateParams::default()
    };
    let new = create::new_session(services, params, digest)?;
    create::made(services, NewSession { items: document.items, ..new }).await
}

/// A session that goes on from where another is, or was.
pub(super) async fn fork(services: &Services, params: ForkParams) -> Result<Session, Error> {
    let digest = digest::of(&params);
    let ForkParams { session_id, after_item, cwd, key } = params;
    let origin = services.store.load(&session_id).await.map_err(Error::from_store)?;
    let mut items = items(services, &session_id).await?;
    items.retain(is_seen);
    if let Some(last) = after_item {
        let place = items.iter().position(|item| item.item_id == last);
        items.truncate(place.ok_or(Error::ItemNotFound(last))? + 1);
    }
    if let Some(cwd) = &cwd {
        check_directory(cwd, "cwd")?;
    }
    let LoadedSession { session, env, env_mode, .. } = origin;
    let session = Session {
        title: session.title,
        model: session.model,
        model_options: session.model_options,
        permission_mode: session.permission_mode,
        limits: session.limits,
        roots: session.roots,
        labels: session.labels,
        parent_id: Some(session_id),
        ..create::plain(services, cwd.unwrap_or(session.cwd))
    };
    create::made(services, NewSession { session, items, env, env_mode, key, digest }).await
}

/// Whether the model sees an item, or what it sees follows from it.
fn is_seen(item: &Item) -> bool {
    let is_rollback = matches!(&item.body, ItemBody::Marker { marker: Marker::Rollback { .. } });
    item.hidden_by.is_none() && !is_rollback
}

/// The items of a session that are complete, all of them.
async fn items(services: &Services, session_id: &SessionId) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    let mut after = None;
    loop {
        let params =
            ItemsParams { session_id: session_id.clone(), after, before: None, limit: Some(PAGE) };
        let page = services.store.items(params).await.map_err(Error::from_store)?;
        items.extend(page.items.into_iter().filter(document::is_whole));
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(items),
        }
    }
}
