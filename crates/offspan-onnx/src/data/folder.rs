//! Folders of images. The names of sub-folders are the classes, in the order of the alphabet.

use std::path::{Path, PathBuf};

use super::{Data, Inputs};
use crate::image::{ENDINGS, FORMATS};
use crate::input_error::{InputError, InputResult};

/// Folders within folders, at most: a link may lead back to where it is.
const DEEPEST: usize = 16;

/// Files and folders inside a folder, hidden ones left out, in the order of their names.
pub(super) fn entries(folder: &Path) -> InputResult<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).map_err(InputError::io("open", folder))? {
        let path = entry.map_err(InputError::io("read", folder))?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden {
            continue;
        }
        if path.is_dir() {
            folders.push(path);
        } else {
            files.push(path);
        }
    }
    files.sort();
    folders.sort();
    Ok((files, folders))
}

/// What to call a folder as a class or a set.
pub(super) fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    extension.is_some_and(|extension| ENDINGS.contains(&extension.as_str()))
}

#[derive(Default)]
struct Found {
    images: Vec<PathBuf>,
    ignored: Vec<PathBuf>,
}

fn walk(folder: &Path, depth: usize, found: &mut Found) -> InputResult<()> {
    if depth > DEEPEST {
        return Err(InputError::data(
            folder,
            format!("more than {DEEPEST} folders within folders; does a link lead back?"),
        ));
    }
    let (files, folders) = entries(folder)?;
    let (images, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| is_image(path));
    found.images.extend(images);
    found.ignored.extend(others);
    folders.iter().try_for_each(|inside| walk(inside, depth + 1, found))
}

fn no_images(folder: &Path) -> InputError {
    InputError::data(folder, format!("no images in this folder; expected {FORMATS} files"))
}

/// All images below a folder, without labels.
pub(super) fn open_flat(folder: &Path) -> InputResult<Data> {
    let mut found = Found::default();
    walk(folder, 0, &mut found)?;
    if found.images.is_empty() {
        return Err(no_images(folder));
    }
    Ok(Data { ignored: found.ignored, ..Data::of_images(folder, found.images) })
}

/// The images of a folder, or those of its sub-folders with their classes.
pub(super) fn open_with_classes(folder: &Path, known: Option<&[String]>) -> InputResult<Data> {
    let (files, folders) = entries(folder)?;
    let (direct, ignored): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| is_image(path));
    if folders.is_empty() {
        if direct.is_empty() {
            return Err(no_images(folder));
        }
        return Ok(Data { ignored, ..Data::of_images(folder, direct) });
    }
    if let Some(loose) = direct.first() {
        return Err(InputError::data(
            folder,
            format!(
                "expected either images or a folder for each class, got both ({} and {})",
                name_of(loose),
                name_of(&folders[0])
            ),
        ));
    }
    let names: Vec<String> = folders.iter().map(|folder| name_of(folder)).collect();
    let classes: Vec<String> = known.map_or_else(|| names.clone(), <[String]>::to_vec);
    let mut found = Found { images: Vec::new(), ignored };
    let mut labels = Vec::new();
    for (inside, name) in folders.iter().zip(&names) {
        let Some(number) = classes.iter().position(|class| class == name) else {
            return Err(InputError::data(
                folder,
                format!(
                    "the folder `{name}` is none of the {} classes that the pack has already ({}, …)",
                    classes.len(),
                    classes[..classes.len().min(3)].join(", ")
                ),
            ));
        };
        walk(inside, 1, &mut found)?;
        labels.resize(found.images.len(), number as i64);
    }
    if found.images.is_empty() {
        return Err(no_images(folder));
    }
    Ok(Data {
        name: folder.display().to_string(),
        inputs: Inputs::Images(found.images),
        labels: Some(labels),
        classes: Some(classes),
        ignored: found.ignored,
    })
}
