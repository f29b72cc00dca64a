//! The key-value store.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::common::{SECRET, any, store};
use heddle_comm::{AuthReason, CompareAndSet, Error, StoreClient, StoreServer};

const SOON: Duration = Duration::from_secs(5);

fn client(server: &StoreServer) -> StoreClient {
    StoreClient::connect(server.addr(), SECRET, "run", SOON).expect("a client")
}

#[test]
fn every_operation() {
    let server = store("run");
    let client = client(&server);
    assert_eq!(client.try_get("a").unwrap(), None);
    client.set("a", b"1").unwrap();
    client.set("a", &[]).unwrap();
    assert_eq!(client.get("a", "nobody", SOON).unwrap(), b"");
    assert_eq!(client.add("count", 5).unwrap(), 5);
    assert_eq!(client.add("count", -7).unwrap(), -2);
    assert_eq!(client.compare_and_set("c", Some(b"x"), b"y").unwrap(), CompareAndSet::Current(None));
    assert_eq!(client.compare_and_set("c", None, b"y").unwrap(), CompareAndSet::Swapped);
    assert_eq!(client.compare_and_set("c", None, b"z").unwrap(), CompareAndSet::Current(Some(b"y".to_vec())));
    assert_eq!(client.compare_and_set("c", Some(b"y"), b"z").unwrap(), CompareAndSet::Swapped);
    client.set("b/2", b"").unwrap();
    client.set("b/1", b"").unwrap();
    let (key, detail) = ("c".into(), "a value of 1 bytes is not a counter".into());
    assert_eq!(client.add("c", 1).unwrap_err(), Error::Store { key, detail });
}

#[test]
fn get_waits_and_other_threads_of_the_same_client_do_not() {
    let server = store("run");
    let client = client(&server);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.get("late", "rank 3", SOON));
        std::thread::sleep(Duration::from_millis(50));
        client.set("late", b"here").unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), b"here");
    });
}

#[test]
fn a_wait_has_a_deadline_and_names_the_key_and_whom() {
    let server = store("run");
    let start = Instant::now();
    let limit = Duration::from_millis(1300);
    let error = client(&server).get("run/0/rank/3", "the address of rank 3", limit).unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(10));
    let waiting_for = "the address of rank 3 (key 'run/0/rank/3')".into();
    assert_eq!(error, Error::Timeout { limit, waiting_for, during: format!("the store at {}", server.addr()) });
}

#[test]
fn counters_are_atomic() {
    let server = store("run");
    let client = client(&server);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..200).map(|_| client.add("n", 1).unwrap()).max());
        }
    });
    assert_eq!(client.add("n", 0).unwrap(), 1200);
}

#[test]
fn sizes_are_bounded() {
    let server = store("run");
    let client = client(&server);
    let text = "the value of store key 'big' has 1048577 bytes, more than 1048576".into();
    assert_eq!(client.set("big", &vec![0; (1 << 20) + 1]).unwrap_err(), Error::Invalid(text));
    assert!(matches!(client.try_get(&"k".repeat(513)), Err(Error::Invalid(_))));
    client.set("big", &vec![7; 1 << 20]).unwrap();
    assert_eq!(client.get("big", "nobody", SOON).unwrap(), vec![7; 1 << 20]);
}

fn refusal(server: &StoreServer, secret: &[u8], run: &str) -> (AuthReason, String) {
    match StoreClient::connect(server.addr(), secret, run, SOON).unwrap_err() {
        Error::Auth { peer, reason } => (reason, format!("{peer}: {reason}")),
        other => panic!("{other}"),
    }
}

#[test]
fn strangers_are_refused() {
    let server = store("run");
    let (reason, text) = refusal(&server, b"guess", "run");
    assert_eq!(reason, AuthReason::WrongSecret);
    assert_eq!(text, format!("the store at {}: the secrets differ", server.addr()));
    assert_eq!(refusal(&server, SECRET, "old run").0, AuthReason::WrongRun);
    assert!(matches!(StoreServer::start(any(), b"", "run"), Err(Error::Invalid(_))));
    client(&server).set("fine", b"").unwrap();
}

/// A hello of a version that does not exist yet.
fn future_hello() -> [u8; 72] {
    let mut hello = [0; 72];
    hello[..8].copy_from_slice(b"HEDDLE\r\n");
    hello[8] = 99;
    hello
}

#[test]
fn another_protocol_version_is_told_so() {
    let server = store("run");
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.write_all(&future_hello()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!((&answer[..8], answer[8], answer.len()), (&b"HEDDLE\r\n"[..], 1, 56));
}

#[test]
fn garbage_and_silence_harm_nobody() {
    let server = store("run");
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(server.addr()).unwrap()).collect();
    for length in [1_usize, 71, 72, 1000, 1 << 20] {
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        let garbage: Vec<u8> = (0..length).map(|index| (index * 17 + 3) as u8).collect();
        let _ = stream.write_all(&garbage);
    }
    let client = client(&server);
    client.set("fine", b"yes").unwrap();
    assert_eq!(client.get("fine", "nobody", SOON).unwrap(), b"yes");
    // The silent ones are dropped when their hello has taken too long.
    silent[0].set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    assert_eq!((&silent[0]).read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_client_may_come_before_the_server() {
    let server = store("run");
    let addr = server.addr();
    drop(server);
    std::thread::scope(|scope| {
        let early = scope.spawn(move || StoreClient::connect(addr, SECRET, "run", SOON));
        std::thread::sleep(Duration::from_millis(100));
        let _server = StoreServer::start(addr, SECRET, "run").unwrap();
        early.join().unwrap().unwrap();
    });
    let error = StoreClient::connect(addr, SECRET, "run", Duration::from_millis(200)).unwrap_err();
    assert!(matches!(&error, Error::Timeout { waiting_for, .. } if waiting_for.starts_with("the store at")), "{error}");
}

#[test]
fn stop_ends_waits_and_connections() {
    let server = store("run");
    let client = client(&server);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.get("never", "nobody", SOON));
        std::thread::sleep(Duration::from_millis(100));
        let start = Instant::now();
        server.stop();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert!(waiting.join().unwrap().is_err());
    });
}
