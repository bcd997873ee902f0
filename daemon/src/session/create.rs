//! Making a session.
//!
//! Receives `session/create`; hands the store a checked session.

use std::collections::BTreeMap;

use agentd_protocol::daemon::DaemonEvent;
use agentd_protocol::id::SessionId;
use agentd_protocol::session::{CreateParams, Session, SessionState, Usage};

use super::Error;
use super::digest;
use super::services::Services;
use super::update::{check_directory, check_record};
use crate::store::NewSession;

pub(super) async fn create(services: &Services, params: CreateParams) -> Result<Session, Error> {
    let digest = digest::of(&params);
    made(services, new_session(services, params, digest)?).await
}

/// Makes it, and tells of it unless it was there.
pub(super) async fn made(services: &Services, new: NewSession) -> Result<Session, Error> {
    let created = services.store.create_session(new).await.map_err(Error::from_store)?;
    if !created.replayed {
        let session = Box::new(created.session.clone());
        services.tell(DaemonEvent::SessionCreated { session });
    }
    Ok(created.session)
}

/// The session that was asked for, without a conversation.
pub(super) fn new_session(
    services: &Services,
    params: CreateParams,
    digest: String,
) -> Result<NewSession, Error> {
    check(services, &params)?;
    let plain = plain(services, params.cwd);
    let session = Session {
        title: params.title.unwrap_or_default(),
        model: params.model.or(plain.model),
        model_options: params.model_options,
        permission_mode: params.permission_mode.unwrap_or(plain.permission_mode),
        limits: params.limits.unwrap_or_default().or(plain.limits),
        roots: params.roots.unwrap_or_default(),
        labels: params.labels.unwrap_or_default(),
        parent_id: params.parent_id,
        ..plain
    };
    Ok(NewSession {
        session,
        items: Vec::new(),
        env: params.env.unwrap_or_default(),
        env_mode: params.env_mode.unwrap_or_default(),
        key: params.key,
        digest,
    })
}

/// A session in this directory, with an id of its own, nothing in it, and what the configuration
/// says.
pub(super) fn plain(services: &Services, cwd: String) -> Session {
    let config = services.config.current();
    let now = services.clock.now();
    Session {
        session_id: SessionId::from_unique(uuid::Uuid::now_v7().simple()),
        title: String::new(),
        cwd,
        model: config.model.clone(),
        model_options: None,
        permission_mode: config.permission.mode,
        state: SessionState::Idle,
        created_at: now,
        updated_at: now,
        head_seq: 0,
        item_count: 0,
        usage: Usage::default(),
        limits: config.limits,
        queue: Vec::new(),
        queue_held: false,
        roots: Vec::new(),
        prompts: Vec::new(),
        processes: Vec::new(),
        active_turn_id: None,
        lease: None,
        labels: BTreeMap::new(),
        parent_id: None,
        archived: false,
    }
}

fn check(services: &Services, params: &CreateParams) -> Result<(), Error> {
    check_directory(&params.cwd, "cwd")?;
    for (place, root) in params.roots.iter().flatten().enumerate() {
        check_directory(root, &format!("roots[{place}]"))?;
    }
    if let Some(model) = &params.model {
        services.providers().get(model).map_err(Error::from_select)?;
    }
    check_record(params.model_options.as_ref(), "model_options")?;
    check_env(params.env.as_ref())
}

fn check_env(env: Option<&BTreeMap<String, String>>) -> Result<(), Error> {
    let wrong = env.into_iter().flatten().find(|(name, value)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    });
    match wrong {
        Some((name, _)) => Err(Error::InvalidParams {
            field: "env".to_owned(),
            message: format!("{name:?} cannot be an environment variable"),
        }),
        None => Ok(()),
    }
}
