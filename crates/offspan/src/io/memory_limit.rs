//! How much memory this process may still take: what limits leave, and what the machine has.

use std::path::Path;

/// A limit, and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryLimit {
    /// Bytes that can still be had.
    pub available: u64,
    /// What sets the limit.
    pub set_by: &'static str,
}

/// The tightest limit of this process, of which what the machine has free is one; none if the system does not tell.
#[must_use]
pub fn memory_limit() -> Option<MemoryLimit> {
    let limit = |available: Option<u64>, set_by| {
        available.map(|available| MemoryLimit { available, set_by })
    };
    let limits = [
        limit(address_space(), "RLIMIT_AS (ulimit -v)"),
        limit(control_group(), "its control group"),
        limit(machine(), "the free memory of this machine"),
    ];
    limits.into_iter().flatten().min_by_key(|limit| limit.available)
}

/// What the machine can still give, with what it can swap out.
fn machine() -> Option<u64> {
    free_memory(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn free_memory(meminfo: &str) -> Option<u64> {
    let kilobytes = number_after(meminfo, "MemAvailable:")?
        .saturating_add(number_after(meminfo, "SwapFree:").unwrap_or(0));
    Some(kilobytes.saturating_mul(1024))
}

/// What is left of the address space.
fn address_space() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(soft_limit(&limits)?.saturating_sub(1024 * number_after(&status, "VmSize:")?))
}

fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    // `unlimited` is no number.
    line.split_whitespace().next()?.parse().ok()
}

fn number_after(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_whitespace().next()?.parse().ok()
}

/// What is left to the control group and to those around it.
fn control_group() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let root = Path::new("/sys/fs/cgroup");
    let version_2 =
        own.lines().find_map(|line| line.strip_prefix("0::/")).map(|path| root.join(path));
    let version_1 = own.lines().find_map(|line| line.split_once(":memory:/"));
    let version_1 = version_1.map(|(_, path)| root.join("memory").join(path));
    let left = [
        version_2.and_then(|group| tightest(root, &group, &VERSION_2)),
        version_1.and_then(|group| tightest(&root.join("memory"), &group, &VERSION_1)),
    ];
    left.into_iter().flatten().min()
}

/// The files of a control group: its limit, what it takes, and a line for what of that can be taken back.
struct Names {
    limit: &'static str,
    taken: &'static str,
    reclaimable: &'static str,
}

const VERSION_2: Names =
    Names { limit: "memory.max", taken: "memory.current", reclaimable: "inactive_file" };
const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    taken: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};

/// Where there is no limit, version 1 has a number that no machine reaches.
const NO_LIMIT: u64 = 1 << 60;

fn tightest(root: &Path, group: &Path, names: &Names) -> Option<u64> {
    let number = |folder: &Path, name: &str| {
        std::fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok()
    };
    let left =
        group.ancestors().take_while(|folder| folder.starts_with(root)).filter_map(|folder| {
            let limit = number(folder, names.limit).filter(|&limit| limit < NO_LIMIT)?;
            let statistics =
                std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
            let reclaimable = number_after(&statistics, names.reclaimable).unwrap_or(0);
            let taken = number(folder, names.taken)?.saturating_sub(reclaimable);
            Some(limit.saturating_sub(taken))
        });
    left.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_space_is_read_as_the_system_writes_it() {
        let line = |soft: &str| {
            format!(
                "Limit   Soft Limit  Hard Limit  Units\nMax address space  {soft}  unlimited  bytes\n"
            )
        };
        assert_eq!(soft_limit(&line("1048576")), Some(1_048_576));
        assert_eq!(soft_limit(&line("unlimited")), None);
        assert_eq!(number_after("VmPeak:\t 9 kB\nVmSize:\t  1234 kB\n", "VmSize:"), Some(1234));
    }

    #[test]
    fn what_the_machine_has_free_counts_with_what_it_can_swap_out() {
        let text = "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:  3000 kB\nSwapCached: 7 kB\nSwapFree:  500 kB\n";
        assert_eq!(free_memory(text), Some(3500 * 1024));
        assert_eq!(free_memory("MemAvailable:  3000 kB\n"), Some(3000 * 1024));
        assert_eq!(free_memory("MemTotal:  9000 kB\n"), None, "an old kernel does not tell");
        #[cfg(target_os = "linux")]
        assert!(memory_limit().is_some_and(|limit| limit.available < 1 << 50));
    }

    #[test]
    fn the_tightest_of_nested_groups_counts_and_caches_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path().join("a"), folder.path().join("a/b"));
        std::fs::create_dir_all(&inner).unwrap();
        let put = |folder: &Path, name: &str, text: &str| {
            std::fs::write(folder.join(name), text).unwrap();
        };
        put(&outer, "memory.max", "1000\n");
        put(&outer, "memory.current", "900\n");
        put(&outer, "memory.stat", "anon 1\ninactive_file 600\n");
        put(&inner, "memory.max", "max\n");
        assert_eq!(tightest(folder.path(), &inner, &VERSION_2), Some(700));
        put(&inner, "memory.max", "500\n");
        put(&inner, "memory.current", "450\n");
        assert_eq!(tightest(folder.path(), &inner, &VERSION_2), Some(50));
    }
}
