//! `attach`: watch a session, and steer it.
//!
//! On a terminal with the interface of `chat`, elsewhere from the session's start in plain lines:
//! what happens goes by, what is typed is sent. A line with one letter answers the
//! open prompt, since a key alone might have been meant for a line that was being typed.
//!
//! Receives messages, lines and Ctrl-C; hands input, answers and interrupts to the daemon.

use std::io::IsTerminal;

use agentd_client::protocol::daemon::Role;
use agentd_client::protocol::error::ErrorData;
use agentd_client::protocol::id::{PromptId, SessionId};
use agentd_client::protocol::item::Content;
use agentd_client::protocol::method::{ReplyPermission, SessionSubmit};
use agentd_client::protocol::progress::{Marker, StreamMessage};
use agentd_client::protocol::session::{Session, SessionState};
use agentd_client::protocol::submission::{Delivery, Op};
use agentd_client::{Body, Client, Error, Received};
use anyhow::Result;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::signal::unix::{SignalKind, signal};

use super::submission;
use crate::args;
use crate::chat::{self, Begin};
use crate::context::Context;
use crate::page::{LOST, Page};
use crate::prompt::{answer_of, keys};
use crate::render;
use crate::target;
use crate::terminal::{Style, one_line};

/// Characters of a title.
const TITLE_CHARS: usize = 60;

pub(super) async fn attach(context: &Context, args: args::Attach) -> Result<()> {
    let client = if args.read_only { context.observer().await? } else { context.client().await? };
    let session = target::session(&client, args.session.as_deref()).await?;
    let role = if args.read_only { Role::Observer } else { Role::Controller };
    if chat::is_possible() && !context.json {
        return chat::chat(client, role, Begin::Session(Box::new(session), args.since)).await;
    }
    plain(context, client, session, role, args.since.unwrap_or(0)).await
}

/// The same in plain lines, from the event after `since` on.
pub(super) async fn plain(
    context: &Context,
    client: Client,
    session: Session,
    role: Role,
    since: u64,
) -> Result<()> {
    let mut watch = client.watch(session.session_id.clone(), Some(since), true);
    let mut interrupts = signal(SignalKind::interrupt())?;
    let reads = role == Role::Controller;
    let mut lines = reads.then(|| BufReader::new(tokio::io::stdin()).lines());
    let mut attached = Attached {
        client,
        session_id: session.session_id,
        page: Page::new(),
        json: context.json,
        role,
        joined: false,
        asked: None,
        interrupted: false,
    };
    loop {
        tokio::select! {
            received = watch.next() => match received {
                Some(received) => attached.message(&received?)?,
                None => return Ok(()),
            },
            _ = interrupts.recv() => {
                if attached.interrupt().await? {
                    return Ok(());
                }
            }
            line = next_line(lines.as_mut()) => match line? {
                Some(line) => attached.line(line.trim()).await?,
                // At a terminal Ctrl-D means to leave; a pipe that ends has only said its part.
                None if std::io::stdin().is_terminal() => return Ok(()),
                None => lines = None,
            },
        }
    }
}

async fn next_line(lines: Option<&mut Lines<BufReader<Stdin>>>) -> std::io::Result<Option<String>> {
    match lines {
        Some(lines) => lines.next_line().await,
        None => std::future::pending().await,
    }
}

struct Attached {
    client: Client,
    session_id: SessionId,
    page: Page,
    json: bool,
    role: Role,
    joined: bool,
    /// The prompt that was shown last.
    asked: Option<PromptId>,
    interrupted: bool,
}

impl Attached {
    fn message(&mut self, received: &Received) -> Result<()> {
        if self.json {
            render::line(received.raw.get())?;
        }
        match &received.body {
            Body::Lost if self.json => {}
            Body::Lost => self.page.note(Style::Yellow, LOST)?,
            Body::Unknown { seq, .. } => self.page.pass_over(seq.unwrap_or(0)),
            Body::Message(message) if self.json => self.page.absorb(message),
            Body::Message(message) => self.page.show(message)?,
        }
        match &received.body {
            Body::Message(StreamMessage::Marker(Marker::Joined { .. })) if !self.joined => {
                self.joined = true;
                self.say_where()?;
            }
            Body::Message(StreamMessage::Event(event)) if event.body.is_terminal() => {
                self.interrupted = false;
            }
            _ => {}
        }
        if self.joined { self.show_prompt() } else { Ok(()) }
    }

    fn say_where(&mut self) -> Result<()> {
        let Some(session) = self.page.view().session.clone().filter(|_| !self.json) else {
            return Ok(());
        };
        let mut parts = vec![session.session_id.to_string(), one_line(&session.title, TITLE_CHARS)];
        parts.push(render::state(session.state).to_owned());
        parts.retain(|part| !part.is_empty());
        let text = format!("— {} —", parts.join(" · "));
        Ok(self.page.note(Style::Dim, &text)?)
    }

    /// Shows the oldest open prompt, once.
    fn show_prompt(&mut self) -> Result<()> {
        let oldest = self.page.view().prompts().first().cloned();
        let Some(prompt) = oldest.filter(|_| !self.json) else {
            self.asked = None;
            return Ok(());
        };
        if self.asked.as_ref() == Some(&prompt.prompt_id) {
            return Ok(());
        }
        self.asked = Some(prompt.prompt_id.clone());
        self.page.prompt(&prompt)?;
        if self.role == Role::Controller {
            let text = format!("  {} (and Enter)", keys(&prompt));
            self.page.note(Style::Bold, &text)?;
        }
        Ok(())
    }

    async fn line(&mut self, line: &str) -> Result<()> {
        let mut letters = line.chars();
        let prompt = self.page.view().prompts().first().cloned();
        match (letters.next(), letters.next(), prompt) {
            (None, _, _) => Ok(()),
            (Some(key), None, Some(prompt)) if self.asked.as_ref() == Some(&prompt.prompt_id) => {
                match answer_of(key, &prompt) {
                    Some(reply) => {
                        let answered = self.client.call::<ReplyPermission>(reply).await;
                        self.tell_refusal(answered.map(|_| ()))
                    }
                    None => Ok(self.page.note(Style::Bold, &format!("  {}", keys(&prompt)))?),
                }
            }
            _ => self.send(line.to_owned()).await,
        }
    }

    /// Sends input into the running turn, or after it where the daemon cannot steer.
    async fn send(&mut self, text: String) -> Result<()> {
        let content = Content::Text(text);
        for delivery in [Delivery::Auto, Delivery::Queue] {
            let op = Op::UserInput { content: content.clone(), delivery, expected_turn_id: None };
            let params = submission(self.session_id.clone(), op);
            if std::io::stdin().is_terminal() {
                self.page.leave_out(params.submission.id.clone());
            }
            match self.client.call::<SessionSubmit>(params).await {
                Err(error) if matches!(error.data(), Some(ErrorData::Unsupported { .. })) => {}
                outcome => return self.tell_refusal(outcome.map(|_| ())),
            }
        }
        Ok(())
    }

    /// Ctrl-C: ends the running turn; whether to leave instead.
    async fn interrupt(&mut self) -> Result<bool> {
        let state = self.page.view().session.as_ref().map(|session| session.state);
        let running = matches!(state, Some(SessionState::Running | SessionState::Waiting));
        if !running || self.interrupted || self.role == Role::Observer {
            return Ok(true);
        }
        self.interrupted = true;
        self.page.note(Style::Yellow, "interrupting (again: leave)")?;
        let op = Op::Interrupt { drop_queue: false, expected_turn_id: None };
        let params = submission(self.session_id.clone(), op);
        let interrupted = self.client.call::<SessionSubmit>(params).await;
        self.tell_refusal(interrupted.map(|_| ()))?;
        Ok(false)
    }

    /// A refusal is a line; anything else ends the watch.
    fn tell_refusal(&mut self, outcome: Result<(), Error>) -> Result<()> {
        match outcome {
            Err(Error::Refused(refusal)) => Ok(self.page.note(Style::Red, &refusal.message)?),
            outcome => Ok(outcome?),
        }
    }
}
