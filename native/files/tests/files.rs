//! Sums against those of the crate `sha2` and of a plain CRC; chunks of files, whole, in runs, damaged, cut and misnamed.

use std::fs::File;
use std::io::{ErrorKind, Write};

use heddle_files::{read_chunks, sums, Chunk, Digest, Run, Sum};
use sha2::{Digest as _, Sha256};

fn sha256(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// CRC32C bit by bit, by its definition (RFC 3720, B.4).
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A file of these bytes that nobody else can open.
fn file(bytes: &[u8]) -> File {
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("heddle-files-{}-{number}", std::process::id()));
    File::create(&path).and_then(|mut made| made.write_all(bytes)).unwrap();
    let opened = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    opened
}

#[test]
fn hashes_of_any_length_and_number() {
    let all = bytes(5000);
    for length in (0..300).chain([447, 448, 511, 512, 1023, 4095, 5000]) {
        for chunk in [1, 55, 56, 63, 64, 65, 119, 120, 128, 1000, 6000] {
            let of = |text: &[u8]| (sha256(text), crc32c(text));
            let of_all = |text: &[u8]| -> Vec<(Digest, u32)> {
                if text.is_empty() {
                    vec![of(text)]
                } else {
                    text.chunks(chunk).map(of).collect()
                }
            };
            let expected = [of_all(&all[..length]), of_all(&all[..70]), of_all(&[])].concat();
            assert_eq!(
                sums(&[&all[..length], &all[..70], &[]], chunk),
                expected,
                "{length} bytes in chunks of {chunk}"
            );
        }
    }
}

/// Where a chunk begins, how long it is, and its runs: from where in the chunk, to where, how many bytes.
type Layout = (usize, usize, &'static [(usize, usize, usize)]);

#[test]
fn chunks_go_where_they_are_needed() {
    let all = bytes(1_000_000);
    let stored = file(&all);
    // Lengths that are no whole blocks, of two lanes that end apart; runs of a chunk; a chunk that is only verified.
    let places: &[Layout] = &[
        (3, 300_001, &[(0, 10, 300_001)]),
        (400_000, 140_000, &[(0, 400_000, 140_000)]),
        (600_000, 4096, &[(1, 0, 3), (4000, 700_000, 96)]),
        (999_990, 10, &[]),
        (500, 0, &[(0, 0, 0)]),
        (700_000, 131_072, &[(0, 800_000, 131_072)]),
        (0, 7, &[(6, 999_999, 1)]),
    ];
    let runs: Vec<Vec<Run>> = places
        .iter()
        .map(|(_, _, runs)| runs.iter().map(|&(from, to, bytes)| Run { from, to, bytes }).collect())
        .collect();
    let chunks: Vec<Chunk> = places
        .iter()
        .zip(&runs)
        .map(|(&(offset, bytes, _), runs)| Chunk {
            offset: offset as u64,
            bytes,
            // Both kinds, also in one pair.
            sum: match offset % 3 {
                0 => Sum::Crc32c(crc32c(&all[offset..offset + bytes])),
                _ => Sum::Sha256(sha256(&all[offset..offset + bytes])),
            },
            runs,
        })
        .collect();
    for count in 0..=chunks.len() {
        let (mut target, mut expected) = (vec![0; 1_000_000], vec![0; 1_000_000]);
        for (offset, _, runs) in &places[..count] {
            for &(from, to, bytes) in *runs {
                expected[to..to + bytes].copy_from_slice(&all[offset + from..offset + from + bytes]);
            }
        }
        assert_eq!(read_chunks(&stored, &chunks[..count], &mut target).unwrap(), None);
        assert!(target == expected, "{count} chunks");
    }
    for damaged in 0..chunks.len() {
        let mut other = chunks.clone();
        match &mut other[damaged].sum {
            Sum::Sha256(digest) => digest[31] ^= 1,
            Sum::Crc32c(crc) => *crc ^= 1,
        }
        let mut target = vec![0; 1_000_000];
        assert_eq!(read_chunks(&stored, &other, &mut target).unwrap(), Some(damaged));
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let all = bytes(700);
    let run = [Run { from: 0, to: 0, bytes: 700 }];
    for sum in [Sum::Sha256(sha256(&all)), Sum::Crc32c(crc32c(&all))] {
        let chunk = Chunk { offset: 0, bytes: 700, sum, runs: &run };
        for bit in 0..8 * all.len() {
            let mut flipped = all.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_chunks(&file(&flipped), &[chunk, chunk], &mut [0; 700]).unwrap(), Some(0));
        }
    }
}

#[test]
fn cut_files_and_runs_outside_are_errors() {
    let all = bytes(200_000);
    let sum = Sum::Sha256(sha256(&all));
    let kind = |bytes: usize, run: Run, target: usize| {
        let runs = [run];
        let chunk = Chunk { offset: 0, bytes, sum, runs: &runs };
        read_chunks(&file(&all), &[chunk], &mut vec![0; target]).unwrap_err().kind()
    };
    assert_eq!(kind(200_001, Run { from: 0, to: 0, bytes: 200_001 }, 200_001), ErrorKind::UnexpectedEof);
    for run in [
        Run { from: 0, to: 1, bytes: 200_000 },
        Run { from: 1, to: 0, bytes: 200_000 },
        Run { from: usize::MAX, to: 0, bytes: 2 },
        Run { from: 0, to: usize::MAX, bytes: 2 },
    ] {
        assert_eq!(kind(200_000, run, 200_000), ErrorKind::InvalidInput);
    }
}
