//! The headers of a request, in whatever form a framework has them.

use std::collections::{BTreeMap, HashMap};

use svc_core::{Received, VerifyError};

/// The headers of a request.
///
/// Implemented for [`http::HeaderMap`], for arrays, slices and vectors of pairs, and for maps, so that another version of
/// `http` locks nobody out. Names are in any case; values are text or bytes.
///
/// ```
/// use svc_client::webhook::Headers;
/// let pairs = [("X-Svc-Signature", "c0b4"), ("content-type", "application/json")];
/// assert_eq!(pairs.received().unwrap().svc_signature, Some(&b"c0b4"[..]));
/// assert!([("webhook-id", "evt_1"), ("Webhook-Id", "evt_2")].received().is_err()); // which one was signed?
/// ```
pub trait Headers {
    /// Picks the four headers of a notification.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Repeated`] where one of them comes twice with different values.
    fn received(&self) -> Result<Received<'_>, VerifyError>;
}

impl Headers for http::HeaderMap {
    fn received(&self) -> Result<Received<'_>, VerifyError> {
        Received::from_pairs(self.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for [(N, V)] {
    fn received(&self) -> Result<Received<'_>, VerifyError> {
        Received::from_pairs(self.iter().map(|(name, value)| (name.as_ref(), value.as_ref())))
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>, const K: usize> Headers for [(N, V); K] {
    fn received(&self) -> Result<Received<'_>, VerifyError> {
        self.as_slice().received()
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for Vec<(N, V)> {
    fn received(&self) -> Result<Received<'_>, VerifyError> {
        self.as_slice().received()
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>, S> Headers for HashMap<N, V, S> {
    fn received(&self) -> Result<Received<'_>, VerifyError> {
        Received::from_pairs(self.iter().map(|(name, value)| (name.as_ref(), value.as_ref())))
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for BTreeMap<N, V> {
    fn received(&self) -> Result<Received<'_>, VerifyError> {
        Received::from_pairs(self.iter().map(|(name, value)| (name.as_ref(), value.as_ref())))
    }
}
