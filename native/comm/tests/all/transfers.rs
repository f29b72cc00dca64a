//! What one rank sends to another, while the others do something else.

use std::time::Duration;

use crate::common::{Over, every, on_each, worlds, worlds_with};
use heddle_comm::{Dtype, Error, Group, Part, Reduction};

fn send(group: &mut Group, values: &[f32], to: usize, label: &str) -> Result<(), Error> {
    let mut values = values.to_vec();
    group.send(&[Part::in_place(&mut values)], Dtype::F32, to, label)
}

fn receive(group: &mut Group, count: usize, from: usize, label: &str) -> Result<Vec<f32>, Error> {
    let mut values = vec![0.0; count];
    group.receive(&[Part::new(&[], &mut values)], Dtype::F32, from, label).map(|()| values)
}

fn numbered(count: usize, first: f32) -> Vec<f32> {
    (0..count).map(|index| first + (index % 1000) as f32).collect()
}

#[test]
fn values_pass_along_a_line_of_ranks_and_back() {
    for over in every() {
        for count in [0, 1, 1000, 300_000] {
            on_each(worlds(over, 4), |world, mut group| {
                let (rank, last) = (world.rank(), world.size() - 1);
                for micro in 0..3 {
                    let label = format!("F{micro}");
                    let base = if rank == 0 {
                        0.0
                    } else {
                        receive(&mut group, count, rank - 1, &label).unwrap()[..].first().copied().unwrap_or(0.0)
                    };
                    assert!(count == 0 || base == rank as f32, "{over:?} {count}");
                    if rank < last {
                        send(&mut group, &numbered(count, base + 1.0), rank + 1, &label).unwrap();
                    }
                    let label = format!("B{micro}");
                    if rank < last {
                        let back = receive(&mut group, count, rank + 1, &label).unwrap();
                        assert_eq!(back, numbered(count, 7.0));
                    }
                    if rank > 0 {
                        send(&mut group, &numbered(count, 7.0), rank - 1, &label).unwrap();
                    }
                }
                // Collectives of the whole group go on with their own numbers.
                let mut values = vec![1.0_f32; 5];
                group.all_reduce(&[Part::in_place(&mut values)], Dtype::F32, Reduction::Sum, "end").unwrap();
                assert_eq!(values, [4.0; 5]);
            });
        }
    }
}

#[test]
fn several_values_travel_as_one() {
    for over in every() {
        on_each(worlds(over, 2), |world, mut group| {
            let (mut a, mut b) = (numbered(70_000, 1.0), numbered(3, 2.0));
            if world.rank() == 0 {
                group.send(&[Part::in_place(&mut a), Part::in_place(&mut b)], Dtype::F32, 1, "both").unwrap();
            } else {
                let (mut x, mut y) = (vec![0.0_f32; 70_000], vec![0.0_f32; 3]);
                group.receive(&[Part::new(&[], &mut x), Part::new(&[], &mut y)], Dtype::F32, 0, "both").unwrap();
                assert_eq!((x, y), (a, b), "{over:?}");
            }
        });
    }
}

#[test]
fn what_does_not_agree_is_named_on_both_sides() {
    for over in every() {
        let errors = on_each(worlds(over, 2), |world, mut group| {
            let error = if world.rank() == 0 {
                // The receiver finds the difference; the sender learns of it in what it does next.
                send(&mut group, &[1.0; 8], 1, "1F0").and_then(|()| receive(&mut group, 8, 1, "0B0").map(drop))
            } else {
                receive(&mut group, 16, 0, "1F0").map(drop)
            }
            .unwrap_err();
            std::thread::sleep(Duration::from_millis(300));
            error
        });
        let expected =
            "rank 0 is in transfer f32 x 8 '1F0' (sequence 0), but rank 1 is in transfer f32 x 16 '1F0' (sequence 0)";
        for error in errors {
            assert_eq!(error, Error::Mismatch(expected.into()), "{over:?}");
        }
    }
}

#[test]
fn a_receiver_that_gets_nothing_says_from_whom_and_what() {
    for over in every() {
        let limit = Duration::from_millis(500);
        let errors = on_each(worlds_with(over, 2, limit), |world, mut group| {
            if world.rank() == 0 {
                std::thread::sleep(limit * 3);
                return String::new();
            }
            receive(&mut group, 4, 0, "1F2").unwrap_err().to_string()
        });
        assert!(
            errors[1].contains("rank 0") && errors[1].contains("transfer f32 x 4 '1F2'"),
            "{over:?}: {}",
            errors[1]
        );
    }
}

#[test]
fn a_transfer_has_two_ends() {
    on_each(worlds(Over::Memory, 2), |world, mut group| {
        let me = world.rank();
        let error = send(&mut group, &[1.0], me, "self").unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        assert!(matches!(receive(&mut group, 1, 2, "nobody").unwrap_err(), Error::Invalid(_)));
    });
}
