//! Asks a running server whether it is ready: for images that have neither a shell nor curl.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::ServeError;

/// Longer than any answer of a server that is well.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether the server at this address (of REST, without encryption) says that it is ready.
///
/// # Errors
/// If it cannot be reached.
pub fn is_ready(address: &str) -> Result<bool, ServeError> {
    let failed = |source| ServeError::Ask { address: address.to_owned(), source };
    let found = address.to_socket_addrs().map_err(failed)?.next();
    let found = found.ok_or_else(|| failed(std::io::ErrorKind::AddrNotAvailable.into()))?;
    let mut stream = TcpStream::connect_timeout(&found, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let request =
        format!("GET /v2/health/ready HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).map_err(failed)?;
    Ok(head == *b"HTTP/1.1 200")
}
