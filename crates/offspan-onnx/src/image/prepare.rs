//! The numbers that a network gets for an image.

use std::path::Path;

use super::decode::{Pixels, decode, dimensions};
use super::preprocess::{Channels, Layout, Preprocess, Resize};
use super::resize::{centre_crop, resize, target};
use crate::input_error::{InputError, InputResult};

/// Turns images into a network's input, always by the same steps.
pub(crate) struct Preparer {
    steps: Preprocess,
    /// The number that each byte becomes, for each channel.
    numbers: Vec<[f32; 256]>,
}

/// One image as a network's input: channels, height and width in the order of the layout.
pub(crate) struct Prepared {
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Vec<f32>,
}

impl Preparer {
    pub(crate) fn new(steps: &Preprocess) -> Self {
        let number = |byte: usize, channel: usize| {
            ((byte as f64 * steps.scale - steps.mean[channel]) / steps.std[channel]) as f32
        };
        let of_channel = |channel: usize| std::array::from_fn(|byte| number(byte, channel));
        let numbers = (0..steps.channels.count()).map(of_channel).collect();
        Preparer { steps: steps.clone(), numbers }
    }

    /// Reads and prepares an image.
    pub(crate) fn image(&self, path: &Path) -> InputResult<Prepared> {
        let pixels = decode(path)?;
        let size = target(self.steps.resize, pixels.width, pixels.height);
        let pixels = resize(pixels, size, self.steps.interpolation)
            .map_err(|reason| InputError::image(path, reason))?;
        let pixels = match self.steps.crop {
            Some(crop) => centre_crop(pixels, crop),
            None => pixels,
        };
        Ok(self.numbers_of(&pixels))
    }

    /// Bytes of an image when it is prepared, as its header tells; 0 if it cannot be read, which is told later.
    pub(crate) fn bytes_of(&self, path: &Path) -> u64 {
        let (height, width) = match (self.steps.crop, self.steps.resize) {
            (Some(crop), _) => crop,
            (None, Some(Resize::Exact { height, width })) => (height, width),
            (None, resize) => {
                let Some((width, height)) = dimensions(path) else { return 0 };
                let (width, height) = target(resize, width, height);
                (height, width)
            }
        };
        let numbers = u64::from(height) * u64::from(width);
        numbers.saturating_mul((self.numbers.len() * size_of::<f32>()) as u64)
    }

    fn numbers_of(&self, pixels: &Pixels) -> Prepared {
        let (height, width) = (pixels.height as usize, pixels.width as usize);
        let colours = pixels.rgb.as_chunks::<3>().0;
        let channels = self.numbers.len();
        // Which byte of a pixel each channel takes; grey is computed.
        let byte = |pixel: [u8; 3], channel: usize| match self.steps.channels {
            Channels::Rgb => pixel[channel],
            Channels::Bgr => pixel[2 - channel],
            Channels::Gray => brightness(pixel),
        };
        let value = |pixel: [u8; 3], channel: usize| {
            self.numbers[channel][usize::from(byte(pixel, channel))]
        };
        match self.steps.layout {
            Layout::Nchw => Prepared {
                shape: vec![channels, height, width],
                numbers: (0..channels)
                    .flat_map(|channel| colours.iter().map(move |&pixel| value(pixel, channel)))
                    .collect(),
            },
            Layout::Nhwc => Prepared {
                shape: vec![height, width, channels],
                numbers: colours
                    .iter()
                    .flat_map(|&pixel| (0..channels).map(move |channel| value(pixel, channel)))
                    .collect(),
            },
        }
    }
}

/// Brightness by ITU-R 601, in Pillow's whole numbers.
fn brightness([red, green, blue]: [u8; 3]) -> u8 {
    let sum = 19_595 * u32::from(red) + 38_470 * u32::from(green) + 7_471 * u32::from(blue);
    ((sum + 0x8000) >> 16) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::preprocess::{ImageInput, PreprocessChoice, Preset};

    fn steps(channels: Channels, layout: Layout) -> Preprocess {
        let choice = PreprocessChoice {
            preset: Some(Preset::None),
            channels: Some(channels),
            ..PreprocessChoice::default()
        };
        let input = ImageInput { layout, channels: channels.count(), height: 0, width: 0 };
        choice.resolve(input).unwrap()
    }

    #[test]
    fn channels_and_layouts_put_every_byte_in_its_place() {
        let pixels = || Pixels { width: 2, height: 1, rgb: vec![1, 2, 3, 4, 5, 6] };
        let numbers = |channels, layout| {
            let prepared = Preparer::new(&steps(channels, layout)).numbers_of(&pixels());
            (prepared.shape, prepared.numbers)
        };
        assert_eq!(
            numbers(Channels::Rgb, Layout::Nchw),
            (vec![3, 1, 2], vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0])
        );
        assert_eq!(
            numbers(Channels::Bgr, Layout::Nhwc),
            (vec![1, 2, 3], vec![3.0, 2.0, 1.0, 6.0, 5.0, 4.0])
        );
        assert_eq!(numbers(Channels::Gray, Layout::Nhwc), (vec![1, 2, 1], vec![2.0, 5.0]));
    }

    #[test]
    fn brightness_of_grey_is_its_own_and_of_colours_that_of_pillow() {
        assert!((0..=255).all(|byte| brightness([byte; 3]) == byte));
        // Image.new("RGB", (1, 1), colour).convert("L") gives these.
        assert_eq!([[255, 0, 0], [0, 255, 0], [0, 0, 255]].map(brightness), [76, 150, 29]);
    }
}
