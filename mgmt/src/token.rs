//! What a client presents to be let in.

use std::fmt;

/// A secret text. It is compared, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// This text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// What was presented is it. Takes a time that does not tell how much is right.
    pub fn fits(&self, given: Option<&str>) -> bool {
        given.is_some_and(|given| same(given.as_bytes(), self.0.as_bytes()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

fn same(a: &[u8], b: &[u8]) -> bool {
    let mut difference = a.len() ^ b.len();
    for (i, byte) in a.iter().enumerate() {
        difference |= usize::from(byte ^ b.get(i % b.len().max(1)).unwrap_or(&0));
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_compared_whole_and_not_shown() {
        let token = Token::new("secret");
        assert!(token.fits(Some("secret")) && !token.fits(None));
        for wrong in ["secre", "secrets", "secretsecret", "", "Secret"] {
            assert!(!token.fits(Some(wrong)), "{wrong:?}");
        }
        assert!(!Token::new("").fits(Some("x")));
        let shown = format!("{:?}", crate::server::Options { token: Some(token), ..Default::default() });
        assert!(shown.contains("token: Some(Token(...))") && !shown.contains("secret"), "{shown}");
    }
}
