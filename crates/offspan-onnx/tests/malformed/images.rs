//! Images, lists and folders.

use std::io::Cursor;

use image::{ImageFormat, Rgb, RgbImage};

use super::{Place, check_sentence};

fn encoded(format: ImageFormat) -> Vec<u8> {
    let picture = RgbImage::from_fn(40, 30, |x, y| Rgb([(6 * x) as u8, (8 * y) as u8, 77]));
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// A PNG file with this header and so many bytes of image data, all of them zero before compression.
fn png(width: u32, height: u32) -> Vec<u8> {
    fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
        let mut crc = !0_u32;
        for &byte in kind.iter().chain(data) {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            }
        }
        let mut bytes = (data.len() as u32).to_be_bytes().to_vec();
        bytes.extend(kind);
        bytes.extend(data);
        bytes.extend((!crc).to_be_bytes());
        bytes
    }
    let mut header = width.to_be_bytes().to_vec();
    header.extend(height.to_be_bytes());
    header.extend([8, 2, 0, 0, 0]);
    // A stored block of nothing: the data of such an image would be short in any case.
    let empty = [0x78, 0x01, 0x01, 0x00, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x01];
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.extend(chunk(b"IHDR", &header));
    bytes.extend(chunk(b"IDAT", &empty));
    bytes.extend(chunk(b"IEND", &[]));
    bytes
}

#[test]
fn files_that_are_no_images() {
    let place = Place::new();
    place.image_is_refused("a.png", b"", &["a.png: the file is empty"]);
    place.image_is_refused("a.png", b"just text", &["not an image that can be read; expected PNG"]);
    place.image_is_refused("a.jpg", &[0; 5000], &["not an image that can be read"]);
    place.image_is_refused(
        "a.png",
        b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>",
        &["not an image that can be read"],
    );
    place.image_is_refused("a.bmp", b"II*\0\x08\0\0\0", &["not an image that can be read"]);
    place.image_is_refused("a.gif", b"GIF89a", &["a.gif: damaged"]);
    place.image_is_refused("a.webp", b"RIFF\x10\0\0\0WEBPVP8 ", &["a.webp: damaged"]);
    place.image_is_refused("a.jpg", b"\xff\xd8\xff\xd9", &["a.jpg: "]);
    place.image_is_refused("a.jpg", b"\xff\xd8", &["a.jpg: "]);
    place.image_is_refused("a.tiff", b"II*\0", &["expected a folder of images, an image"]);
}

#[test]
fn images_that_end_too_early() {
    let place = Place::new();
    for (name, format) in [
        ("a.png", ImageFormat::Png),
        ("a.jpg", ImageFormat::Jpeg),
        ("a.bmp", ImageFormat::Bmp),
        ("a.gif", ImageFormat::Gif),
        ("a.webp", ImageFormat::WebP),
    ] {
        let whole = encoded(format);
        for share in [1, 2, 3] {
            place.image_is_refused(name, &whole[..whole.len() * share / 4], &[name]);
        }
    }
    let jpeg = encoded(ImageFormat::Jpeg);
    place.image_is_refused("a.jpg", &jpeg[..jpeg.len() - 20], &["the file is truncated"]);
}

#[test]
fn damaged_bytes_give_rows_or_a_sentence() {
    let place = Place::new();
    place.write("network.onnx", &super::models::bytes(&super::models::network(-1)));
    for format in
        [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP, ImageFormat::Bmp]
    {
        let whole = encoded(format);
        for at in (0..whole.len()).step_by(1 + whole.len() / 60) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xa5;
            place.write("a.png", &damaged);
            if let Err(message) = place.extract("network.onnx", "a.png") {
                assert!(message.contains("a.png: ") && !message.contains("panicked"), "{message}");
            }
            let _ = std::fs::remove_dir_all(place.path("pack"));
        }
    }
}

#[test]
fn sizes_that_take_too_much_memory() {
    let place = Place::new();
    let bomb = png(50_000, 50_000);
    assert!(bomb.len() < 100);
    place.image_is_refused(
        "a.png",
        &bomb,
        &["expected at most 67108864 pixels, got an image of 50000 × 50000"],
    );
    place.image_is_refused("a.png", &png(0x7fff_ffff, 0x7fff_ffff), &["a.png: "]);
    place.image_is_refused("a.png", &png(0, 10), &["a.png: "]);
    place.image_is_refused("a.png", &png(40, 40), &["a.png: damaged"]);
    let mut bmp = encoded(ImageFormat::Bmp);
    bmp[18..22].copy_from_slice(&60_000_u32.to_le_bytes());
    bmp[22..26].copy_from_slice(&60_000_u32.to_le_bytes());
    place.image_is_refused("a.bmp", &bmp, &["a.bmp: "]);
    let mut gif = encoded(ImageFormat::Gif);
    gif[6..10].copy_from_slice(&[0xff; 4]);
    place.image_is_refused("a.gif", &gif, &["expected at most 67108864 pixels"]);
    // One pixel wide: resized by its shorter side it would have 256 times as many.
    let thin = RgbImage::new(1, 65_000);
    let mut bytes = Cursor::new(Vec::new());
    thin.write_to(&mut bytes, ImageFormat::Png).unwrap();
    place.write("large.onnx", &super::models::bytes(&wide_network()));
    place.write("a.png", &bytes.into_inner());
    check_sentence(
        place.extract("large.onnx", "a.png"),
        &["after resizing: expected at most 67108864 pixels"],
    );
}

/// A network for images of 224 × 224.
fn wide_network() -> offspan_onnx::proto::ModelProto {
    let mut model = super::models::network(-1);
    let graph = model.graph.as_mut().unwrap();
    graph.input = vec![super::models::value("image", &[-1, 3, 224, 224])];
    model
}

#[test]
fn colours_that_are_none_of_a_screen() {
    let place = Place::new();
    let cmyk = include_bytes!("../files/cmyk.jpg");
    place.image_is_refused("a.jpg", cmyk, &["a JPEG in CMYK", "convert it to RGB"]);
}

#[test]
fn lists_and_folders_that_lead_nowhere() {
    let place = Place::new();
    let listed = |text: &[u8], words: &[&str]| place.image_is_refused("list.txt", text, words);
    listed(b"\n# nothing\n", &["the list has no lines with a path"]);
    listed(b"gone.png\n", &["cannot open", "gone.png"]);
    listed(&[0xff, 0xfe, 0x00], &["it is not text"]);
    listed(b"a.png 1\nb.png\n", &["line 2: expected a class number on every line or on none"]);
    listed(b"a.png\nb.png 4\n", &["line 2: expected a class number on every line or on none"]);
    listed(b"a.png -3\n", &["expected a class number from 0, got -3"]);
    for (folder, words) in [("empty", "no images in this folder"), ("gone", "cannot open")] {
        if folder == "empty" {
            std::fs::create_dir(place.path(folder)).unwrap();
        }
        check_sentence(place.extract("network.onnx", folder), &[words]);
    }
    place.write("mixed/a.png", b"x");
    place.write("mixed/cat/a.png", b"x");
    check_sentence(
        place.extract("network.onnx", "mixed"),
        &["expected either images or a folder for each class"],
    );
    #[cfg(unix)]
    {
        place.write("loop/cat/a.png", b"x");
        std::os::unix::fs::symlink(place.path("loop"), place.path("loop/cat/again")).unwrap();
        check_sentence(place.extract("network.onnx", "loop"), &["does a link lead back?"]);
    }
}
