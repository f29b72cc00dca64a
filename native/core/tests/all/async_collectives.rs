//! Asynchronous collectives.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::*;
use heddle_core::buffer::Buffer;
use heddle_core::collectives::{Call, Collectives, Part, TransferCall};
use heddle_core::exec::Device;
use heddle_core::isa::Isa;
use heddle_core::Fault;
use heddle_core::{Error, Result};
use serde_json::{json, Value};

/// `all` four elements of f32.
fn reduce(from: Value, to: Value, handle: Option<u32>, label: &str) -> Value {
    let mut step = json!({ "k": "collective", "op": "allReduce", "axis": 0, "reduction": "sum", "dtype": "f32",
        "parts": [{ "in": from, "out": to, "count": 4 }], "label": label });
    if let Some(handle) = handle {
        step["handle"] = json!(handle);
        step["members"] = json!(2);
    }
    step
}

fn negate(from: Value, to: Value) -> Value {
    json!({ "k": "fused", "shape": [4], "in": [{ "at": from, "dtype": "f32", "strides": [1] }],
        "ops": [["neg", "f32", 0]], "out": [{ "at": to, "dtype": "f32", "strides": [1], "reg": 1 }] })
}

fn wait(handle: u32) -> Value {
    json!({ "k": "wait", "handle": handle })
}

/// Two devices that hold the same values: a sum doubles.
struct Doubling {
    behaviour: fn(&Doubling, &Call, &mut [Part]) -> Result<()>,
    calls: Mutex<Vec<(String, bool)>>,
    aborted: AtomicBool,
}

impl Collectives for Doubling {
    fn size(&self, _axis: usize) -> Option<usize> {
        Some(2)
    }

    fn run(&self, call: &Call, parts: &mut [Part]) -> Result<()> {
        let apart = std::thread::current().name() == Some("heddle-collectives");
        self.calls.lock().unwrap().push((call.label.to_owned(), apart));
        (self.behaviour)(self, call, parts)?;
        for part in parts {
            for index in 0..part.input_bytes / 4 {
                // SAFETY: the executor has checked the part.
                unsafe {
                    let value = part.input.cast::<f32>().add(index).read();
                    part.output.as_mut_ptr().cast::<f32>().add(index).write(2.0 * value);
                }
            }
        }
        Ok(())
    }

    fn transfer(&self, _call: &TransferCall, _parts: &mut [Part]) -> Result<()> {
        Ok(())
    }

    fn abort(&self, _reason: &str) {
        self.aborted.store(true, Ordering::Release);
    }
}

/// What a run gives: the buffers, the error, and each collective with whether it ran beside.
struct Ran {
    buffers: Vec<Vec<f64>>,
    result: Result<Vec<f64>>,
    calls: Vec<(String, bool)>,
    aborted: bool,
}

fn run(buffers: &[Vec<u8>], steps: &[Value], behaviour: fn(&Doubling, &Call, &mut [Part]) -> Result<()>) -> Ran {
    let program = program(256, buffers, steps).expect("a program");
    let doubling = Arc::new(Doubling { behaviour, calls: Mutex::default(), aborted: AtomicBool::new(false) });
    let mut device = Device::new(1, Isa::available()[0], vec![0], doubling.clone());
    let mut memory: Vec<Buffer> = buffers.iter().map(|bytes| Buffer::new(bytes.len()).unwrap()).collect();
    for (to, from) in memory.iter_mut().zip(buffers) {
        // SAFETY: the buffer has as many bytes, and nobody else uses it.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) };
    }
    let arguments: Vec<&Buffer> = memory.iter().collect();
    let result = device.profile(&program, &arguments);
    let bytes = |buffer: &Buffer| {
        // SAFETY: the run has ended.
        unsafe { std::slice::from_raw_parts(buffer.as_ptr(), buffer.len()) }.to_vec()
    };
    let buffers = memory.iter().map(|buffer| decode("f32", &bytes(buffer))).collect();
    let calls = doubling.calls.lock().unwrap().clone();
    Ran { buffers, result, calls, aborted: doubling.aborted.load(Ordering::Acquire) }
}

fn values() -> Vec<Vec<u8>> {
    let floats = |first: f64| encode("f32", &[first, first + 1.0, first + 2.0, first + 3.0]);
    vec![floats(1.0), floats(0.0), floats(0.0), floats(0.0)]
}

/// Waits for the -1 that a step behind the collective writes 128 bytes behind its input.
fn until_negated(_: &Doubling, _: &Call, parts: &mut [Part]) -> Result<()> {
    // By way of the system, since the thread of the steps writes there meanwhile: to read it here would be a race.
    let memory = File::open("/proc/self/mem").expect("the memory of this process");
    let (place, mut word) = (parts[0].input.addr() as u64 + 128, [0; 4]);
    let deadline = Instant::now() + Duration::from_secs(20);
    while f32::from_le_bytes(word) != -1.0 {
        if Instant::now() > deadline {
            return Err(Error::new("the step behind it never ran"));
        }
        std::thread::yield_now();
        memory.read_exact_at(&mut word, place).expect("an element of the arena");
    }
    Ok(())
}

#[test]
fn steps_behind_a_collective_run_while_it_is_under_way() {
    let steps = [
        negate(json!([1, 0]), json!([0, 0])),
        reduce(json!([0, 0]), json!([0, 64]), Some(0), "gradients 0"),
        // Where the collective looks.
        negate(json!([1, 0]), json!([0, 128])),
        wait(0),
        negate(json!([0, 64]), json!([2, 0])),
    ];
    let ran = run(&values(), &steps, until_negated);
    let times = ran.result.unwrap();
    assert_eq!(ran.buffers[1], [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(ran.calls, [("gradients 0".to_owned(), true)]);
    // Of each step its beginning, time and count; the collective's are those of the thread that ran it.
    let step = |index: usize| &times[2 + 3 * index..][..3];
    assert!((0..5).all(|index| step(index)[2] == 1.0), "{times:?}");
    assert!(step(1)[0] + step(1)[1] >= step(2)[0] + step(2)[1], "it ended after the step behind it: {times:?}");
}

#[test]
fn collectives_run_in_the_order_of_the_program() {
    let at = |space: u32| json!([space, 0]);
    let steps = [
        reduce(at(1), json!([0, 0]), Some(3), "first"),
        reduce(at(1), json!([0, 64]), Some(1), "second"),
        reduce(at(1), at(2), None, "third"),
        json!({ "k": "loop", "count": 2, "out": [0, 192], "steps": [reduce(at(1), at(3), None, "looped")] }),
        wait(1),
        wait(3),
        reduce(json!([0, 64]), at(4), Some(3), "last"),
        wait(3),
    ];
    let slow_first = |_: &Doubling, call: &Call, _: &mut [Part]| {
        if call.label == "first" {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    };
    let ran = run(&values(), &steps, slow_first);
    ran.result.unwrap();
    let calls: Vec<(&str, bool)> = ran.calls.iter().map(|(label, apart)| (label.as_str(), *apart)).collect();
    let expected =
        [("first", true), ("second", true), ("third", false), ("looped", false), ("looped", false), ("last", true)];
    assert_eq!(calls, expected);
    assert_eq!(ran.buffers[3], [4.0, 8.0, 12.0, 16.0]);
}

#[test]
fn an_error_under_way_names_its_collective_and_the_step_reached() {
    fn broken(_: &Doubling, _: &Call, _: &mut [Part]) -> Result<()> {
        Err(Error::new("rank 1 closed its connection"))
    }
    // What comes between start and wait: nothing, or a collective that would have to come after it.
    for (between, reached) in [(vec![], 1), (vec![reduce(json!([1, 0]), json!([3, 0]), None, "next")], 1)] {
        let start = reduce(json!([1, 0]), json!([2, 0]), Some(0), "gradients 0");
        let steps: Vec<Value> = [vec![start], between, vec![wait(0)]].concat();
        let ran = run(&values(), &steps, broken);
        let error = ran.result.unwrap_err();
        assert_eq!(error.fault, Fault::Run { text: "rank 1 closed its connection".into() });
        let place = &error.place;
        assert_eq!((place.begun, place.step, place.kernel), (Some(0), Some(reached), Some("collective")));
        assert_eq!(ran.calls.len(), 1);
        assert!(ran.aborted);
    }
}

#[test]
fn an_error_under_way_that_comes_to_light_in_a_loop_names_its_collective_alone() {
    fn broken_then(doubling: &Doubling, call: &Call, parts: &mut [Part]) -> Result<()> {
        until_negated(doubling, call, parts)?;
        Err(Error::new("rank 1 closed its connection"))
    }
    let inner = reduce(json!([1, 0]), json!([3, 0]), None, "inner");
    let twice = |steps: &[Value]| json!({ "k": "loop", "count": 2, "out": [0, 192], "steps": steps });
    for last in [inner.clone(), twice(&[inner])] {
        // The asynchronous collective fails once the loop has begun, so the collective in the loop is what finds it.
        let steps = [
            reduce(json!([0, 0]), json!([0, 64]), Some(0), "gradients 0"),
            json!({ "k": "loop", "count": 1, "out": [0, 196], "steps": [negate(json!([1, 0]), json!([0, 128])), last] }),
            wait(0),
        ];
        let ran = run(&values(), &steps, broken_then);
        let error = ran.result.unwrap_err();
        assert_eq!(error.fault, Fault::Run { text: "rank 1 closed its connection".into() });
        let place = &error.place;
        assert_eq!((place.begun, place.step, place.kernel), (Some(0), Some(1), Some("collective")));
        assert_eq!((place.call, place.iterations.len()), (None, 0));
        assert_eq!(ran.calls, [("gradients 0".to_owned(), true)]);
        assert!(ran.aborted);
    }
}

#[test]
fn collectives_under_way_may_read_one_value_together() {
    let start = |to: u32, handle: u32| reduce(json!([1, 0]), json!([to, 0]), Some(handle), "x");
    let ran = run(&values(), &[start(2, 0), start(3, 1), wait(1), wait(0)], |_, _, _| Ok(()));
    ran.result.unwrap();
    assert_eq!(ran.calls.len(), 2);
    let doubled = vec![2.0, 4.0, 6.0, 8.0];
    assert_eq!(ran.buffers[..3], [vec![1.0, 2.0, 3.0, 4.0], doubled.clone(), doubled]);
}

#[test]
fn a_run_that_fails_ends_what_is_under_way() {
    fn until_aborted(doubling: &Doubling, _: &Call, _: &mut [Part]) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !doubling.aborted.load(Ordering::Acquire) {
            assert!(Instant::now() < deadline, "nobody ended the wait");
            std::thread::yield_now();
        }
        Err(Error::new("aborted"))
    }
    let gather = json!({ "k": "gather", "dtype": "f32", "outer": 1, "size": 2, "inner": 1, "count": 1,
        "in": [2, 0], "indices": [3, 0], "out": [0, 0] });
    let mut buffers = values();
    buffers[2] = encode("i32", &[7.0, 0.0, 0.0, 0.0]);
    let steps = [reduce(json!([1, 0]), json!([4, 0]), Some(0), "gradients 0"), gather, wait(0)];
    let error = run(&buffers, &steps, until_aborted).result.unwrap_err();
    assert_eq!(error.fault, Fault::Index { index: 7, position: 0, size: 2 });
    assert_eq!((error.place.step, error.place.kernel), (Some(1), Some("gather")));
}

#[test]
fn what_is_under_way_is_left_alone() {
    let start = || reduce(json!([1, 0]), json!([2, 0]), Some(0), "x");
    let nested = |step: Value| json!({ "k": "loop", "count": 1, "out": [0, 0], "steps": [step] });
    let without = |field: &str| {
        let mut step = start();
        step.as_object_mut().unwrap().remove(field);
        step
    };
    let gather = json!({ "k": "collective", "op": "allGather", "axis": 0, "dtype": "f32", "handle": 0, "members": 2,
        "parts": [{ "in": [1, 0], "out": [2, 0], "count": 4 }] });
    let far = reduce(json!([1, 0]), json!([3, 0]), Some(0), "x");
    let cases = [
        (vec![start(), negate(json!([2, 0]), json!([3, 0])), wait(0)], "in[0] (bytes 0..16 of space 2) overlaps parts[0].out (bytes 0..16 of space 2) of op 0, which is still in flight"),
        (vec![start(), negate(json!([3, 0]), json!([2, 0])), wait(0)], "out[0] (bytes 0..16 of space 2) overlaps parts[0].out"),
        (vec![start(), negate(json!([3, 0]), json!([1, 0])), wait(0)], "out[0] (bytes 0..16 of space 1) overlaps parts[0].in"),
        (vec![start(), nested(negate(json!([2, 0]), json!([3, 0]))), wait(0)], "op 1 (loop): op 0 (fused): in[0] (bytes"),
        (vec![start(), reduce(json!([2, 0]), json!([3, 0]), Some(1), "y"), wait(0), wait(1)], "parts[0].in (bytes 0..16 of space 2) overlaps parts[0].out"),
        // In its own place, but the first one still reads it.
        (vec![start(), reduce(json!([1, 0]), json!([1, 0]), Some(1), "y"), wait(0), wait(1)], "parts[0].out (bytes 0..16 of space 1) overlaps parts[0].in (bytes 0..16 of space 1) of op 0, which is still in flight"),
        (vec![start(), far, wait(0)], "handle 0 of op 0 is still in flight"),
        (vec![start()], "no step waits for handle 0 of op 0"),
        (vec![start(), wait(1), wait(0)], "op 1 (wait): handle 1 is not in flight"),
        (vec![start(), nested(wait(0))], "handle 0 is not in flight"),
        (vec![nested(start())], "a collective in a loop or branch cannot be asynchronous"),
        (vec![without("members"), wait(0)], "missing field `members`"),
        (vec![gather, wait(0)], "parts[0].out: f32 of shape [8]"),
    ];
    for (steps, text) in cases {
        let Err(error) = program(64, &values(), &steps) else { panic!("accepted: {steps:?}") };
        assert!(error.to_string().contains(text), "{error}");
    }
    // To read what it reads is fine, and so is everything once it has ended.
    let fine = [start(), negate(json!([1, 0]), json!([3, 0])), wait(0), negate(json!([2, 0]), json!([1, 0]))];
    assert!(program(64, &values(), &fine).is_ok());
}

#[test]
fn other_members_than_announced_are_an_error() {
    let mut start = reduce(json!([1, 0]), json!([2, 0]), Some(0), "x");
    start["members"] = json!(3);
    let error = run(&values(), &[start, wait(0)], |_, _, _| Ok(())).result.unwrap_err();
    assert!(error.to_string().contains("axis 0 has 2 members, not 3"), "{error}");
}
