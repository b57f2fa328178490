//! The library's modules lie in layers, and a module uses its own layer and those below it only. This
//! reads every path in the source that begins with `crate::` or climbs by `super::`.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// From the bottom up; `docs/architecture.md` shows them.
const LAYERS: [&str; 11] = [
    "error",
    "numeric",
    "graph",
    "io",
    "span",
    "training",
    "methods",
    "metrics",
    "calibrate",
    "detector",
    "monitor",
];
const MOST_AT_THE_ROOT: usize = 12;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The code without comments, text in quotes, and spaces around `::`.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join(" ").replace(":: ", "::").replace(" ::", "::")
}

/// The first names of what follows a path: one, or those of a list in braces.
fn names(rest: &str) -> Vec<String> {
    let word = |text: &str| {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect::<String>()
    };
    let Some(list) = rest.trim_start().strip_prefix('{') else { return vec![word(rest)] };
    let (mut found, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                found.push(word(&list[begin..at]));
                begin = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

/// The layer in which each name lies that `lib.rs` hands on.
fn handed_on() -> BTreeMap<String, String> {
    let text = code(&std::fs::read_to_string(source().join("lib.rs")).unwrap());
    let mut found = BTreeMap::new();
    for (at, _) in text.match_indices("pub use ") {
        let path = &text[at + "pub use ".len()..text[at..].find(';').unwrap() + at];
        let (modules, last) =
            path.rsplit_once("::").map_or((path, path), |(modules, last)| match path.find('{') {
                Some(brace) => (path[..brace].trim_end_matches("::"), &path[brace..]),
                None => (modules, last),
            });
        let layer = modules.split("::").next().unwrap().to_owned();
        found.extend(names(last).into_iter().map(|name| (name, layer.clone())));
    }
    found
}

/// Layers that the file names.
fn used(file: &Path, handed_on: &BTreeMap<String, String>) -> BTreeSet<String> {
    let text = code(&std::fs::read_to_string(file).unwrap());
    let folders = file.strip_prefix(source()).unwrap().components().count() - 1;
    let is_folder = file.file_name().is_some_and(|name| name == "mod.rs");
    // So many steps up from this module, or from a module inside it, are at the root.
    let to_root = if is_folder { folders } else { folders + 1 };
    let mut found = BTreeSet::new();
    let climbs = [to_root, to_root + 1].map(|steps| "super::".repeat(steps));
    for path in ["crate::".to_owned()].into_iter().chain(climbs) {
        for (at, _) in text.match_indices(&path) {
            let continues = text[..at].ends_with("super::") || text[..at].ends_with("$");
            if continues || (path != "crate::" && text[at + path.len()..].starts_with("super::")) {
                continue;
            }
            found.extend(names(&text[at + path.len()..]));
        }
    }
    found.into_iter().map(|name| handed_on.get(&name).cloned().unwrap_or(name)).collect()
}

fn height(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|known| *known == layer)
}

#[test]
fn no_module_uses_a_layer_above_it() {
    let handed_on = handed_on();
    assert_eq!(handed_on.get("Error").map(String::as_str), Some("error"), "lib.rs is understood");
    assert_eq!(handed_on.get("Detector").map(String::as_str), Some("detector"));
    let mut upwards = Vec::new();
    let mut edges = 0;
    for file in files(&source()) {
        let place = file.strip_prefix(source()).unwrap().to_owned();
        let layer = place.components().next().unwrap().as_os_str().to_str().unwrap().to_owned();
        if layer == "lib.rs" {
            continue;
        }
        let own = height(&layer).unwrap_or_else(|| panic!("{layer} is none of the layers"));
        for name in used(&file, &handed_on) {
            if let Some(other) = height(&name) {
                edges += 1;
                if other > own {
                    upwards.push(format!("{} uses {name}", place.display()));
                }
            }
        }
    }
    assert!(edges > 300, "only {edges} uses were found");
    assert!(upwards.is_empty(), "uses of a layer above:\n{}", upwards.join("\n"));
}

#[test]
fn the_root_stays_small() {
    let entries = std::fs::read_dir(source()).unwrap().count();
    assert!(entries <= MOST_AT_THE_ROOT, "{entries} files and folders at the root of the library");
}

#[test]
fn uses_in_any_form_are_seen() {
    assert_eq!(names("io::{a, b}"), ["io"]);
    assert_eq!(names("{Error, io::{self, Dataset}, numeric::vector}"), ["Error", "io", "numeric"]);
    assert_eq!(code("use crate::{ // io\n    Error };"), "use crate::{      Error };");
}
