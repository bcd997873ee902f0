//! The one table of methods: name, parameters, result, and who may call it.
//!
//! Dispatch, the client's typed calls, the OpenRPC document and the `unsupported` answers all
//! read this table, so a method exists everywhere or nowhere.
//!
//! Receives the types of the other modules; hands [`Method`]s and [`TABLE`] to daemon and client.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::daemon::{
    BackupParams, BackupResult, CheckResult, DaemonConfig, DaemonStatus, InitializeParams,
    InitializeResult, ModelListParams, ModelListResult, NoParams, ReloadResult, ShutdownParams,
    ShutdownResult, ToolListParams, ToolListResult,
};
use crate::knowledge::{
    Done, McpListResult, McpRestartParams, Memory, MemoryAddParams, MemoryListResult, MemoryParams,
    SkillListResult, SkillParams,
};
use crate::permission::{
    PermissionForgetParams, PermissionForgetResult, PermissionListParams, PermissionListResult,
    PermissionReplyParams, PermissionReplyResult, PermissionRulesParams, PermissionRulesResult,
};
use crate::question::{QuestionListParams, QuestionListResult, QuestionReplyParams};
use crate::session::{
    CreateParams, DeleteResult, EventsParams, EventsResult, ExportFileParams, ExportFileResult,
    ExportParams, ExportResult, ForkParams, ImportFileParams, ImportParams, ItemsParams,
    ItemsResult, ListParams, ListResult, SearchParams, SearchResult, Session, SessionParams,
    SubscribeParams, UnsubscribeResult, UpdateParams,
};
use crate::submission::{SubmitParams, SubmitResult};

/// The notification that carries a session's events, progress and markers.
pub const SESSION_EVENT: &str = "session/event";
/// The notification that carries the daemon's events.
pub const DAEMON_EVENT: &str = "daemon/event";

/// Who may call a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Any connection.
    Observer,
    /// Not observers.
    Controller,
}

/// A method, as a type.
pub trait Method {
    /// Its name on the wire.
    const NAME: &'static str;
    /// Its parameters, by name.
    type Params: Serialize + DeserializeOwned + JsonSchema;
    /// Its result.
    type Result: Serialize + DeserializeOwned + JsonSchema;
}

/// A method, as a row of the table.
#[derive(Debug, Clone, Copy)]
pub struct MethodInfo {
    /// Its name on the wire.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Who may call it.
    pub access: Access,
    /// The capability it belongs to; a daemon without that answers `unsupported`.
    pub capability: Option<&'static str>,
    /// Schema of its parameters.
    pub params: fn(&mut SchemaGenerator) -> Schema,
    /// Schema of its result.
    pub result: fn(&mut SchemaGenerator) -> Schema,
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $ty:ident = $name:literal, $params:ty => $result:ty, $access:ident $(, $capability:literal)?;)*) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug, Clone, Copy)]
            pub struct $ty;

            impl Method for $ty {
                const NAME: &'static str = $name;
                type Params = $params;
                type Result = $result;
            }
        )*

        /// Every method of protocol version 1.
        pub const TABLE: &[MethodInfo] = &[$(MethodInfo {
            name: $name,
            summary: concat!($($doc),+),
            access: Access::$access,
            capability: methods!(@capability $($capability)?),
            params: |generator| generator.subschema_for::<$params>(),
            result: |generator| generator.subschema_for::<$result>(),
        }),*];
    };
    (@capability) => { None };
    (@capability $capability:literal) => { Some($capability) };
}

methods! {
    /// Say who calls and learn what the daemon can do.
    Initialize = "initialize", InitializeParams => InitializeResult, Observer;
    /// The OpenRPC document.
    RpcDiscover = "rpc.discover", NoParams => serde_json::Value, Observer;
    /// What the daemon is doing.
    GetDaemonStatus = "daemon/status", NoParams => DaemonStatus, Observer;
    /// The effective configuration, each value with where it came from.
    GetDaemonConfig = "daemon/config", NoParams => DaemonConfig, Observer;
    /// Read the configuration again.
    DaemonReload = "daemon/reload", NoParams => ReloadResult, Controller;
    /// Stop the daemon.
    DaemonShutdown = "daemon/shutdown", ShutdownParams => ShutdownResult, Controller;
    /// Read the whole database and say what is wrong with it.
    DaemonCheck = "daemon/check", NoParams => CheckResult, Observer, "check";
    /// Copy the live database into a file.
    DaemonBackup = "daemon/backup", BackupParams => BackupResult, Controller, "backup";
    /// Be told of sessions and of the daemon's life.
    DaemonSubscribe = "daemon/subscribe", NoParams => String, Observer;
    /// No longer be told.
    DaemonUnsubscribe = "daemon/unsubscribe", NoParams => UnsubscribeResult, Observer;
    /// Make a session.
    SessionCreate = "session/create", CreateParams => Session, Controller;
    /// List sessions.
    SessionList = "session/list", ListParams => ListResult, Observer;
    /// One session.
    SessionGet = "session/get", SessionParams => Session, Observer;
    /// Change a session's title, labels, directory or archived flag.
    SessionUpdate = "session/update", UpdateParams => Session, Controller;
    /// Delete a session with all it holds.
    SessionDelete = "session/delete", SessionParams => DeleteResult, Controller;
    /// Make a session from another's items.
    SessionFork = "session/fork", ForkParams => Session, Controller, "fork";
    /// A page of the conversation.
    SessionItems = "session/items", ItemsParams => ItemsResult, Observer;
    /// A page of the event log.
    SessionEvents = "session/events", EventsParams => EventsResult, Observer;
    /// The session as one document.
    SessionExport = "session/export", ExportParams => ExportResult, Observer, "export";
    /// A session from an exported document.
    SessionImport = "session/import", ImportParams => Session, Controller, "import";
    /// The session's document into a file, however large it is.
    SessionExportFile = "session/export_file", ExportFileParams => ExportFileResult, Controller, "export";
    /// A session from a file with an exported document, however large it is.
    SessionImportFile = "session/import_file", ImportFileParams => Session, Controller, "import";
    /// Search titles and items.
    SessionSearch = "session/search", SearchParams => SearchResult, Observer, "search";
    /// Change a session: the only way to do so.
    SessionSubmit = "session/submit", SubmitParams => SubmitResult, Controller;
    /// Watch a session.
    SessionSubscribe = "session/subscribe", SubscribeParams => String, Observer;
    /// No longer watch it.
    SessionUnsubscribe = "session/unsubscribe", SessionParams => UnsubscribeResult, Observer;
    /// Take a session's lease from another process.
    SessionTakeover = "session/takeover", SessionParams => Session, Controller, "takeover";
    /// Open permission prompts.
    PermissionList = "permission/list", PermissionListParams => PermissionListResult, Observer;
    /// Answer a permission prompt.
    ReplyPermission = "permission/reply", PermissionReplyParams => PermissionReplyResult, Controller;
    /// The rules in force.
    PermissionRules = "permission/rules", PermissionRulesParams => PermissionRulesResult, Observer, "rules";
    /// Forget a remembered rule.
    PermissionForget = "permission/forget", PermissionForgetParams => PermissionForgetResult, Controller, "rules";
    /// Open questions of models.
    QuestionList = "question/list", QuestionListParams => QuestionListResult, Observer, "questions";
    /// Answer a question.
    QuestionReply = "question/reply", QuestionReplyParams => PermissionReplyResult, Controller, "questions";
    /// The models that can be used.
    ModelList = "model/list", ModelListParams => ModelListResult, Observer;
    /// The tools that models can call.
    ToolList = "tool/list", ToolListParams => ToolListResult, Observer;
    /// Skills and candidates.
    SkillList = "skill/list", NoParams => SkillListResult, Observer, "skills";
    /// Use a candidate from now on.
    SkillAccept = "skill/accept", SkillParams => Done, Controller, "skills";
    /// Drop a candidate.
    SkillReject = "skill/reject", SkillParams => Done, Controller, "skills";
    /// Memories and candidates.
    MemoryList = "memory/list", NoParams => MemoryListResult, Observer, "memories";
    /// Remember something.
    MemoryAdd = "memory/add", MemoryAddParams => Memory, Controller, "memories";
    /// Use a candidate from now on.
    MemoryAccept = "memory/accept", MemoryParams => Done, Controller, "memories";
    /// Drop a candidate.
    MemoryReject = "memory/reject", MemoryParams => Done, Controller, "memories";
    /// Forget a memory.
    MemoryDelete = "memory/delete", MemoryParams => Done, Controller, "memories";
    /// MCP servers and their state.
    McpList = "mcp/list", NoParams => McpListResult, Observer, "mcp";
    /// Start an MCP server again.
    McpRestart = "mcp/restart", McpRestartParams => Done, Controller, "mcp";
}

/// The row of `name`.
pub fn find(name: &str) -> Option<&'static MethodInfo> {
    TABLE.iter().find(|method| method.name == name)
}
