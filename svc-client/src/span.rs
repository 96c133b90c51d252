//! What a trace may know of an attempt: method, route, status, time, id. Never a payload, a query or a header (C39).

#[cfg(feature = "tracing")]
use tracing::Instrument;

use crate::error::Error;

/// The span of one attempt; nothing without the feature `tracing`.
pub(crate) struct Span {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl Span {
    #[cfg(feature = "tracing")]
    pub(crate) fn new(method: &http::Method, route: &'static str, attempt: u32, request_id: &str) -> Self {
        use tracing::field::Empty;
        let span = tracing::info_span!(
            "svc_client.attempt",
            %method, route, attempt, request_id, status = Empty, duration_ms = Empty, outcome = Empty
        );
        Self { span }
    }

    #[cfg(not(feature = "tracing"))]
    pub(crate) fn new(_: &http::Method, _: &'static str, _: u32, _: &str) -> Self {
        Self {}
    }

    /// Runs the attempt inside of it.
    pub(crate) async fn around<T>(&self, attempt: impl Future<Output = T>) -> T {
        #[cfg(feature = "tracing")]
        let attempt = attempt.instrument(self.span.clone());
        attempt.await
    }

    /// Notes the answer's status.
    #[cfg_attr(not(feature = "tracing"), expect(clippy::unused_self, reason = "it is nothing then"))]
    pub(crate) fn answered(&self, status: http::StatusCode) {
        #[cfg(feature = "tracing")]
        self.span.record("status", status.as_u16());
        #[cfg(not(feature = "tracing"))]
        let _ = status;
    }

    /// Notes how it ended.
    #[cfg(feature = "tracing")]
    pub(crate) fn ended(&self, took: std::time::Duration, error: Option<&Error>) {
        self.span.record("duration_ms", u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        if let Some(error) = error {
            self.span.record("outcome", tracing::field::debug(error.outcome()));
        }
    }

    #[cfg(not(feature = "tracing"))]
    pub(crate) fn ended(&self, _: std::time::Duration, _: Option<&Error>) {}
}
