//! The global allocator: records are allocated on one thread and freed on another, which the C library's allocator is slow at.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Has memory given by pages of 4 kB, and taken back by them, where the system would give 2 MB at a time (`transparent_hugepage`): the five
/// services under load take a third more memory with large pages, and are hardly faster. For the whole process, from now on.
pub(crate) fn use_small_pages() {
    // Kernels without such pages refuse, and need not be told.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
