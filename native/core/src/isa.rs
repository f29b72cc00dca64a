//! Instruction sets: one value chosen per device, and the entry points that are compiled once for each.

use crate::{bail, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    Scalar,
    Avx2,
    Avx512,
}

impl Isa {
    /// The best set of this processor.
    pub fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let bmi = is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2");
            // F16C converts f16; all processors with AVX2 have it.
            let avx2 = avx2 && is_x86_feature_detected!("f16c");
            let foundation = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl");
            if avx2 && bmi && foundation && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq")
            {
                return Isa::Avx512;
            }
            if avx2 && bmi {
                return Isa::Avx2;
            }
        }
        Isa::Scalar
    }

    /// The instruction set of this name, else that of `HEDDLE_ISA`, else the best set.
    pub fn choose(name: Option<&str>) -> Result<Isa> {
        let from_env = std::env::var("HEDDLE_ISA").ok();
        let best = Isa::detect();
        let wanted = match name.or(from_env.as_deref()) {
            None | Some("") => return Ok(best),
            Some("scalar") => Isa::Scalar,
            Some("avx2") => Isa::Avx2,
            Some("avx512") => Isa::Avx512,
            Some(other) => bail!("unknown instruction set \"{other}\": use scalar, avx2 or avx512"),
        };
        if wanted > best {
            bail!("this processor does not have {}: its best set is {}", wanted.name(), best.name());
        }
        Ok(wanted)
    }

    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// All sets that this processor can run.
    pub fn available() -> Vec<Isa> {
        [Isa::Scalar, Isa::Avx2, Isa::Avx512].into_iter().filter(|isa| *isa <= Isa::detect()).collect()
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
            match isa {
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
