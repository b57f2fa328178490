//! Bearer tokens, read from a file and compared in a time that does not tell how much of one was right.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use axum::http::{HeaderMap, header};
use subtle::{Choice, ConstantTimeEq};

use crate::ServeError;
use crate::protocol::signature::shown;
use crate::refusal::{Kind, Refusal};

/// The kind of a listener: it tells which tokens open it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Rest,
    Grpc,
    Admin,
}

/// The tokens that open a listener. The file may change while the server runs.
pub(crate) struct Tokens {
    path: PathBuf,
    known: RwLock<Vec<Vec<u8>>>,
}

impl Tokens {
    pub(crate) fn open(path: &Path) -> Result<Self, ServeError> {
        let known = RwLock::new(read(path)?);
        Ok(Tokens { path: path.to_owned(), known })
    }

    /// Reads the file again; one that cannot be used changes nothing.
    pub(crate) fn refresh(&self) {
        match read(&self.path) {
            Ok(tokens) => *self.known.write().unwrap_or_else(PoisonError::into_inner) = tokens,
            Err(error) => tracing::error!("the tokens stay as they are: {error}"),
        }
    }

    /// Fails unless the headers carry a token that is known.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let refused = |reason: &str| Err(Refusal::new(Kind::Unknown, reason));
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return refused("expected an Authorization header with a bearer token, got none");
        };
        let value = value.as_bytes();
        let is_bearer = value.len() > 7 && value[..7].eq_ignore_ascii_case(b"bearer ");
        if !is_bearer {
            return refused(
                "expected an Authorization header with a bearer token, got another kind",
            );
        }
        let given = value[7..].trim_ascii();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        // All of them, always: which one it was is not told by the time either.
        let found =
            known.iter().fold(Choice::from(0), |found, token| found | token[..].ct_eq(given));
        if found.into() { Ok(()) } else { refused("the bearer token is not known") }
    }
}

/// Fails for a request that a page of another site made a browser send: one whose origin is not the host that it asks, or,
/// where `only_here` says that none but this machine reaches us, one that asks for a name of elsewhere.
pub(crate) fn check_own_site(headers: &HeaderMap, only_here: bool) -> Result<(), Refusal> {
    let refused = |reason: String| Err(Refusal::new(Kind::Forbidden, reason));
    let text =
        |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST);
    if let Some(origin) = text(header::ORIGIN) {
        let site = origin.split_once("://").map(|(_, site)| site);
        let same = site.zip(host).is_some_and(|(site, host)| site.eq_ignore_ascii_case(host));
        if !same {
            let got = shown(origin);
            return refused(format!(
                "expected no Origin or that of this address, got `{got}`: pages of other sites change nothing here"
            ));
        }
    }
    if let Some(host) = host.filter(|host| only_here && !is_loopback_name(host)) {
        let got = shown(host);
        return refused(format!(
            "expected a Host of this machine, such as localhost, got `{got}`: this address is for this machine alone"
        ));
    }
    Ok(())
}

/// Whether a host, with or without a port, is this machine by name.
fn is_loopback_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let lower = bare.to_ascii_lowercase();
    lower == "localhost"
        || lower.ends_with(".localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// One token in a line; empty lines and those that begin with # are none.
fn read(path: &Path) -> Result<Vec<Vec<u8>>, ServeError> {
    const SHORTEST: usize = 16;
    let text = std::fs::read_to_string(path).map_err(ServeError::io("read", path))?;
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let tokens: Vec<Vec<u8>> = lines.map(|line| line.as_bytes().to_vec()).collect();
    let wrong = |reason: String| ServeError::Setting(format!("{}: {reason}", path.display()));
    if tokens.is_empty() {
        return Err(wrong("expected at least one token, got none".to_owned()));
    }
    if let Some(short) = tokens.iter().find(|token| token.len() < SHORTEST) {
        let got = short.len();
        return Err(wrong(format!(
            "expected tokens of at least {SHORTEST} characters, got one of {got}"
        )));
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        headers
    }

    #[test]
    fn pages_of_other_sites_are_told_apart() {
        let check = |host: &str, origin: Option<&str>, only_here: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            check_own_site(&headers, only_here).is_ok()
        };
        for host in ["127.0.0.1:8000", "localhost", "LocalHost:1", "[::1]:8000", "a.localhost"] {
            assert!(check(host, None, true), "{host}");
            assert!(check(host, Some(&format!("http://{host}")), true), "{host}");
        }
        for host in ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.x"] {
            assert!(!check(host, None, true), "{host}");
            assert!(check(host, None, false), "{host}");
        }
        for origin in ["http://evil.example", "null", "http://localhost:9000", ""] {
            assert!(!check("localhost:8000", Some(origin), true), "{origin}");
            assert!(!check("localhost:8000", Some(origin), false), "{origin}");
        }
        assert!(check_own_site(&HeaderMap::new(), true).is_ok());
    }

    #[test]
    fn known_tokens_pass_and_others_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, "# team a\n0123456789abcdef\n\n fedcba9876543210 \n").unwrap();
        let tokens = Tokens::open(&path).unwrap();
        for good in ["Bearer 0123456789abcdef", "bearer fedcba9876543210"] {
            tokens.check(&headers(good)).unwrap();
        }
        for bad in [
            "Bearer 0123456789abcdee",
            "Bearer ",
            "Basic 0123456789abcdef",
            "Bearer 0123456789abcdef0",
        ] {
            assert_eq!(tokens.check(&headers(bad)).unwrap_err().kind, Kind::Unknown, "{bad}");
        }
        assert!(tokens.check(&HeaderMap::new()).is_err());
        std::fs::write(&path, "another-token-of-today\n").unwrap();
        tokens.refresh();
        assert!(tokens.check(&headers("Bearer 0123456789abcdef")).is_err());
        tokens.check(&headers("Bearer another-token-of-today")).unwrap();
        std::fs::write(&path, "\n").unwrap();
        tokens.refresh();
        tokens.check(&headers("Bearer another-token-of-today")).unwrap();
        assert!(Tokens::open(&path).is_err());
    }
}
