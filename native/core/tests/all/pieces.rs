//! Pieces that programs reach only through others: transposes, random blocks, limits, the switch of generated kernels.

use heddle_core::generate::Generate;
use heddle_core::isa::Isa;
use heddle_core::kernels::{random, transpose::transpose};
use heddle_core::limits::{measure, triad};
use heddle_core::pool::Pool;

#[test]
fn transposes_of_all_sizes() {
    for (rows, columns) in (0..10).flat_map(|r| (0..10).map(move |c| (r, c))) {
        let from: Vec<u32> = (0..200).collect();
        let mut to = vec![0u32; 200];
        unsafe { transpose(from.as_ptr(), 12, rows, columns, to.as_mut_ptr(), 11) };
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            assert_eq!(to[i * 11 + j], from[j * 12 + i]);
        }
    }
}

#[test]
fn random_bits_match_the_published_vectors() {
    // Random123 kat_vectors: counter 0, key 0.
    let c = random::blocks([0, 0], 0, 0);
    assert_eq!([c[0][0], c[1][0], c[2][0], c[3][0]], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
}

#[test]
fn every_instruction_set_has_limits() {
    for isa in Isa::available() {
        let limits = measure(&Pool::new(2), isa).expect("memory");
        // Any machine does a million; none does 10^15 on two threads.
        assert!((1e6..1e15).contains(&limits.flops), "{isa:?}: {limits:?}");
        assert!((1e6..1e15).contains(&limits.bytes), "{isa:?}: {limits:?}");
    }
}

#[test]
fn the_triad_is_what_it_says() {
    let (mut a, b, c) = ([0.0f32; 64], [1.0f32; 64], [4.0f32; 64]);
    for isa in Isa::available() {
        a.fill(0.0);
        unsafe { triad(isa, a.as_mut_ptr(), b.as_ptr(), c.as_ptr(), a.len()) };
        assert_eq!(a, [3.0; 64]);
    }
}

#[test]
fn the_switch_of_generated_kernels_refuses_nonsense() {
    assert_eq!(Generate::parse(None).expect("legal"), Generate::On);
    assert_eq!(Generate::parse(Some("on")).expect("legal"), Generate::On);
    assert_eq!(Generate::parse(Some("off")).expect("legal"), Generate::Off);
    let error = Generate::parse(Some("maybe")).expect_err("nonsense");
    assert!(error.to_string().contains("maybe"), "{error}");
}
