//! Encryption: certificates from files, which may be replaced while the server runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::ServeError;

/// Where systems keep the certificates that they trust.
const TRUSTED: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A certificate and its key.
pub(crate) struct Certificate {
    cert: PathBuf,
    key: PathBuf,
    /// For HTTP/1.1 and for HTTP/2.
    ready: RwLock<[Arc<ServerConfig>; 2]>,
}

impl Certificate {
    pub(crate) fn open(cert: &Path, key: &Path) -> Result<Self, ServeError> {
        let ready = RwLock::new(read(cert, key)?);
        Ok(Certificate { cert: cert.to_owned(), key: key.to_owned(), ready })
    }

    /// Reads the files again; those that do not go together change nothing.
    pub(crate) fn refresh(&self) {
        match read(&self.cert, &self.key) {
            Ok(ready) => *self.ready.write().unwrap_or_else(PoisonError::into_inner) = ready,
            Err(error) => tracing::error!("the certificate stays as it is: {error}"),
        }
    }

    pub(crate) fn acceptor(&self, http2: bool) -> TlsAcceptor {
        let ready = self.ready.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&ready[usize::from(http2)]))
    }
}

fn read(cert: &Path, key: &Path) -> Result<[Arc<ServerConfig>; 2], ServeError> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        ServeError::Setting(format!("{}: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(cert, &error))?;
    if chain.is_empty() {
        return Err(wrong(cert, &"expected a certificate in PEM, got none"));
    }
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(cert, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, key_der)
        .map_err(|error| wrong(cert, &error))?;
    let with_protocol = |name: &[u8]| {
        let mut config = config.clone();
        config.alpn_protocols = vec![name.to_vec()];
        Arc::new(config)
    };
    Ok([with_protocol(b"http/1.1"), with_protocol(b"h2")])
}

/// For web hooks: trusts what the system trusts, or the file that `SSL_CERT_FILE` names.
pub(crate) fn connector() -> Result<TlsConnector, String> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let path = named.or_else(|| TRUSTED.iter().map(PathBuf::from).find(|path| path.exists()));
    let path =
        path.ok_or("the system has no list of certificates to trust; name one in SSL_CERT_FILE")?;
    let certificates = CertificateDer::pem_file_iter(&path)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.flatten());
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
