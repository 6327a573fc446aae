//! The global allocator: records are allocated on one thread and freed on another, which the C library's allocator is slow at.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
