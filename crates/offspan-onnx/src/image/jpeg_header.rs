//! The few bytes of a JPEG file that the decoder is too lenient about: how many colours it has, and
//! whether it is whole.

/// What a JPEG file says of itself.
pub(super) struct JpegHeader {
    /// Colour components: 1 is grey, 3 is colour, 4 is CMYK.
    pub(super) components: Option<u8>,
    /// Whether the end-of-image marker follows the image data.
    pub(super) is_whole: bool,
}

/// Walks over the segments up to the image data. None for what is no JPEG file.
pub(super) fn read(bytes: &[u8]) -> Option<JpegHeader> {
    const START_OF_SCAN: u8 = 0xda;
    if !bytes.starts_with(&[0xff, 0xd8]) {
        return None;
    }
    let (mut at, mut components) = (2, None);
    while let Some(&[0xff, marker]) = bytes.get(at..at + 2) {
        match marker {
            // Fill bytes, and markers that stand alone.
            0xff => {
                at += 1;
                continue;
            }
            0x01 | 0xd0..=0xd8 => {
                at += 2;
                continue;
            }
            _ => {}
        }
        let Some(&[high, low]) = bytes.get(at + 2..at + 4) else { break };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if is_frame(marker) {
            // Length, precision, height, width, then the number of components.
            components = bytes.get(at + 9).copied();
        }
        at += 2 + length;
        if marker == START_OF_SCAN {
            let data = bytes.get(at..).unwrap_or_default();
            let is_whole = data.windows(2).rev().any(|pair| pair == [0xff, 0xd9]);
            return Some(JpegHeader { components, is_whole });
        }
    }
    Some(JpegHeader { components, is_whole: false })
}

/// Whether a marker starts a frame: all of C0 to CF but tables and extensions.
fn is_frame(marker: u8) -> bool {
    (0xc0..=0xcf).contains(&marker) && ![0xc4, 0xc8, 0xcc].contains(&marker)
}
