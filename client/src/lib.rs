//! A client of agentd: typed calls, and subscriptions that survive what happens to connections.
//!
//! ```no_run
//! use agentd_client::{Client, Options};
//! use agentd_protocol::method::SessionCreate;
//! use agentd_protocol::session::CreateParams;
//!
//! # async fn example() -> Result<(), agentd_client::Error> {
//! let client = Client::connect(Options::new("example", "1.0.0")).await?;
//! let params = CreateParams { cwd: "/tmp".to_owned(), ..CreateParams::default() };
//! let session = client.call::<SessionCreate>(params).await?;
//! let mut watch = client.watch(session.session_id, Some(0), true);
//! while let Some(received) = watch.next().await {
//!     println!("{}", received?.raw);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! In reading order: [`Options`] says where and as whom; `endpoint` finds the socket and checks
//! who listens there; `autostart` starts the daemon if nobody does; `transport` carries messages
//! for jsonrpsee's client and routes notifications past it; `connection` is one connection,
//! [`Client`] the one that comes back when it is lost, [`Watch`] a subscription that does.
//!
//! Receives what a program wants of the daemon; hands back results, events and typed errors.

mod autostart;
mod client;
mod connection;
mod endpoint;
mod error;
mod transport;
mod watch;

#[cfg(test)]
mod fake;

pub use crate::client::{Client, Options, Start};
pub use crate::endpoint::socket_location;
pub use crate::error::{Error, Refusal};
pub use crate::watch::{Body, Received, Watch};
pub use agentd_protocol as protocol;
