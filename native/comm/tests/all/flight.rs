//! The flight recorder, and a rank that is killed.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{SECRET, config, on_each, store};
use heddle_comm::{Config, Dtype, Error, FlightState, Part, Reduction, TransportKind, World, read_flight};

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("heddle-comm-{}-{name}", std::process::id()))
}

fn recorded(name: &str, collectives: usize) -> PathBuf {
    let (store, file) = (store("run"), path(name));
    let world = World::connect(Config { flight: Some(file.clone()), ..config(&store, 0, 1) }).unwrap();
    on_each(vec![world], |world, mut group| {
        for step in 0..collectives {
            world.set_step(step as u64);
            group.all_reduce(&[Part::in_place(&mut [0.0_f32; 3])], Dtype::F32, Reduction::Sum, "loss").unwrap();
        }
    });
    file
}

#[test]
fn it_keeps_the_last_collectives() {
    let file = recorded("last", 300);
    let flight = read_flight(&file).unwrap();
    assert_eq!((flight.rank, flight.size, flight.step), (0, 1, 299));
    assert_eq!((flight.entries.len(), &flight.current), (256, &None));
    let last = flight.entries.last().unwrap();
    assert_eq!((last.index, last.sequence, last.step, last.state), (299, 299, 299, FlightState::Done));
    assert_eq!(last.description, "allReduce sum f32 x 3 'loss'");
    assert!(last.finished >= last.started && last.started > 0);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn damage_costs_only_what_is_damaged() {
    let file = recorded("damaged", 20);
    let whole = std::fs::read(&file).unwrap();
    let mut state = 1_u64;
    let mut next = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % most
    };
    for _ in 0..500 {
        let mut bytes = whole.clone();
        for _ in 0..4 {
            let at = 64 + next(20 * 256);
            bytes[at] = next(256) as u8;
        }
        std::fs::write(&file, &bytes).unwrap();
        assert!(read_flight(&file).unwrap().entries.len() >= 16);
    }
    std::fs::write(&file, &whole[..1000]).unwrap();
    assert!(read_flight(&file).unwrap_err().to_string().contains("it has 1000 bytes"));
    std::fs::write(&file, vec![0xff; whole.len()]).unwrap();
    assert!(read_flight(&file).unwrap_err().to_string().contains("not a flight recorder"));
    std::fs::remove_file(&file).unwrap();
    assert!(read_flight(&file).is_err());
}

/// Rank 1 of the next test, in a process of its own: does one step, then never comes to the second.
#[test]
#[ignore = "run by a_killed_rank_is_named_and_leaves_its_record"]
fn child_rank() {
    let Ok(addr) = std::env::var("HEDDLE_COMM_TEST_STORE") else { return };
    let flight = Some(PathBuf::from(std::env::var("HEDDLE_COMM_TEST_FLIGHT").unwrap()));
    let usual = Config::new("run", 1, 2, addr.parse().unwrap(), SECRET);
    let world = World::connect(Config { flight, ..usual }).unwrap();
    on_each_of_two(&world);
}

fn on_each_of_two(world: &World) {
    let mut group = world.group(&[0, 1], "data").unwrap();
    let mut values = vec![1.0_f32; 500_000];
    for step in 0_u64.. {
        world.set_step(step);
        let parts = [Part::in_place(&mut values)];
        group.all_reduce(&parts, Dtype::F32, Reduction::Max, "gradients 0").unwrap();
    }
}

#[test]
fn a_killed_rank_is_named_and_leaves_its_record() {
    for transport in [TransportKind::Tcp, TransportKind::Shared] {
        killed_rank_is_named(transport);
    }
}

fn killed_rank_is_named(transport: TransportKind) {
    let (store, file) = (store("run"), path("killed"));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "flight::child_rank", "--ignored"])
        .env("HEDDLE_COMM_TEST_STORE", store.addr().to_string())
        .env("HEDDLE_COMM_TEST_FLIGHT", &file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let world = World::connect(Config { transport, ..config(&store, 0, 2) }).unwrap();
    let mut group = world.group(&[0, 1], "data").unwrap();
    let mut values = vec![1.0_f32; 500_000];
    let mut killed = None;
    let error = (0..).find_map(|step| {
        if step == 20 {
            // By now the child waits for this rank inside its step 20.
            std::thread::sleep(Duration::from_millis(200));
            child.kill().unwrap();
            killed = Some(Instant::now());
        }
        group.all_reduce(&[Part::in_place(&mut values)], Dtype::F32, Reduction::Max, "gradients 0").err()
    });
    assert!(killed.unwrap().elapsed() < Duration::from_secs(10));
    let error = error.unwrap();
    let Error::PeerClosed { rank: 1, during, .. } = &error else { panic!("{error}") };
    assert!(during.starts_with("allReduce max f32 x 500000 'gradients 0'"), "{error}");
    child.wait().unwrap();
    let flight = read_flight(&file).unwrap();
    assert_eq!((flight.rank, flight.size), (1, 2));
    let current = flight.current.expect("it was killed inside a collective");
    assert_eq!((flight.step, current.sequence, current.state), (20, 20, FlightState::Running));
    assert_eq!(current.step, flight.step);
    assert_eq!(current.description, "allReduce max f32 x 500000 'gradients 0'");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_world_goes_without_a_recorder_that_cannot_be_made() {
    let store = store("run");
    let file = path("folder-that-is-not-there").join("rank-0.flight");
    let world = World::connect(Config { flight: Some(file), ..config(&store, 0, 1) }).unwrap();
    assert!(world.warning().is_some_and(|text| text.contains("could not make the flight recorder")));
    on_each(vec![world], |_, mut group| {
        group.all_reduce(&[Part::in_place(&mut [1.0_f32; 3])], Dtype::F32, Reduction::Sum, "loss").unwrap();
    });
}

#[test]
fn a_recorder_has_its_disk_before_it_is_mapped() {
    use std::os::unix::fs::MetadataExt;
    let file = recorded("reserved", 0);
    let found = std::fs::metadata(&file).unwrap();
    assert!(found.blocks() * 512 >= found.size(), "{} blocks for {} bytes", found.blocks(), found.size());
    std::fs::remove_file(file).unwrap();
}
