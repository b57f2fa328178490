//! Image files to pixels, with bounds on what a file may ask for.

use std::io::Cursor;
use std::path::Path;

use image::{DynamicImage, ImageFormat, ImageReader, Limits};

use super::jpeg_header;
use crate::input_error::{InputError, InputResult};

/// Larger files are no photographs.
const LARGEST_FILE: u64 = 256 << 20;
/// Pixels of one image, at most: 8192 × 8192.
pub(super) const MOST_PIXELS: u64 = 1 << 26;
/// Memory that a decoder may take, at most.
const MOST_MEMORY: u64 = 1 << 30;

/// The formats that are read, in words.
pub(crate) const FORMATS: &str = "PNG, JPEG, WebP, BMP or GIF";
/// What the names of images end in.
pub(crate) const ENDINGS: [&str; 6] = ["png", "jpg", "jpeg", "webp", "bmp", "gif"];

/// Red, green and blue bytes, lines from the top.
pub(crate) struct Pixels {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) rgb: Vec<u8>,
}

/// Reads an image. Transparency is dropped, grey becomes three equal channels, of animations the first
/// frame counts, and an orientation in EXIF is not applied: as Pillow's `open(…).convert("RGB")` does it.
pub(crate) fn decode(path: &Path) -> InputResult<Pixels> {
    let size = std::fs::metadata(path).map_err(InputError::io("open", path))?.len();
    if size == 0 {
        return Err(InputError::image(path, "the file is empty, so there is no image in it"));
    }
    if size > LARGEST_FILE {
        return Err(InputError::image(
            path,
            format!("expected an image of at most {LARGEST_FILE} bytes, got a file of {size}"),
        ));
    }
    let bytes = std::fs::read(path).map_err(InputError::io("read", path))?;
    decode_bytes(path, &bytes)
}

/// Width and height by an image's header, if it can be read.
pub(super) fn dimensions(path: &Path) -> Option<(u32, u32)> {
    ImageReader::open(path).ok()?.with_guessed_format().ok()?.into_dimensions().ok()
}

fn decode_bytes(path: &Path, bytes: &[u8]) -> InputResult<Pixels> {
    let wrong = |reason: String| InputError::image(path, reason);
    let reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(InputError::io("read", path))?;
    let format = reader.format().filter(|format| is_read(*format));
    let Some(format) = format else {
        return Err(wrong(format!("not an image that can be read; expected {FORMATS}")));
    };
    if let Some(header) = jpeg_header::read(bytes) {
        if header.components == Some(4) {
            return Err(wrong(
                "a JPEG in CMYK, which has no colours of its own on a screen; convert it to RGB"
                    .to_owned(),
            ));
        }
        if !header.is_whole {
            return Err(wrong(
                "the JPEG ends before its image does: the file is truncated".to_owned(),
            ));
        }
    }
    let (width, height) = ImageReader::with_format(Cursor::new(bytes), format)
        .into_dimensions()
        .map_err(|error| wrong(format!("damaged: {error}")))?;
    check_pixels(width, height).map_err(wrong)?;
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_MEMORY);
    reader.limits(limits);
    let image = reader.decode().map_err(|error| wrong(format!("damaged: {error}")))?;
    let rgb = rgb_of(image);
    Ok(Pixels { width: rgb.width(), height: rgb.height(), rgb: rgb.into_raw() })
}

fn rgb_of(image: DynamicImage) -> image::RgbImage {
    match image {
        DynamicImage::ImageRgb8(rgb) => rgb,
        other => other.to_rgb8(),
    }
}

fn is_read(format: ImageFormat) -> bool {
    matches!(
        format,
        ImageFormat::Png
            | ImageFormat::Jpeg
            | ImageFormat::WebP
            | ImageFormat::Bmp
            | ImageFormat::Gif
    )
}

/// Fails for sizes that take too much memory.
pub(super) fn check_pixels(width: u32, height: u32) -> Result<(), String> {
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(format!("expected at least one pixel, got an image of {width} × {height}"));
    }
    if pixels > MOST_PIXELS {
        return Err(format!(
            "expected at most {MOST_PIXELS} pixels, got an image of {width} × {height}"
        ));
    }
    Ok(())
}
