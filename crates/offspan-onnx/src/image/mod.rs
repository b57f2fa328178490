//! Images: decoded within bounds, resized as Pillow does it, turned into a network's numbers.

mod decode;
mod jpeg_header;
pub(crate) mod prepare;
pub(crate) mod preprocess;
mod resize;

pub(crate) use decode::{ENDINGS, FORMATS};
pub use preprocess::{
    Channels, Interpolation, Layout, Preprocess, PreprocessChoice, Preset, Resize, Size,
};
