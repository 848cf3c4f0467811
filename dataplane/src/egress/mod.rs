//! egress/mod.
