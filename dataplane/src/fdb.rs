//! fdb.
