//! Which instruction does an operation.

use iced_x86::Code;

use super::value::{Compare, Do, Kind};
use crate::scalar::ops::Rounding;

/// The instruction of an operation on vectors of 64 bytes (`wide`, AVX-512) or 32 (AVX2), if there is one.
pub fn code(what: Do, kind: Kind, wide: bool) -> Option<Code> {
    float(what, kind, wide).or_else(|| integer(what, kind, wide))
}

#[rustfmt::skip]
fn float(what: Do, kind: Kind, wide: bool) -> Option<Code> {
    Some(match (what, kind, wide) {
        (Do::Add, Kind::Word, true) => Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
        (Do::Add, Kind::Word, false) => Code::VEX_Vaddps_ymm_ymm_ymmm256,
        (Do::Add, Kind::Long, true) => Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er,
        (Do::Add, Kind::Long, false) => Code::VEX_Vaddpd_ymm_ymm_ymmm256,
        (Do::Sub, Kind::Word, true) => Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
        (Do::Sub, Kind::Word, false) => Code::VEX_Vsubps_ymm_ymm_ymmm256,
        (Do::Sub, Kind::Long, true) => Code::EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er,
        (Do::Sub, Kind::Long, false) => Code::VEX_Vsubpd_ymm_ymm_ymmm256,
        (Do::Mul, Kind::Word, true) => Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
        (Do::Mul, Kind::Word, false) => Code::VEX_Vmulps_ymm_ymm_ymmm256,
        (Do::Mul, Kind::Long, true) => Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er,
        (Do::Mul, Kind::Long, false) => Code::VEX_Vmulpd_ymm_ymm_ymmm256,
        (Do::Div, Kind::Word, true) => Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
        (Do::Div, Kind::Word, false) => Code::VEX_Vdivps_ymm_ymm_ymmm256,
        (Do::Div, Kind::Long, true) => Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er,
        (Do::Div, Kind::Long, false) => Code::VEX_Vdivpd_ymm_ymm_ymmm256,
        (Do::Lesser, Kind::Word, true) => Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
        (Do::Lesser, Kind::Word, false) => Code::VEX_Vminps_ymm_ymm_ymmm256,
        (Do::Lesser, Kind::Long, true) => Code::EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae,
        (Do::Lesser, Kind::Long, false) => Code::VEX_Vminpd_ymm_ymm_ymmm256,
        (Do::Greater, Kind::Word, true) => Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
        (Do::Greater, Kind::Word, false) => Code::VEX_Vmaxps_ymm_ymm_ymmm256,
        (Do::Greater, Kind::Long, true) => Code::EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae,
        (Do::Greater, Kind::Long, false) => Code::VEX_Vmaxpd_ymm_ymm_ymmm256,
        (Do::Scale, Kind::Word, true) => Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er,
        (Do::Scale, Kind::Long, true) => Code::EVEX_Vscalefpd_zmm_k1z_zmm_zmmm512b64_er,
        (Do::Sqrt, Kind::Word, true) => Code::EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er,
        (Do::Sqrt, Kind::Word, false) => Code::VEX_Vsqrtps_ymm_ymmm256,
        (Do::Sqrt, Kind::Long, true) => Code::EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er,
        (Do::Sqrt, Kind::Long, false) => Code::VEX_Vsqrtpd_ymm_ymmm256,
        (Do::Round(_), Kind::Word, true) => Code::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae,
        (Do::Round(_), Kind::Word, false) => Code::VEX_Vroundps_ymm_ymmm256_imm8,
        (Do::Round(_), Kind::Long, true) => Code::EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae,
        (Do::Round(_), Kind::Long, false) => Code::VEX_Vroundpd_ymm_ymmm256_imm8,
        (Do::ToFloat, Kind::Word, true) => Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er,
        (Do::ToFloat, Kind::Word, false) => Code::VEX_Vcvtdq2ps_ymm_ymmm256,
        (Do::ToInt, Kind::Word, true) => Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae,
        (Do::ToInt, Kind::Word, false) => Code::VEX_Vcvttps2dq_ymm_ymmm256,
        (Do::Widen, Kind::Long, true) => Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae,
        (Do::Widen, Kind::Long, false) => Code::VEX_Vcvtps2pd_ymm_xmmm128,
        (Do::Narrow, Kind::Word, true) => Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er,
        (Do::Narrow, Kind::Word, false) => Code::VEX_Vcvtpd2ps_xmm_ymmm256,
        _ => return None,
    })
}

#[rustfmt::skip]
fn integer(what: Do, kind: Kind, wide: bool) -> Option<Code> {
    Some(match (what, kind, wide) {
        (Do::And, Kind::Word, true) => Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
        (Do::And, Kind::Word, false) => Code::VEX_Vpand_ymm_ymm_ymmm256,
        (Do::And, Kind::Long, true) => Code::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64,
        (Do::And, Kind::Long, false) => Code::VEX_Vpand_ymm_ymm_ymmm256,
        (Do::Or, Kind::Word, true) => Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
        (Do::Or, Kind::Word, false) => Code::VEX_Vpor_ymm_ymm_ymmm256,
        (Do::Or, Kind::Long, true) => Code::EVEX_Vporq_zmm_k1z_zmm_zmmm512b64,
        (Do::Or, Kind::Long, false) => Code::VEX_Vpor_ymm_ymm_ymmm256,
        (Do::Xor, Kind::Word, true) => Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
        (Do::Xor, Kind::Word, false) => Code::VEX_Vpxor_ymm_ymm_ymmm256,
        (Do::Xor, Kind::Long, true) => Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64,
        (Do::Xor, Kind::Long, false) => Code::VEX_Vpxor_ymm_ymm_ymmm256,
        (Do::Plus, Kind::Word, true) => Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
        (Do::Plus, Kind::Word, false) => Code::VEX_Vpaddd_ymm_ymm_ymmm256,
        (Do::Plus, Kind::Long, true) => Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
        (Do::Plus, Kind::Long, false) => Code::VEX_Vpaddq_ymm_ymm_ymmm256,
        (Do::Minus, Kind::Word, true) => Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
        (Do::Minus, Kind::Word, false) => Code::VEX_Vpsubd_ymm_ymm_ymmm256,
        (Do::Minus, Kind::Long, true) => Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64,
        (Do::Minus, Kind::Long, false) => Code::VEX_Vpsubq_ymm_ymm_ymmm256,
        (Do::Times, Kind::Word, true) => Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32,
        (Do::Times, Kind::Word, false) => Code::VEX_Vpmulld_ymm_ymm_ymmm256,
        (Do::Times, Kind::Long, true) => Code::EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64,
        (Do::ShiftLeftBy, Kind::Long, true) => Code::EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64,
        (Do::ShiftLeftBy, Kind::Long, false) => Code::VEX_Vpsllvq_ymm_ymm_ymmm256,
        (Do::ShiftRightBy, Kind::Long, true) => Code::EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64,
        (Do::ShiftSignedBy, Kind::Long, true) => Code::EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64,
        (Do::Smaller, Kind::Long, true) => Code::EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64,
        (Do::Larger, Kind::Long, true) => Code::EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64,
        (Do::SmallerUnsigned, Kind::Long, true) => Code::EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64,
        (Do::LargerUnsigned, Kind::Long, true) => Code::EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64,
        (Do::ShiftLeftBy, Kind::Word, true) => Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
        (Do::ShiftLeftBy, Kind::Word, false) => Code::VEX_Vpsllvd_ymm_ymm_ymmm256,
        (Do::ShiftRightBy, Kind::Word, true) => Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
        (Do::ShiftRightBy, Kind::Word, false) => Code::VEX_Vpsrlvd_ymm_ymm_ymmm256,
        (Do::ShiftSignedBy, Kind::Word, true) => Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
        (Do::ShiftSignedBy, Kind::Word, false) => Code::VEX_Vpsravd_ymm_ymm_ymmm256,
        (Do::Smaller, Kind::Word, true) => Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
        (Do::Smaller, Kind::Word, false) => Code::VEX_Vpminsd_ymm_ymm_ymmm256,
        (Do::Larger, Kind::Word, true) => Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
        (Do::Larger, Kind::Word, false) => Code::VEX_Vpmaxsd_ymm_ymm_ymmm256,
        (Do::SmallerUnsigned, Kind::Word, true) => Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
        (Do::SmallerUnsigned, Kind::Word, false) => Code::VEX_Vpminud_ymm_ymm_ymmm256,
        (Do::LargerUnsigned, Kind::Word, true) => Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
        (Do::LargerUnsigned, Kind::Word, false) => Code::VEX_Vpmaxud_ymm_ymm_ymmm256,
        (Do::ShiftLeft(_), Kind::Word, true) => Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8,
        (Do::ShiftLeft(_), Kind::Word, false) => Code::VEX_Vpslld_ymm_ymm_imm8,
        (Do::ShiftLeft(_), Kind::Long, true) => Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8,
        (Do::ShiftLeft(_), Kind::Long, false) => Code::VEX_Vpsllq_ymm_ymm_imm8,
        (Do::ShiftRight(_), Kind::Word, true) => Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8,
        (Do::ShiftRight(_), Kind::Word, false) => Code::VEX_Vpsrld_ymm_ymm_imm8,
        (Do::ShiftRight(_), Kind::Long, true) => Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8,
        (Do::ShiftRight(_), Kind::Long, false) => Code::VEX_Vpsrlq_ymm_ymm_imm8,
        (Do::MaskAnd, Kind::Mask, true) => Code::VEX_Kandw_kr_kr_kr,
        (Do::MaskAnd, Kind::Mask, false) => Code::VEX_Vpand_ymm_ymm_ymmm256,
        (Do::MaskOr, Kind::Mask, true) => Code::VEX_Korw_kr_kr_kr,
        (Do::MaskOr, Kind::Mask, false) => Code::VEX_Vpor_ymm_ymm_ymmm256,
        (Do::MaskXor, Kind::Mask, true) => Code::VEX_Kxorw_kr_kr_kr,
        (Do::MaskXor, Kind::Mask, false) => Code::VEX_Vpxor_ymm_ymm_ymmm256,
        _ => return None,
    })
}

/// The comparison of inputs of a kind, with its predicate.
#[rustfmt::skip]
pub fn comparison(what: Do, kind: Kind, wide: bool) -> Option<(Code, Option<u32>)> {
    let float = |how| match how {
        Compare::Equal => 0x00,
        Compare::Less => 0x11,
        Compare::LessEqual => 0x12,
        Compare::Unequal => 0x04,
    };
    let whole = |how| match how {
        Compare::Equal => 0,
        Compare::Less => 1,
        Compare::LessEqual => 2,
        Compare::Unequal => 4,
    };
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
        // Its operands change places: it tests for "greater".
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
