//! Times an all-reduce of one ConvNet's gradients (1,663,370 f32) between ranks that are threads of this process.
//!
//! `cargo run --release -p heddle-comm --example all_reduce [ranks] [elements]`

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use heddle_comm::{Config, Dtype, Part, Reduction, StoreServer, TransportKind, World};

const ROUNDS: usize = 40;

fn measure(name: &str, worlds: Vec<World>, count: usize) {
    let ranks: Vec<usize> = (0..worlds.len()).collect();
    let times = std::thread::scope(|scope| {
        let run = |world: World| {
            let ranks = &ranks;
            scope.spawn(move || {
                let mut group = world.group(ranks, "data").expect("a group");
                let mut values = vec![1.0e-3_f32; count];
                let mut times = Vec::new();
                for _ in 0..ROUNDS {
                    group.barrier("start").expect("a barrier");
                    let start = Instant::now();
                    let parts = [Part::in_place(&mut values)];
                    group.all_reduce(&parts, Dtype::F32, Reduction::Sum, "gradients 0").expect("an all-reduce");
                    times.push(start.elapsed().as_secs_f64() * 1e3);
                    values.fill(1.0e-3);
                }
                times
            })
        };
        let threads: Vec<_> = worlds.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank")).collect::<Vec<_>>()
    });
    let mut slowest: Vec<f64> = (0..ROUNDS).map(|round| times.iter().map(|t| t[round]).fold(0.0, f64::max)).collect();
    slowest.sort_by(f64::total_cmp);
    let (best, median) = (slowest[0], slowest[ROUNDS / 2]);
    println!("{name}: {} ranks, {count} f32: best {best:.3} ms, median {median:.3} ms", ranks.len());
}

fn linked(size: usize, transport: TransportKind) -> Vec<World> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let store = StoreServer::start(any, b"secret", "bench").expect("a store");
    let connect = |rank| Config { transport, ..Config::new("bench", rank, size, store.addr(), b"secret") };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size).map(|rank| scope.spawn(move || World::connect(connect(rank)))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread").expect("a world")).collect()
    })
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<usize>().expect("a number"));
    let size = arguments.next().unwrap_or(2);
    let count = arguments.next().unwrap_or(1_663_370);
    for (name, count) in [("", count), (", small", 10)] {
        let named = |transport: &str| format!("{transport}{name}");
        measure(&named("TCP loopback"), linked(size, TransportKind::Tcp), count);
        measure(&named("shared memory"), linked(size, TransportKind::Shared), count);
        measure(&named("in process"), World::in_process(size), count);
    }
}
