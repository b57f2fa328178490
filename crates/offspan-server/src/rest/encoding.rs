//! Compressed bodies. What comes out is bounded, however small what went in was.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::GzEncoder;

use crate::protocol::signature::shown;
use crate::refusal::{Kind, Refusal};

/// Answers shorter than this are not worth it.
pub(crate) const SHORTEST: usize = 512;

/// Bytes that are unpacked before their memory is asked for.
const STEP: usize = 64 << 10;

/// The bytes that were compressed, at most `most` of them.
pub(crate) fn decode(encoding: &str, body: &[u8], most: usize) -> Result<Vec<u8>, Refusal> {
    decode_paid(encoding, body, most, &mut |_| Ok(()))
}

/// The same, where `pay` is asked for the memory of every step, and may refuse it.
pub(crate) fn decode_paid(
    encoding: &str,
    body: &[u8],
    most: usize,
    pay: &mut dyn FnMut(usize) -> Result<(), Refusal>,
) -> Result<Vec<u8>, Refusal> {
    let mut decoder: Box<dyn Read + '_> = match encoding.trim().to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => Box::new(MultiGzDecoder::new(body)),
        "deflate" => Box::new(ZlibDecoder::new(body)),
        _ => {
            let reason =
                format!("Content-Encoding: expected gzip or deflate, got `{}`", shown(encoding));
            return Err(Refusal::new(Kind::Encoding, reason));
        }
    };
    let mut bytes = Vec::new();
    loop {
        let count =
            decoder.by_ref().take(STEP as u64).read_to_end(&mut bytes).map_err(|error| {
                Refusal::bad(format!("the body is not {}: {error}", shown(encoding)))
            })?;
        if bytes.len() > most {
            let reason =
                format!("expected a body of at most {most} bytes when it is unpacked, got more");
            return Err(Refusal::new(Kind::Large, reason));
        }
        if count == 0 {
            return Ok(bytes);
        }
        pay(count)?;
    }
}

/// Whether an `Accept-Encoding` asks for gzip.
pub(crate) fn accepts_gzip(header: &str) -> bool {
    header.split(',').any(|entry| {
        let mut words = entry.split(';').map(str::trim);
        let name = words.next().unwrap_or_default();
        let refused = words.any(|word| {
            word.strip_prefix("q=").is_some_and(|q| q.parse().is_ok_and(|q: f32| q <= 0.0))
        });
        (name.eq_ignore_ascii_case("gzip") || name == "*") && !refused
    })
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::fast());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_else(|_| unreachable!("memory does not refuse to be written"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_comes_back_and_bombs_do_not() {
        let text = vec![b'a'; 100_000];
        let packed = gzip(&text);
        assert!(packed.len() < 1000);
        assert_eq!(decode("gzip", &packed, text.len()).unwrap(), text);
        assert_eq!(decode("gzip", &packed, text.len() - 1).unwrap_err().kind, Kind::Large);
        assert_eq!(decode("gzip", &packed[..50], 1 << 20).unwrap_err().kind, Kind::Bad);
        let mut left = 70_000;
        let mut pay = |bytes: usize| {
            let enough = left >= bytes;
            left = left.saturating_sub(bytes);
            if enough { Ok(()) } else { Err(Refusal::new(Kind::Busy, "no more")) }
        };
        let refused = decode_paid("gzip", &packed, text.len(), &mut pay).unwrap_err();
        assert_eq!(refused.kind, Kind::Busy);
        assert_eq!(decode("br", &packed, 1 << 20).unwrap_err().kind, Kind::Encoding);
    }

    #[test]
    fn an_encoding_that_is_refused_is_not_used() {
        assert!(accepts_gzip("deflate, GZIP;q=0.5") && accepts_gzip("*"));
        assert!(!accepts_gzip("identity") && !accepts_gzip("gzip;q=0") && !accepts_gzip(""));
    }
}
