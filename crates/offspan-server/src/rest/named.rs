//! What a path names.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::response::Response;

use super::answer::refused;
use crate::app::App;
use crate::refusal::Refusal;

/// Names of a path: a model, and its version where one is asked for.
pub(crate) struct Named(Vec<(String, String)>);

impl Named {
    pub(crate) fn model(&self) -> &str {
        self.of("model").unwrap_or_default()
    }

    pub(crate) fn version(&self) -> Option<&str> {
        self.of("version")
    }

    fn of(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

impl FromRequestParts<Arc<App>> for Named {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Response> {
        match Path::from_request_parts(parts, app).await {
            Ok(Path(names)) => Ok(Named(names)),
            // A name that is no text, which is told as all other refusals are.
            Err(rejection) => {
                let refusal = Refusal::bad(rejection.body_text());
                app.stats.strays.add(refusal.kind.status().as_u16());
                Err(refused(&refusal))
            }
        }
    }
}
