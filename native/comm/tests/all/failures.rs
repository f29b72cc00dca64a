//! What ranks are told when something goes wrong, and that nobody hangs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::common::{Over, SECRET, config, every, on_each, store, worlds, worlds_with};
use heddle_comm::{AuthReason, Config, Dtype, Error, Group, Part, Reduction, StoreClient, World};

const AT_ONCE: Duration = Duration::from_secs(10);

fn sum(group: &mut Group, count: usize, label: &str) -> Result<(), Error> {
    let mut values = vec![1.0_f32; count];
    group.all_reduce(&[Part::in_place(&mut values)], Dtype::F32, Reduction::Sum, label)
}

/// Runs one thing per rank, and asserts that all fail at once and for good.
fn all_fail(worlds: Vec<World>, body: impl Fn(&World, &mut Group) -> Result<(), Error> + Sync) -> Vec<Error> {
    let start = Instant::now();
    let errors = on_each(worlds, |world, mut group| {
        let error = body(world, &mut group).expect_err("a rank should have failed");
        assert_eq!(sum(&mut group, 1, "after"), Err(error.clone()), "a failed world repeats its first error");
        assert_eq!(world.failure(), Some(error.clone()));
        // Nobody leaves before all have failed by themselves.
        std::thread::sleep(Duration::from_millis(300));
        error
    });
    assert!(start.elapsed() < AT_ONCE, "it took {:?}", start.elapsed());
    errors
}

#[test]
fn other_sizes_are_named_on_both_sides() {
    for over in every() {
        let errors = all_fail(worlds(over, 2), |world, group| {
            sum(group, 8, "gradients 0")?;
            sum(group, if world.rank() == 0 { 320 } else { 160 }, "gradients 1")
        });
        let expected = "rank 0 is in allReduce sum f32 x 320 'gradients 1' (sequence 1), \
                        but rank 1 is in allReduce sum f32 x 160 'gradients 1' (sequence 1)";
        assert_eq!(errors, [expected, expected].map(|text| Error::Mismatch(text.into())), "{over:?}");
    }
}

#[test]
fn other_sizes_of_large_messages_are_named_too() {
    for over in every() {
        let errors = all_fail(worlds(over, 3), |world, group| sum(group, 1_000_000 + world.rank() / 2, "big"));
        for error in errors {
            assert!(error.to_string().contains("is in allReduce sum f32 x 1000000 'big' (sequence 0), but"), "{error}");
            assert!(
                error.to_string().contains("rank 2 is in allReduce sum f32 x 1000001 'big' (sequence 0)"),
                "{error}"
            );
        }
    }
}

type Deviation = fn(&mut Group) -> Result<(), Error>;

#[test]
fn every_way_to_disagree_is_found() {
    let deviations: [(Deviation, &str); 6] = [
        (|group| sum(group, 320, "other label"), "allReduce sum f32 x 320 'other label'"),
        (|group| group.barrier("g"), "barrier 'g'"),
        (
            |group| group.all_reduce(&[Part::in_place(&mut [0_i32; 320])], Dtype::I32, Reduction::Sum, "g"),
            "allReduce sum i32 x 320 'g'",
        ),
        (
            |group| group.all_reduce(&[Part::in_place(&mut [0.0_f32; 320])], Dtype::F32, Reduction::Max, "g"),
            "allReduce max f32 x 320 'g'",
        ),
        (|group| group.all_to_all(&[Part::new(&[0_u8; 30], &mut [0; 30])], Dtype::U8, "g"), "allToAll u8 x 30 'g'"),
        (
            |group| {
                let (mut a, mut b) = ([0.0_f32; 300], [0.0_f32; 20]);
                group.all_reduce(&[Part::in_place(&mut a), Part::in_place(&mut b)], Dtype::F32, Reduction::Sum, "g")
            },
            "allReduce sum f32 x 320 'g'",
        ),
    ];
    for (deviation, name) in deviations {
        for (odd, over) in
            [(0, Over::Memory), (1, Over::Memory), (2, Over::Memory), (0, Over::Shared), (2, Over::Shared)]
        {
            let errors =
                all_fail(
                    worlds(over, 3),
                    |world, group| {
                        if world.rank() == odd { deviation(group) } else { sum(group, 320, "g") }
                    },
                );
            for error in errors {
                assert!(error.to_string().contains(&format!("rank {odd} is in {name}")), "{error}");
            }
        }
    }
}

#[test]
fn other_groups_are_named() {
    for over in every() {
        let errors = all_fail(worlds(over, 3), |world, group| {
            let mut pair = world.group(&[0, 1], "pair").ok();
            match &mut pair {
                Some(pair) if world.rank() == 0 => sum(pair, 4, "g"),
                _ => sum(group, 4, "g"),
            }
        });
        let expected = "of group 'pair' of ranks [0, 1] (sequence 0), but rank 1 is in allReduce sum f32 x 4 'g' of \
                        group 'data' of ranks [0, 1, 2]";
        assert!(errors[0].to_string().contains(expected), "{errors:?}");
    }
}

#[test]
fn a_missing_rank_is_a_timeout_that_names_it() {
    for over in every() {
        let limit = Duration::from_millis(700);
        let errors = on_each(worlds_with(over, 2, limit), |world, mut group| {
            sum(&mut group, 10, "gradients 0").unwrap();
            if world.rank() == 1 {
                std::thread::sleep(limit * 2);
            }
            let start = Instant::now();
            (sum(&mut group, 10, "gradients 1").unwrap_err(), start.elapsed())
        });
        let (error, after) = &errors[0];
        let during = "allReduce sum f32 x 10 'gradients 1' (sequence 1, message 0)".into();
        assert_eq!(*error, Error::Timeout { limit, waiting_for: "rank 1".into(), during });
        assert!(*after >= limit && *after < AT_ONCE, "{after:?}");
        let (error, after) = &errors[1];
        assert!(matches!(error, Error::PeerAborted { rank: 0, .. }), "{error}");
        assert!(*after < AT_ONCE);
    }
}

#[test]
fn a_timeout_names_the_rank_at_the_end_of_the_chain() {
    for over in every() {
        let limit = Duration::from_millis(1000);
        let errors = on_each(worlds_with(over, 4, limit), |world, mut group| {
            if world.rank() == 3 {
                std::thread::sleep(limit * 2);
            }
            // Rank 0 waits for rank 3 but comes later, so that one which waits for rank 0 is the first to give up.
            std::thread::sleep(Duration::from_millis(200 * u64::from(world.rank() == 0)));
            let mut values = vec![0.0_f32; 2_000_000];
            let parts = [Part::in_place(&mut values)];
            group.broadcast(&parts, Dtype::F32, 3, "parameters").unwrap_err().to_string()
        });
        assert!(errors[..3].iter().all(|error| error.contains("waits for rank 3")), "{errors:?}");
    }
}

#[test]
fn a_peer_that_leaves_is_named() {
    for over in every() {
        let errors = on_each(worlds(over, 2), |world, mut group| {
            sum(&mut group, 1000, "first").unwrap();
            if world.rank() == 1 { None } else { Some(sum(&mut group, 3_000_000, "second").unwrap_err()) }
        });
        let error = errors[0].as_ref().unwrap();
        let Error::PeerClosed { rank: 1, during, .. } = error else { panic!("{error}") };
        assert!(during.starts_with("allReduce sum f32 x 3000000 'second'"), "{error}");
    }
}

#[test]
fn results_arrive_even_if_the_sender_leaves_right_after() {
    for over in every() {
        for _ in 0..20 {
            on_each(worlds(over, 3), |world, mut group| {
                if world.rank() == 2 {
                    std::thread::sleep(Duration::from_millis(20));
                }
                let mut values = vec![world.rank() as f32; 20_000];
                group.broadcast(&[Part::in_place(&mut values)], Dtype::F32, 0, "last").unwrap();
                assert!(values.iter().all(|value| *value == 0.0));
            });
        }
    }
}

#[test]
fn abort_reaches_every_rank() {
    for over in every() {
        let errors = all_fail(worlds(over, 3), |world, group| {
            if world.rank() == 1 {
                std::thread::sleep(Duration::from_millis(200));
                world.abort("index 7 is out of range");
            }
            sum(group, 2_000_000, "gradients 0")
        });
        for (rank, error) in errors.iter().enumerate() {
            let (reason, during) = match error {
                Error::PeerAborted { rank: 1, reason, during } if rank != 1 => (reason, during),
                Error::Aborted { reason, during } if rank == 1 => (reason, during),
                _ => panic!("{error}"),
            };
            assert_eq!(reason, "index 7 is out of range");
            assert!(during.starts_with("allReduce sum f32 x 2000000 'gradients 0'"), "{error}");
        }
    }
}

#[test]
fn abort_wakes_the_local_wait() {
    for over in every() {
        let mut worlds = worlds(over, 2);
        let (one, zero) = (worlds.pop().unwrap(), worlds.pop().unwrap());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| sum(&mut zero.group(&[0, 1], "data").unwrap(), 10, "never"));
            std::thread::sleep(Duration::from_millis(400));
            let start = Instant::now();
            zero.abort("stopped by the user");
            let error = waiting.join().unwrap().unwrap_err();
            assert!(matches!(&error, Error::Aborted { reason, .. } if reason == "stopped by the user"), "{error}");
            assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
        });
        let error = sum(&mut one.group(&[0, 1], "data").unwrap(), 10, "next").unwrap_err();
        assert!(matches!(error, Error::PeerAborted { rank: 0, .. }), "{error}");
    }
}

#[test]
fn ranks_of_two_sizes_of_world_are_named() {
    let store = store("run");
    std::thread::scope(|scope| {
        let zero = Config { connect_timeout: Duration::from_millis(1500), ..config(&store, 0, 3) };
        let zero = scope.spawn(|| World::connect(zero));
        let error = World::connect(config(&store, 1, 2)).unwrap_err();
        assert_eq!(error, Error::Mismatch("rank 0 is in a world of 3, but rank 1 in one of 2".into()));
        let error = zero.join().unwrap().unwrap_err();
        // Rank 1 has told where it listens; rank 2 never came.
        let text = error.to_string();
        let named = text.contains("ranks 1 at 127.0.0.1:") && text.contains(", 2");
        assert!(named && text.contains("connecting world 'main' of run 'run', epoch 0"), "{text}");
        assert!(matches!(error, Error::Timeout { limit, .. } if limit == Duration::from_millis(1500)), "{text}");
    });
}

#[test]
fn a_rank_is_taken_once_per_epoch() {
    let store = store("run");
    let first = World::connect(config(&store, 0, 1)).unwrap();
    drop(first);
    let error = World::connect(config(&store, 0, 1)).unwrap_err().to_string();
    assert!(error.contains("rank 0 of world 'main' was already taken in epoch 0"), "{error}");
    World::connect(Config { epoch: 1, ..config(&store, 0, 1) }).unwrap();
    World::connect(Config { name: "second".into(), ..config(&store, 0, 1) }).unwrap();
}

/// Starts rank 0 of 2, hands its address to `body`, and returns what rank 0 then got.
fn with_listening_rank(body: impl FnOnce(std::net::SocketAddr, &heddle_comm::StoreServer)) -> Result<World, Error> {
    let store = store("run");
    let zero = Config { connect_timeout: Duration::from_secs(3), ..config(&store, 0, 2) };
    std::thread::scope(|scope| {
        let zero = scope.spawn(|| World::connect(zero));
        let client = StoreClient::connect(store.addr(), SECRET, "run", AT_ONCE).unwrap();
        let value = client.get("run/0/main/rank/0", "the address of rank 0", AT_ONCE).unwrap();
        let addr = std::str::from_utf8(&value).unwrap().split(' ').next().unwrap().parse().unwrap();
        body(addr, &store);
        zero.join().unwrap()
    })
}

#[test]
fn garbage_at_the_listener_harms_nobody() {
    let result = with_listening_rank(|addr, store| {
        for length in [0, 1, 71, 72, 100_000] {
            let mut stream = TcpStream::connect(addr).unwrap();
            let garbage: Vec<u8> = (0..length).map(|index: usize| (index * 31) as u8).collect();
            let _ = stream.write_all(&garbage);
            if length >= 72 {
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer);
                assert!(answer.is_empty(), "a stranger learns nothing");
            }
        }
        World::connect(config(store, 1, 2)).unwrap();
    });
    result.unwrap();
}

#[test]
fn a_rank_with_another_secret_is_refused_and_named() {
    let result = with_listening_rank(|_, first| {
        // Its own store, so that only the link between the ranks can notice.
        let other = heddle_comm::StoreServer::start(crate::common::any(), b"other", "run").unwrap();
        let client = StoreClient::connect(other.addr(), b"other", "run", AT_ONCE).unwrap();
        let true_client = StoreClient::connect(first.addr(), SECRET, "run", AT_ONCE).unwrap();
        let entry = true_client.try_get("run/0/main/rank/0").unwrap().unwrap();
        client.set("run/0/main/rank/0", &entry).unwrap();
        let config = Config { secret: b"other".to_vec(), store_addr: other.addr(), ..config(first, 1, 2) };
        let error = World::connect(config).unwrap_err();
        let Error::Auth { peer, reason: AuthReason::WrongSecret } = &error else { panic!("{error}") };
        assert!(peer.starts_with("rank 0 at 127.0.0.1:"), "{error}");
        assert!(error.to_string().contains("\"reason\":\"the secrets differ\""), "{error}");
    });
    let error = result.unwrap_err().to_string();
    assert!(error.contains("\"rank 1 (a connection from 127.0.0.1:"), "{error}");
    assert!(error.contains("was refused: the secrets differ)"), "{error}");
}

#[test]
fn a_rank_of_another_run_is_refused() {
    let result = with_listening_rank(|_, first| {
        let other = heddle_comm::StoreServer::start(crate::common::any(), SECRET, "old run").unwrap();
        let client = StoreClient::connect(other.addr(), SECRET, "old run", AT_ONCE).unwrap();
        let true_client = StoreClient::connect(first.addr(), SECRET, "run", AT_ONCE).unwrap();
        let entry = true_client.try_get("run/0/main/rank/0").unwrap().unwrap();
        client.set("old run/0/main/rank/0", &entry).unwrap();
        let config = Config { run_id: "old run".into(), store_addr: other.addr(), ..config(first, 1, 2) };
        let error = World::connect(config).unwrap_err();
        assert!(matches!(error, Error::Auth { reason: AuthReason::WrongRun, .. }), "{error}");
    });
    assert!(result.unwrap_err().to_string().contains("belongs to another run"));
}
