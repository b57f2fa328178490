//! One program for all targets: `OFFSPAN_FUZZ_TARGET` names the one to run.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use offspan_fuzz::mutate::mutated;
use offspan_fuzz::targets::{TARGETS, Target, named};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("OFFSPAN_FUZZ_TARGET").unwrap_or_default();
    named(&name).unwrap_or_else(|| {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        panic!("OFFSPAN_FUZZ_TARGET: expected one of {}, got `{name}`", known.join(", "))
    })
});

fuzz_target!(|input: &[u8]| (TARGET.run)(input));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    // Now and then plain bytes: the parser of the header is a target, too.
    if TARGET.is_document
        && seed % 8 != 0
        && let Some(new) = mutated(&data[..size], u64::from(seed))
        && new.len() <= max_size
    {
        data[..new.len()].copy_from_slice(&new);
        return new.len();
    }
    fuzzer_mutate(data, size, max_size)
});
