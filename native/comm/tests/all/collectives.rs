//! Every collective against a naive oracle, over every transport.

use std::fmt::Debug;
use std::ops::Range;

use crate::common::{Over, every, on_each, worlds};
use heddle_comm::{Dtype, Element, Error, Group, Part, Reduction};
use heddle_half::{Bf16, F16, Half};

trait Value: Element + PartialEq + Debug + Send + Sync {
    fn of(number: usize) -> Self;
    fn plus(self, other: Self) -> Self;
    fn below(self, other: Self) -> bool;
}

macro_rules! value {
    ($($t:ty: |$number:ident| $of:expr, $plus:expr);* $(;)?) => {$(
        impl Value for $t {
            fn of($number: usize) -> Self {
                $of
            }
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }
            fn below(self, other: Self) -> bool {
                self < other
            }
        }
    )*};
}

// Sums of five wrap in 8 and 64 bits; those of 64-bit integers are beyond what a double holds.
value! {
    f32: |n| (n & 63) as f32, |a, b| a + b;
    f64: |n| (n & 63) as f64, |a, b| a + b;
    i32: |n| (n & 63) as i32 - 31, i32::wrapping_add;
    u32: |n| (n & 63) as u32, u32::wrapping_add;
    u8: |n| (n & 63) as u8, u8::wrapping_add;
    i8: |n| (n & 127) as i8 - 63, i8::wrapping_add;
    i64: |n| (n as i64 & 63) - (1 << 62), i64::wrapping_add;
    u64: |n| (n as u64 & 63) + (1 << 62), u64::wrapping_add;
}

macro_rules! half {
    ($($t:ty),*) => {$(
        // Small enough that sums of five are exact.
        impl Value for $t {
            fn of(number: usize) -> Self {
                Self::narrow((number & 63) as f32 - 31.0)
            }
            fn plus(self, other: Self) -> Self {
                Self::narrow(self.wide() + other.wide())
            }
            fn below(self, other: Self) -> bool {
                self.wide() < other.wide()
            }
        }
    )*};
}

half!(F16, Bf16);

const REDUCTIONS: [Reduction; 3] = [Reduction::Sum, Reduction::Max, Reduction::Min];

/// A range of the vector of a rank.
fn slice<T: Value>(rank: usize, range: Range<usize>) -> Vec<T> {
    range.map(|index| T::of((rank * 37 + index * 13) ^ (index >> 9))).collect()
}

fn input<T: Value>(rank: usize, count: usize) -> Vec<T> {
    slice(rank, 0..count)
}

fn reduced<T: Value>(size: usize, range: Range<usize>, reduction: Reduction) -> Vec<T> {
    let inputs: Vec<Vec<T>> = (0..size).map(|rank| slice(rank, range.clone())).collect();
    let combine = |a: T, b: T| match reduction {
        Reduction::Sum => a.plus(b),
        Reduction::Max => {
            if b.below(a) {
                a
            } else {
                b
            }
        }
        Reduction::Min => {
            if a.below(b) {
                a
            } else {
                b
            }
        }
    };
    let add = |sum: Vec<T>, next: &Vec<T>| sum.iter().zip(next).map(|(a, b)| combine(*a, *b)).collect();
    inputs[1..].iter().fold(inputs[0].clone(), add)
}

/// Cuts a vector of `blocks` blocks into three parts, an empty one among them; each part has its slice of every block.
fn cut<T: Value>(values: &[T], blocks: usize) -> Vec<Vec<T>> {
    let block = values.len() / blocks;
    let bounds = [0, block / 3, block / 3, block];
    let slice = |part: usize| {
        (0..blocks).flat_map(|b| values[b * block..][bounds[part]..bounds[part + 1]].iter().copied()).collect()
    };
    (0..3).map(slice).collect()
}

type Op<'a> = dyn Fn(&mut Group, &[Part<'_>]) -> Result<(), Error> + Sync + 'a;

/// Runs one collective on parts and compares with the expected whole vector of each rank.
fn check<T: Value>(group: &mut Group, op: &Op<'_>, whole: &[T], blocks: (usize, usize), expected: &[T], what: &str) {
    let inputs = cut(whole, blocks.0);
    let expected = cut(expected, blocks.1);
    let mut outputs: Vec<Vec<T>> = expected.iter().map(|part| vec![T::of(0); part.len()]).collect();
    let parts: Vec<Part<'_>> = inputs.iter().zip(&mut outputs).map(|(from, to)| Part::new(from, to)).collect();
    op(group, &parts).unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(parts);
    assert!(outputs == expected, "{what}: rank {} of {} has another result", group.index(), group.size());
    assert!(inputs == cut(whole, blocks.0), "{what}: an input was changed");
}

fn every_collective<T: Value>(group: &mut Group, count: usize, reductions: &[Reduction]) {
    let (size, me, dtype) = (group.size(), group.index(), T::DTYPE);
    let block = if count > 1000 { count / size } else { count };
    let own = me * block..(me + 1) * block;
    let join = |count: usize| (0..size).flat_map(|rank| input::<T>(rank, count)).collect::<Vec<T>>();
    for &reduction in reductions {
        let sums = reduced::<T>(size, 0..count, reduction);
        let what = format!("all_reduce {reduction} {dtype} {count}");
        let all_reduce: &Op<'_> = &|group, parts| group.all_reduce(parts, dtype, reduction, "gradients");
        check(group, all_reduce, &input::<T>(me, count), (1, 1), &sums, &what);
        let mut values = input::<T>(me, count);
        group.all_reduce(&[Part::in_place(&mut values)], dtype, reduction, "in place").unwrap();
        assert!(values == sums, "{what} in place");
        let mine = reduced::<T>(size, own.clone(), reduction);
        let scatter: &Op<'_> = &|group, parts| group.reduce_scatter(parts, dtype, reduction, "gradients");
        check(group, scatter, &input::<T>(me, block * size), (size, 1), &mine, "reduce_scatter");
    }
    let gather: &Op<'_> = &|group, parts| group.all_gather(parts, dtype, "weights");
    check(group, gather, &input::<T>(me, block), (1, size), &join(block), "all_gather");
    let exchange: &Op<'_> = &|group, parts| group.all_to_all(parts, dtype, "tokens");
    let expected: Vec<T> = (0..size).flat_map(|rank| slice::<T>(rank, own.clone())).collect();
    check(group, exchange, &input::<T>(me, block * size), (size, size), &expected, "all_to_all");
    for root in [0, size - 1] {
        let cast: &Op<'_> = &|group, parts| group.broadcast(parts, dtype, root, "parameters");
        check(group, cast, &input::<T>(me, count), (1, 1), &input::<T>(root, count), "broadcast");
    }
    group.barrier("end").unwrap();
}

fn every_dtype(over: Over, sizes: &[usize], reductions: &[Reduction]) {
    for size in 1..=5 {
        on_each(worlds(over, size), |_, mut group| {
            for &count in sizes {
                every_collective::<f32>(&mut group, count, reductions);
                every_collective::<f64>(&mut group, count, reductions);
                every_collective::<i32>(&mut group, count, reductions);
                every_collective::<u32>(&mut group, count, reductions);
                every_collective::<u8>(&mut group, count, reductions);
                if count % 2 == 0 {
                    continue;
                }
                every_collective::<i8>(&mut group, count, reductions);
                every_collective::<i64>(&mut group, count, reductions);
                every_collective::<u64>(&mut group, count, reductions);
                every_collective::<F16>(&mut group, count, reductions);
                every_collective::<Bf16>(&mut group, count, reductions);
            }
        });
    }
}

const SMALL: [usize; 5] = [0, 1, 7, 1000, 40_003];

#[test]
fn small_in_process() {
    every_dtype(Over::Memory, &SMALL, &REDUCTIONS);
}

#[test]
fn small_over_tcp() {
    every_dtype(Over::Tcp, &SMALL, &REDUCTIONS);
}

#[test]
fn small_with_checksums() {
    every_dtype(Over::Checked, &SMALL, &[Reduction::Sum]);
}

#[test]
fn small_over_shared_memory() {
    every_dtype(Over::Shared, &SMALL, &REDUCTIONS);
}

/// The schedule knows bytes alone, so the dtypes take turns.
fn large(over: Over) {
    const COUNT: usize = 3_000_001;
    for size in 1..=5 {
        on_each(worlds(over, size), |_, mut group| match size {
            1 => every_collective::<u8>(&mut group, COUNT, &[Reduction::Sum]),
            2 => every_collective::<f64>(&mut group, COUNT, &[Reduction::Max]),
            3 => every_collective::<i32>(&mut group, COUNT, &[Reduction::Sum]),
            4 => every_collective::<Bf16>(&mut group, COUNT, &[Reduction::Min]),
            _ => every_collective::<f32>(&mut group, COUNT, &[Reduction::Sum]),
        });
    }
}

#[test]
fn large_in_process() {
    large(Over::Memory);
}

#[test]
fn large_over_tcp() {
    large(Over::Tcp);
}

#[test]
fn large_with_checksums() {
    large(Over::Checked);
}

#[test]
fn large_over_shared_memory() {
    large(Over::Shared);
}

/// Values whose sums depend on the order.
fn rough(rank: usize, count: usize) -> Vec<f32> {
    let mut state = rank as u32 + 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 1000.0 - 8000.0
    };
    (0..count).map(|_| next()).collect()
}

fn sum_bits(over: Over, size: usize, count: usize) -> Vec<Vec<u32>> {
    on_each(worlds(over, size), |world, mut group| {
        let mut values = rough(world.rank(), count);
        group.all_reduce(&[Part::in_place(&mut values)], Dtype::F32, Reduction::Sum, "bits").unwrap();
        let mut scattered = vec![0.0; count];
        let input = rough(world.rank(), count * size);
        group.reduce_scatter(&[Part::new(&input, &mut scattered)], Dtype::F32, Reduction::Sum, "bits").unwrap();
        let own = scattered.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        let mut all = vec![0_u32; count * size];
        group.all_gather(&[Part::new(&own, &mut all)], Dtype::U32, "bits").unwrap();
        all.extend(values.iter().map(|value| value.to_bits()));
        all
    })
}

#[test]
fn bits_are_equal_on_ranks_transports_and_repeats() {
    for (size, count) in [(2, 5), (3, 70_001), (4, 300_007), (5, 1000)] {
        let results: Vec<_> = [Over::Memory, Over::Tcp, Over::Shared, Over::Tcp, Over::Shared, Over::Memory]
            .iter()
            .flat_map(|over| sum_bits(*over, size, count))
            .collect();
        assert!(results.iter().all(|result| *result == results[0]), "{size} ranks, {count} elements");
    }
}

#[test]
fn the_order_of_reduction_is_as_documented() {
    let (size, count) = (3, 70_001);
    let inputs: Vec<Vec<f32>> = (0..size).map(|rank| rough(rank, count)).collect();
    let lines = (count * 4_usize).div_ceil(64);
    let expected: Vec<u32> = (0..count)
        .map(|index| {
            let chunk = (0..size).find(|chunk| index / 16 < lines * (chunk + 1) / size).unwrap();
            let order = (1..=size).map(|step| inputs[(chunk + step) % size][index]);
            order.reduce(|a, b| a + b).unwrap().to_bits()
        })
        .collect();
    let got = &sum_bits(Over::Memory, size, count)[0][count * size..];
    assert!(got == expected);
}

/// Sums of 16-bit floats are rounded after each addition, in that same order.
fn half_sums<T: Value + Half>() {
    let (size, count) = (3, 40_001);
    let input = |rank: usize| rough(rank, count).iter().map(|x| T::narrow(x / 64.0)).collect::<Vec<_>>();
    let inputs: Vec<Vec<T>> = (0..size).map(input).collect();
    let lines = (count * size_of::<T>()).div_ceil(64);
    for over in every() {
        let sums = on_each(worlds(over, size), |world, mut group| {
            let mut values = input(world.rank());
            group.all_reduce(&[Part::in_place(&mut values)], T::DTYPE, Reduction::Sum, "bits").unwrap();
            values.iter().map(|x| x.bits()).collect::<Vec<_>>()
        });
        let mut rounded = 0;
        for index in 0..count {
            let chunk = (0..size).find(|chunk| index / 32 < lines * (chunk + 1) / size).unwrap();
            let order = (1..=size).map(|step| inputs[(chunk + step) % size][index]);
            let exact = order.clone().map(|x| f64::from(x.wide())).sum::<f64>() as f32;
            let sum = order.reduce(|a, b| T::narrow(a.wide() + b.wide())).unwrap();
            rounded += usize::from(sum.bits() != T::narrow(exact).bits());
            assert!(sums.iter().all(|rank| rank[index] == sum.bits()), "{} at {index}", T::DTYPE);
        }
        assert!(rounded > 100, "the order makes no difference");
    }
}

#[test]
fn sums_of_half_floats_are_rounded_for_each_pair() {
    half_sums::<F16>();
    half_sums::<Bf16>();
}

#[test]
fn nan_and_infinity_of_half_floats() {
    fn check<T: Value + Half>() {
        for over in every() {
            on_each(worlds(over, 3), |world, mut group| {
                for reduction in REDUCTIONS {
                    let mut values = vec![T::of(world.rank()); 5];
                    values[world.rank()] = T::narrow(f32::NAN);
                    values[4] = T::narrow(3e38);
                    group.all_reduce(&[Part::in_place(&mut values)], T::DTYPE, reduction, "nan").unwrap();
                    let wide: Vec<f32> = values.iter().map(|x| x.wide()).collect();
                    assert!(wide[..3].iter().all(|x| x.is_nan()) && wide[3].is_finite(), "{reduction}: {wide:?}");
                    let overflows = reduction == Reduction::Sum || T::DTYPE == Dtype::F16;
                    assert_eq!(wide[4].is_infinite(), overflows, "{reduction}: {wide:?}");
                }
            });
        }
    }
    check::<F16>();
    check::<Bf16>();
}

#[test]
fn nan_propagates_through_max_and_min() {
    for over in every() {
        for count in [4, 50_000] {
            on_each(worlds(over, 3), |world, mut group| {
                for reduction in [Reduction::Max, Reduction::Min] {
                    let mut values = vec![world.rank() as f64; count];
                    values[world.rank()] = f64::NAN;
                    group.all_reduce(&[Part::in_place(&mut values)], Dtype::F64, reduction, "nan").unwrap();
                    assert!(values[..3].iter().all(|value| value.is_nan()) && !values[3].is_nan());
                }
            });
        }
    }
}

#[test]
fn many_tiny_parts_are_one_bucket() {
    for over in every() {
        on_each(worlds(over, 2), |_, mut group| {
            let mut parts: Vec<Vec<f32>> = (0..5000).map(|index| vec![index as f32; index % 40]).collect();
            let bucket: Vec<_> = parts.iter_mut().map(|part| Part::in_place(part)).collect();
            group.all_reduce(&bucket, Dtype::F32, Reduction::Sum, "bucket").unwrap();
            drop(bucket);
            let right = |(index, part): (usize, &Vec<f32>)| part.iter().all(|value| *value == 2.0 * index as f32);
            assert!(parts.iter().enumerate().all(right));
        });
    }
}

#[test]
fn groups_of_a_mesh_share_a_world() {
    for over in every() {
        on_each(worlds(over, 4), |world, mut all| {
            let (row, column) = (world.rank() / 2, world.rank() % 2);
            let mut model = world.group(&[row * 2, row * 2 + 1], "model").unwrap();
            let mut data = world.group(&[column, column + 2], "data").unwrap();
            for _ in 0..50 {
                let mut value = [1_i32 << (4 * world.rank())];
                model.all_reduce(&[Part::in_place(&mut value)], Dtype::I32, Reduction::Sum, "row").unwrap();
                data.all_reduce(&[Part::in_place(&mut value)], Dtype::I32, Reduction::Sum, "column").unwrap();
                assert_eq!(value, [0x1111]);
                all.barrier("step").unwrap();
            }
        });
    }
}

#[test]
fn a_group_keeps_its_own_order_of_ranks() {
    on_each(worlds(Over::Tcp, 3), |world, _| {
        let mut group = world.group(&[2, 0, 1], "turned").unwrap();
        let mut all = [9_u8; 3];
        group.all_gather(&[Part::new(&[world.rank() as u8], &mut all)], Dtype::U8, "ranks").unwrap();
        assert_eq!(all, [2, 0, 1]);
        let mut value = [world.rank() as u8];
        group.broadcast(&[Part::in_place(&mut value)], Dtype::U8, 0, "from rank 2").unwrap();
        assert_eq!(value, [2]);
    });
}

#[test]
fn large_exchanges_do_not_deadlock() {
    for over in every() {
        on_each(worlds(over, 2), |world, mut group| {
            let count = 12 << 20;
            let input = vec![world.rank() as u32; count];
            let mut output = vec![0; count];
            group.all_to_all(&[Part::new(&input, &mut output)], Dtype::U32, "48 MiB").unwrap();
            assert!(output[..count / 2].iter().all(|value| *value == 0));
            assert!(output[count / 2..].iter().all(|value| *value == 1));
        });
    }
}

#[test]
fn wrong_calls_are_refused_before_anything_is_sent() {
    on_each(worlds(Over::Memory, 2), |world, mut group| {
        let (input, mut output) = ([1.0_f32; 3], [0.0_f32; 3]);
        let say = |result: Result<(), Error>| match result {
            Err(Error::Invalid(text)) => text,
            other => panic!("{other:?}"),
        };
        let error = say(group.reduce_scatter(&[Part::new(&input, &mut output)], Dtype::F32, Reduction::Sum, "g"));
        assert_eq!(error, "reduceScatter f32 'g': an input of 3 and an output of 3 elements do not fit 2 ranks");
        let error = say(group.all_gather(&[Part::new(&input, &mut output)], Dtype::F64, "g"));
        assert!(error.contains("do not fit"), "{error}");
        let error = say(group.all_to_all(&[Part::in_place(&mut [0_u8; 4])], Dtype::U8, "g"));
        assert!(error.contains("overlaps"), "{error}");
        assert!(say(group.broadcast(&[], Dtype::U8, 2, "g")).contains("no position 2"));
        let bytes = [0_u8; 16];
        let odd = bytes.as_ptr().align_offset(4) + 1;
        let part = Part::new(&bytes[odd..odd + 4], first_bytes(&mut output));
        assert!(say(group.all_reduce(&[part], Dtype::F32, Reduction::Sum, "g")).contains("not a multiple of 4"));
        let named = |ranks: &[usize]| world.group(ranks, "x").unwrap_err().to_string();
        assert!(named(&[0, 0, 1]).contains("twice"));
        assert!(named(&[0, 1, 2]).contains("not in a world of 2"));
        assert!(named(&[1 - world.rank()]).contains("is not in it"));
        // None of it has harmed the world.
        group.barrier("still fine").unwrap();
    });
}

fn first_bytes(values: &mut [f32; 3]) -> &mut [u8] {
    // SAFETY: any four bytes are an f32 and the other way round.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), 4) }
}

/// How many elements rank `from` sends to rank `to`: none, few, or more than fit one message.
fn between(from: usize, to: usize) -> usize {
    [0, 7, 1000, 0, 150_001][(from * 3 + to * 2) % 5]
}

#[test]
fn an_exchange_has_a_count_for_each_pair() {
    for over in every() {
        for size in 1..=5 {
            on_each(worlds(over, size), |world, mut group| {
                let me = world.rank();
                let value = |from: usize, to: usize, index: usize| (from * 1_000_003 + to * 1009 + index) as f64;
                let all = |from: usize, to: usize| (0..between(from, to)).map(move |index| value(from, to, index));
                // Packed from the last member to the first, to show that the order is the caller's.
                let sends: Vec<_> = (0..size).rev().map(|to| (to, between(me, to))).collect();
                let receives: Vec<_> = (0..size).map(|from| (from, between(from, me))).collect();
                let input: Vec<f64> = (0..size).rev().flat_map(|to| all(me, to)).collect();
                let expected: Vec<f64> = (0..size).flat_map(|from| all(from, me)).collect();
                for _ in 0..2 {
                    let mut output = vec![0.0; expected.len()];
                    group.exchange(&Part::new(&input, &mut output), Dtype::F64, &sends, &receives, "halo").unwrap();
                    assert!(output == expected, "rank {me} of {size}");
                }
                let none: [(usize, usize); 0] = [];
                group.exchange(&Part::new::<f32>(&[], &mut []), Dtype::F32, &none, &none, "nothing").unwrap();
            });
        }
    }
}

#[test]
fn an_exchange_that_does_not_add_up_is_refused() {
    on_each(worlds(Over::Memory, 2), |_, mut group| {
        let (input, mut output) = ([1.0_f32; 4], [0.0_f32; 4]);
        for (sends, receives) in [
            (vec![(0, 4)], vec![(1, 3)]),
            (vec![(0, 5)], vec![(1, 4)]),
            (vec![(0, 2), (0, 2)], vec![(1, 4)]),
            (vec![(2, 4)], vec![(1, 4)]),
            (vec![(0, 4), (1, 0)], vec![(0, 2), (1, 2)]),
        ] {
            let result = group.exchange(&Part::new(&input, &mut output), Dtype::F32, &sends, &receives, "wrong");
            assert!(matches!(result, Err(Error::Invalid(_))), "{sends:?} {receives:?}");
        }
    });
}
