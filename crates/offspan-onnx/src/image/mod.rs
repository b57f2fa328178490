//! Images: decoded within bounds, resized as Pillow does it, turned into a network's numbers.

mod decode;
mod jpeg_header;
pub(crate) mod prepare;
pub(crate) mod preprocess;
mod resize;

use std::path::Path;

use crate::input_error::InputResult;

pub(crate) use decode::{ENDINGS, FORMATS};
pub use preprocess::{
    Channels, Interpolation, Layout, Preprocess, PreprocessChoice, Preset, Resize, Size,
};

/// Width and height of an image, all of which is read: for fuzzing.
///
/// # Errors
/// If it cannot be read.
#[doc(hidden)]
pub fn image_size(path: &Path) -> InputResult<(u32, u32)> {
    let pixels = decode::decode(path)?;
    assert_eq!(pixels.rgb.len(), 3 * pixels.width as usize * pixels.height as usize);
    Ok((pixels.width, pixels.height))
}
