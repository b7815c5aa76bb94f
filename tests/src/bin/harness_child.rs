//! The other process in the harness's own tests.

use lock_tests::{Postgres, Recorder, RedisServer};
use std::io::{BufRead, Lines, StdinLock, stdin};

fn main() {
    let mut input = stdin().lock().lines();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["echo"] => input
            .by_ref()
            .map_while(Result::ok)
            .for_each(|line| println!("{line}")),
        ["server"] => server(input, false),
        ["paused-server"] => server(input, true),
        ["postgres"] => postgres(input),
        ["visit", record, place, owner] => visit(input, record, place, owner),
        ref other => panic!("not a part this process can play: {other:?}"),
    }
}

fn server(mut input: Lines<StdinLock<'_>>, paused: bool) {
    let server = RedisServer::start();
    if paused {
        server.pause();
    }
    println!("{}", server.name());
    input.next();
}

fn postgres(mut input: Lines<StdinLock<'_>>) {
    let server = Postgres::start();
    println!("{}", server.socket().display());
    input.next();
}

/// Goes in and says so, leaves at the next line.
fn visit(mut input: Lines<StdinLock<'_>>, record: &str, place: &str, owner: &str) {
    let inside = Recorder::open(record).enter(place, owner);
    println!("inside");
    input.next();
    inside.step("woke up");
    drop(inside);
    println!("outside");
}
