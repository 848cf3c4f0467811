//! TLS for clients over TCP: a certificate and its key, read again once they have been renewed.

use super::lock;
use crate::token::private_text;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokio_rustls::TlsAcceptor;

/// Where certificate and key are, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and behind it those between it and an authority that clients know.
    pub cert: PathBuf,
    /// Its private key, which nobody else may read.
    pub key: PathBuf,
}

impl TlsFiles {
    fn written(&self) -> [Option<SystemTime>; 2] {
        let when = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
        [when(&self.cert), when(&self.key)]
    }

    /// Whether they can be used as they are.
    ///
    /// # Errors
    /// What is wrong with one, or that the key is not that of the certificate.
    pub fn check(&self) -> Result<(), String> {
        self.load().map(drop)
    }

    fn load(&self) -> Result<Arc<ServerConfig>, String> {
        let at = |path: &Path, what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        // Whoever waits for what a pipe will bring serves nobody meanwhile.
        for path in [&self.cert, &self.key] {
            match std::fs::metadata(path) {
                Ok(meta) if meta.is_file() => {}
                Ok(_) => return Err(at(path, &"it is not a regular file")),
                Err(error) => return Err(at(path, &error)),
            }
        }
        let secret = private_text(&self.key)?;
        let chain: Vec<_> = CertificateDer::pem_file_iter(&self.cert)
            .and_then(Iterator::collect)
            .map_err(|error| at(&self.cert, &format!("no certificates in PEM ({error})")))?;
        if chain.is_empty() {
            return Err(at(&self.cert, &"there is no certificate in it (-----BEGIN CERTIFICATE-----)"));
        }
        let key = PrivateKeyDer::from_pem_slice(secret.as_bytes())
            .map_err(|error| at(&self.key, &format!("no private key in PEM ({error})")))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| at(&self.cert, &format!("not a certificate of the key ({error})")))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// What is presented to clients.
#[derive(Debug)]
pub(super) struct Tls {
    files: TlsFiles,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    written: [Option<SystemTime>; 2],
    config: Arc<ServerConfig>,
}

impl Tls {
    /// # Errors
    /// What is wrong with a file.
    pub fn new(files: TlsFiles) -> Result<Self, String> {
        let current = Current { written: files.written(), config: files.load()? };
        Ok(Self { files, current: Mutex::new(current) })
    }

    /// For the next client. Files that were written since are read; while they do not fit each other, as in the middle of a
    /// renewal, what was read before goes on being presented.
    pub fn acceptor(&self) -> TlsAcceptor {
        let mut current = lock(&self.current);
        let written = self.files.written();
        if written != current.written {
            current.written = written;
            match self.files.load() {
                Ok(config) => current.config = config,
                Err(why) => tracing::warn!(why, "the certificate of before is still presented"),
            }
        }
        TlsAcceptor::from(Arc::clone(&current.config))
    }
}
