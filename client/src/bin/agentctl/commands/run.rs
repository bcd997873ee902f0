//! `run`: one turn, from the prompt to its end.
//!
//! Receives a prompt and options; hands back the exit code of the turn's end.

use agentd_client::protocol::item::{Content, Part};
use agentd_client::protocol::method::{SessionCreate, SessionDelete, SessionSubmit};
use agentd_client::protocol::permission::PermissionMode;
use agentd_client::protocol::session::{CreateParams, ModelOptions, Session, SessionParams};
use agentd_client::protocol::submission::{
    Delivery, OnDisconnect, OnPrompt, Op, SubmitParams, SubmitResult,
};
use agentd_client::{Client, Error};
use anyhow::{Context as _, Result};
use serde_json::json;

use super::config;
use super::new::{directories, in_directory, limits};
use super::submission;
use crate::answer_schema::AnswerSchema;
use crate::args::Run;
use crate::context::{Context, directory};
use crate::failure::Exit;
use crate::follow::{Ended, Follow, Format};
use crate::images;
use crate::prompt::Keyboard;
use crate::render;
use crate::target;
use crate::text;

/// How often a model is reminded of the schema that its answer has to fit.
const REMINDERS: u32 = 2;

pub(super) async fn run(context: &Context, args: Run) -> Result<Exit> {
    let schema = args.output_schema.as_deref().map(AnswerSchema::read).transpose()?;
    let content = content(&args, schema.as_ref())?;
    let client = context.client().await?;
    config::warn(&client).await;
    let (session, is_new) = session(&client, &args).await?;
    if args.options.mode.map_or(session.permission_mode, |mode| mode.0) == PermissionMode::Full {
        eprintln!("agentctl: mode full: every call runs, on anything, and nobody is asked");
    }
    let op = Op::UserInput { content, delivery: Delivery::Auto, expected_turn_id: None };
    let mut params = submission(session.session_id.clone(), op);
    params.limits = limits(&args.options);
    if args.detach {
        let result = submit(&client, &session, is_new, &params).await?;
        return detached(context, &session, &result);
    }
    params.on_disconnect = OnDisconnect::Interrupt;
    let format = match (context.json, &schema) {
        (true, _) => Format::Json { progress: args.progress },
        (false, Some(_)) => Format::Notes,
        (false, None) => Format::Text,
    };
    let mut since = session.head_seq;
    for tries_left in (0..=REMINDERS).rev() {
        let keyboard = Keyboard::open();
        // With rules of its own the run answers itself, also for those it does not match.
        let nobody = keyboard.is_none() && args.allow.is_empty();
        params.on_prompt = if nobody { OnPrompt::Deny } else { OnPrompt::Wait };
        let watch = client.watch(session.session_id.clone(), Some(since), true).reviving();
        let result =
            submit(&client, &session, is_new && since == session.head_seq, &params).await?;
        let (client, allow) = (client.clone(), args.allow.clone());
        let follow = Follow::new(client, params.clone(), &result, format, allow, keyboard);
        let Ended { exit, answer, seq } = follow.until_end(watch).await?;
        let (Some(schema), Exit::Completed) = (&schema, exit) else { return Ok(exit) };
        let complaint = match schema.fitted(&answer) {
            Ok(_) if context.json => return Ok(exit),
            Ok(value) => return render::line(&value.to_string()).map(|()| exit),
            Err(complaint) => complaint,
        };
        eprintln!("agentctl: the answer does not fit the schema: {complaint}");
        if tries_left > 0 {
            let content = Content::Text(schema.reminder(&complaint));
            let op = Op::UserInput { content, delivery: Delivery::Auto, expected_turn_id: None };
            let again = submission(session.session_id.clone(), op);
            params.submission = again.submission;
            since = seq;
        }
    }
    eprintln!("agentctl: asked {REMINDERS} times more; `agentctl show` has the answers");
    Ok(Exit::Failed)
}

/// What the model is sent: the words, what was piped in, images, and what the answer must fit.
fn content(args: &Run, schema: Option<&AnswerSchema>) -> Result<Content> {
    let mut text = text::input(&args.prompt, "agentctl run 'TEXT'")?;
    if let Some(schema) = schema {
        text = format!("{text}\n\n{}", schema.request());
    }
    if args.images.is_empty() {
        return Ok(Content::Text(text));
    }
    let mut parts = vec![Part::text(text)];
    parts.extend(images::read(&args.images)?);
    Ok(Content::Parts(parts))
}

/// The session to go on with, or a new one; and whether it is new.
async fn session(client: &Client, args: &Run) -> Result<(Session, bool)> {
    let known = if let Some(name) = &args.session {
        Some(target::session(client, Some(name)).await?)
    } else if args.continue_last {
        let cwd = directory(args.cd.as_deref())?;
        let last = target::last_of(client, &cwd).await?;
        Some(last.ok_or_else(|| anyhow::anyhow!("no session in {cwd} to go on with"))?)
    } else {
        None
    };
    if let Some(session) = known {
        configure(client, &session, args).await?;
        return Ok((session, false));
    }
    let params = CreateParams {
        model_options: recording(args, None)?,
        roots: directories(&args.add_dirs)?,
        ..in_directory(directory(args.cd.as_deref())?, &args.options)
    };
    Ok((client.call::<SessionCreate>(params).await?, true))
}

/// The model's options with the recording that is asked for; nothing where none is.
fn recording(args: &Run, options: Option<&ModelOptions>) -> Result<Option<ModelOptions>> {
    let Some(file) = &args.record else { return Ok(None) };
    let path = std::path::absolute(file)
        .with_context(|| format!("cannot record to {}", file.display()))?
        .into_os_string()
        .into_string()
        .map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))?;
    Ok(Some(ModelOptions { record: Some(path), ..options.cloned().unwrap_or_default() }))
}

/// Puts the options of the command line in force for a session that exists.
async fn configure(client: &Client, session: &Session, args: &Run) -> Result<()> {
    let options = &args.options;
    let model_options = recording(args, session.model_options.as_ref())?;
    if options.model.is_none() && options.mode.is_none() && model_options.is_none() {
        return Ok(());
    }
    let op = Op::Configure {
        model: options.model.clone(),
        model_options,
        permission_mode: options.mode.map(|mode| mode.0),
        limits: None,
    };
    client.call::<SessionSubmit>(submission(session.session_id.clone(), op)).await?;
    Ok(())
}

/// Submits; a session that was made for it and cannot be used is taken away again.
async fn submit(
    client: &Client,
    session: &Session,
    is_new: bool,
    params: &SubmitParams,
) -> Result<SubmitResult> {
    let submitted = client.call::<SessionSubmit>(params.clone()).await;
    if is_new && matches!(submitted, Err(Error::Refused(_))) {
        let params = SessionParams { session_id: session.session_id.clone() };
        if let Err(error) = client.call::<SessionDelete>(params).await {
            tracing::debug!(%error, "the unused session stays");
        }
    }
    Ok(submitted?)
}

fn detached(context: &Context, session: &Session, result: &SubmitResult) -> Result<Exit> {
    if context.json {
        render::json(&json!({ "session_id": session.session_id, "turn_id": result.turn_id }))?;
    } else {
        render::line(session.session_id.as_str())?;
    }
    Ok(Exit::Completed)
}
