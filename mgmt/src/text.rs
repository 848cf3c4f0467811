//! A long text in pieces, so that it never has to be copied to a larger place, and goes piece by piece as it is sent.

use bytes::Bytes;
use std::collections::VecDeque;
use std::{fmt, io};

/// Bytes of a piece.
const PIECE: usize = 64 << 10;

/// A text that grows at its end.
#[derive(Debug, Default)]
pub struct Text {
    pieces: VecDeque<Bytes>,
    /// What is being written: never more than a piece.
    last: Vec<u8>,
    /// Bytes of `pieces`.
    len: usize,
}

impl Text {
    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.len + self.last.len()
    }

    /// Nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a text.
    pub fn push_str(&mut self, text: &str) {
        self.push(text.as_bytes());
    }

    /// Its last byte is this one.
    pub fn ends_with(&self, byte: u8) -> bool {
        self.last.last().or_else(|| self.pieces.back()?.last()) == Some(&byte)
    }

    /// The pieces, in order; none is empty.
    pub fn into_pieces(self) -> VecDeque<Bytes> {
        let mut pieces = self.pieces;
        if !self.last.is_empty() {
            pieces.push_back(self.last.into());
        }
        pieces
    }

    fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.last.len() == PIECE {
                let full = std::mem::take(&mut self.last);
                self.len += full.len();
                self.pieces.push_back(full.into());
            }
            if self.last.capacity() == 0 && !self.pieces.is_empty() {
                // The first piece grows as it must: most texts are short.
                self.last.reserve_exact(PIECE);
            }
            let (now, later) = rest.split_at(rest.len().min(PIECE - self.last.len()));
            self.last.extend_from_slice(now);
            rest = later;
        }
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.pieces.iter().map(|piece| &piece[..]).chain([&self.last[..]]);
        // A character may lie across two pieces.
        let all: Vec<u8> = parts.flatten().copied().collect();
        f.write_str(&String::from_utf8_lossy(&all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn what_was_written_comes_out_in_pieces() {
        let (mut text, mut whole) = (Text::default(), String::new());
        assert!(text.is_empty() && !text.ends_with(b'x'));
        for n in 0..50_000u32 {
            write!(text, "{n}→").unwrap();
            write!(whole, "{n}→").unwrap();
        }
        text.push_str(&"y".repeat(3 * PIECE));
        whole.push_str(&"y".repeat(3 * PIECE));
        assert!(text.len() == whole.len() && text.ends_with(b'y') && text.to_string() == whole);
        let pieces = text.into_pieces();
        assert!(
            pieces.iter().rev().skip(1).all(|piece| piece.len() == PIECE)
                && !pieces.back().unwrap().is_empty()
        );
        assert_eq!(pieces.iter().flatten().copied().collect::<Vec<u8>>(), whole.as_bytes());
        assert!(Text::default().into_pieces().is_empty());
    }
}
