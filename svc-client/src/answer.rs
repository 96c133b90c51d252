//! What the service answered, with what came beside its body.

use std::ops::Deref;

use bytes::Bytes;
use http::{Response, StatusCode};

use crate::call::X_REQUEST_ID;

/// An answer: its body, to which it dereferences, and what is known of the call.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    body: T,
    status: StatusCode,
    request_id: Option<String>,
    replayed: bool,
    attempts: u32,
}

impl<T> Answer<T> {
    pub(crate) fn new(body: T, answer: &Response<Bytes>) -> Self {
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        Self {
            body,
            status: answer.status(),
            request_id: header(X_REQUEST_ID.as_str()).map(str::to_owned),
            replayed: header("x-svc-replayed") == Some("true"),
            attempts: 1,
        }
    }

    pub(crate) fn after(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// The body alone.
    pub fn into_body(self) -> T {
        self.body
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The id of the request in the service's log.
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// Whether the proposal had been there before, and this is its first id again (C9). After more than one
    /// [attempt](Self::attempts) it may have been one of them that brought it there.
    pub fn replayed(&self) -> bool {
        self.replayed
    }

    /// How often the call was tried.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

impl<T> Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.body
    }
}
