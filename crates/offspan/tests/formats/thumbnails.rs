//! Pictures in a split: what went in comes out, and what is none is told.

use offspan::io::{Dataset, LARGEST_THUMBNAIL, Pack, Thumbnail, open_dataset};
use offspan::{Detector, MethodSpec};
use safetensors::Dtype;

use crate::common::*;

/// A split of six rows with a tensor called `thumbnails`.
fn split(dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> Vec<u8> {
    let rows = features(6, 3, 1);
    let parts = Tensors::from([
        ("features".to_owned(), (Dtype::F32, vec![6, 3], le_f32(&rows))),
        ("thumbnails".to_owned(), (dtype, shape.to_vec(), bytes)),
    ]);
    tensors(&parts, None)
}

/// Bytes that differ from one another near by.
fn pixels(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i % 251) as u8).collect()
}

#[test]
fn pictures_come_out_row_by_row_as_they_went_in() {
    let folder = tempfile::tempdir().unwrap();
    for (shape, channels) in [(vec![6, 4, 5], 1), (vec![6, 4, 5, 3], 3)] {
        let all = pixels(6 * 4 * 5 * channels);
        let path = put(folder.path(), "x.safetensors", split(Dtype::U8, &shape, all.clone()));
        let data = open_dataset(&path, None).unwrap();
        for (row, pixels) in all.chunks(20 * channels).enumerate() {
            let pixels = pixels.to_vec();
            let expected = Thumbnail { width: 5, height: 4, channels, pixels };
            assert_eq!(data.thumbnail(row).unwrap(), Some(expected), "{shape:?}, row {row}");
        }
        assert_eq!(data.thumbnail(6).unwrap(), None, "there is no such row");
        assert_eq!(data.thumbnail(usize::MAX).unwrap(), None, "there is no such row");
        assert!(data.extras().is_empty(), "pictures are no input of a method");
    }
}

#[test]
fn a_split_may_have_no_pictures() {
    let rows = features(6, 3, 1);
    assert_eq!(Dataset::new("array", rows.view()).thumbnail(0).unwrap(), None);
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.npy", npy_f32(rows.view()));
    assert_eq!(open_dataset(&path, None).unwrap().thumbnail(0).unwrap(), None);
}

#[test]
fn every_split_of_a_pack_has_its_own_pictures_and_scores_as_without() {
    let folder = tempfile::tempdir().unwrap();
    let grey = split(Dtype::U8, &[6, 2, 2], pixels(24));
    put(folder.path(), "train.safetensors", &grey);
    put(folder.path(), "ood/far.safetensors", split(Dtype::U8, &[6, 1, 1, 3], pixels(18)));
    let pack = Pack::open(folder.path()).unwrap();
    assert_eq!(pack.train.thumbnail(5).unwrap().unwrap().pixels, [20, 21, 22, 23]);
    assert_eq!(pack.ood[0].thumbnail(1).unwrap().unwrap().pixels, [3, 4, 5]);

    let rows = features(6, 3, 1);
    let fit = |data: &Dataset<'_>| {
        Detector::fit(&MethodSpec::Kpca(pca()), data, None, &whole_fit()).unwrap().to_bytes()
    };
    assert_eq!(fit(&pack.train), fit(&Dataset::new("train", rows.view())));
}

#[test]
fn the_largest_picture_is_accepted_and_a_larger_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let side = LARGEST_THUMBNAIL;
    let bytes = split(Dtype::U8, &[6, side, side], vec![7; 6 * side * side]);
    let path = put(folder.path(), "x.safetensors", bytes);
    let data = open_dataset(&path, None).unwrap();
    assert_eq!(data.thumbnail(5).unwrap().unwrap().pixels.len(), side * side);
    for shape in [[6, side + 1, 1], [6, 1, side + 1]] {
        assert_told(Dtype::U8, &shape, WRONG_SHAPE);
    }
}

const WRONG_SHAPE: &str = "{file} `thumbnails`: expected shape [rows, height, width] or [rows, \
                           height, width, 3] with sides from 1 to 256, got {shape}";

/// Fails unless such a tensor gives exactly this sentence.
fn assert_told(dtype: Dtype, shape: &[usize], sentence: &str) {
    let folder = tempfile::tempdir().unwrap();
    let count = shape.iter().product::<usize>() * if dtype == Dtype::U8 { 1 } else { 4 };
    let path = put(folder.path(), "x.safetensors", split(dtype, shape, vec![0; count]));
    let error = open_dataset(&path, None).err().expect(sentence).to_string();
    let sentence = sentence
        .replace("{file}", &path.display().to_string())
        .replace("{shape}", &format!("{shape:?}"));
    assert_eq!(error, sentence);
}

#[test]
fn tensors_that_are_no_pictures_are_told() {
    for shape in [&[6, 4][..], &[6], &[6, 4, 5, 1], &[6, 4, 5, 4], &[6, 0, 5], &[6, 4, 5, 3, 1]] {
        assert_told(Dtype::U8, shape, WRONG_SHAPE);
    }
    assert_told(Dtype::F32, &[6, 4, 5], "{file}: `thumbnails` has element type F32; expected U8");
    for (rows, shape) in [(5, &[5, 4, 5][..]), (7, &[7, 4, 5, 3]), (0, &[0, 4, 5])] {
        let sentence = format!(
            "{{file}} `thumbnails`: expected shape 6 rows, as many as the features of {{file}}, \
             got {rows} rows"
        );
        assert_told(Dtype::U8, shape, &sentence);
    }
}
