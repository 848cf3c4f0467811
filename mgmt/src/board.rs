//! What one thread tells others: the last of it, whole.

use std::sync::{Arc, Mutex, PoisonError};

/// A place for a value that is replaced as a whole.
#[derive(Debug, Default)]
pub struct Board<T>(Arc<Mutex<Arc<T>>>);

impl<T> Clone for Board<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Board<T> {
    /// With this on it.
    pub fn new(told: T) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(told))))
    }

    /// What was told last.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells this from now on.
    pub fn set(&self, told: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = told.into();
    }
}
