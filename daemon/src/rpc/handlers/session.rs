//! `session/*`: making, reading, changing and watching sessions.
//!
//! Receives requests about sessions; hands them to the registry, submissions in the order of
//! arrival.

use std::sync::Arc;

use agentd_protocol::error::RpcError;
use agentd_protocol::method::{
    SessionCreate, SessionDelete, SessionEvents, SessionExport, SessionExportFile, SessionFork,
    SessionGet, SessionImport, SessionImportFile, SessionItems, SessionList, SessionSearch,
    SessionSubmit, SessionSubscribe, SessionTakeover, SessionUnsubscribe, SessionUpdate,
};
use agentd_protocol::session::{DeleteResult, SessionParams, SubscribeParams, UnsubscribeResult};
use bytes::Bytes;
use futures_util::FutureExt;

use crate::rpc::context::Context;
use crate::rpc::error::of_session;
use crate::rpc::module::{Registration, Watch};
use crate::rpc::service::Service;
use crate::rpc::subscriptions::{Source, Topic, forward};
use crate::session::registry;

pub(super) fn register(registration: &mut Registration) {
    reading(registration);
    copying(registration);
    changing(registration);
    registration.watch::<SessionSubscribe, _, _>(subscribe);
    registration.call::<SessionUnsubscribe, _, _>(|_, context, params| async move {
        let unsubscribed = context.subscriptions.end(&topic(params)).await;
        Ok(UnsubscribeResult { unsubscribed })
    });
}

fn reading(registration: &mut Registration) {
    registration.call::<SessionList, _, _>(|service, _, params| async move {
        service.registry.list(params).await.map_err(of_session)
    });
    registration.call::<SessionGet, _, _>(|service, _, params| async move {
        service.registry.get(&params.session_id).await.map_err(of_session)
    });
    registration.call::<SessionItems, _, _>(|service, _, params| async move {
        service.registry.items(params).await.map_err(of_session)
    });
    registration.call::<SessionEvents, _, _>(|service, _, params| async move {
        service.registry.events(params).await.map_err(of_session)
    });
    registration.call::<SessionSearch, _, _>(|service, _, params| async move {
        service.registry.search(params).await.map_err(of_session)
    });
}

fn copying(registration: &mut Registration) {
    registration.call::<SessionFork, _, _>(|service, _, params| async move {
        service.registry.fork(params).await.map_err(of_session)
    });
    registration.call::<SessionExport, _, _>(|service, _, params| async move {
        service.registry.export(params).await.map_err(of_session)
    });
    registration.call::<SessionImport, _, _>(|service, _, params| async move {
        service.registry.import(params).await.map_err(of_session)
    });
    registration.call::<SessionExportFile, _, _>(|service, _, params| async move {
        service.registry.export_file(params).await.map_err(of_session)
    });
    registration.call::<SessionImportFile, _, _>(|service, _, params| async move {
        service.registry.import_file(params).await.map_err(of_session)
    });
}

fn changing(registration: &mut Registration) {
    registration.call::<SessionCreate, _, _>(|service, _, params| async move {
        service.registry.create(params).await.map_err(of_session)
    });
    registration.call::<SessionUpdate, _, _>(|service, _, params| async move {
        service.registry.update(params).await.map_err(of_session)
    });
    registration.call::<SessionDelete, _, _>(|service, _, params| async move {
        service.registry.delete(&params.session_id).await.map_err(of_session)?;
        Ok(DeleteResult { deleted: true })
    });
    registration.call::<SessionTakeover, _, _>(|service, _, params| async move {
        service.registry.take_over(&params.session_id).await.map_err(of_session)
    });
    registration.call::<SessionSubmit, _, _>(|service, context, params| async move {
        // Handed over before the first wait.
        service.registry.submit(&context.caller(), params).await.map_err(of_session)
    });
}

async fn subscribe(
    service: Arc<Service>,
    context: Arc<Context>,
    params: SubscribeParams,
) -> Result<Watch<String>, RpcError> {
    let session_id = params.session_id.clone();
    let claim = context.subscriptions.claim(Topic::Session(session_id.clone()));
    let subscribed = service.registry.subscribe(&context.caller(), context.role(), params).await;
    let subscription = match subscribed {
        Ok(subscription) => subscription,
        Err(error) => {
            context.subscriptions.give_up(&claim);
            return Err(of_session(error));
        }
    };
    let permit = context.subscriptions.start(claim).await;
    let outbound = context.outbound.clone();
    let watch = async move {
        if let Some(permit) = permit {
            forward(subscription, outbound, permit).await;
        }
    };
    Ok((session_id.to_string(), watch.boxed()))
}

fn topic(params: SessionParams) -> Topic {
    Topic::Session(params.session_id)
}

impl Source for registry::Watch {
    async fn next(&mut self) -> Option<Bytes> {
        registry::Watch::next(self).await
    }
}
