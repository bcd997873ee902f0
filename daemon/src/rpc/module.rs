//! The methods: each row of the protocol's table gets its handler, or an answer that says which
//! capability is missing.
//!
//! A handler is a plain async function of the service, the connection and its parameters. It is
//! polled when its request arrives, so what it does before its first wait is done in order.
//!
//! Invariants: every method of the table is registered; what is not implemented is not among the
//! capabilities.
//!
//! Receives handlers from `handlers`; hands jsonrpsee's `Methods` to `dispatch`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use agentd_protocol::error::{ErrorData, RpcError};
use agentd_protocol::method::{Method, MethodInfo, TABLE};
use futures_util::future::BoxFuture;
use jsonrpsee::Extensions;
use jsonrpsee::core::server::{MethodResponseFuture, Methods, ResponsePayload, RpcModule};
use jsonrpsee::types::{ErrorObjectOwned, Params};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::rpc::context::Context;
use crate::rpc::handlers;
use crate::rpc::params;
use crate::rpc::service::Service;
use crate::session::CAPABILITIES;

/// What a method answers.
type Payload = ResponsePayload<'static, Box<RawValue>>;

/// A method's result and what starts once it is queued.
pub type Watch<R> = (R, BoxFuture<'static, ()>);

/// Methods being registered.
pub struct Registration(RpcModule<Service>);

/// Every method of the protocol over this service, which learns its capabilities by it.
pub fn methods(service: Service) -> Methods {
    let service = Arc::new(service);
    let mut registration = Registration(RpcModule::from_arc(service.clone()));
    handlers::register(&mut registration);
    let mut module = registration.0;
    service.capabilities.get_or_init(|| capabilities(|name| module.method(name).is_some()));
    for row in TABLE {
        // Those that have a handler keep it.
        let _ = module.register_method(row.name, move |_, _, _| failure(&unsupported(row)));
    }
    module.into()
}

/// The capabilities of the protocol's table of which every method is implemented.
fn capabilities(implemented: impl Fn(&str) -> bool) -> BTreeMap<String, Value> {
    let mut capabilities = BTreeMap::new();
    for row in TABLE {
        let Some(capability) = row.capability else { continue };
        let all = capabilities.entry(capability).or_insert(true);
        *all = *all && implemented(row.name);
    }
    capabilities.retain(|_, all| *all);
    let of_sessions = CAPABILITIES.iter().map(|name| (*name, true));
    let all = capabilities.into_iter().chain(of_sessions);
    all.map(|(name, all)| (name.to_owned(), Value::Bool(all))).collect()
}

impl Registration {
    /// Registers a method that is answered with its result.
    pub fn call<M, F, Fut>(&mut self, handler: F)
    where
        M: Method + 'static,
        M::Params: Send + 'static,
        F: Fn(Arc<Service>, Arc<Context>, M::Params) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Result, RpcError>> + Send + 'static,
    {
        self.insert::<M, _, _>(move |params, service, context| {
            let handler = handler.clone();
            async move {
                let params = params::parse(params.as_str())?;
                Ok(success(&handler(service, context, params).await?))
            }
        });
    }

    /// Registers a method whose success starts something that sends notifications.
    pub fn watch<M, F, Fut>(&mut self, handler: F)
    where
        M: Method + 'static,
        M::Params: Send + 'static,
        M::Result: Send,
        F: Fn(Arc<Service>, Arc<Context>, M::Params) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Watch<M::Result>, RpcError>> + Send + 'static,
    {
        self.insert::<M, _, _>(move |params, service, context| {
            let handler = handler.clone();
            async move {
                let params = params::parse(params.as_str())?;
                let (result, watch) = handler(service, context.clone(), params).await?;
                let (payload, queued) = success(&result).notify_on_completion();
                context.forwarders.spawn(once_queued(queued, watch));
                Ok(payload)
            }
        });
    }

    /// Registers a method that has always the same result: this JSON.
    pub fn fixed<M>(&mut self, result: &'static LazyLock<Box<RawValue>>)
    where
        M: Method + 'static,
        M::Params: Send + 'static,
    {
        self.insert::<M, _, _>(move |params, _, _| async move {
            let _: M::Params = params::parse(params.as_str())?;
            Ok(success(&**result))
        });
    }

    fn insert<M, F, Fut>(&mut self, handler: F)
    where
        M: Method,
        F: Fn(Params<'static>, Arc<Service>, Arc<Context>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Payload, RpcError>> + Send + 'static,
    {
        let handler = move |params: Params<'static>, service, extensions: Extensions| {
            let context = extensions.get::<Arc<Context>>().expect("dispatch puts it there").clone();
            let answer = handler(params, service, context);
            async move { answer.await.unwrap_or_else(|error| failure(&error)) }
        };
        self.0.register_async_method(M::NAME, handler).expect("the table has each name once");
    }
}

async fn once_queued(queued: MethodResponseFuture, watch: BoxFuture<'static, ()>) {
    if queued.await.is_ok() {
        watch.await;
    }
}

fn success<R: Serialize>(result: &R) -> Payload {
    to_raw_value(result).map_or_else(
        |error| {
            tracing::error!(%error, "a result cannot be written as JSON");
            failure(&RpcError::new(ErrorData::Internal, "the result cannot be written as JSON"))
        },
        Payload::success,
    )
}

fn failure(error: &RpcError) -> Payload {
    let RpcError { code, message, data } = error;
    Payload::error(ErrorObjectOwned::owned(*code, message.as_str(), Some(data)))
}

fn unsupported(row: &MethodInfo) -> RpcError {
    let capability = row.capability.unwrap_or(row.name);
    RpcError::new(
        ErrorData::Unsupported { capability: capability.to_owned() },
        format!(
            "`{}` needs the capability `{capability}`, which this daemon does not have: \
             `initialize` lists those it has",
            row.name
        ),
    )
}

#[cfg(test)]
mod tests;
