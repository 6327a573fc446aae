//! Who hands memory out: records go from thread to thread by the million, which the C library's allocator is slow at.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
