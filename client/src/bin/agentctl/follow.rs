//! Following a submission through its turn to the end.
//!
//! Invariants: every prompt is answered at most once from here; a prompt that somebody else
//! answered ends the question; the exit code is that of the turn's end, but a permission that
//! nobody could be asked for is always told by it.
//!
//! Receives messages of a watch, keys and Ctrl-C; hands answers and interrupts to the daemon and
//! what happens to the page.

use std::collections::HashSet;

use agentd_client::protocol::error::ErrorData;
use agentd_client::protocol::event::{AbortReason, Event, EventBody};
use agentd_client::protocol::id::{PromptId, TurnId};
use agentd_client::protocol::item::ItemBody;
use agentd_client::protocol::method::{ReplyPermission, SessionSubmit};
use agentd_client::protocol::permission::{Decision, PermissionReplyParams, Prompt, Resolution};
use agentd_client::protocol::progress::{Marker, StreamMessage};
use agentd_client::protocol::submission::{Disposition, Op, SubmitParams, SubmitResult};
use agentd_client::{Body, Client, Received, Watch};
use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, advice_on};
use crate::page::{LOST, Page};
use crate::prompt::{Keyboard, Question, answer, answer_of, keys};
use crate::render;
use crate::rule::AllowRule;
use crate::terminal::{Style, one_line};

/// What a run prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Answers, and notes beside them.
    Text,
    /// Notes only.
    Notes,
    /// Events as they come, a line each.
    Json {
        /// Progress too.
        progress: bool,
    },
}

/// How a followed submission ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// What the shell is told.
    pub(crate) exit: Exit,
    /// The last text of the turn's answers.
    pub(crate) answer: String,
    /// The last event that was seen.
    pub(crate) seq: u64,
}

/// A submission and the turn that it is part of.
#[derive(Debug)]
pub(crate) struct Follow {
    client: Client,
    params: SubmitParams,
    /// The turn; `None` while the input waits for its own.
    turn_id: Option<TurnId>,
    /// The input is promised to a running turn and did not reach it yet.
    steering: bool,
    format: Format,
    rules: Vec<AllowRule>,
    keyboard: Option<Keyboard>,
    page: Page,
    answered: HashSet<PromptId>,
    denied: bool,
    interrupted: bool,
    connections: u64,
    /// The last text that the model wrote in the turn.
    answer: String,
    /// The model of the turn, as far as its start was seen.
    model: String,
}

impl Follow {
    /// Begins with what the daemon said to the submission.
    pub(crate) fn new(
        client: Client,
        params: SubmitParams,
        result: &SubmitResult,
        format: Format,
        rules: Vec<AllowRule>,
        keyboard: Option<Keyboard>,
    ) -> Self {
        let page = Page::new();
        let mut page = if format == Format::Notes { page.without_answers() } else { page };
        page.leave_out(params.submission.id.clone());
        Self {
            connections: client.connections(),
            client,
            params,
            turn_id: result.turn_id.clone(),
            steering: result.disposition == Disposition::Steered,
            format,
            rules,
            keyboard,
            page,
            answered: HashSet::new(),
            denied: false,
            interrupted: false,
            answer: String::new(),
            model: String::new(),
        }
    }

    /// Shows what happens and answers what is asked, until the turn ends.
    pub(crate) async fn until_end(mut self, watch: Watch) -> Result<Ended> {
        let exit = self.follow(watch).await?;
        let seq = self.page.view().seq;
        Ok(Ended { exit, answer: self.answer, seq })
    }

    async fn follow(&mut self, mut watch: Watch) -> Result<Exit> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let keyboard = self.keyboard.take();
        let mut question: Option<(Prompt, Question<'_>)> = None;
        loop {
            match next(&mut watch, &mut interrupts, question.as_ref()).await {
                Happening::Message(received) => {
                    if let Some(exit) = self.message(&received?).await? {
                        return Ok(exit);
                    }
                }
                Happening::Over => return Ok(Exit::Failed),
                Happening::Interrupt if self.interrupted => {
                    self.note(Style::Yellow, "left; `agentctl attach` shows how it goes on")?;
                    return Ok(Exit::Interrupted);
                }
                Happening::Interrupt => self.interrupt().await?,
                Happening::Key(Ok(key)) => self.key(key, &mut question).await?,
                Happening::Key(Err(error)) => return Err(error.into()),
            }
            if question.as_ref().is_some_and(|(prompt, _)| !self.is_open(&prompt.prompt_id)) {
                question = None;
            }
            if question.is_none() {
                question = self.next_question(keyboard.as_ref()).await?;
            }
        }
    }

    async fn message(&mut self, received: &Received) -> Result<Option<Exit>> {
        let message = match &received.body {
            Body::Message(message) => message,
            Body::Lost => {
                self.note(Style::Yellow, LOST)?;
                return Ok(None);
            }
            Body::Unknown { seq, .. } => {
                self.page.pass_over(seq.unwrap_or(0));
                if let (Format::Json { .. }, Some(_)) = (self.format, seq) {
                    render::line(received.raw.get())?;
                }
                return Ok(None);
            }
        };
        self.come_back().await?;
        match self.format {
            Format::Text | Format::Notes => self.page.show(message)?,
            Format::Json { progress } => {
                let wanted = match message {
                    StreamMessage::Event(_) => true,
                    StreamMessage::Progress(_) => progress,
                    StreamMessage::Marker(_) => false,
                };
                if wanted {
                    render::line(received.raw.get())?;
                }
                self.page.absorb(message);
            }
        }
        match message {
            StreamMessage::Event(event) => self.event(event),
            StreamMessage::Marker(Marker::Closed { .. }) => Ok(Some(Exit::Failed)),
            StreamMessage::Marker(_) | StreamMessage::Progress(_) => Ok(None),
        }
    }

    /// On a new connection: says again that we are there. The submission runs once all the same.
    async fn come_back(&mut self) -> Result<()> {
        if self.connections != self.client.connections() {
            self.connections = self.client.connections();
            self.client.call::<SessionSubmit>(self.params.clone()).await?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<Option<Exit>> {
        let ours = &self.params.submission.id;
        match &event.body {
            EventBody::TurnStarted { submission_id, model, .. } if submission_id == ours => {
                self.turn_id.clone_from(&event.turn_id);
                self.model.clone_from(model);
            }
            EventBody::InputSteered { submission_id, .. } if submission_id == ours => {
                self.steering = false;
            }
            EventBody::InputDropped { submission_id, reason } if submission_id == ours => {
                eprintln!("agentctl: the input was dropped: {reason}");
                return Ok(Some(Exit::Failed));
            }
            EventBody::MessageCompleted { item } if self.is_ours(event) => {
                if let ItemBody::Assistant(said) = &item.body
                    && !said.text().trim().is_empty()
                {
                    self.answer = said.text();
                }
            }
            EventBody::TurnFailed { error, .. } if self.is_ours(event) => {
                if let Some(advice) = advice_on(error, &self.model) {
                    self.note(Style::Yellow, &advice)?;
                }
                return Ok(Some(if self.denied { Exit::Denied } else { Exit::Failed }));
            }
            EventBody::PermissionResolved(resolved)
                if resolved.decision == Resolution::Deny && resolved.by.is_none() =>
            {
                self.say_how_to_allow()?;
            }
            body if body.is_terminal() && self.is_ours(event) => {
                // The turn ended before it took the input, which now gets its own.
                if std::mem::take(&mut self.steering) {
                    self.turn_id = None;
                    return Ok(None);
                }
                return Ok(Some(if self.denied { Exit::Denied } else { exit_of(body) }));
            }
            _ => {}
        }
        Ok(None)
    }

    fn is_ours(&self, event: &Event) -> bool {
        self.turn_id.is_some() && self.turn_id == event.turn_id
    }

    fn is_open(&self, prompt_id: &PromptId) -> bool {
        self.page.view().prompts().iter().any(|prompt| prompt.prompt_id == *prompt_id)
    }

    /// Answers the open prompts that rules decide; asks for the first one that they do not.
    async fn next_question<'a>(
        &mut self,
        keyboard: Option<&'a Keyboard>,
    ) -> Result<Option<(Prompt, Question<'a>)>> {
        let mut open = self.page.view().prompts().to_vec();
        open.retain(|prompt| !self.answered.contains(&prompt.prompt_id));
        for prompt in open {
            if self.rules.iter().any(|rule| rule.matches(&prompt)) {
                self.reply(answer(&prompt, Decision::Allow)).await?;
            } else if let Some(keyboard) = keyboard {
                let question = keyboard.ask()?;
                self.page.prompt(&prompt)?;
                for line in keys(&prompt).lines() {
                    self.note(Style::Bold, &format!("  {line}"))?;
                }
                return Ok(Some((prompt, question)));
            } else if !self.rules.is_empty() {
                let summary = one_line(&prompt.summary, 120);
                self.note(Style::Red, &format!("no rule allows: {summary}"))?;
                let message = Some("nobody could be asked, and no rule allows it".to_owned());
                let denial = answer(&prompt, Decision::Deny);
                self.reply(PermissionReplyParams { message, ..denial }).await?;
                self.say_how_to_allow()?;
            }
        }
        Ok(None)
    }

    async fn key(
        &mut self,
        key: char,
        question: &mut Option<(Prompt, Question<'_>)>,
    ) -> Result<()> {
        let Some(params) = question.as_ref().and_then(|(prompt, _)| answer_of(key, prompt)) else {
            return Ok(());
        };
        *question = None;
        self.reply(params).await
    }

    async fn reply(&mut self, params: PermissionReplyParams) -> Result<()> {
        self.answered.insert(params.prompt_id.clone());
        match self.client.call::<ReplyPermission>(params).await {
            Ok(_) => Ok(()),
            Err(error) => match error.data() {
                // Somebody was faster; the event tells who.
                Some(ErrorData::PromptResolved { .. } | ErrorData::PromptNotFound { .. }) => Ok(()),
                _ => Err(error.into()),
            },
        }
    }

    async fn interrupt(&mut self) -> Result<()> {
        self.interrupted = true;
        self.note(Style::Yellow, "interrupting (again: leave at once)")?;
        let expected_turn_id = self.turn_id.clone();
        let op = Op::Interrupt { drop_queue: false, expected_turn_id };
        let mut params = self.params.clone();
        let id = format!("interrupt:{}", self.params.submission.id);
        params.submission.id = id.try_into()?;
        params.submission.op = op;
        params.limits = None;
        match self.client.call::<SessionSubmit>(params).await {
            // The turn ended in the meantime, and its event is on its way.
            Err(error) if matches!(error.data(), Some(ErrorData::TurnMismatch { .. })) => Ok(()),
            outcome => Ok(outcome.map(|_| ())?),
        }
    }

    fn say_how_to_allow(&mut self) -> Result<()> {
        if self.denied {
            return Ok(());
        }
        self.denied = true;
        let text = "agentctl: a permission was denied because nobody could be asked. Allow it \
            with --allow 'TOOL:PATTERN', with a rule in the configuration or with --mode; or run \
            on a terminal to be asked.";
        self.note(Style::Red, text)
    }

    fn note(&mut self, style: Style, text: &str) -> Result<()> {
        Ok(self.page.note(style, text)?)
    }
}

/// What can happen next.
enum Happening {
    Message(Result<Received, agentd_client::Error>),
    Over,
    Interrupt,
    Key(std::io::Result<char>),
}

async fn next(
    watch: &mut Watch,
    interrupts: &mut Signal,
    question: Option<&(Prompt, Question<'_>)>,
) -> Happening {
    let key = async {
        match question {
            Some((_, question)) => question.key().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        message = watch.next() => message.map_or(Happening::Over, Happening::Message),
        _ = interrupts.recv() => Happening::Interrupt,
        key = key => Happening::Key(key),
    }
}

fn exit_of(end: &EventBody) -> Exit {
    match end {
        EventBody::TurnCompleted { .. } => Exit::Completed,
        EventBody::TurnExhausted { .. } => Exit::Exhausted,
        EventBody::TurnAborted { reason, .. } => match reason {
            AbortReason::Interrupted | AbortReason::Replaced | AbortReason::Disconnected => {
                Exit::Interrupted
            }
            AbortReason::LeaseLost | AbortReason::Shutdown | AbortReason::Crashed => Exit::Failed,
        },
        _ => Exit::Failed,
    }
}
