//! How an image becomes numbers: what the flags say, and what is stored so that scoring repeats it.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::input_error::{InputError, InputResult};

/// Means and deviations of ImageNet's training images, which nearly every network of the two libraries was
/// trained with.
const IMAGENET_MEAN: [f64; 3] = [0.485, 0.456, 0.406];
const IMAGENET_STD: [f64; 3] = [0.229, 0.224, 0.225];
/// Where neither the model nor a flag says it.
const USUAL_SIDE: u32 = 224;
/// The longest side that may be asked for.
const LONGEST_SIDE: u32 = 8192;

/// Everything that is done to an image before a network sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preprocess {
    /// The first step; none leaves the size as it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resize: Option<Resize>,
    /// Height and width of the middle part that is kept; none keeps all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub crop: Option<(u32, u32)>,
    /// How pixels are computed anew.
    pub interpolation: Interpolation,
    /// Which colours, in which order.
    pub channels: Channels,
    /// What bytes are multiplied with.
    pub scale: f64,
    /// What is then subtracted, per channel.
    pub mean: Vec<f64>,
    /// What the rest is divided by, per channel.
    pub std: Vec<f64>,
    /// The order of the network's input.
    pub layout: Layout,
}

/// How an image gets its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resize {
    /// The shorter side gets this length, and the longer one follows.
    Shorter {
        /// Pixels.
        pixels: u32,
    },
    /// Both sides, whatever the image's proportions.
    Exact {
        /// Lines.
        height: u32,
        /// Pixels of a line.
        width: u32,
    },
}

macro_rules! named_choice {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $($(#[$doc])* $variant),+
        }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }

        impl Display for $name {
            fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$variant => $text),+ })
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let known = [$($text),+];
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(format!("expected {}, got `{text}`", known.join(" or "))),
                }
            }
        }
    };
}

named_choice!(
    /// How pixels are computed anew. All but the nearest one weigh every pixel that a new one covers.
    Interpolation {
        /// A triangle.
        Bilinear = "bilinear",
        /// A cubic with a = −½, as in Pillow.
        Bicubic = "bicubic",
        /// A windowed sinc of three lobes.
        Lanczos = "lanczos",
        /// One pixel.
        Nearest = "nearest"
    }
);

named_choice!(
    /// Which colours a network wants, in which order.
    Channels {
        /// Red, green, blue.
        Rgb = "rgb",
        /// Blue, green, red.
        Bgr = "bgr",
        /// One channel of brightness.
        Gray = "gray"
    }
);

named_choice!(
    /// The order of a network's input.
    Layout {
        /// Rows, channels, height, width.
        Nchw = "nchw",
        /// Rows, height, width, channels.
        Nhwc = "nhwc"
    }
);

named_choice!(
    /// What a library does by default.
    Preset {
        /// Shorter side to 256, the middle 224 × 224, ImageNet's mean and deviation.
        Torchvision = "torchvision",
        /// The same with bicubic interpolation, as most models of timm.
        Timm = "timm",
        /// Both sides to 224, from −1 to 1.
        Keras = "keras",
        /// Bytes as they are, in the size that they have.
        None = "none"
    }
);

impl Channels {
    /// How many there are.
    #[must_use]
    pub fn count(self) -> usize {
        match self {
            Channels::Rgb | Channels::Bgr => 3,
            Channels::Gray => 1,
        }
    }
}

/// Both sides of an image, as in `224` or `192x256` (height by width).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// One number.
    One(u32),
    /// Height and width.
    Two(u32, u32),
    /// As it is.
    Kept,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let side = |text: &str| {
            text.parse().ok().filter(|side| (1..=LONGEST_SIDE).contains(side)).ok_or_else(|| {
                format!("expected pixels from 1 to {LONGEST_SIDE}, as in 224 or 192x256, or none, got `{text}`")
            })
        };
        match text.split_once('x') {
            _ if text == "none" => Ok(Size::Kept),
            Some((height, width)) => Ok(Size::Two(side(height)?, side(width)?)),
            None => side(text).map(Size::One),
        }
    }
}

/// What the flags say; where they say nothing, the preset counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PreprocessChoice {
    /// The preset; torchvision's if none is given.
    pub preset: Option<Preset>,
    /// One number: the shorter side; two: both.
    pub size: Option<Size>,
    /// The middle part that is kept.
    pub crop: Option<Size>,
    /// How pixels are computed anew.
    pub interpolation: Option<Interpolation>,
    /// Which colours, in which order.
    pub channels: Option<Channels>,
    /// What bytes are multiplied with.
    pub scale: Option<f64>,
    /// What is subtracted, one number or one per channel.
    pub mean: Option<Vec<f64>>,
    /// What the rest is divided by, one number or one per channel.
    pub std: Option<Vec<f64>>,
}

/// What a model's input says of images; 0 where a size is left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageInput {
    pub(crate) layout: Layout,
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl PreprocessChoice {
    /// Whether nothing was said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// All steps, for a model with this input.
    pub(crate) fn resolve(&self, input: ImageInput) -> InputResult<Preprocess> {
        let side = |size: usize| match size {
            0 => USUAL_SIDE,
            // What is longer is refused below, when the sizes are compared.
            size => u32::try_from(size).unwrap_or(LONGEST_SIDE).min(LONGEST_SIDE),
        };
        let sides = (side(input.height), side(input.width));
        let mut steps = self.preset.unwrap_or(Preset::Torchvision).steps(sides, input.layout);
        match self.size {
            Some(Size::One(pixels)) => steps.resize = Some(Resize::Shorter { pixels }),
            Some(Size::Two(height, width)) => steps.resize = Some(Resize::Exact { height, width }),
            Some(Size::Kept) => steps.resize = None,
            None => {}
        }
        match self.crop {
            Some(Size::One(side)) => steps.crop = Some((side, side)),
            Some(Size::Two(height, width)) => steps.crop = Some((height, width)),
            Some(Size::Kept) => steps.crop = None,
            None => {}
        }
        steps.interpolation = self.interpolation.unwrap_or(steps.interpolation);
        steps.channels = self.channels.unwrap_or(match input.channels {
            1 => Channels::Gray,
            _ => steps.channels,
        });
        steps.scale = self.scale.unwrap_or(steps.scale);
        let count = steps.channels.count();
        steps.mean = per_channel("mean", self.mean.as_ref(), steps.mean, count)?;
        steps.std = per_channel("std", self.std.as_ref(), steps.std, count)?;
        steps.check()?;
        steps.check_fits(input)?;
        Ok(steps)
    }
}

fn per_channel(
    flag: &'static str,
    given: Option<&Vec<f64>>,
    preset: Vec<f64>,
    count: usize,
) -> InputResult<Vec<f64>> {
    let numbers = given.cloned().unwrap_or(preset);
    match numbers.len() {
        1 => Ok(vec![numbers[0]; count]),
        length if length == count => Ok(numbers),
        length => Err(InputError::setting(
            flag,
            format!("one number, or {count} for the channels of the network's input"),
            format!("{length} ({numbers:?})"),
        )),
    }
}

impl Preset {
    fn steps(self, (height, width): (u32, u32), layout: Layout) -> Preprocess {
        let shorter = height.min(width);
        let like_imagenet = |pixels: u32, interpolation| Preprocess {
            resize: Some(Resize::Shorter { pixels: pixels.min(LONGEST_SIDE) }),
            crop: Some((height, width)),
            interpolation,
            channels: Channels::Rgb,
            scale: 1.0 / 255.0,
            mean: IMAGENET_MEAN.to_vec(),
            std: IMAGENET_STD.to_vec(),
            layout,
        };
        let plain = |resize, scale, mean| Preprocess {
            resize,
            crop: None,
            interpolation: Interpolation::Bilinear,
            channels: Channels::Rgb,
            scale,
            mean: vec![mean],
            std: vec![1.0],
            layout,
        };
        match self {
            // 224 of 256, and as much of other sizes: 299 of 342.
            Preset::Torchvision => {
                like_imagenet((shorter * 256 + 112) / 224, Interpolation::Bilinear)
            }
            // A share of 0.875 is kept, rounded down: 299 of 341.
            Preset::Timm => like_imagenet(shorter * 8 / 7, Interpolation::Bicubic),
            Preset::Keras => plain(Some(Resize::Exact { height, width }), 1.0 / 127.5, 1.0),
            Preset::None => plain(None, 1.0, 0.0),
        }
    }
}

impl Preprocess {
    /// Fails for numbers that make no sense, from flags or from a file.
    pub(crate) fn check(&self) -> InputResult<()> {
        let finite = |flag, numbers: &[f64]| match numbers.iter().find(|x| !x.is_finite()) {
            Some(bad) => Err(InputError::setting(flag, "finite numbers", bad)),
            None => Ok(()),
        };
        finite("scale", &[self.scale])?;
        finite("mean", &self.mean)?;
        finite("std", &self.std)?;
        if let Some(bad) = self.std.iter().find(|x| **x <= 0.0) {
            return Err(InputError::setting("std", "numbers above 0", bad));
        }
        let count = self.channels.count();
        for (flag, numbers) in [("mean", &self.mean), ("std", &self.std)] {
            if numbers.len() != count {
                return Err(InputError::setting(
                    flag,
                    format!("{count} numbers for {} images", self.channels),
                    numbers.len(),
                ));
            }
        }
        let sides = [self.crop, match self.resize {
            Some(Resize::Shorter { pixels }) => Some((pixels, pixels)),
            Some(Resize::Exact { height, width }) => Some((height, width)),
            None => None,
        }];
        for (height, width) in sides.into_iter().flatten() {
            if !(1..=LONGEST_SIDE).contains(&height) || !(1..=LONGEST_SIDE).contains(&width) {
                return Err(InputError::setting(
                    "size",
                    format!("pixels from 1 to {LONGEST_SIDE}"),
                    format!("{height} × {width}"),
                ));
            }
        }
        Ok(())
    }

    /// Height and width that every image has in the end, where they do not depend on the image.
    #[must_use]
    pub fn final_size(&self) -> Option<(u32, u32)> {
        match (self.crop, self.resize) {
            (Some(crop), _) => Some(crop),
            (None, Some(Resize::Exact { height, width })) => Some((height, width)),
            (None, _) => None,
        }
    }

    /// Fails where a model cannot take what comes out.
    pub(crate) fn check_fits(&self, input: ImageInput) -> InputResult<()> {
        if input.channels != 0 && input.channels != self.channels.count() {
            return Err(InputError::setting(
                "channel-order",
                format!("{} channels, as the network's input has", input.channels),
                self.channels,
            ));
        }
        let Some((height, width)) = self.final_size() else { return Ok(()) };
        let differs = |wanted: usize, got: u32| wanted != 0 && wanted != got as usize;
        if differs(input.height, height) || differs(input.width, width) {
            return Err(InputError::setting(
                "crop",
                format!("{} × {} pixels, as the network's input has", input.height, input.width),
                format!("{height} × {width}"),
            ));
        }
        Ok(())
    }
}

impl Display for Preprocess {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self.resize {
            Some(Resize::Shorter { pixels }) => {
                write!(f, "shorter side to {pixels} ({}), ", self.interpolation)?;
            }
            Some(Resize::Exact { height, width }) => {
                write!(f, "resized to {height} × {width} ({}), ", self.interpolation)?;
            }
            None => f.write_str("not resized, ")?,
        }
        if let Some((height, width)) = self.crop {
            write!(f, "the middle {height} × {width}, ")?;
        }
        let list = |numbers: &[f64]| {
            let same = numbers.iter().all(|x| *x == numbers[0]);
            let shown = if same { &numbers[..numbers.len().min(1)] } else { numbers };
            shown.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let inverse = 1.0 / self.scale;
        let scale = match (inverse * 1e9).round() / 1e9 {
            1.0 => "as they are".to_owned(),
            whole if whole.abs() > 1.0 => format!("/ {whole}"),
            _ => format!("× {}", self.scale),
        };
        write!(
            f,
            "{} bytes {scale}, minus {}, over {}, {}",
            self.channels,
            list(&self.mean),
            list(&self.std),
            self.layout
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESNET: ImageInput =
        ImageInput { layout: Layout::Nchw, channels: 3, height: 224, width: 224 };

    fn preset(preset: Preset) -> PreprocessChoice {
        PreprocessChoice { preset: Some(preset), ..PreprocessChoice::default() }
    }

    #[test]
    fn presets_are_what_the_libraries_do() {
        let torchvision = PreprocessChoice::default().resolve(RESNET).unwrap();
        assert_eq!(torchvision.resize, Some(Resize::Shorter { pixels: 256 }));
        assert_eq!((torchvision.crop, torchvision.scale), (Some((224, 224)), 1.0 / 255.0));
        assert_eq!(torchvision.interpolation, Interpolation::Bilinear);
        assert_eq!(
            torchvision.to_string(),
            "shorter side to 256 (bilinear), the middle 224 × 224, rgb bytes / 255, \
             minus 0.485, 0.456, 0.406, over 0.229, 0.224, 0.225, nchw"
        );
        let inception = ImageInput { height: 299, width: 299, ..RESNET };
        let timm = preset(Preset::Timm).resolve(inception).unwrap();
        assert_eq!(timm.resize, Some(Resize::Shorter { pixels: 341 }));
        assert_eq!(timm.interpolation, Interpolation::Bicubic);
        let torchvision = PreprocessChoice::default().resolve(inception).unwrap();
        assert_eq!(torchvision.resize, Some(Resize::Shorter { pixels: 342 }));
        let open = ImageInput { layout: Layout::Nhwc, height: 0, width: 0, channels: 3 };
        let keras = preset(Preset::Keras).resolve(open).unwrap();
        assert_eq!(
            keras.to_string(),
            "resized to 224 × 224 (bilinear), rgb bytes / 127.5, minus 1, over 1, nhwc"
        );
        let none = preset(Preset::None).resolve(RESNET).unwrap();
        assert_eq!(
            none.to_string(),
            "not resized, rgb bytes as they are, minus 0, over 1, nchw"
        );
    }

    #[test]
    fn flags_count_more_than_the_preset() {
        let choice = PreprocessChoice {
            size: Some("232".parse().unwrap()),
            channels: Some(Channels::Bgr),
            mean: Some(vec![0.5]),
            scale: Some(1.0),
            interpolation: Some(Interpolation::Lanczos),
            ..PreprocessChoice::default()
        };
        let steps = choice.resolve(RESNET).unwrap();
        assert_eq!(steps.resize, Some(Resize::Shorter { pixels: 232 }));
        assert_eq!((steps.channels, steps.mean), (Channels::Bgr, vec![0.5; 3]));
        assert_eq!((steps.scale, steps.interpolation), (1.0, Interpolation::Lanczos));
    }

    #[test]
    fn what_does_not_fit_the_network_is_refused() {
        let refused = |choice: PreprocessChoice, input| choice.resolve(input).unwrap_err().to_string();
        let crop = PreprocessChoice { crop: Some(Size::One(200)), ..PreprocessChoice::default() };
        assert_eq!(
            refused(crop, RESNET),
            "--crop: expected 224 × 224 pixels, as the network's input has, got 200 × 200"
        );
        let grey = ImageInput { channels: 1, ..RESNET };
        assert_eq!(
            refused(PreprocessChoice::default(), grey),
            "--mean: expected one number, or 1 for the channels of the network's input, got 3 \
             ([0.485, 0.456, 0.406])"
        );
        let colour = PreprocessChoice { channels: Some(Channels::Rgb), ..preset(Preset::None) };
        assert_eq!(
            refused(colour, grey),
            "--channel-order: expected 1 channels, as the network's input has, got rgb"
        );
        let flat = PreprocessChoice { std: Some(vec![0.0]), ..PreprocessChoice::default() };
        assert_eq!(refused(flat, RESNET), "--std: expected numbers above 0, got 0");
        let lost = PreprocessChoice { scale: Some(f64::NAN), ..PreprocessChoice::default() };
        assert_eq!(refused(lost, RESNET), "--scale: expected finite numbers, got NaN");
        assert!("0".parse::<Size>().is_err() && "9000x3".parse::<Size>().is_err());
        assert!("12x".parse::<Size>().is_err() && "x".parse::<Size>().is_err());
    }

    #[test]
    fn what_is_stored_comes_back() {
        for preset_of in Preset::ALL {
            let steps = preset(*preset_of).resolve(RESNET).unwrap();
            let text = serde_json::to_string(&steps).unwrap();
            assert_eq!(serde_json::from_str::<Preprocess>(&text).unwrap(), steps, "{text}");
        }
    }
}
