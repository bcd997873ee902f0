//! `configure`: change what holds from the next iteration on.
//!
//! Receives the changes; plans `session.updated`.

use agentd_protocol::event::EventBody;
use agentd_protocol::permission::PermissionMode;
use agentd_protocol::session::{Limits, ModelOptions, Session};
use agentd_protocol::submission::Disposition;

use super::{Accepted, Desk};
use crate::provider::ModelFacts;
use crate::session::Error;
use crate::session::state::check_price;
use crate::session::update::check_record;
use crate::turn::Input;

pub(super) fn plan(
    desk: &mut Desk<'_>,
    model: Option<String>,
    model_options: Option<ModelOptions>,
    permission_mode: Option<PermissionMode>,
    limits: Option<Limits>,
) -> Accepted {
    let mut session = Box::new(desk.state.session.clone());
    let mut changed = Vec::new();
    if let Some(model) = model {
        session.model = Some(model);
        changed.push("model".to_owned());
    }
    check_record(model_options.as_ref(), "submission.op.model_options")?;
    if let Some(options) = model_options {
        session.model_options = Some(options);
        changed.push("model_options".to_owned());
    }
    if let Some(mode) = permission_mode {
        session.permission_mode = mode;
        changed.push("permission_mode".to_owned());
    }
    if let Some(limits) = limits {
        session.limits = limits.or(session.limits);
        changed.push("limits".to_owned());
    }
    if changed.is_empty() {
        return Err(Error::InvalidParams {
            field: "submission.op".to_owned(),
            message: "nothing to configure: give model, model_options, permission_mode or limits"
                .to_owned(),
        });
    }
    let facts = check_model(desk, &session, &changed)?;
    let turn_id = desk.state.active_turn().cloned();
    desk.accept(Disposition::Applied, turn_id.as_ref());
    let limits = limits.map(|_| session.limits);
    let model = session.model.clone().filter(|_| changed.iter().any(|field| field == "model"));
    if session.permission_mode == PermissionMode::Full
        && desk.state.session.permission_mode != PermissionMode::Full
    {
        desk.plan.event(EventBody::Warning {
            code: "mode_full".to_owned(),
            message: "from the next step on every call runs without being asked about".to_owned(),
        });
    }
    desk.plan.event(EventBody::SessionUpdated { session, changed });
    if let (Some(limits), Some(turn)) = (limits, &desk.state.turn) {
        // What the submission of the running turn asked for stays in force.
        let limits = turn.params.limits.unwrap_or_default().or(limits);
        desk.tell_turn(Input::Limits(limits));
    }
    if let Some(mode) = permission_mode {
        desk.tell_turn(Input::PermissionMode(mode));
    }
    if let Some(model) = model {
        let window = facts.context_window.unwrap_or(0);
        desk.tell_turn(Input::Model { model, window });
    }
    Ok((Disposition::Applied, turn_id))
}

/// The model that there will be, which has to be there and to have a price where money is limited:
/// by the session or by what started the running turn.
fn check_model(
    desk: &Desk<'_>,
    session: &Session,
    changed: &[String],
) -> Result<ModelFacts, Error> {
    if !changed.iter().any(|field| field == "model" || field == "limits") {
        return Ok(ModelFacts::default());
    }
    let providers = desk.services.providers();
    let model = session.model.as_deref().or(providers.default_model());
    let Some(model) = model else { return Ok(ModelFacts::default()) };
    let facts = providers.get(model).map_err(Error::from_select)?.facts;
    let of_turn = desk.state.turn.as_ref().and_then(|turn| turn.params.limits);
    check_price(model, &facts, &of_turn.unwrap_or_default().or(session.limits))?;
    Ok(facts)
}
