//! Memory that JavaScript allocates for what it reads.

/// Tells glibc to keep freed blocks of up to 8 MiB, 32 MiB of them in all. An array for a result is new each time; in memory fresh from
/// the system its pages take many times as long as the copy. What the environment says about it goes first.
pub fn keep_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        extern "C" {
            fn mallopt(name: i32, value: i32) -> i32;
        }
        const TRIM_THRESHOLD: i32 = -1;
        const MMAP_THRESHOLD: i32 = -3;
        let said = ["GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"];
        if said.iter().all(|name| std::env::var_os(name).is_none()) {
            unsafe {
                mallopt(MMAP_THRESHOLD, 8 << 20);
                mallopt(TRIM_THRESHOLD, 32 << 20);
            }
        }
    }
}
