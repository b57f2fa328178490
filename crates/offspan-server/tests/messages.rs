//! Writes `src/grpc/messages.rs` anew from the .proto file: `cargo test -p offspan-server --features protox --test messages -- --ignored`.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

#[test]
#[ignore = "writes a source file; run it when the .proto has changed"]
fn write_messages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("proto");
    let proto = folder.join("open_inference.proto");
    let set = protox::compile([&proto], [&folder]).expect("the .proto is well-formed");
    let out = tempfile::tempdir().expect("a temporary folder");
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .codec_path("crate::grpc::codec::Weighed")
        // Bytes are handed on, not copied.
        .bytes(".")
        .emit_rerun_if_changed(false)
        .out_dir(out.path())
        .compile_fds(set)
        .expect("code for the messages");
    let code = std::fs::read_to_string(out.path().join("inference.rs")).expect("the code");
    let hash = xxh3_128(&std::fs::read(&proto).expect("the .proto"));
    let text = format!("// From open_inference.proto, xxh3-128 {hash:032x}.\n{code}");
    std::fs::write(root.join("src/grpc/messages.rs"), text).expect("a file that can be written");
}
