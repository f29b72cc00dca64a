//! Memory that ranks of one host share: who gets it, what happens where it cannot be had, and when a rank is killed.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{SECRET, config, every, on_each, store, worlds};
use heddle_comm::{Config, Dtype, Element, Error, Group, Part, Reduction, StoreServer, TransportKind, World};

use TransportKind::{Auto, Shared, Tcp};

const TOO_MUCH: usize = 1 << 62;

fn connect(kinds: &[TransportKind], ring: Option<usize>) -> Vec<Result<World, Error>> {
    let store = store("run");
    let connect = |(rank, transport): (usize, TransportKind)| {
        World::connect(Config { transport, ring, ..config(&store, rank, kinds.len()) })
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            kinds.iter().copied().enumerate().map(|rank| scope.spawn(move || connect(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn sum<T: Element>(group: &mut Group, values: &mut [T]) -> Result<(), Error> {
    group.all_reduce(&[Part::in_place(values)], T::DTYPE, Reduction::Sum, "gradients 0")
}

#[test]
fn who_shares_memory_with_whom() {
    let refused = Some("so TCP carries the data: ftruncate: ");
    /// What each rank wants, the size of the rings, what each rank gets, and what it says.
    struct Row<'a>(&'a [TransportKind], Option<usize>, &'a [&'a [usize]], Option<&'a str>);
    let table = [
        Row(&[Auto, Auto, Auto], None, &[&[1, 2], &[0, 2], &[0, 1]], None),
        Row(&[Auto, Shared], None, &[&[1], &[0]], None),
        Row(&[Auto, Tcp, Auto], None, &[&[2], &[], &[0]], None),
        Row(&[Tcp, Auto], None, &[&[], &[]], None),
        Row(&[Auto, Auto, Auto], Some(TOO_MUCH), &[&[], &[], &[]], refused),
    ];
    for Row(kinds, ring, memory, says) in table {
        let worlds: Vec<World> = connect(kinds, ring).into_iter().map(|world| world.expect("a world")).collect();
        for world in &worlds {
            assert_eq!(world.in_memory(), memory[world.rank()], "{kinds:?}");
            assert_eq!(world.fallback().is_some(), says.is_some(), "{kinds:?}: {:?}", world.fallback());
            assert!(says.is_none_or(|says| world.fallback().is_some_and(|text| text.contains(says))));
        }
        let sums = on_each(worlds, |world, mut group| {
            let mut values = vec![world.rank() as f32 + 1.0; 100_000];
            sum(&mut group, &mut values).map(|()| values)
        });
        let expected: f32 = (1..=kinds.len()).map(|value| value as f32).sum();
        assert!(sums.into_iter().all(|values| values.unwrap().iter().all(|value| *value == expected)), "{kinds:?}");
    }
}

#[test]
fn a_rank_that_must_have_memory_fails_without() {
    let elsewhere = Some("there is no shared memory with rank 1: it is on another host, or is to use TCP");
    let refused = [1, 0].map(|peer| format!("there is no shared memory with rank {peer}: ftruncate: "));
    let table = [
        ([Shared, Tcp], None, [elsewhere, None]),
        ([Shared; 2], Some(TOO_MUCH), refused.each_ref().map(|t| Some(&t[..]))),
    ];
    for (kinds, ring, expected) in table {
        let kinds = &kinds;
        for (world, expected) in connect(kinds, ring).into_iter().zip(expected) {
            match expected {
                Some(text) => match world.unwrap_err() {
                    Error::Io { what, detail } => assert!(format!("{what}: {detail}").contains(text), "{kinds:?}"),
                    other => panic!("{other}"),
                },
                None => assert!(world.is_ok(), "{kinds:?}"),
            }
        }
    }
}

/// Rings whose end cuts headers, texts and elements.
#[test]
fn the_size_of_the_rings_does_not_change_a_bit() {
    fn results<T: Element + From<u8> + PartialEq + Send>(worlds: Vec<World>) -> Vec<Vec<T>> {
        on_each(worlds, |world, mut group| {
            let values = |seed: usize| (0..30_001).map(move |index| T::from((index * 7 + seed) as u8));
            let mut all: Vec<T> = values(world.rank()).collect();
            sum(&mut group, &mut all).unwrap();
            let (input, mut output) = (values(world.rank()).take(30_000).collect::<Vec<T>>(), vec![T::from(0); 10_000]);
            let parts = [Part::new(&input, &mut output)];
            group.reduce_scatter(&parts, T::DTYPE, Reduction::Max, "scattered").unwrap();
            all.extend(output);
            all
        })
    }
    fn check<T: Element + From<u8> + PartialEq + Send>() {
        let expected = results::<T>(connect(&[Tcp; 3], None).into_iter().map(Result::unwrap).collect());
        for ring in [7, 61, 100, 4096, 100_003] {
            let worlds = connect(&[Shared; 3], Some(ring)).into_iter().map(Result::unwrap).collect();
            assert!(results::<T>(worlds) == expected, "{} in rings of {ring} bytes", T::DTYPE);
        }
    }
    check::<f64>();
    check::<f32>();
    check::<u8>();
}

/// Nanoseconds that this thread has used a processor.
fn used() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_rank_that_waits_leaves_its_core_to_others() {
    let pause = Duration::from_millis(500);
    for over in every() {
        let shares = on_each(worlds(over, 2), |world, mut group| {
            group.barrier("start").unwrap();
            if world.rank() == 1 {
                std::thread::sleep(pause);
            }
            let before = used();
            group.barrier("end").unwrap();
            used() - before
        });
        assert!(Duration::from_nanos(shares[0]) < pause / 5, "{over:?}: {} ns", shares[0]);
    }
}

/// Rank 1 of the next test, in a process of its own: adds up and sends until it is killed.
#[test]
#[ignore = "run by ranks_killed_at_any_moment_are_named_and_leave_nothing"]
fn child_rank() {
    let Ok(addr) = std::env::var("HEDDLE_COMM_TEST_STORE") else { return };
    let usual = Config::new("run", 1, 2, addr.parse().unwrap(), SECRET);
    let world = World::connect(Config { transport: Shared, ..usual }).unwrap();
    let mut group = world.group(&[0, 1], "data").unwrap();
    while steps(&mut group).is_ok() {}
}

fn steps(group: &mut Group) -> Result<(), Error> {
    let mut values = vec![1.0_f32; 300_000];
    sum(group, &mut values)?;
    sum(group, &mut values[..10])?;
    let (me, other) = (group.index(), 1 - group.index());
    let parts = [Part::in_place(&mut values)];
    if me == 0 {
        group.send(&parts, Dtype::F32, other, "activations")?;
        group.receive(&parts, Dtype::F32, other, "gradients")
    } else {
        group.receive(&parts, Dtype::F32, other, "activations")?;
        group.send(&parts, Dtype::F32, other, "gradients")
    }
}

fn start_child(store: &StoreServer) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::child_rank", "--ignored"])
        .env("HEDDLE_COMM_TEST_STORE", store.addr().to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn ranks_killed_at_any_moment_are_named_and_leave_nothing() {
    for moment in 0..8 {
        let store = store("run");
        let mut child = start_child(&store);
        let world = World::connect(Config { transport: Shared, ..config(&store, 0, 2) }).unwrap();
        let mut group = world.group(&[0, 1], "data").unwrap();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(2000 + 1713 * moment));
            child.kill().unwrap();
            child.wait().unwrap();
            Instant::now()
        });
        let error = (0..).find_map(|_| steps(&mut group).err()).unwrap();
        assert!(matches!(error, Error::PeerClosed { rank: 1, .. }), "{error}");
        assert!(killer.join().unwrap().elapsed() < Duration::from_secs(10));
    }
    let names = std::fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // Parameter servers of other runs have files there while they work.
    let left: Vec<String> = names.filter(|name| name.contains("heddle") && !name.starts_with("heddle-link-")).collect();
    assert!(left.is_empty(), "{left:?}");
}
