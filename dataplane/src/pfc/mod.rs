//! pfc/mod.
