//! Spans for OpenTelemetry.

use axum::http::HeaderMap;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::ServeError;
use crate::trace::Trace;

/// Sends spans in the background.
pub(crate) struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Begins to send to this address.
    pub(super) fn start(address: &str) -> Result<Self, ServeError> {
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(address).build();
        let exporter = exporter.map_err(|error| ServeError::Setting(format!("otlp: {error}")))?;
        let resource = Resource::builder().with_service_name("offspan").build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        Ok(Exporter(provider))
    }

    /// What makes spans of ours into theirs.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        tracing_opentelemetry::layer().with_tracer(self.0.tracer("offspan"))
    }

    /// Sends what is left.
    pub(super) fn finish(self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!("the last spans could not be sent: {error}");
        }
    }
}

/// Hangs a span under the one that whoever asked told of.
pub(crate) fn set_parent(span: &Span, headers: &HeaderMap) {
    let Some(parent) = Trace::of(headers).parent else { return };
    let (Ok(trace), Ok(id)) =
        (TraceId::from_hex(&parent.trace_id), SpanId::from_hex(&parent.span_id))
    else {
        return;
    };
    let context = SpanContext::new(trace, id, TraceFlags::SAMPLED, true, TraceState::default());
    let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(context));
}
