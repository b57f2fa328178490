//! The header says what the sources say.
//!
//! `OFFSPAN_WRITE_HEADER=1 cargo test -p offspan-capi --test header` writes it anew.

#![allow(clippy::unwrap_used)]

use std::path::Path;

/// The sources with something to declare, in the order of the header.
const SOURCES: [&str; 3] = ["failure.rs", "detector.rs", "score.rs"];

#[test]
fn the_header_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let sources = SOURCES.map(|name| folder.join("src").join(name));
    let builder = sources.iter().fold(cbindgen::Builder::new(), cbindgen::Builder::with_src);
    let mut generated = Vec::new();
    builder.with_config(config).generate().unwrap().write(&mut generated);
    let generated = String::from_utf8(generated).unwrap();

    let path = folder.join("include").join("offspan.h");
    if std::env::var_os("OFFSPAN_WRITE_HEADER").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        written == generated,
        "include/offspan.h is not what the sources say; write it anew with \
         OFFSPAN_WRITE_HEADER=1 cargo test -p offspan-capi --test header"
    );
    let exported = generated.matches(" offspan_").count() + generated.matches("*offspan_").count();
    assert!(exported >= 13, "the header declares {exported} things only");
}
