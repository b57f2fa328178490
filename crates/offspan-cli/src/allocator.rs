//! Memory that cannot be had ends the program with a sentence and exit code 2, as any other error, and not with an abort.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

#[global_allocator]
static ALLOCATOR: Telling = Telling;

/// The system's allocator, which tells when it has nothing left.
struct Telling;

// SAFETY: every call is handed to the system's allocator as it is, and its answer is handed back; where that is null, the
// process ends.
unsafe impl GlobalAlloc for Telling {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        told(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        told(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        told(unsafe { System.realloc(memory, layout, size) }, size)
    }
}

fn told(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        out_of_memory(size);
    }
    memory
}

/// Set while the end is told: telling takes memory, too.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Files are written without a name or beside their place, so nothing half-written stays.
#[cold]
fn out_of_memory(size: usize) {
    if ENDING.swap(true, Ordering::SeqCst) {
        // Whoever asked for memory to tell of it does without.
        return;
    }
    let _ = writeln!(
        std::io::stderr(),
        "error: out of memory: {size} bytes more could not be had (`offspan fit --dry-run` tells what a fit takes)"
    );
    std::process::exit(2);
}
