//! Inputs in batches, prepared on other threads while the network is busy with the last ones.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

use rayon::prelude::*;

use crate::data::{Data, Inputs};
use crate::image::prepare::{Prepared, Preparer};
use crate::input_error::{InputError, InputResult};

/// Batches that wait for the network, at most. Together with the one it works on and the one that is being made, this is all
/// that is in memory.
const WAITING: usize = 1;

/// Bytes of prepared images in one batch, at most, unless it is one image: networks may take images of any size.
const MOST_BYTES: u64 = 512 << 20;

/// Some items, those that could be read and those that could not.
pub(super) struct Batch {
    pub(super) items: Range<usize>,
    /// The item and its input.
    pub(super) rows: Vec<(usize, Prepared)>,
    pub(super) failures: Vec<(usize, InputError)>,
}

/// What turns items into inputs.
pub(super) enum Maker<'a> {
    Images(&'a Preparer),
    Arrays,
}

/// Starts to prepare the items from `start` on.
pub(super) fn batches<'scope>(
    scope: &'scope Scope<'scope, '_>,
    data: &'scope Data,
    maker: Maker<'scope>,
    start: usize,
    size: usize,
) -> Receiver<InputResult<Batch>> {
    let (sender, receiver) = sync_channel(WAITING);
    scope.spawn(move || {
        let mut first = start;
        while first < data.rows() {
            let items = bounded(data, &maker, first..(first + size).min(data.rows()));
            first = items.end;
            let batch = make(data, &maker, items);
            let last = batch.is_err();
            // Nobody listens any more: the run has ended.
            if sender.send(batch).is_err() || last {
                return;
            }
        }
    });
    receiver
}

/// As many of these items as fit into memory, at least one, as their headers tell before anything is decoded.
fn bounded(data: &Data, maker: &Maker<'_>, items: Range<usize>) -> Range<usize> {
    let (Inputs::Images(images), Maker::Images(preparer)) = (&data.inputs, maker) else {
        return items;
    };
    let mut sum = 0_u64;
    let fits = |path: &&PathBuf| {
        sum = sum.saturating_add(preparer.bytes_of(path));
        sum <= MOST_BYTES
    };
    let count = images[items.clone()].iter().take_while(fits).count();
    items.start..items.start + count.max(1)
}

fn make(data: &Data, maker: &Maker<'_>, items: Range<usize>) -> InputResult<Batch> {
    let mut batch = Batch { items: items.clone(), rows: Vec::new(), failures: Vec::new() };
    match (&data.inputs, maker) {
        (Inputs::Images(images), Maker::Images(preparer)) => {
            let prepared: Vec<InputResult<Prepared>> =
                images[items.clone()].par_iter().map(|path| preparer.image(path)).collect();
            for (item, result) in items.zip(prepared) {
                match result {
                    Ok(row) => batch.rows.push((item, row)),
                    Err(error) => batch.failures.push((item, error)),
                }
            }
        }
        (Inputs::Arrays(array), _) => {
            let width: usize = array.shape.iter().product();
            let mut numbers = vec![0.0; items.len() * width];
            Inputs::read_array(array, items.start, &mut numbers)?;
            let rows = numbers.chunks_exact(width);
            batch.rows = items
                .zip(rows)
                .map(|(item, row)| {
                    (item, Prepared { shape: array.shape.clone(), numbers: row.to_vec() })
                })
                .collect();
        }
        (Inputs::Images(_), Maker::Arrays) => unreachable!("images have a preparer"),
    }
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use image::RgbImage;

    use super::*;
    use crate::image::preprocess::ImageInput;
    use crate::image::{Layout, PreprocessChoice, Preset, Resize};

    #[test]
    fn a_batch_of_large_images_is_split_before_anything_is_decoded() {
        let folder = tempfile::tempdir().unwrap();
        let path = |index: usize| folder.path().join(format!("{index}.png"));
        (0..3).for_each(|index| RgbImage::new(100, 80).save(path(index)).unwrap());
        std::fs::write(path(3), "no image").unwrap();
        let data = Data {
            name: "images".to_owned(),
            inputs: Inputs::Images((0..4).map(path).collect()),
            labels: None,
            classes: None,
            ignored: Vec::new(),
        };
        let choice = PreprocessChoice { preset: Some(Preset::None), ..PreprocessChoice::default() };
        let input = ImageInput { layout: Layout::Nchw, channels: 3, height: 0, width: 0 };
        let mut steps = choice.resolve(input).unwrap();
        let cut = |steps: &crate::image::Preprocess, items: Range<usize>| {
            bounded(&data, &Maker::Images(&Preparer::new(steps)), items)
        };
        assert_eq!(cut(&steps, 0..4), 0..4);
        // 8000 × 10000 pixels of 12 bytes each are too many, even alone; what cannot be read takes nothing.
        steps.resize = Some(Resize::Shorter { pixels: 8000 });
        assert_eq!(cut(&steps, 0..4), 0..1);
        assert_eq!(cut(&steps, 1..4), 1..2);
        assert_eq!(cut(&steps, 3..4), 3..4);
        // 192 MB each.
        steps.crop = Some((4000, 4000));
        assert_eq!(cut(&steps, 0..4), 0..2);
    }
}
