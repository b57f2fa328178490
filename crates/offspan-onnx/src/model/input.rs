//! What a model wants to be given.

use super::OnnxModel;
use crate::image::Layout;
use crate::image::preprocess::ImageInput;
use crate::input_error::{InputError, InputResult};
use crate::proto::dimension::Value as Size;
use crate::proto::type_proto::Value as Type;
use crate::proto::{DataType, ValueInfoProto};
use crate::tensors::short;

/// Sides and channels beyond this are damage.
const LARGEST_SIZE: i64 = 1 << 24;

/// The one input that callers give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelInput {
    pub(crate) name: String,
    /// The sizes, none where they are left open. The first are the rows.
    pub(crate) sizes: Vec<Option<usize>>,
}

impl ModelInput {
    pub(crate) fn of(model: &OnnxModel) -> InputResult<Self> {
        let graph = model.graph();
        let has_default = |name: &str| graph.initializer.iter().any(|tensor| tensor.name() == name);
        let given: Vec<&ValueInfoProto> =
            graph.input.iter().filter(|input| !has_default(input.name())).collect();
        let &[input] = given.as_slice() else {
            let names: Vec<String> =
                given.iter().take(8).map(|input| short(input.name())).collect();
            return Err(model.wrong(format!(
                "expected a model with one input, got {} ({})",
                given.len(),
                names.join(", ")
            )));
        };
        let wrong = |reason: String| {
            Err(model.wrong(format!("its input `{}`: {reason}", short(input.name()))))
        };
        let kind = input.r#type.as_ref().and_then(|kind| kind.value.as_ref());
        let Some(Type::TensorType(tensor)) = kind else {
            return wrong("expected a tensor, got another type".to_owned());
        };
        let element = tensor.elem_type.unwrap_or(0);
        if element != DataType::Float as i32 {
            let name = DataType::try_from(element).map_or_else(
                |_| format!("type number {element}"),
                |known| format!("{known:?}").to_lowercase(),
            );
            return wrong(format!("expected numbers in single precision (float), got {name}"));
        }
        let Some(shape) = &tensor.shape else {
            return wrong("expected a shape such as [N, 3, 224, 224], got none".to_owned());
        };
        let mut sizes = Vec::with_capacity(shape.dim.len().min(16));
        for dimension in &shape.dim {
            sizes.push(match dimension.value {
                Some(Size::DimValue(size)) if (1..=LARGEST_SIZE).contains(&size) => {
                    Some(size as usize)
                }
                // Some exporters write 0 or −1 for a size that is open.
                Some(Size::DimValue(0 | -1) | Size::DimParam(_)) | None => None,
                Some(Size::DimValue(size)) => {
                    return wrong(format!("expected sizes up to {LARGEST_SIZE}, got {size}"));
                }
            });
        }
        if !(2..=8).contains(&sizes.len()) {
            return wrong(format!(
                "expected rows and 1 to 7 more dimensions, got {} dimensions",
                sizes.len()
            ));
        }
        Ok(ModelInput { name: input.name().to_owned(), sizes })
    }

    /// The number of rows that the model insists on.
    pub(crate) fn fixed_rows(&self) -> Option<usize> {
        self.sizes[0]
    }

    /// The sizes in words, with `?` for open ones.
    pub(crate) fn in_words(&self) -> String {
        shape_in_words(&self.sizes)
    }

    /// What it says of images. The layout is told by the axis that has 1 or 3 entries.
    pub(crate) fn images(&self, layout: Option<Layout>) -> InputResult<ImageInput> {
        let &[_, first, second, third] = self.sizes.as_slice() else {
            return Err(InputError::setting(
                "preprocess",
                "a model whose input has four dimensions, for images",
                format!("one of {}; give arrays (.npy, .safetensors)", self.in_words()),
            ));
        };
        let is_channels = |size: Option<usize>| matches!(size, Some(1 | 3));
        let layout = match (layout, is_channels(first), is_channels(third)) {
            (Some(layout), ..) => layout,
            (None, true, false) => Layout::Nchw,
            (None, false, true) => Layout::Nhwc,
            (None, true, true) | (None, false, false) => {
                return Err(InputError::setting(
                    "layout",
                    "nchw or nhwc, for the input's shape does not tell it",
                    format!("{}; say --layout", self.in_words()),
                ));
            }
        };
        let (channels, height, width) = match layout {
            Layout::Nchw => (first, second, third),
            Layout::Nhwc => (third, first, second),
        };
        let size = |size: Option<usize>| size.unwrap_or(0);
        Ok(ImageInput {
            layout,
            channels: size(channels),
            height: size(height),
            width: size(width),
        })
    }

    /// Fails unless rows of this shape can be given.
    pub(crate) fn check_row(&self, row: &[usize]) -> Result<(), String> {
        let wanted = &self.sizes[1..];
        let fits = row.len() == wanted.len()
            && row.iter().zip(wanted).all(|(got, size)| size.is_none_or(|size| size == *got));
        if fits {
            return Ok(());
        }
        Err(format!(
            "expected rows of {}, as the network's input `{}` has, got {row:?}",
            shape_in_words(wanted),
            short(&self.name)
        ))
    }
}

fn shape_in_words(sizes: &[Option<usize>]) -> String {
    let shown: Vec<String> = sizes
        .iter()
        .map(|size| size.map_or_else(|| "?".to_owned(), |size| size.to_string()))
        .collect();
    format!("[{}]", shown.join(", "))
}
