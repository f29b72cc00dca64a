//! Instruction sets: one value chosen per device, and the entry points that are compiled once for each.

use crate::kernels::narrow::detect;
use crate::{bail, Result};

/// From the least to the best; those above AVX-512 have more for products of narrow numbers (`kernels/narrow`), and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    Scalar,
    Avx2,
    Avx512,
    /// Products of 8-bit integers.
    Vnni,
    /// Products of bf16, too.
    Bf16,
    /// Products of tiles of both.
    Amx,
}

const NAMES: [(Isa, &str); 6] = [
    (Isa::Scalar, "scalar"),
    (Isa::Avx2, "avx2"),
    (Isa::Avx512, "avx512"),
    (Isa::Vnni, "avx512vnni"),
    (Isa::Bf16, "avx512bf16"),
    (Isa::Amx, "amx"),
];

#[cfg(target_arch = "x86_64")]
macro_rules! has {
    ($($feature:tt),+) => { $(is_x86_feature_detected!($feature))&&+ };
}

impl Isa {
    /// The best set of this processor.
    pub fn detect() -> Isa {
        // F16C converts f16; all processors with AVX2 have it.
        #[cfg(target_arch = "x86_64")]
        if has!("avx2", "fma", "bmi1", "bmi2", "f16c") {
            let wide = has!("avx512f", "avx512vl", "avx512bw", "avx512dq");
            return if wide { NAMES[Isa::Avx512 as usize + detect::levels()].0 } else { Isa::Avx2 };
        }
        Isa::Scalar
    }

    /// The instruction set of this name, else that of `HEDDLE_ISA`, else the best set.
    pub fn choose(name: Option<&str>) -> Result<Isa> {
        let from_env = std::env::var("HEDDLE_ISA").ok();
        let best = Isa::detect();
        let Some(name) = name.or(from_env.as_deref()).filter(|name| !name.is_empty()) else { return Ok(best) };
        let Some((wanted, _)) = NAMES.into_iter().find(|(_, known)| *known == name) else {
            bail!("unknown instruction set \"{name}\": use one of {}", NAMES.map(|(_, known)| known).join(", "));
        };
        if wanted > best {
            bail!("this processor does not have {name}: its best set is {}", best.name());
        }
        Ok(wanted)
    }

    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// All sets that this processor can run.
    pub fn available() -> Vec<Isa> {
        NAMES.into_iter().map(|(isa, _)| isa).filter(|isa| *isa <= Isa::detect()).collect()
    }

    /// The set as kernels of other numbers see it: AVX-512 at most.
    pub fn general(self) -> Isa {
        self.min(Isa::Avx512)
    }
}

/// The instruction set that a kernel body is compiled for.
pub trait Level: Copy + 'static {
    const FMA: bool;
}

#[derive(Clone, Copy)]
pub struct Scalar;
#[derive(Clone, Copy)]
pub struct Avx2;
#[derive(Clone, Copy)]
pub struct Avx512;

impl Level for Scalar {
    /// Every arm64 processor fuses a product with a sum, which gives the bits of AVX2 and AVX-512.
    const FMA: bool = cfg!(target_arch = "aarch64");
}
impl Level for Avx2 {
    const FMA: bool = true;
}
impl Level for Avx512 {
    const FMA: bool = true;
}

/// Declares `fn name(isa, args…)` that runs an `#[inline(always)]` body compiled for each instruction set. With the condition
/// `wide`, only types that meet it get code for AVX-512; other types run the AVX2 code. With the condition `vector`, types that do
/// not meet it run the scalar code.
macro_rules! by_isa {
    ($(#[$m:meta])* $vis:vis fn $name:ident $(<$($g:ident: $b:path),+>)? ($($a:ident: $t:ty),* $(,)?) $(-> $r:ty)? => $body:ident) => {
        $crate::isa::by_isa! { $(#[$m])* $vis fn $name $(<$($g: $b),+>)? ($($a: $t),*) $(-> $r)? => $body, wide if true, vector if true }
    };
    ($(#[$m:meta])* $vis:vis fn $name:ident $(<$($g:ident: $b:path),+>)? ($($a:ident: $t:ty),* $(,)?) $(-> $r:ty)? => $body:ident, wide if $wide:expr) => {
        $crate::isa::by_isa! { $(#[$m])* $vis fn $name $(<$($g: $b),+>)? ($($a: $t),*) $(-> $r)? => $body, wide if $wide, vector if true }
    };
    ($(#[$m:meta])* $vis:vis fn $name:ident $(<$($g:ident: $b:path),+>)? ($($a:ident: $t:ty),* $(,)?) $(-> $r:ty)? => $body:ident, wide if $wide:expr, vector if $vector:expr) => {
        $(#[$m])*
        $vis unsafe fn $name $(<$($g: $b),+>)? (isa: $crate::isa::Isa, $($a: $t),*) $(-> $r)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,bmi1,bmi2")]
            unsafe fn avx2 $(<$($g: $b),+>)? ($($a: $t),*) $(-> $r)? {
                $body::<$crate::isa::Avx2 $($(, $g)+)?>($($a),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2")]
            unsafe fn avx512 $(<$($g: $b),+>)? ($($a: $t),*) $(-> $r)? {
                $body::<$crate::isa::Avx512 $($(, $g)+)?>($($a),*)
            }
            match isa.general() {
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Isa::Avx512 if $wide => avx512 $(::<$($g),+>)? ($($a),*),
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Isa::Avx512 | $crate::isa::Isa::Avx2 if $vector => avx2 $(::<$($g),+>)? ($($a),*),
                _ => $body::<$crate::isa::Scalar $($(, $g)+)?>($($a),*),
            }
        }
    };
}
pub(crate) use by_isa;
