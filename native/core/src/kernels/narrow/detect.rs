//! What a processor with AVX-512 has for products of narrow numbers.

/// Levels above AVX-512: 1 with VNNI, 2 with bf16, too, 3 with AMX, too.
#[cfg(target_arch = "x86_64")]
pub fn levels() -> usize {
    let vnni = is_x86_feature_detected!("avx512vnni");
    let bf16 = vnni && is_x86_feature_detected!("avx512bf16");
    let amx = bf16 && amx();
    [vnni, bf16, amx].into_iter().filter(|has| *has).count()
}

/// Whether there are AMX tiles of bf16 and of 8-bit integers, and the system lets this process use them.
#[cfg(target_arch = "x86_64")]
fn amx() -> bool {
    static AMX: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *AMX.get_or_init(|| {
        let leaves = std::arch::x86_64::__cpuid(0).eax;
        let features = if leaves >= 7 { std::arch::x86_64::__cpuid_count(7, 0).edx } else { 0 };
        let [bf16, tile, int8] = [22, 24, 25].map(|bit| features >> bit & 1 == 1);
        bf16 && tile && int8 && permitted()
    })
}

/// Asks the system for the state of tiles. All threads of the process get it; Linux refuses if a thread's signal stack is too small.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn permitted() -> bool {
    // `ARCH_REQ_XCOMP_PERM` and the number of the tile data's component, of `asm/prctl.h`.
    unsafe { libc::syscall(libc::SYS_arch_prctl, 0x1023, 18) == 0 }
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn permitted() -> bool {
    false
}
