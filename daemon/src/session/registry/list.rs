//! Reads that need no actor.
//!
//! Receives requests from `rpc`; hands them pages of what is committed.

use std::collections::BTreeMap;

use agentd_protocol::daemon::{ModelListParams, ModelListResult, Tool, ToolListResult};
use agentd_protocol::id::SessionId;
use agentd_protocol::permission::{
    PermissionForgetParams, PermissionForgetResult, PermissionListParams, PermissionListResult,
    PermissionRulesParams, PermissionRulesResult,
};
use agentd_protocol::session::{
    EventsParams, EventsResult, ItemsParams, ItemsResult, ListParams, ListResult, Session,
};

use super::Registry;
use crate::session::Error;

/// What the daemon is doing, for `daemon/status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Sessions by state, as on the wire.
    pub sessions: BTreeMap<String, u64>,
    /// Turns that run or wait.
    pub turns_running: u64,
    /// Bytes of the database and its log.
    pub store_bytes: u64,
}

impl Registry {
    /// A page of sessions.
    pub async fn list(&self, params: ListParams) -> Result<ListResult, Error> {
        self.0.services.store.list(params).await.map_err(Error::from_store)
    }

    /// One session.
    pub async fn get(&self, session_id: &SessionId) -> Result<Session, Error> {
        self.0.services.store.session(session_id).await.map_err(Error::from_store)
    }

    /// A page of items.
    pub async fn items(&self, params: ItemsParams) -> Result<ItemsResult, Error> {
        self.0.services.store.items(params).await.map_err(Error::from_store)
    }

    /// A page of events.
    pub async fn events(&self, params: EventsParams) -> Result<EventsResult, Error> {
        self.0.services.store.events(params).await.map_err(Error::from_store)
    }

    /// Open prompts.
    pub async fn prompts(
        &self,
        params: PermissionListParams,
    ) -> Result<PermissionListResult, Error> {
        let store = &self.0.services.store;
        if let Some(session_id) = &params.session_id {
            store.session(session_id).await.map_err(Error::from_store)?;
        }
        let prompts =
            store.open_prompts(params.session_id.as_ref()).await.map_err(Error::from_store)?;
        Ok(PermissionListResult { prompts })
    }

    /// The rules in force, everywhere or for a session.
    pub async fn rules(
        &self,
        params: PermissionRulesParams,
    ) -> Result<PermissionRulesResult, Error> {
        let services = &self.0.services;
        let remembered = services.store.rules(params.session_id.as_ref()).await;
        let mut rules = services.configured_rules();
        rules.extend(remembered.map_err(Error::from_store)?);
        Ok(PermissionRulesResult { rules })
    }

    /// Forgets a remembered rule; sessions notice with their next call.
    pub async fn forget_rule(
        &self,
        params: PermissionForgetParams,
    ) -> Result<PermissionForgetResult, Error> {
        let services = &self.0.services;
        let forgotten = services.store.forget_rule(&params.rule_id).await;
        let forgotten = forgotten.map_err(Error::from_store)?;
        services.rules_changed();
        if forgotten {
            return Ok(PermissionForgetResult { forgotten });
        }
        match services.configured_rules().iter().find(|rule| rule.rule_id == params.rule_id) {
            Some(_) => Err(Error::InvalidParams {
                field: "rule_id".to_owned(),
                message: "this rule is configured: take it out of the configuration".to_owned(),
            }),
            None => Err(Error::RuleNotFound(params.rule_id)),
        }
    }

    /// The models that can be used; with `probe`, those too that the providers name when asked.
    pub async fn models(&self, params: ModelListParams) -> ModelListResult {
        let providers = self.0.services.providers();
        if params.probe { providers.probe().await } else { providers.list() }
    }

    /// The tools that models can call.
    pub fn tools(&self) -> ToolListResult {
        let tools = self.0.services.tools.specs().map(|spec| Tool {
            name: spec.name.clone(),
            description: spec.description.clone(),
            input_schema: spec.input_schema.clone(),
            risk: spec.risk,
            origin: spec.origin.clone(),
        });
        ToolListResult { tools: tools.collect() }
    }

    /// Whether a background command of any session runs here.
    pub fn has_background(&self) -> bool {
        self.0.services.tools.background().is_any_busy()
    }

    /// What the daemon is doing.
    pub async fn counts(&self) -> Result<Counts, Error> {
        let store = &self.0.services.store;
        let sessions = store.counts_by_state().await.map_err(Error::from_store)?;
        let of = |state: &str| sessions.get(state).copied().unwrap_or(0);
        let turns_running = of("running") + of("waiting");
        Ok(Counts { turns_running, sessions, store_bytes: store.bytes() })
    }
}
