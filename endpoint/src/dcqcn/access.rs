//! Registers of the queue pairs of a port, read and written by their addresses (CC-015, CC-024).

use super::firmware::{Dcqcn, DcqcnError, RateController};
use super::registers::{At, Globals, WriteError};
use thiserror::Error;
use weir_dataplane::types::Nanos;

/// Why an access is refused. Nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AccessError {
    /// The queue pair at this place, from 0, has a fixed rate.
    #[error("queue pair {0} of the port has a fixed rate")]
    Fixed(usize),
    /// Nothing stands there.
    #[error("{0:#x}: no register, or none of a queue pair that is there")]
    Address(u64),
    /// Address, value, and the bits that can be written there: the value has others.
    #[error("{1:#x} does not fit {0:#x}, whose bits are {2:#x}")]
    Wide(u64, u64, u64),
    /// What does not fit.
    #[error(transparent)]
    Dcqcn(#[from] DcqcnError),
    /// What a shared register refuses.
    #[error(transparent)]
    Register(#[from] WriteError),
}

/// Place, from 0, of queue pair `nth`, from 1, as registers count them.
fn place(nth: u64) -> Option<usize> {
    usize::try_from(nth.checked_sub(1)?).ok()
}

/// Reads the register at an address; one that is shared as the first queue pair has it. `pairs` are those of a port in
/// the order in which registers count them, `None` those with a fixed rate.
///
/// # Errors
/// Nothing stands there.
pub fn read(pairs: &[Option<&RateController>], address: u64, now: Nanos) -> Result<u64, AccessError> {
    let nowhere = AccessError::Address(address);
    let control = |nth| {
        let at = place(nth).filter(|at| *at < pairs.len()).ok_or(nowhere)?;
        pairs[at].ok_or(AccessError::Fixed(at))
    };
    match At::address(address).ok_or(nowhere)? {
        At::Global(register) => {
            let first = pairs.iter().find_map(|control| *control).ok_or(nowhere)?;
            Ok(globals(first.settings()).read(register))
        }
        At::Qp(register, nth) => Ok(u64::from(control(nth)?.read(register, now))),
        At::Arbitration(nth) => Ok(control(nth)?.arbitration()),
    }
}

/// What queue pairs with these settings are told by a write: a register that all share is part of the settings, which it changes here, and
/// nothing else of them. `false`: it is a register of one queue pair, which has no part in them.
///
/// # Errors
/// Nothing stands there, or a value that no such register can have; the settings are of no use then.
pub fn tell(settings: &mut [Option<Dcqcn>], address: u64, value: u64) -> Result<bool, AccessError> {
    let nowhere = AccessError::Address(address);
    let there = At::address(address).ok_or(nowhere)?;
    if value & !there.bits() != 0 {
        return Err(AccessError::Wide(address, value, there.bits()));
    }
    match there {
        At::Global(register) => {
            let mut all = settings.iter_mut().flatten().peekable();
            all.peek().ok_or(nowhere)?;
            for settings in all {
                let mut globals = globals(settings);
                globals.write(register, value)?;
                let Globals { scheme, params, outstanding } = globals;
                *settings = Dcqcn { scheme, params, outstanding, ..*settings };
            }
            Ok(true)
        }
        At::Qp(_, nth) | At::Arbitration(nth) => {
            let at = place(nth).filter(|at| *at < settings.len()).ok_or(nowhere)?;
            settings[at].map(|_| false).ok_or(AccessError::Fixed(at))
        }
    }
}

/// What queue pairs would be told, if a register that all share is written.
fn told(
    pairs: &[Option<&RateController>],
    address: u64,
    value: u64,
    now: Nanos,
) -> Result<Option<Vec<Option<Dcqcn>>>, AccessError> {
    let mut settings: Vec<_> = pairs.iter().map(|pair| pair.map(|control| *control.settings())).collect();
    if !tell(&mut settings, address, value)? {
        return Ok(None);
    }
    for (control, settings) in pairs.iter().zip(&settings) {
        if let (Some(control), Some(settings)) = (control, settings) {
            control.can_configure(settings, now)?;
        }
    }
    Ok(Some(settings))
}

/// Writes the register at an address, for all queue pairs if they share it.
///
/// # Errors
/// Nothing stands there, or what does not fit; nothing is changed.
pub fn write(
    pairs: &mut [Option<&mut RateController>],
    address: u64,
    value: u64,
    now: Nanos,
) -> Result<(), AccessError> {
    let told = told(&pairs.iter().map(Option::as_deref).collect::<Vec<_>>(), address, value, now)?;
    for (control, settings) in pairs.iter_mut().zip(told.into_iter().flatten()) {
        if let (Some(control), Some(settings)) = (control, settings) {
            control.configure(&settings, now)?;
        }
    }
    let nowhere = AccessError::Address(address);
    let (register, nth) = match At::address(address).ok_or(nowhere)? {
        At::Global(_) => return Ok(()),
        At::Qp(register, nth) => (Some(register), nth),
        At::Arbitration(nth) => (None, nth),
    };
    let at = place(nth).filter(|at| *at < pairs.len()).ok_or(nowhere)?;
    let control = pairs[at].as_deref_mut().ok_or(AccessError::Fixed(at))?;
    match register {
        // No register of a queue pair has more than 32 bits.
        Some(register) => control.write(register, value as u32, now),
        None => control.write_arbitration(value, now),
    }
    Ok(())
}

/// What shared registers say of a queue pair.
fn globals(settings: &Dcqcn) -> Globals {
    let Dcqcn { scheme, params, outstanding, .. } = *settings;
    Globals { scheme, params, outstanding }
}
