//! An EAL that does not start. One test, as there is one attempt per process.

use weir_dpdk::{Eal, EalError};

#[test]
fn arguments_dpdk_does_not_take_are_shown_with_the_defaults() {
    assert!(matches!(Eal::init(&["a\0b"]), Err(EalError::ZeroByte(_))), "not an attempt yet");
    let error = Eal::init(&["--lcores=nonsense"]).unwrap_err();
    let EalError::Failed { arguments, .. } = &error else { panic!("{error}") };
    assert!(arguments.contains("--no-huge") && arguments.contains("--lcores=nonsense"), "{error}");
    assert!(matches!(Eal::init::<&str>(&[]), Err(EalError::AlreadyInitialised)));
}
