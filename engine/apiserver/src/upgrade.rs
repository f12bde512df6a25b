//! A connection that is to become something else than HTTP.

use axum::http::request::{Builder, Parts};
use axum::http::{Extensions, HeaderMap, header};

/// What a handler needs of a request to take its connection over.
#[derive(Clone, Debug)]
pub(crate) struct Upgrade {
    headers: HeaderMap,
    /// Among them is the connection.
    extensions: Extensions,
}

impl Upgrade {
    /// The upgrade that a request asks for.
    pub(crate) fn of(parts: &Parts) -> Option<Upgrade> {
        let is_asked = parts.headers.contains_key(header::UPGRADE);
        is_asked.then(|| Upgrade { headers: parts.headers.clone(), extensions: parts.extensions.clone() })
    }

    /// The same question to somebody else. Credentials are this server's business.
    pub(crate) fn ask_again(&self, mut request: Builder) -> Builder {
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
            headers.remove(header::AUTHORIZATION);
        }
        if let Some(extensions) = request.extensions_mut() {
            extensions.extend(self.extensions.clone());
        }
        request
    }
}
