//! Memory does not depend on the processor's caches: a fit where the third level claims 64 GiB.

use std::process::Command;

use crate::util::Place;

/// Answers whoever asks for the size of the third-level cache with the file `size`, and leaves a witness.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#define OPEN(NAME)                                                             \
    int NAME(const char *path, int flags, ...) {                               \
        static int (*next)(const char *, int, ...);                            \
        if (!next) next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #NAME); \
        va_list more;                                                          \
        va_start(more, flags);                                                 \
        int mode = va_arg(more, int);                                          \
        va_end(more);                                                          \
        const char *size = "/cache/index3/size";                               \
        size_t length = strlen(path), tail = strlen(size);                     \
        if (length > tail && !strcmp(path + length - tail, size)) {            \
            next("asked", O_CREAT | O_WRONLY, 0644);                           \
            return next("size", O_RDONLY);                                     \
        }                                                                      \
        return next(path, flags, mode);                                        \
    }
OPEN(open)
OPEN(open64)
"#;

#[test]
fn a_fit_takes_no_more_memory_on_a_processor_with_a_huge_cache() {
    let place = Place::new();
    place.write("shim.c", SHIM);
    place.write("size", "67108864K\n");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"]);
    let compiled = compiler.current_dir(place.path(".")).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    place.run("synth --rows 3000 --width 256 -o rows.npy").fine();

    let fit = "fit rows.npy --method kpca-nys --landmarks 512 --sampling uniform";
    place.run(&format!("{fit} -o usual")).fine();
    // 400 MB for data, of which a fit of this size takes a small part.
    let limited = "ulimit -d 400000; LD_PRELOAD=$PWD/shim.so exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_offspan")]).current_dir(place.path("."));
    command.args(format!("{fit} -o net").split(' '));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(place.has("asked"), "nobody asked for the size of the cache: this test proves nothing");
    assert!(place.read("net") == place.read("usual"), "the cache's size changed the detector");
}
