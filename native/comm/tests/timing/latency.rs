//! Times all-reduces back to back between ranks that are threads of this process, as the loop of an MPI benchmark does:
//!
//! `OVER=Shared RANKS=2 BYTES=4,1024 ROUNDS=7 cargo run --release -p heddle-comm --example latency`

#[path = "../common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::{every, on_each, worlds};
use heddle_comm::{Dtype, Group, Part, Reduction};

const TIME: Duration = Duration::from_millis(20);

/// Seconds of one all-reduce: the least of some rounds.
fn best(group: &mut Group, bytes: usize, rounds: usize) -> f64 {
    let mut values = vec![1.0e-3_f32; bytes / 4];
    let mut repeat = |group: &mut Group, times: usize| {
        group.barrier("start").unwrap();
        let start = Instant::now();
        for _ in 0..times {
            group.all_reduce(&[Part::in_place(&mut values)], Dtype::F32, Reduction::Max, "gradients 0").unwrap();
        }
        start.elapsed().as_secs_f64() / times as f64
    };
    repeat(group, 10);
    let mut times = [(TIME.as_secs_f64() / repeat(group, 10)).clamp(4.0, 20_000.0)];
    group.broadcast(&[Part::in_place(&mut times)], Dtype::F64, 0, "times").unwrap();
    (0..rounds).map(|_| repeat(group, times[0] as usize)).fold(f64::INFINITY, f64::min)
}

fn main() {
    let variable = |name: &str, default: &str| std::env::var(name).unwrap_or(default.into());
    let ranks: usize = variable("RANKS", "2").parse().unwrap();
    let sizes = variable("BYTES", "4,1024,16384,131072,1048576");
    let sizes: Vec<usize> = sizes.split(',').map(|word| word.parse().unwrap()).collect();
    let rounds: usize = variable("ROUNDS", "7").parse().unwrap();
    let which = variable("OVER", "");
    for over in every().filter(|over| format!("{over:?}").contains(&which)) {
        let times = on_each(worlds(over, ranks), |_, mut group| {
            sizes.iter().map(|bytes| best(&mut group, *bytes, rounds)).collect::<Vec<_>>()
        });
        for (index, bytes) in sizes.iter().enumerate() {
            let slowest = times.iter().map(|of_rank| of_rank[index]).fold(0.0, f64::max);
            println!("{over:?}, {ranks} ranks, {bytes} bytes: {:.2} us", slowest * 1e6);
        }
    }
}
