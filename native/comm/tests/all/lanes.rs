//! Small messages between ranks that share memory: in any order with large ones, in any groups, beside links of other kinds.

use crate::common::{config, on_each, store};
use heddle_comm::{Config, Dtype, Group, Part, Reduction, TransportKind, World};

use TransportKind::{Auto, Tcp};

fn connect(kinds: &[TransportKind]) -> Vec<World> {
    let store = store("run");
    let connect =
        |(rank, transport)| World::connect(Config { transport, ..config(&store, rank, kinds.len()) }).expect("a world");
    std::thread::scope(|scope| {
        let ranks = kinds.iter().copied().enumerate();
        let threads: Vec<_> = ranks.map(|rank| scope.spawn(move || connect(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank")).collect()
    })
}

fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

fn value(rank: usize, step: usize, at: usize) -> u32 {
    (rank * 1_000_003 + step * 101 + at * 7) as u32
}

/// Carries out the collective of one step and checks what this rank gets.
fn check(group: &mut Group, ranks: &[usize], step: usize, kind: usize, count: usize) {
    let (size, me) = (ranks.len(), group.index());
    let of = |rank: usize, count: usize| (0..count).map(|at| value(rank, step, at)).collect::<Vec<_>>();
    let sum = |at: usize| ranks.iter().fold(0_u32, |sum, rank| sum.wrapping_add(value(*rank, step, at)));
    let label = if step.is_multiple_of(3) { "a" } else { "another label" };
    match kind {
        0 => {
            let (own, mut values) = (of(ranks[me], count), of(ranks[me], count));
            // In place, beside the input, or of two parts, so that a message is more than one piece.
            let (left, right) = values.split_at_mut(count / 3);
            let parts = match step % 3 {
                0 => vec![Part::in_place(left), Part::in_place(right)],
                1 => vec![Part::in_place(&mut values)],
                _ => vec![Part::new(&own, &mut values)],
            };
            group.all_reduce(&parts, Dtype::U32, Reduction::Sum, label).unwrap();
            assert_eq!(own, of(ranks[me], count), "step {step}");
            assert_eq!(values, (0..count).map(sum).collect::<Vec<_>>(), "step {step}");
        }
        1 => {
            let mut all = vec![0; count * size];
            group.all_gather(&[Part::new(&of(ranks[me], count), &mut all)], Dtype::U32, label).unwrap();
            assert_eq!(all, ranks.iter().flat_map(|rank| of(*rank, count)).collect::<Vec<_>>(), "step {step}");
        }
        2 => {
            let (all, mut own) = (of(ranks[me], count * size), vec![0; count]);
            let parts = [Part::new(&all, &mut own)];
            group.reduce_scatter(&parts, Dtype::U32, Reduction::Sum, label).unwrap();
            assert_eq!(own, (me * count..(me + 1) * count).map(sum).collect::<Vec<_>>(), "step {step}");
        }
        3 => {
            let mut got = vec![0; count * size];
            group.all_to_all(&[Part::new(&of(ranks[me], count * size), &mut got)], Dtype::U32, label).unwrap();
            let expected = |rank| (me * count..(me + 1) * count).map(move |at| value(rank, step, at));
            assert_eq!(got, ranks.iter().copied().flat_map(expected).collect::<Vec<_>>(), "step {step}");
        }
        4 => {
            let mut values = of(ranks[me], count);
            group.broadcast(&[Part::in_place(&mut values)], Dtype::U32, step % size, label).unwrap();
            assert_eq!(values, of(ranks[step % size], count), "step {step}");
        }
        5 => group.barrier(label).unwrap(),
        _ => {
            let mut values = of(ranks[me], count);
            let (from, to) = (step % size, (step + 1) % size);
            if me == from {
                group.send(&[Part::in_place(&mut values)], Dtype::U32, to, label).unwrap();
            } else if me == to {
                group.receive(&[Part::in_place(&mut values)], Dtype::U32, from, label).unwrap();
                assert_eq!(values, of(ranks[from], count), "step {step}");
            }
        }
    }
}

#[test]
fn small_messages_keep_their_order_with_all_others() {
    let groups: [&[usize]; 5] = [&[0, 1, 2], &[1, 0], &[2, 0], &[2, 1, 0], &[1, 2]];
    for kinds in [[Auto; 3], [Auto, Tcp, Auto], [Auto, Auto, Tcp], [Tcp; 3]] {
        on_each(connect(&kinds), |world, _| {
            let mut mine = groups.map(|ranks| world.group(ranks, "any").ok());
            let mut state = 7;
            for step in 0..3000 {
                let (which, kind) = (next(&mut state) % groups.len(), next(&mut state) % 7);
                // On both sides of the largest message of a lane, and of the largest that is sent to all.
                let count = [0, 1, 8, 9, 300, 4096, 4097, 20_000][next(&mut state) % 8];
                if let Some(group) = &mut mine[which] {
                    check(group, groups[which], step, kind, count);
                }
            }
        });
    }
}
