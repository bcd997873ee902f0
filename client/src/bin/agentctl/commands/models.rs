//! `models`: the models that can be used.
//!
//! Receives whether to ask the providers; hands back a table.

use agentd_client::protocol::daemon::ModelListParams;
use agentd_client::protocol::method::ModelList;
use anyhow::Result;

use crate::context::Context;
use crate::render;
use crate::terminal::harmless;

pub(super) async fn models(context: &Context, probe: bool) -> Result<()> {
    let client = context.client().await?;
    let result = client.call::<ModelList>(ModelListParams { probe }).await?;
    if context.json {
        return render::json(&result);
    }
    let default = result.default.as_deref();
    let rows = result.models.into_iter().map(|model| {
        let is_default = if default == Some(&model.id) { "default" } else { "" };
        let window = model.context_window.map(|tokens| tokens.to_string()).unwrap_or_default();
        let price = model.price.map(|price| format!("{} / {}", price.input, price.output));
        [model.id, window, price.unwrap_or_default(), is_default.to_owned()]
    });
    for failure in &result.failures {
        eprintln!("{}", harmless(&failure.message));
    }
    render::table(["model", "window", "$ per M in / out", ""], rows.collect(), "no models")
}
