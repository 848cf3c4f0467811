//! TLS for clients over TCP: a certificate and its key, read again once they have been renewed.

use super::lock;
use super::stamp::Stamp;
use crate::credentials::{FileReading, Validity};
use crate::token::{check_regular, private_text};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::certificate::Version;
use x509_cert::der::Decode;

/// The key of the configuration that what is wrong with either file is told of.
pub(super) const KEY: &str = "mgmt.tls_cert";

/// Where certificate and key are, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and behind it those between it and an authority that clients know.
    pub cert: PathBuf,
    /// Its private key, which nobody else may read.
    pub key: PathBuf,
}

impl TlsFiles {
    fn stamps(&self) -> [Stamp; 2] {
        [Stamp::of(&self.cert), Stamp::of(&self.key)]
    }

    /// From when until when the certificate is valid, where it says so, if they can be used as they are.
    ///
    /// # Errors
    /// What is wrong with one, or that the key is not that of the certificate.
    pub fn check(&self) -> Result<Option<Validity>, String> {
        self.load().map(|loaded| loaded.validity)
    }

    fn load(&self) -> Result<Loaded, String> {
        let at = |path: &Path, what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        check_regular(&self.cert)?;
        check_regular(&self.key)?;
        let secret = private_text(&self.key)?;
        let chain: Vec<_> = CertificateDer::pem_file_iter(&self.cert)
            .and_then(Iterator::collect)
            .map_err(|error| at(&self.cert, &format!("no certificates in PEM ({error})")))?;
        if chain.is_empty() {
            return Err(at(&self.cert, &"there is no certificate in it (-----BEGIN CERTIFICATE-----)"));
        }
        // What rustls takes and this does not read has no dates that are told.
        let own = chain.first().and_then(|own| Certificate::from_der(own).ok());
        let own = own.as_ref().map(Certificate::tbs_certificate);
        if own.is_some_and(|own| own.version() != Version::V3) {
            return Err(at(&self.cert, &OLD_VERSION));
        }
        let validity = own.map(|own| Validity {
            not_before: own.validity().not_before.to_unix_duration().as_secs(),
            not_after: own.validity().not_after.to_unix_duration().as_secs(),
        });
        let key = PrivateKeyDer::from_pem_slice(secret.as_bytes())
            .map_err(|error| at(&self.key, &format!("no private key in PEM ({error})")))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| at(&self.cert, &format!("not a certificate of the key ({error})")))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Loaded { config: Arc::new(config), validity })
    }
}

const OLD_VERSION: &str = "not X.509 version 3, and TLS takes no other: have it issued with subjectAltName, which older versions do \
     not have (`openssl x509 -req -extfile FILE` with a line `subjectAltName = DNS:NAME` in it, or `openssl req -x509 -addext`)";

/// What is in the files.
#[derive(Clone, Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    validity: Option<Validity>,
}

/// What is presented to clients.
#[derive(Debug)]
pub(super) struct Tls {
    files: TlsFiles,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    stamps: [Stamp; 2],
    loaded: Loaded,
    reading: FileReading,
}

impl Tls {
    /// # Errors
    /// What is wrong with a file.
    pub fn new(files: TlsFiles) -> Result<Self, String> {
        let (stamps, loaded) = (files.stamps(), files.load()?);
        let current = Current { stamps, loaded, reading: FileReading::default() };
        Ok(Self { files, current: Mutex::new(current) })
    }

    /// Files that were written to since are read; while they do not fit each other, as in the middle of a renewal, what was read
    /// before goes on being presented.
    fn current(&self) -> MutexGuard<'_, Current> {
        let mut current = lock(&self.current);
        let stamps = self.files.stamps();
        if stamps != current.stamps {
            current.stamps = stamps;
            match self.files.load() {
                Ok(loaded) => {
                    current.loaded = loaded;
                    current.reading.renewed += 1;
                    current.reading.refused = None;
                }
                Err(why) => current.reading.refused = Some(why),
            }
        }
        current
    }

    /// For the next client.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current().loaded.config))
    }

    /// What became of the files, and when the certificate that is presented is valid, where it says so.
    pub fn reading(&self) -> (FileReading, Option<Validity>) {
        let current = self.current();
        (current.reading.clone(), current.loaded.validity)
    }
}
