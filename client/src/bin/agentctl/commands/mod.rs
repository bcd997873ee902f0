//! The verbs, one file each.
//!
//! Receives a command line; hands each verb what it needs.

mod archive;
mod attach;
mod backup;
mod compact;
mod completions;
mod config;
mod doctor;
mod export;
mod fork;
mod interactive;
mod interrupt;
mod login;
mod logs;
mod ls;
mod models;
mod new;
mod permission;
mod rename;
mod restart;
mod resume;
mod rm;
mod rollback;
mod rules;
mod run;
mod schema;
mod search;
mod send;
mod show;
mod shutdown;
mod status;
mod tools;

use std::process::ExitCode;

use agentd_client::Start;
use agentd_client::protocol::id::{SessionId, SubmissionId};
use agentd_client::protocol::submission::{OnDisconnect, OnPrompt, Op, Submission, SubmitParams};
use anyhow::Result;

use crate::args::{Args, Command};
use crate::context::Context;
use crate::failure::Exit;

/// Does what the command line says.
pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let start = if args.no_start { Start::Never } else { Start::IfAbsent };
    let context = Context { socket: args.socket, start, json: args.json };
    let Some(command) = args.command else {
        return Ok(interactive::interactive(&context, args.interactive).await?.into());
    };
    interactive::refuse(&args.interactive)?;
    let done = match command {
        Command::Run(run) => return Ok(run::run(&context, run).await?.into()),
        Command::Attach(attach) => attach::attach(&context, attach).await,
        Command::Ls(ls) => ls::ls(&context, ls).await,
        Command::Show(show) => show::show(&context, show).await,
        Command::New(new) => new::new(&context, new).await,
        Command::Rename(rename) => rename::rename(&context, rename).await,
        Command::Fork(fork) => fork::fork(&context, fork).await,
        Command::Archive(archive) => archive::archive(&context, archive).await,
        Command::Rm(rm) => rm::rm(&context, rm).await,
        Command::Search(search) => search::search(&context, search).await,
        Command::Export(export) => export::export(&context, export).await,
        Command::Import(import) => export::import(&context, import).await,
        Command::Send(send) => send::send(&context, send).await,
        Command::Interrupt(interrupt) => interrupt::interrupt(&context, interrupt).await,
        Command::Compact(target) => compact::compact(&context, target).await,
        Command::Resume(target) => resume::resume(&context, target).await,
        Command::Rollback(rollback) => rollback::rollback(&context, rollback).await,
        Command::Undo(undo) => rollback::undo(&context, undo).await,
        Command::Prompts => permission::prompts(&context).await,
        Command::Allow(allow) => permission::allow(&context, allow).await,
        Command::Deny(deny) => permission::deny(&context, deny).await,
        Command::Rules(rules) => rules::rules(&context, rules).await,
        Command::Models { probe } => models::models(&context, probe).await,
        Command::Tools => tools::tools(&context).await,
        Command::Status => status::status(&context).await,
        Command::Doctor => return Ok(doctor::doctor(&context).await?.into()),
        Command::Login(login) => login::login(&context, login).await,
        Command::Logs(logs) => logs::logs(&context, logs).await,
        Command::Backup(backup) => backup::backup(&context, backup).await,
        Command::Restart { now } => restart::restart(&context, now).await,
        Command::Config { action } => config::config(&context, action).await,
        Command::Shutdown { now } => shutdown::shutdown(&context, now).await,
        Command::Schema { name } => schema::schema(name),
        Command::Completions { shell } => completions::completions(shell),
    };
    done.map(|()| Exit::Completed.into())
}

/// A submission under an id of its own, which outlives this process.
fn submission(session_id: SessionId, op: Op) -> SubmitParams {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let id = SubmissionId::try_from(id).expect("a uuid has 32 characters");
    SubmitParams {
        session_id,
        submission: Submission { id, op },
        limits: None,
        on_disconnect: OnDisconnect::Continue,
        on_prompt: OnPrompt::Wait,
    }
}
