//! Resizing as Pillow does it: separable filters whose support grows with the reduction, so that
//! nothing is skipped.

use fast_image_resize::images::Image;
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

use super::decode::{Pixels, check_pixels};
use super::preprocess::{Interpolation, Resize};

/// The sizes that an image gets.
pub(super) fn target(resize: Option<Resize>, width: u32, height: u32) -> (u32, u32) {
    match resize {
        None => (width, height),
        Some(Resize::Exact { height, width }) => (width, height),
        // The longer side is rounded down, as in torchvision.
        Some(Resize::Shorter { pixels }) if width <= height => {
            (pixels, scaled(height, pixels, width))
        }
        Some(Resize::Shorter { pixels }) => (scaled(width, pixels, height), pixels),
    }
}

fn scaled(longer: u32, target: u32, shorter: u32) -> u32 {
    let scaled = u64::from(longer) * u64::from(target) / u64::from(shorter.max(1));
    u32::try_from(scaled).unwrap_or(u32::MAX)
}

/// The image in another size.
pub(super) fn resize(
    pixels: Pixels,
    (width, height): (u32, u32),
    interpolation: Interpolation,
) -> Result<Pixels, String> {
    if (pixels.width, pixels.height) == (width, height) {
        return Ok(pixels);
    }
    check_pixels(width, height).map_err(|reason| format!("after resizing: {reason}"))?;
    let failed = |error: &dyn std::fmt::Display| format!("cannot be resized: {error}");
    let from = Image::from_vec_u8(pixels.width, pixels.height, pixels.rgb, PixelType::U8x3)
        .map_err(|error| failed(&error))?;
    let mut to = Image::new(width, height, PixelType::U8x3);
    let algorithm = match interpolation {
        Interpolation::Nearest => ResizeAlg::Nearest,
        Interpolation::Bilinear => ResizeAlg::Convolution(FilterType::Bilinear),
        Interpolation::Bicubic => ResizeAlg::Convolution(FilterType::CatmullRom),
        Interpolation::Lanczos => ResizeAlg::Convolution(FilterType::Lanczos3),
    };
    let options = ResizeOptions::new().resize_alg(algorithm).use_alpha(false);
    Resizer::new().resize(&from, &mut to, &options).map_err(|error| failed(&error))?;
    Ok(Pixels { width, height, rgb: to.into_vec() })
}

/// The middle of an image; what lies outside it is black, as in torchvision.
pub(super) fn centre_crop(pixels: Pixels, (height, width): (u32, u32)) -> Pixels {
    if (pixels.width, pixels.height) == (width, height) {
        return pixels;
    }
    let left = offset(pixels.width, width);
    let top = offset(pixels.height, height);
    let mut rgb = vec![0; 3 * width as usize * height as usize];
    // The columns that both have, in both.
    let from_x = left.max(0);
    let to_x = (left + i64::from(width)).min(i64::from(pixels.width));
    for (y, line) in rgb.chunks_exact_mut(3 * width as usize).enumerate() {
        let source_y = top + y as i64;
        if !(0..i64::from(pixels.height)).contains(&source_y) {
            continue;
        }
        let at = |x: i64| 3 * (source_y as usize * pixels.width as usize + x as usize);
        let run = &pixels.rgb[at(from_x)..at(to_x)];
        let start = 3 * (from_x - left) as usize;
        line[start..start + run.len()].copy_from_slice(run);
    }
    Pixels { width, height, rgb }
}

/// Where the crop begins in an image of this size; negative where the crop is larger. Halves go to the even number
/// for images that are large enough, as Python rounds; around smaller ones torchvision puts the larger border
/// behind.
fn offset(size: u32, crop: u32) -> i64 {
    let spare = i64::from(size) - i64::from(crop);
    if spare < 0 {
        return -(-spare / 2);
    }
    let half = spare / 2;
    if spare % 2 == 1 && half % 2 == 1 { half + 1 } else { half }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: u32, height: u32) -> Pixels {
        let rgb = (0..height)
            .flat_map(|y| (0..width).flat_map(move |x| [x as u8, y as u8, (x ^ y) as u8]))
            .collect();
        Pixels { width, height, rgb }
    }

    #[test]
    fn the_longer_side_follows_the_shorter_one_and_is_rounded_down() {
        let shorter = Some(Resize::Shorter { pixels: 256 });
        assert_eq!(target(shorter, 500, 375), (341, 256));
        assert_eq!(target(shorter, 375, 500), (256, 341));
        assert_eq!(target(shorter, 256, 256), (256, 256));
        assert_eq!(target(None, 7, 9), (7, 9));
        assert_eq!(target(Some(Resize::Exact { height: 2, width: 3 }), 7, 9), (3, 2));
    }

    #[test]
    fn the_middle_is_where_python_rounds_to() {
        // round(2.5) is 2 and round(3.5) is 4 in Python.
        assert_eq!([offset(10, 5), offset(12, 5), offset(10, 4), offset(4, 4)], [2, 4, 3, 0]);
        let cropped = centre_crop(picture(10, 12), (5, 4));
        assert_eq!((cropped.width, cropped.height), (4, 5));
        assert_eq!(cropped.rgb[..3], [3, 4, 3 ^ 4]);
        assert_eq!(cropped.rgb[cropped.rgb.len() - 3..], [6, 8, 6 ^ 8]);
    }

    #[test]
    fn a_crop_larger_than_the_image_has_a_black_border() {
        let cropped = centre_crop(picture(2, 1), (3, 5));
        let lit: Vec<usize> =
            (0..15).filter(|pixel| cropped.rgb[3 * pixel..3 * pixel + 3] != [0, 0, 0]).collect();
        // Line 1, columns 1 and 2; the pixel of column 1 is black itself.
        assert_eq!(lit, [7]);
        assert_eq!(cropped.rgb[3 * 7..3 * 8], [1, 0, 1]);
    }

    #[test]
    fn one_colour_stays_one_colour_in_every_interpolation() {
        for interpolation in Interpolation::ALL {
            let flat = Pixels { width: 40, height: 30, rgb: [9, 130, 250].repeat(1200) };
            let small = resize(flat, (7, 5), *interpolation).unwrap();
            assert_eq!(small.rgb, [9, 130, 250].repeat(35), "{interpolation}");
        }
    }

    #[test]
    fn a_resize_to_too_many_pixels_is_refused_before_memory_is_taken() {
        let thin = Pixels { width: 1, height: 60_000, rgb: vec![0; 180_000] };
        let target = target(Some(Resize::Shorter { pixels: 4096 }), 1, 60_000);
        let refused = resize(thin, target, Interpolation::Bilinear).err().unwrap();
        assert!(refused.contains("after resizing: expected at most"), "{refused}");
    }
}
