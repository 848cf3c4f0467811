//! What a client presents to be let in, and files that nobody else may read.

use hyper::header::{HeaderValue, InvalidHeaderValue};
use secrecy::{ExposeSecret, SecretString};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use subtle::ConstantTimeEq;

/// Shortest token, bytes.
const SHORTEST: usize = 16;

/// A secret text. It is compared, never shown, and wiped from memory when it is no longer needed.
#[derive(Clone, Debug)]
pub struct Token(SecretString);

impl Token {
    /// This text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().into())
    }

    /// The first line of a file that nobody else may read.
    ///
    /// # Errors
    /// What is wrong with the file, without a word of what is in it.
    pub fn read(path: &Path) -> Result<Self, String> {
        check_regular(path)?;
        let text = private_text(path)?;
        let token = text.lines().next().unwrap_or("").trim();
        if token.len() < SHORTEST || !token.bytes().all(|b| b.is_ascii_graphic()) {
            let need = format!("its first line must be at least {SHORTEST} printable ASCII characters");
            return Err(format!("{}: {need}", path.display()));
        }
        Ok(Self::new(token))
    }

    /// As it is presented: a header that is not shown either.
    pub(crate) fn bearer(&self) -> Result<HeaderValue, InvalidHeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0.expose_secret()))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// What was presented is it. Takes a time that does not tell how much is right.
    pub fn fits(&self, given: Option<&str>) -> bool {
        given.is_some_and(|given| given.as_bytes().ct_eq(self.0.expose_secret().as_bytes()).into())
    }

    /// It is the same text.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.fits(Some(other.0.expose_secret()))
    }
}

/// The text of a file that belongs to us or to root, and that nobody else may read; of root's a group may, which root has chosen
/// (secrets in containers are given so).
///
/// # Errors
/// It cannot be read, or others may.
pub fn private_text(path: &Path) -> Result<String, String> {
    let at = |what: String| format!("{}: {what}", path.display());
    let meta = std::fs::metadata(path).map_err(|error| at(error.to_string()))?;
    if ![0, us()].contains(&meta.uid()) {
        return Err(at(format!("it belongs to user {}: chown it to whoever runs this", meta.uid())));
    }
    let closed = if meta.uid() == 0 { 0o037 } else { 0o077 };
    if meta.mode() & closed != 0 {
        return Err(at(format!("others may read it (mode {:o}): chmod 600", meta.mode() & 0o777)));
    }
    std::fs::read_to_string(path).map_err(|error| at(error.to_string()))
}

/// A file whose end is there: whoever waits for what a pipe will bring serves nobody meanwhile.
///
/// # Errors
/// It is not there, or another kind of file.
pub(crate) fn check_regular(path: &Path) -> Result<(), String> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => Ok(()),
        Ok(_) => Err(format!("{}: it is not a regular file", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// The text of a file with a secret of any length, without the white space around it.
///
/// # Errors
/// It cannot be read, others may, or nothing is in it.
pub fn private_word(path: &Path) -> Result<String, String> {
    match private_text(path)?.trim() {
        "" => Err(format!("{}: empty; write a token into it", path.display())),
        word => Ok(word.to_owned()),
    }
}

/// The user we are.
pub(crate) fn us() -> u32 {
    std::fs::metadata("/proc/self").map_or(u32::MAX, |us| us.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn tokens_are_compared_whole_and_not_shown() {
        let token = Token::new("secret");
        assert!(token.fits(Some("secret")) && !token.fits(None));
        for wrong in ["secre", "secrets", "secretsecret", "", "Secret"] {
            assert!(!token.fits(Some(wrong)), "{wrong:?}");
        }
        assert!(!Token::new("").fits(Some("x")));
        let tokens = crate::access::Tokens { read: Some(token), ..Default::default() };
        let shown = format!("{:?}", crate::server::Options { tokens, ..Default::default() });
        assert!(
            shown.contains("read: Some(Token(") && shown.contains("REDACTED") && !shown.contains("secret"),
            "{shown}"
        );
    }

    #[test]
    fn a_token_is_long_printable_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let with = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Token::read(&path)
        };
        assert!(with("0123456789abcdef\nmore\n", 0o600).unwrap().fits(Some("0123456789abcdef")));
        for (text, mode, why) in [
            ("0123456789abcdef", 0o644, "others may read it"),
            ("short", 0o600, "at least 16"),
            ("0123456789 abcdef", 0o600, "printable"),
            ("", 0o400, "first line"),
        ] {
            let told = with(text, mode).unwrap_err();
            assert!(told.contains(why) && told.contains("/token: "), "{told}");
            assert!(text.is_empty() || !told.contains(text), "{told}");
        }
        assert!(Token::read(&dir.path().join("none")).is_err());
        std::fs::write(&path, "0123456789abcdef").unwrap();
        if std::fs::metadata(&path).unwrap().uid() == 0 {
            assert!(with("0123456789abcdef", 0o440).is_ok());
            assert!(with("0123456789abcdef", 0o660).is_err());
            assert!(with("0123456789abcdef", 0o600).is_ok());
        }
        if std::os::unix::fs::chown(&path, Some(65534), None).is_ok() {
            assert!(Token::read(&path).unwrap_err().contains("belongs to user 65534"));
        }
    }
}
