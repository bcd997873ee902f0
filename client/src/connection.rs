//! One connection: initialized, with typed calls, until it is lost.
//!
//! Receives a trusted stream; hands calls to the daemon and their outcomes back.

use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::daemon::{
    ClientInfo, InitializeParams, InitializeResult, PROTOCOL_VERSION, ProtocolRange, Role,
};
use agentd_protocol::method::{Initialize, Method};
use jsonrpsee::core::client::{self, ClientT};
use jsonrpsee::core::traits::ToRpcParams;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::net::UnixStream;

use crate::error::{Error, Refusal};
use crate::transport::{self, Routes};

/// How long an answer may take. Every method answers when its request is accepted, not when what
/// it set off is done.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(45);

/// A connection. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    rpc: Arc<client::async_client::Client>,
    routes: Routes,
    server: Arc<InitializeResult>,
}

impl Connection {
    /// Says who calls and learns who answers.
    pub(crate) async fn open(
        stream: UnixStream,
        client: ClientInfo,
        role: Role,
    ) -> Result<Self, Error> {
        let routes = Routes::default();
        let (sender, receiver) = transport::split(stream, routes.clone());
        let rpc = client::async_client::ClientBuilder::new()
            .request_timeout(ANSWER_TIMEOUT)
            .build_with_tokio(sender, receiver);
        let rpc = Arc::new(rpc);
        let protocol = ProtocolRange { min: PROTOCOL_VERSION, max: PROTOCOL_VERSION };
        let params = InitializeParams { client, protocol, role };
        let server = Arc::new(call::<Initialize>(&rpc, &Params::new(&params)).await?);
        Ok(Self { rpc, routes, server })
    }

    /// Whether it still stands.
    pub(crate) fn is_open(&self) -> bool {
        self.rpc.is_connected()
    }

    /// What the daemon said of itself.
    pub(crate) fn server(&self) -> &InitializeResult {
        &self.server
    }

    /// Calls a method.
    pub(crate) async fn call<M: Method>(&self, params: &Params) -> Result<M::Result, Error> {
        call::<M>(&self.rpc, params).await
    }

    /// Where notifications go. Open a queue before the daemon is asked to subscribe.
    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }
}

async fn call<M: Method>(
    rpc: &client::async_client::Client,
    params: &Params,
) -> Result<M::Result, Error> {
    let answer: Result<Box<RawValue>, _> = rpc.request(M::NAME, params.clone()).await;
    match answer {
        Ok(result) => serde_json::from_str(result.get())
            .map_err(|cause| Error::BadAnswer { method: M::NAME, cause: Arc::new(cause) }),
        Err(client::Error::Call(error)) => {
            let refusal = Refusal::new(error.code(), error.message(), error.data());
            Err(Error::Refused(Box::new(refusal)))
        }
        Err(client::Error::RequestTimeout) => Err(Error::Timeout { method: M::NAME }),
        Err(error) => Err(Error::Disconnected { cause: words(&error) }),
    }
}

/// The first cause, without jsonrpsee's words around it.
fn words(error: &client::Error) -> String {
    match error {
        client::Error::RestartNeeded(cause) => words(cause),
        client::Error::Transport(cause) => cause.to_string(),
        other => other.to_string(),
    }
}

/// Parameters as the object they are, written once.
#[derive(Debug, Clone)]
pub(crate) struct Params(Arc<RawValue>);

impl Params {
    /// The parameters of a call.
    pub(crate) fn new(params: &impl Serialize) -> Self {
        let written = serde_json::value::to_raw_value(params);
        Self(written.expect("the protocol's types have string keys and no failing parts").into())
    }
}

impl ToRpcParams for Params {
    fn to_rpc_params(self) -> Result<Option<Box<RawValue>>, serde_json::Error> {
        Ok(Some((*self.0).to_owned()))
    }
}
