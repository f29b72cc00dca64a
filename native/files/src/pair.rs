//! Two SHA-256 at once by the instructions of x86-64: a pair takes little longer than one, since each round waits for the one before it.
//! The rounds follow Intel's "New Instructions Supporting the Secure Hash Algorithm" (2013).

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
pub fn is_there() -> bool {
    // SHA comes with SSSE3; the standard library remembers the answer.
    is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1") && is_x86_feature_detected!("ssse3")
}

#[cfg(not(target_arch = "x86_64"))]
pub fn is_there() -> bool {
    false
}

/// # Safety
/// `is_there` must have said so.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn compress(_states: [&mut [u32; 8]; 2], _texts: [&[u8]; 2]) {
    unreachable!("only processors that have the instructions");
}

#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
static ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// Takes the whole blocks of two texts of one length into their states.
///
/// # Safety
/// The processor must have the instructions, and the texts must have equal lengths.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub unsafe fn compress(states: [&mut [u32; 8]; 2], texts: [&[u8]; 2]) {
    // Words are big-endian.
    let order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    let zeros = [_mm_setzero_si128(); 2];
    // The instructions take the words of a state in this order: a, b, e, f and c, d, g, h.
    let (mut abef, mut cdgh) = (zeros, zeros);
    for n in 0..2 {
        let state: *const __m128i = states[n].as_ptr().cast();
        let badc = _mm_shuffle_epi32(_mm_loadu_si128(state), 0xb1);
        let hgfe = _mm_shuffle_epi32(_mm_loadu_si128(state.add(1)), 0x1b);
        abef[n] = _mm_alignr_epi8(badc, hgfe, 8);
        cdgh[n] = _mm_blend_epi16(hgfe, badc, 0xf0);
    }
    for block in (0..texts[0].len() / 64 * 64).step_by(64) {
        let before = (abef, cdgh);
        let mut words = [zeros; 4];
        for group in 0..16 {
            let constants = _mm_loadu_si128(ROUNDS.as_ptr().add(4 * group).cast());
            for n in 0..2 {
                let next = if group < 4 {
                    _mm_shuffle_epi8(_mm_loadu_si128(texts[n].as_ptr().add(block + 16 * group).cast()), order)
                } else {
                    let [w0, w1, w2, w3] = [0, 1, 2, 3].map(|back| words[(group + back) % 4][n]);
                    let sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
                    _mm_sha256msg2_epu32(sum, w3)
                };
                words[group % 4][n] = next;
                let round = _mm_add_epi32(next, constants);
                cdgh[n] = _mm_sha256rnds2_epu32(cdgh[n], abef[n], round);
                abef[n] = _mm_sha256rnds2_epu32(abef[n], cdgh[n], _mm_shuffle_epi32(round, 0x0e));
            }
        }
        for n in 0..2 {
            abef[n] = _mm_add_epi32(abef[n], before.0[n]);
            cdgh[n] = _mm_add_epi32(cdgh[n], before.1[n]);
        }
    }
    for (n, state) in states.into_iter().enumerate() {
        let feba = _mm_shuffle_epi32(abef[n], 0x1b);
        let dchg = _mm_shuffle_epi32(cdgh[n], 0xb1);
        let to: *mut __m128i = state.as_mut_ptr().cast();
        _mm_storeu_si128(to, _mm_blend_epi16(feba, dchg, 0xf0));
        _mm_storeu_si128(to.add(1), _mm_alignr_epi8(dchg, feba, 8));
    }
}
