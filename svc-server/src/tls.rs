//! Whose certificates are believed when a webhook goes out.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_rustls::TlsConnector;

/// TLS to receivers: the machine's certificate authorities, or those of a PEM text instead of them.
///
/// Without any on the machine, nothing over https is delivered, and all else works.
pub(crate) fn connector(authorities: Option<&str>) -> TlsConnector {
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
            builder().with_root_certificates(roots)
        }
        None => builder().with_platform_verifier().unwrap_or_else(|_| {
            tracing::warn!("no certificate authorities on this machine: https webhooks will fail as tls");
            nobody()
        }),
    };
    TlsConnector::from(Arc::new(config.with_no_client_auth()))
}
