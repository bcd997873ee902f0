//! openrpc
