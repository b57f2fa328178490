//! Plots as PNG files.

use std::sync::{Arc, LazyLock};

use resvg::{tiny_skia, usvg};

use super::{Bars, HeatMap, Histograms, Lines, Plot, Scatter, Theme};

/// Why a plot could not become a PNG file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PngError {
    /// A file knows no page whose colours it could take.
    #[error("a PNG file is drawn in the light or the dark theme, not in a page's")]
    PageTheme,
    /// The scale is not a sensible number.
    #[error("the scale of a PNG file must be above 0 and at most 8, got {0}")]
    Scale(f32),
    /// The drawing could not be read back.
    #[error("the plot could not be drawn: {0}")]
    Draw(String),
    /// Pixels do not make a picture.
    #[error("expected {expected}, got {got} bytes")]
    Pixels {
        /// The picture they should make.
        expected: String,
        /// Bytes present.
        got: usize,
    },
    /// The picture could not be encoded.
    #[error("the picture could not be encoded: {0}")]
    Encode(String),
}

/// Only the fonts that are built in, so that the same plot has the same pixels everywhere.
static FONTS: LazyLock<Arc<usvg::fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(notosans::REGULAR_TTF.to_vec());
    fonts.load_font_data(notosans::BOLD_TTF.to_vec());
    fonts.set_sans_serif_family("Noto Sans");
    Arc::new(fonts)
});

fn rasterise(svg: &str, theme: Theme, scale: f32) -> Result<Vec<u8>, PngError> {
    if theme == Theme::Page {
        return Err(PngError::PageTheme);
    }
    if !(scale > 0.0 && scale <= 8.0) {
        return Err(PngError::Scale(scale));
    }
    let options = usvg::Options {
        fontdb: Arc::clone(&FONTS),
        font_family: "Noto Sans".into(),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options).map_err(|e| PngError::Draw(e.to_string()))?;
    let size = tree.size();
    let pixels = |length: f32| ((length * scale).round() as u32).max(1);
    let (width, height) = (pixels(size.width()), pixels(size.height()));
    let mut picture = tiny_skia::Pixmap::new(width, height)
        .ok_or_else(|| PngError::Draw("the picture is too large".into()))?;
    // Up to the last whole pixel, or its row would be half transparent.
    let (x, y) = (width as f32 / size.width(), height as f32 / size.height());
    let transform = tiny_skia::Transform::from_scale(x, y);
    resvg::render(&tree, transform, &mut picture.as_mut());
    picture.encode_png().map_err(|e| PngError::Encode(e.to_string()))
}

/// Pixels of one (grey) or three (colour) channels as a PNG file.
pub(crate) fn encode_pixels(
    (width, height): (usize, usize),
    channels: usize,
    pixels: &[u8],
) -> Result<Vec<u8>, PngError> {
    let wrong = || PngError::Pixels {
        expected: format!("{width} × {height} pixels of 1 or 3 channels"),
        got: pixels.len(),
    };
    if ![1, 3].contains(&channels) || pixels.len() != width * height * channels {
        return Err(wrong());
    }
    let sides = (u32::try_from(width).ok(), u32::try_from(height).ok());
    let (Some(w), Some(h)) = sides else { return Err(wrong()) };
    let mut picture = tiny_skia::Pixmap::new(w, h).ok_or_else(wrong)?;
    let targets = picture.data_mut().chunks_exact_mut(4);
    for (target, pixel) in targets.zip(pixels.chunks_exact(channels)) {
        let colour = [pixel[0], pixel[channels / 2], pixel[channels - 1], u8::MAX];
        target.copy_from_slice(&colour);
    }
    picture.encode_png().map_err(|e| PngError::Encode(e.to_string()))
}

macro_rules! png {
    ($($kind:ident),*) => {$(
        impl $kind {
            /// The plot as a PNG file, in the light or the dark theme. A scale of 1 gives as many
            /// pixels as the plot is wide and high, 2 twice as many each way.
            ///
            /// # Errors
            ///
            /// When the theme is a page's, or the scale is not above 0 and at most 8.
            pub fn png(&self, theme: Theme, scale: f32) -> Result<Vec<u8>, PngError> {
                rasterise(&self.svg(theme), theme, scale)
            }
        }
    )*};
}
png!(Plot, Histograms, Lines, Scatter, HeatMap, Bars);
