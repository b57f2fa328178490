//! Bytes of a body as they came: in pieces, which are never joined unless somebody must see them as one.

use std::ops::Range;

use bytes::Bytes;

/// Bytes that came in pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pieces {
    pieces: Vec<Bytes>,
    /// Where each piece ends among all bytes.
    ends: Vec<usize>,
}

impl From<Vec<u8>> for Pieces {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<Bytes> for Pieces {
    fn from(bytes: Bytes) -> Self {
        let mut all = Pieces::default();
        all.push(bytes);
        all
    }
}

impl Pieces {
    pub(crate) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.ends.push(self.len() + piece.len());
            self.pieces.push(piece);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// A part of it; the bytes stay where they are.
    pub(crate) fn slice(&self, range: Range<usize>) -> Pieces {
        let mut part = Pieces::default();
        let mut start = 0;
        for (piece, &end) in self.pieces.iter().zip(&self.ends) {
            let from = range.start.clamp(start, end) - start;
            let to = range.end.clamp(start, end) - start;
            part.push(piece.slice(from..to));
            start = end;
        }
        part
    }

    /// How often a byte is there.
    pub(crate) fn count(&self, byte: u8) -> usize {
        let of = |piece: &Bytes| piece.iter().filter(|&&found| found == byte).count();
        self.pieces.iter().map(of).sum()
    }

    /// All bytes in one; they are copied only where there are several pieces.
    pub(crate) fn joined(&self) -> Bytes {
        match self.pieces.as_slice() {
            [] => Bytes::new(),
            [one] => one.clone(),
            several => several.concat().into(),
        }
    }

    /// Copies the bytes from `at` on; there must be enough of them.
    pub(crate) fn read(&self, mut at: usize, mut out: &mut [u8]) {
        let mut piece = self.ends.partition_point(|&end| end <= at);
        while !out.is_empty() {
            let bytes = &self.pieces[piece];
            let from = at + bytes.len() - self.ends[piece];
            let count = out.len().min(bytes.len() - from);
            let (now, later) = out.split_at_mut(count);
            now.copy_from_slice(&bytes[from..from + count]);
            (out, at, piece) = (later, at + count, piece + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(of: &[&'static [u8]]) -> Pieces {
        let mut all = Pieces::default();
        of.iter().for_each(|piece| all.push(Bytes::from_static(piece)));
        all
    }

    #[test]
    fn every_cut_reads_the_same_bytes() {
        let all = b"0123456789";
        for cuts in [&[&all[..]][..], &[b"0", b"", b"12345", b"6789"], &[b"01234", b"56789"]] {
            let pieces = pieces(cuts);
            assert_eq!(pieces.len(), 10);
            assert_eq!(pieces.joined(), all[..]);
            for start in 0..10 {
                for end in start..=10 {
                    let mut out = vec![0; end - start];
                    pieces.read(start, &mut out);
                    assert_eq!(out, all[start..end]);
                    assert_eq!(pieces.slice(start..end).joined(), all[start..end]);
                }
            }
        }
    }
}
