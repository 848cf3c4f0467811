//! weir endpoint.
