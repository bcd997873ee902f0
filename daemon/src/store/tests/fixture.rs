//! What tests of the store and the journal build on: a store in a temporary directory, sessions,
//! and events of a plain turn.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use agentd_protocol::event::{EventBody, Role, TurnTotals};
use agentd_protocol::id::{CallId, ItemId, SessionId, SubmissionId, TurnId};
use agentd_protocol::item::{
    AssistantItem, AssistantPart, AssistantStatus, Content, Item, ItemBody, Origin, Part, ToolItem,
    ToolStatus,
};
use agentd_protocol::permission::PermissionMode;
use agentd_protocol::session::{EnvMode, Limits, Session, SessionState, Usage};
use agentd_protocol::submission::{
    Delivery, Disposition, OnDisconnect, OnPrompt, Op, Submission, SubmitParams, SubmitResult,
};
use agentd_protocol::time::Time;
use proptest::test_runner::Config as ProptestConfig;

use crate::clock::Clock;
use crate::store::{
    Append, Appended, Error, Holder, LeaseUse, NewEvent, NewSession, Options, Row, Store,
    Synchronous,
};

/// A property's configuration: how often it is tried, 20 times as often in a soak. Failing
/// schedules are printed, not kept.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let cases = if std::env::var_os("AGENTD_SOAK").is_some() { cases * 20 } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Options of a store whose commits need not survive a power cut.
pub(crate) fn options(owner: &str) -> Options {
    Options {
        synchronous: Synchronous::Normal,
        shared: false,
        holder: Holder::this_process(owner),
        lease_ttl: Duration::from_secs(15),
        announcement: format!("test {owner}"),
    }
}

/// A store in `dir`.
pub(crate) fn open(dir: &Path) -> Store {
    Store::open(dir, options("dmn_test"), Clock::manual()).expect("the store opens")
}

pub(crate) fn time() -> Time {
    Time::from_unix_millis(1_767_225_600_123)
}

/// A session as its creator describes it.
pub(crate) fn new_session(name: &str) -> NewSession {
    NewSession {
        session: Session {
            session_id: SessionId::from_unique(name),
            title: format!("Session {name}"),
            cwd: "/work".to_owned(),
            model: Some("demo/demo".to_owned()),
            model_options: None,
            permission_mode: PermissionMode::Ask,
            state: SessionState::Idle,
            created_at: time(),
            updated_at: time(),
            head_seq: 0,
            item_count: 0,
            usage: Usage::default(),
            limits: Limits::default(),
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
        },
        items: Vec::new(),
        env: BTreeMap::new(),
        env_mode: EnvMode::Overlay,
        key: None,
        digest: "digest".to_owned(),
    }
}

/// Makes a session.
pub(crate) async fn create(store: &Store, name: &str) -> SessionId {
    let created = store.create_session(new_session(name)).await.expect("the session is made");
    created.session.session_id
}

pub(crate) fn warning(message: &str) -> EventBody {
    EventBody::Warning { code: "test".to_owned(), message: message.to_owned() }
}

pub(crate) fn event(body: EventBody) -> NewEvent {
    NewEvent { turn_id: None, time: time(), body }
}

pub(crate) fn turn_event(turn: &TurnId, body: EventBody) -> NewEvent {
    NewEvent { turn_id: Some(turn.clone()), time: time(), body }
}

/// An append that takes the lease.
pub(crate) fn append(session_id: &SessionId, head: u64, events: Vec<NewEvent>) -> Append {
    Append {
        session_id: session_id.clone(),
        expected_head: head,
        lease: LeaseUse::Take { by_force: false },
        release: false,
        events,
        rows: Vec::new(),
    }
}

/// Appends under the lease that is held.
pub(crate) struct Hand {
    pub store: Store,
    pub session_id: SessionId,
    pub head: u64,
    pub epoch: Option<u64>,
}

impl Hand {
    pub(crate) fn new(store: &Store, session_id: &SessionId) -> Self {
        Self { store: store.clone(), session_id: session_id.clone(), head: 1, epoch: None }
    }

    pub(crate) fn next(&self, events: Vec<NewEvent>, rows: Vec<Row>) -> Append {
        let lease = match self.epoch {
            Some(epoch) => LeaseUse::Held { epoch },
            None => LeaseUse::Take { by_force: false },
        };
        Append { lease, rows, ..append(&self.session_id, self.head, events) }
    }

    pub(crate) async fn write(
        &mut self,
        events: Vec<NewEvent>,
        rows: Vec<Row>,
    ) -> Result<Appended, Error> {
        let appended = self.store.append(self.next(events, rows)).await?;
        self.head = appended.head;
        self.epoch = Some(appended.epoch);
        Ok(appended)
    }
}

pub(crate) fn submission_id(id: &str) -> SubmissionId {
    SubmissionId::try_from(id.to_owned()).expect("a valid id")
}

/// An input as a client sends it.
pub(crate) fn input(session_id: &SessionId, id: &str, text: &str) -> SubmitParams {
    SubmitParams {
        session_id: session_id.clone(),
        submission: Submission {
            id: submission_id(id),
            op: Op::UserInput {
                content: Content::Text(text.to_owned()),
                delivery: Delivery::Auto,
                expected_turn_id: None,
            },
        },
        limits: None,
        on_disconnect: OnDisconnect::Continue,
        on_prompt: OnPrompt::Wait,
    }
}

/// The record of an accepted submission.
pub(crate) fn accepted(params: SubmitParams, disposition: Disposition, turn: &TurnId) -> Row {
    let result = SubmitResult {
        submission_id: params.submission.id.clone(),
        disposition,
        turn_id: Some(turn.clone()),
        seq: 0,
        replayed: false,
        rollback: None,
    };
    Row::Submission { params: Box::new(params), digest: "digest".to_owned(), result }
}

pub(crate) fn turn_started(submission: &str) -> EventBody {
    EventBody::TurnStarted {
        submission_id: submission_id(submission),
        model: "demo/demo".to_owned(),
        limits: Limits::default(),
    }
}

pub(crate) fn turn_completed() -> EventBody {
    EventBody::TurnCompleted { totals: TurnTotals::default() }
}

pub(crate) fn item_started(item: &ItemId, attempt: u32) -> EventBody {
    EventBody::ItemStarted { item_id: item.clone(), role: Role::Assistant, attempt }
}

fn item(item_id: &ItemId, index: u64, turn: &TurnId, body: ItemBody) -> Box<Item> {
    Box::new(Item {
        item_id: item_id.clone(),
        index,
        turn_id: turn.clone(),
        created_at: time(),
        hidden_by: None,
        body,
    })
}

pub(crate) fn user_item(id: &ItemId, index: u64, turn: &TurnId, text: &str) -> EventBody {
    let body = ItemBody::User {
        content: vec![Part::text(text)],
        origin: Origin::User,
        submission_id: None,
    };
    EventBody::MessageCompleted { item: item(id, index, turn, body) }
}

pub(crate) fn assistant_item(id: &ItemId, index: u64, turn: &TurnId, text: &str) -> EventBody {
    let body = ItemBody::Assistant(AssistantItem {
        content: vec![AssistantPart::Text { text: text.to_owned() }],
        calls: Vec::new(),
        status: AssistantStatus::Complete,
        model: "demo/demo".to_owned(),
        usage: Usage::default(),
        finish_reason: None,
    });
    EventBody::MessageCompleted { item: item(id, index, turn, body) }
}

pub(crate) fn tool_completed(
    call: &CallId,
    id: &ItemId,
    index: u64,
    turn: &TurnId,
    text: &str,
) -> EventBody {
    let body = ItemBody::Tool(ToolItem {
        call_id: call.clone(),
        name: "read".to_owned(),
        status: ToolStatus::Ok,
        content: vec![Part::text(text)],
        full_output: None,
    });
    EventBody::ToolCompleted {
        call_id: call.clone(),
        item: item(id, index, turn, body),
        status: ToolStatus::Ok,
        duration_ms: 5,
        changes: None,
    }
}

/// Makes every append fail with its whole transaction, as a full disk does, or lets it work again.
pub(crate) async fn fail_appends(store: &Store, fail: bool) {
    let sql = if fail {
        "CREATE TEMP TRIGGER full BEFORE INSERT ON main.events
         BEGIN SELECT RAISE(ROLLBACK, 'the disk is full'); END"
    } else {
        "DROP TRIGGER temp.full"
    };
    store.write("fail", move |conn| Ok(conn.execute_batch(sql)?)).await.expect("a trigger");
}
