//! The global allocator: records are allocated on one thread and freed on another, for which the C library's allocator is slow.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Makes the system give and take back memory in pages of 4 kB, even if it would otherwise use 2 MB (`transparent_hugepage`): with large pages the
/// five services under load take a third more memory and are hardly faster. Applies to the whole process from now on.
pub(crate) fn use_small_pages() {
    // Kernels without such pages refuse, which is fine.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
