//! The instructions of operations.

use iced_x86::Code;

use super::value::{Compare, Do, Kind};
use crate::scalar::ops::Rounding;

/// The instruction of an operation on vectors of 64 bytes (`wide`, AVX-512) or 32 (AVX2), if there is one.
#[rustfmt::skip]
pub fn code(what: Do, kind: Kind, wide: bool) -> Option<Code> {
    use Code::*;
    use Kind::{Long, Mask, Word};
    // Both instructions of an operation; `INVALID` stands for none.
    let (wider, narrower) = match (what, kind) {
        (Do::Add, Word) => (EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vaddps_ymm_ymm_ymmm256),
        (Do::Add, Long) => (EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er, VEX_Vaddpd_ymm_ymm_ymmm256),
        (Do::Sub, Word) => (EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vsubps_ymm_ymm_ymmm256),
        (Do::Sub, Long) => (EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er, VEX_Vsubpd_ymm_ymm_ymmm256),
        (Do::Mul, Word) => (EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vmulps_ymm_ymm_ymmm256),
        (Do::Mul, Long) => (EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er, VEX_Vmulpd_ymm_ymm_ymmm256),
        (Do::Div, Word) => (EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vdivps_ymm_ymm_ymmm256),
        (Do::Div, Long) => (EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er, VEX_Vdivpd_ymm_ymm_ymmm256),
        (Do::Lesser, Word) => (EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae, VEX_Vminps_ymm_ymm_ymmm256),
        (Do::Lesser, Long) => (EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae, VEX_Vminpd_ymm_ymm_ymmm256),
        (Do::Greater, Word) => (EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae, VEX_Vmaxps_ymm_ymm_ymmm256),
        (Do::Greater, Long) => (EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae, VEX_Vmaxpd_ymm_ymm_ymmm256),
        (Do::Scale, Word) => (EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er, INVALID),
        (Do::Scale, Long) => (EVEX_Vscalefpd_zmm_k1z_zmm_zmmm512b64_er, INVALID),
        (Do::Sqrt, Word) => (EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, VEX_Vsqrtps_ymm_ymmm256),
        (Do::Sqrt, Long) => (EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er, VEX_Vsqrtpd_ymm_ymmm256),
        (Do::Round(_), Word) => (EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, VEX_Vroundps_ymm_ymmm256_imm8),
        (Do::Round(_), Long) => (EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae, VEX_Vroundpd_ymm_ymmm256_imm8),
        (Do::ToFloat, Word) => (EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, VEX_Vcvtdq2ps_ymm_ymmm256),
        (Do::ToInt, Word) => (EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae, VEX_Vcvttps2dq_ymm_ymmm256),
        (Do::Widen, Long) => (EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae, VEX_Vcvtps2pd_ymm_xmmm128),
        (Do::Narrow, Word) => (EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er, VEX_Vcvtpd2ps_xmm_ymmm256),
        (Do::And, Word) => (EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, VEX_Vpand_ymm_ymm_ymmm256),
        (Do::And, Long) => (EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64, VEX_Vpand_ymm_ymm_ymmm256),
        (Do::Or, Word) => (EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, VEX_Vpor_ymm_ymm_ymmm256),
        (Do::Or, Long) => (EVEX_Vporq_zmm_k1z_zmm_zmmm512b64, VEX_Vpor_ymm_ymm_ymmm256),
        (Do::Xor, Word) => (EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, VEX_Vpxor_ymm_ymm_ymmm256),
        (Do::Xor, Long) => (EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64, VEX_Vpxor_ymm_ymm_ymmm256),
        (Do::Plus, Word) => (EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, VEX_Vpaddd_ymm_ymm_ymmm256),
        (Do::Plus, Long) => (EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, VEX_Vpaddq_ymm_ymm_ymmm256),
        (Do::Minus, Word) => (EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, VEX_Vpsubd_ymm_ymm_ymmm256),
        (Do::Minus, Long) => (EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64, VEX_Vpsubq_ymm_ymm_ymmm256),
        (Do::Times, Word) => (EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, VEX_Vpmulld_ymm_ymm_ymmm256),
        (Do::Times, Long) => (EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64, INVALID),
        (Do::ShiftLeftBy, Word) => (EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32, VEX_Vpsllvd_ymm_ymm_ymmm256),
        (Do::ShiftLeftBy, Long) => (EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64, VEX_Vpsllvq_ymm_ymm_ymmm256),
        (Do::ShiftRightBy, Word) => (EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32, VEX_Vpsrlvd_ymm_ymm_ymmm256),
        (Do::ShiftRightBy, Long) => (EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64, INVALID),
        (Do::ShiftSignedBy, Word) => (EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32, VEX_Vpsravd_ymm_ymm_ymmm256),
        (Do::ShiftSignedBy, Long) => (EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64, INVALID),
        (Do::Smaller, Word) => (EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32, VEX_Vpminsd_ymm_ymm_ymmm256),
        (Do::Smaller, Long) => (EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64, INVALID),
        (Do::Larger, Word) => (EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32, VEX_Vpmaxsd_ymm_ymm_ymmm256),
        (Do::Larger, Long) => (EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64, INVALID),
        (Do::SmallerUnsigned, Word) => (EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32, VEX_Vpminud_ymm_ymm_ymmm256),
        (Do::SmallerUnsigned, Long) => (EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64, INVALID),
        (Do::LargerUnsigned, Word) => (EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32, VEX_Vpmaxud_ymm_ymm_ymmm256),
        (Do::LargerUnsigned, Long) => (EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64, INVALID),
        (Do::ShiftLeft(_), Word) => (EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, VEX_Vpslld_ymm_ymm_imm8),
        (Do::ShiftLeft(_), Long) => (EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8, VEX_Vpsllq_ymm_ymm_imm8),
        (Do::ShiftRight(_), Word) => (EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, VEX_Vpsrld_ymm_ymm_imm8),
        (Do::ShiftRight(_), Long) => (EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8, VEX_Vpsrlq_ymm_ymm_imm8),
        (Do::MaskAnd, Mask) => (VEX_Kandw_kr_kr_kr, VEX_Vpand_ymm_ymm_ymmm256),
        (Do::MaskOr, Mask) => (VEX_Korw_kr_kr_kr, VEX_Vpor_ymm_ymm_ymmm256),
        (Do::MaskXor, Mask) => (VEX_Kxorw_kr_kr_kr, VEX_Vpxor_ymm_ymm_ymmm256),
        _ => return None,
    };
    Some(if wide { wider } else { narrower }).filter(|code| *code != INVALID)
}

/// The comparison of inputs of a kind, with its predicate.
#[rustfmt::skip]
pub fn comparison(what: Do, kind: Kind, wide: bool) -> Option<(Code, Option<u32>)> {
    let whole = |how| match how {
        Compare::Equal => 0,
        Compare::Less => 1,
        Compare::LessEqual => 2,
        Compare::Unequal => 4,
    };
    // The same predicates, without the signal of NaN for the orders.
    let float = |how| whole(how) | if matches!(how, Compare::Less | Compare::LessEqual) { 0x10 } else { 0 };
    Some(match (what, kind, wide) {
        (Do::Compare(how), Kind::Word, true) => (Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, Some(float(how))),
        (Do::Compare(how), Kind::Word, false) => (Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8, Some(float(how))),
        (Do::Compare(how), Kind::Long, true) => (Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, Some(float(how))),
        (Do::Compare(how), Kind::Long, false) => (Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8, Some(float(how))),
        (Do::CompareInt(how), Kind::Word, true) => (Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, Some(whole(how))),
        (Do::CompareUnsigned(how), Kind::Word, true) => (Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, Some(whole(how))),
        (Do::CompareInt(how), Kind::Long, true) => (Code::EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8, Some(whole(how))),
        (Do::CompareUnsigned(how), Kind::Long, true) => (Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8, Some(whole(how))),
        (Do::CompareInt(Compare::Equal), Kind::Long, false) => (Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256, None),
        (Do::CompareInt(Compare::Less), Kind::Long, false) => (Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256, None),
        (Do::CompareInt(Compare::Equal), Kind::Word, false) => (Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, None),
        // The operands are swapped: the instruction tests for "greater".
        (Do::CompareInt(Compare::Less), Kind::Word, false) => (Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256, None),
        _ => return None,
    })
}

/// The three forms of a fused multiply-add: 132, 213, 231.
pub fn fma(kind: Kind, wide: bool) -> [Code; 3] {
    match (kind, wide) {
        (Kind::Word | Kind::Mask, true) => [
            Code::EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
        ],
        (Kind::Word | Kind::Mask, false) => [
            Code::VEX_Vfmadd132ps_ymm_ymm_ymmm256,
            Code::VEX_Vfmadd213ps_ymm_ymm_ymmm256,
            Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256,
        ],
        (Kind::Long, true) => [
            Code::EVEX_Vfmadd132pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er,
        ],
        (Kind::Long, false) => [
            Code::VEX_Vfmadd132pd_ymm_ymm_ymmm256,
            Code::VEX_Vfmadd213pd_ymm_ymm_ymmm256,
            Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256,
        ],
    }
}

/// The immediate of a rounding; no instruction sets the flag of an inexact result.
pub fn rounding(how: Rounding) -> u32 {
    match how {
        Rounding::HalfToEven => 8,
        Rounding::Down => 9,
        Rounding::Up => 10,
    }
}
