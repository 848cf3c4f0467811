//! Commands of our own on DPDK's telemetry socket.
//!
//! DPDK calls back on a thread of its own, which may do nothing but read what somebody else has published. Limits of
//! 22.11, which every answer is held to: 256 entries per dictionary, 512 per list, 127 bytes per text and name.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_dpdk_sys as sys;

use crate::Eal;
use crate::error::TelemetryError;

/// What a command answers, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A number; only inside a dictionary.
    Number(u64),
    /// A text.
    Text(String),
    /// Texts.
    Texts(Vec<String>),
    /// Named parts. Names are letters, digits, `_` and `/`. Dictionaries may hold dictionaries, no deeper.
    Dict(Vec<(String, Answer)>),
}

type Handler = Arc<dyn Fn(&str) -> Option<Answer> + Send + Sync>;

/// DPDK hands no context to its callback, so the commands are found by name.
static COMMANDS: Mutex<BTreeMap<CString, Handler>> = Mutex::new(BTreeMap::new());

/// Most bytes of a text, without the end.
const TEXT: usize = 127;
/// Most entries of a list, and of a dictionary.
const LIST: usize = 512;
const DICT: usize = 256;

fn commands() -> MutexGuard<'static, BTreeMap<CString, Handler>> {
    COMMANDS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Eal {
    /// Answers `command` (`/name/...`) on the telemetry socket from now on. `answer` is given what stands behind the
    /// comma, empty if nothing does; `None` is an error to whoever asks.
    ///
    /// # Errors
    /// [`TelemetryError`]: DPDK does not take it, for one because it has the command already.
    pub fn telemetry(
        &self,
        command: &str,
        help: &str,
        answer: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static,
    ) -> Result<(), TelemetryError> {
        let refused = |reason: String| TelemetryError { command: command.to_owned(), reason };
        let name = CString::new(command).map_err(|e| refused(e.to_string()))?;
        let help = CString::new(help).map_err(|e| refused(e.to_string()))?;
        // SAFETY: DPDK copies both strings; the callback is a plain function and stays as long as the program.
        let done = unsafe { sys::rte_telemetry_register_cmd(name.as_ptr(), Some(call), help.as_ptr()) };
        if done < 0 {
            return Err(refused(crate::error::reason(-done)));
        }
        commands().insert(name, Arc::new(answer));
        Ok(())
    }
}

/// # Safety
/// Called by DPDK: `command` is a string, `parameters` a string or null, `data` is to be filled.
unsafe extern "C" fn call(
    command: *const c_char,
    parameters: *const c_char,
    data: *mut sys::rte_tel_data,
) -> c_int {
    // SAFETY: as promised above.
    let (command, parameters) = unsafe {
        let parameters = if parameters.is_null() { c"" } else { CStr::from_ptr(parameters) };
        (CStr::from_ptr(command), parameters)
    };
    let Some(handler) = commands().get(command).cloned() else { return -libc::ENOENT };
    let Ok(parameters) = parameters.to_str() else { return -libc::EINVAL };
    // A panic must not cross into C.
    match catch_unwind(AssertUnwindSafe(|| handler(parameters))) {
        // SAFETY: `data` is DPDK's, empty, and nobody else's while we are called.
        Ok(Some(answer)) => unsafe { fill(data, &answer) },
        Ok(None) => -libc::EINVAL,
        Err(_) => -libc::EFAULT,
    }
}

/// At most [`TEXT`] bytes, whole letters, no zero.
fn text(text: &str) -> CString {
    let mut end = text.len().min(TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let bytes = text[..end].bytes().filter(|b| *b != 0).collect::<Vec<_>>();
    CString::new(bytes).unwrap_or_default()
}

/// # Safety
/// `data` is fresh telemetry data.
unsafe fn fill(data: *mut sys::rte_tel_data, answer: &Answer) -> c_int {
    // SAFETY: strings outlive the calls, which copy them; a container handed over belongs to DPDK from then on.
    unsafe {
        match answer {
            Answer::Number(n) => sys::rte_tel_data_string(data, text(&n.to_string()).as_ptr()),
            Answer::Text(t) => sys::rte_tel_data_string(data, text(t).as_ptr()),
            Answer::Texts(all) => {
                let mut done =
                    sys::rte_tel_data_start_array(data, sys::rte_tel_value_type::RTE_TEL_STRING_VAL);
                for t in all.iter().take(LIST) {
                    done |= sys::rte_tel_data_add_array_string(data, text(t).as_ptr());
                }
                done
            }
            Answer::Dict(parts) => {
                let mut done = sys::rte_tel_data_start_dict(data);
                for (name, part) in parts.iter().take(DICT) {
                    let name = text(name);
                    done |= match part {
                        Answer::Number(n) => sys::weir_tel_dict_uint(data, name.as_ptr(), *n),
                        Answer::Text(t) => {
                            sys::rte_tel_data_add_dict_string(data, name.as_ptr(), text(t).as_ptr())
                        }
                        part => {
                            let inner = sys::rte_tel_data_alloc();
                            if inner.is_null() {
                                return -libc::ENOMEM;
                            }
                            let filled = fill(inner, part);
                            filled | sys::rte_tel_data_add_dict_container(data, name.as_ptr(), inner, 0)
                        }
                    };
                }
                done
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_and_stay_text() {
        assert_eq!(text("plain").to_bytes(), b"plain");
        assert_eq!(text("a\0b").to_bytes(), b"ab");
        let long = text(&"ü".repeat(100));
        assert_eq!((long.to_bytes().len(), long.to_str().map(|t| t.chars().count())), (126, Ok(63)));
    }
}
