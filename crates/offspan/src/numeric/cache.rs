//! The caches that the processor reports, from which sizes of blocks follow. Results do not depend on
//! them: what a block holds is decided here, in which order numbers are added is not.

use std::sync::OnceLock;

/// Where nothing is reported: what a core of today has at least.
const USUAL: usize = 512 << 10;

/// Bytes of the second-level cache of a core.
pub(crate) fn second_level() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| reported().unwrap_or(USUAL))
}

#[cfg(target_arch = "x86_64")]
fn reported() -> Option<usize> {
    let caches = raw_cpuid::CpuId::new().get_cache_parameters()?;
    let mut second = caches.filter(|cache| cache.level() == 2);
    let cache = second.next()?;
    let lines = cache.associativity() * cache.physical_line_partitions() * cache.sets();
    // A virtual machine may report nonsense.
    Some(lines * cache.coherency_line_size()).filter(|bytes| (64 << 10..64 << 20).contains(bytes))
}

#[cfg(not(target_arch = "x86_64"))]
fn reported() -> Option<usize> {
    None
}
