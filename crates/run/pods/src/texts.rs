//! Texts that many objects have in common are in memory once.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use pillion_rollout::Texts;

static TEXTS: LazyLock<Mutex<Texts>> = LazyLock::new(Mutex::default);

/// The texts that are known.
pub fn texts() -> MutexGuard<'static, Texts> {
    TEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one copy of a text.
pub fn shared(text: &str) -> Arc<str> {
    texts().get(text)
}
