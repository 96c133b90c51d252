//! Whose certificates are believed when the server calls on another.

use std::io;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, Error, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_rustls::TlsConnector;

/// TLS to receivers.
pub(crate) fn connector(authorities: Option<&str>) -> TlsConnector {
    TlsConnector::from(client_config(authorities))
}

/// Believes the machine's certificate authorities, or those of a PEM text instead of them. Where there are none, nothing
/// over TLS succeeds, and all else works.
pub(crate) fn client_config(authorities: Option<&str>) -> Arc<ClientConfig> {
    let provider = Arc::new(default_provider());
    let builder = || {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        builder.with_safe_default_protocol_versions().expect("the provider has TLS 1.2 and 1.3")
    };
    let nobody = || builder().with_root_certificates(RootCertStore::empty());
    let config = match authorities {
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok));
            if roots.is_empty() {
                tracing::warn!("no certificate authority in the text that was given: whatever goes over TLS will fail");
            }
            builder().with_root_certificates(roots)
        }
        None => builder().with_platform_verifier().unwrap_or_else(|_| {
            tracing::warn!("no certificate authorities (see SSL_CERT_FILE): whatever goes over TLS will fail");
            nobody()
        }),
    };
    Arc::new(config.with_no_client_auth())
}

/// What a handshake failed at, in fixed words.
pub(crate) fn cause(error: &io::Error) -> &'static str {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
    match error {
        Some(Error::InvalidCertificate(certificate)) => match certificate {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate expired",
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "certificate of another name"
            }
            CertificateError::UnknownIssuer => "certificate of an unknown authority",
            _ => "certificate not valid",
        },
        Some(Error::InvalidMessage(_)) => "no TLS answer",
        Some(_) => "handshake refused",
        None => "connection broke in the handshake",
    }
}
