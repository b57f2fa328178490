//! Connections: encrypted or not, bounded in number and in time, and who may use them.

pub(crate) mod answering;
pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod listener;
pub(crate) mod stall;
pub(crate) mod tls;
