//! The table. A row that is added here is tried in every phase, and stands in `docs/faults.md`.

use crate::cell;
use crate::fault::Outcome::{Before, Busy, NotOwner, Outage, RunsOut, Taken, Unconfirmed, Works};
use crate::fault::{Back, Fault, Means, NODE_TIMEOUT, Phase, Row, Said};
use crate::stub::Manner;
use lock_tests::Mode;
use lock_tests::version::acquire_command;
use std::time::Duration;

/// Makes the list of faults, and a test for each of them in each phase. What burns the processor is in `heavy`.
macro_rules! faults {
    (
        light { $($name:ident: $fault:expr,)+ }
        heavy { $($heavy:ident: $heavy_fault:expr,)+ }
    ) => {
        /// All there are, by name.
        pub(crate) static FAULTS: &[(&str, Fault)] = &[
            $((stringify!($name), $fault),)+
            $((stringify!($heavy), $heavy_fault),)+
        ];

        $(phases!($name);)+

        mod heavy {
            $(phases!($heavy);)+
        }
    };
}

macro_rules! phases {
    ($name:ident) => {
        mod $name {
            phases!($name: connecting Connecting, acquiring Acquiring, holding Holding, waiting Waiting, releasing Releasing);
        }
    };
    ($name:ident: $($test:ident $phase:ident),+) => {
        // All of them.
        const _: [$crate::fault::Phase; $crate::fault::Phase::ALL.len()] = [$($crate::fault::Phase::$phase),+];

        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
            async fn $test() {
                $crate::faults::try_in(stringify!($name), $crate::fault::Phase::$phase).await;
            }
        )+
    };
}

async fn try_in(name: &str, phase: Phase) {
    let found = FAULTS.iter().find(|(fault, _)| *fault == name);
    let (name, fault) = found.expect("it is in the list that it was made from");
    cell::run(name, fault, phase).await;
}

fn delayed(by: Duration) -> Mode {
    Mode::Delay {
        requests: by / 2,
        answers: by / 2,
    }
}

/// The request after which the connection is cut.
fn cut(phase: Phase) -> Mode {
    let word = match phase {
        Phase::Connecting => "INFO",
        Phase::Acquiring | Phase::Waiting => acquire_command(),
        Phase::Holding | Phase::Releasing => "EVALSHA",
    };
    Mode::CutAfter {
        word: word.to_uppercase(),
        times: usize::MAX,
    }
}

const SILENT: Said = Said {
    first: &["not connected yet"],
    then: &["no answer in 500ms"],
    later: &[
        "no answer to an earlier request, and none to a probe yet",
        "no answer to the handshake in 2s",
        "no answer in 500ms",
        "not connected yet",
    ],
};

const NOT_REDIS: &str = "what answers there is not Redis";

/// The key is gone, which a renewal mends and a release reports.
const GONE: Row = Row {
    releasing: NotOwner,
    ..Row::WORKS
};

faults! {
    light {
        refused: Fault::new(
            "nobody listens on the port",
            Means::Network(|_| Mode::Refuse),
            Row::OUTAGE,
            Said::always(&["no connection: Connection refused", "connection closed"]),
        ),
        blackholed: Fault::new(
            "nothing passes in either direction",
            Means::Network(|_| Mode::Blackhole),
            Row::OUTAGE,
            SILENT,
        ),
        answers_lost: Fault::new(
            "requests arrive, answers do not",
            Means::Network(|_| Mode::DropAnswers),
            Row::OUTAGE,
            SILENT,
        ),
        half_open: Fault::new(
            "a router has forgotten the open connections; new ones work",
            Means::Forget,
            Row { connecting: Works, ..Row::OUTAGE },
            SILENT,
        ).back(Back::WhenNoticed),
        unreachable: Fault::new(
            "nothing answers at the address, as behind a firewall that drops packets",
            Means::DropPackets,
            Row::OUTAGE,
            Said::always(&[
                "not connected yet",
                "no connection in 2s",
                "no connection: Connection refused",
                "connection closed",
            ]),
        ),
        unknown_name: Fault::new(
            "the node's name is not known to DNS",
            Means::UnknownName,
            Row { holding: Before, releasing: Before, ..Row::all(Outage) },
            Said::always(&[
                "no connection: failed to lookup address information",
                "no connection in 2s",
                "not connected yet",
            ]),
        ).back(Back::WithAnother),
        tls_url: Fault::new(
            "a `rediss://` URL, and the port is one without TLS",
            Means::TlsUrl,
            Row { holding: Before, releasing: Before, ..Row::all(Outage) },
            Said::always(&[
                "no answer to the TLS handshake in 2s: it hangs, or the port is one without TLS",
                "the port is one without TLS",
                "not connected yet",
            ]),
        ).back(Back::WithAnother),
        slow_within: Fault::new(
            "latency of 0.6 × `node_timeout`",
            Means::Network(|_| delayed(NODE_TIMEOUT * 6 / 10)),
            // Connecting takes a round trip, and so does acquiring.
            Row {
                connecting: Outage,
                ..Row::WORKS
            },
            Said::always(&["no answer in 500ms", "not connected yet"]),
        ),
        slow_beyond: Fault::new(
            "latency of 1.4 × `node_timeout`",
            Means::Network(|_| delayed(NODE_TIMEOUT * 14 / 10)),
            Row::OUTAGE,
            SILENT,
        ),
        cut: Fault::new(
            "the connection is cut behind each request: it is carried out, and its answer lost",
            Means::Network(cut),
            Row::OUTAGE,
            Said::always(&["connection closed", "Connection reset by peer"]),
        ),
        reset: Fault::new(
            "open connections are reset; new ones work",
            Means::Reset,
            Row::WORKS,
            Said::NOTHING,
        ),
        clients_killed: Fault::new(
            "`CLIENT KILL TYPE normal`",
            Means::KillClients,
            Row::WORKS,
            Said::NOTHING,
        ),
        killed: Fault::new(
            "the server dies; it comes back without its data",
            Means::Kill,
            Row::OUTAGE,
            Said::always(&["connection closed", "Connection reset by peer", "Connection refused"]),
        ).back(Back::WhenOld),
        restarted: Fault::new(
            "the server dies, and is there again without its data",
            Means::Restart,
            Row { holding: RunsOut, releasing: NotOwner, ..Row::all(Outage) },
            Said::always(&["started or was promoted less than max_ttl ago, and has no vote for another"]),
        ).alone(GONE).back(Back::WhenOld),
        stopped: Fault::new(
            "the server's process is stopped (`SIGSTOP`)",
            Means::Stop,
            Row::OUTAGE,
            SILENT,
        ),
        writes_paused: Fault::new(
            "`CLIENT PAUSE … WRITE`, as during a failover",
            Means::PauseWrites,
            Row::OUTAGE,
            Said { first: &["no answer in 500ms", "not connected yet"], ..SILENT },
        ),
        loading: Fault::new(
            "the server loads its data",
            Means::Load,
            Row::OUTAGE,
            Said::always(&["LOADING"]),
        ).says_before_7(SILENT),
        saves_fail: Fault::new(
            "`BGSAVE` fails, with `stop-writes-on-bgsave-error`",
            Means::FailingSave,
            Row::OUTAGE,
            Said::always(&["MISCONF"]),
        ),
        out_of_memory: Fault::new(
            "`maxmemory` is reached, with `noeviction`",
            Means::FullMemory,
            Row { releasing: Works, ..Row::OUTAGE },
            Said::always(&["OOM"]),
        ),
        read_only: Fault::new(
            "the server was made a replica, and is none again",
            Means::Replica,
            Row::OUTAGE,
            Said {
                first: &["it is a replica"],
                then: &["READONLY", "it is a replica", "not connected yet"],
                later: &["it is a replica"],
            },
        ).back(Back::WhenOld),
        no_password_given: Fault::new(
            "the server wants a password, and the URL has none; open connections were closed",
            Means::PasswordWanted,
            Row::OUTAGE,
            Said::always(&["NOAUTH"]),
        ),
        wrong_password: Fault::new(
            "the password was changed, and open connections were closed (those that are not go on)",
            Means::PasswordChanged,
            Row::OUTAGE,
            Said::always(&["WRONGPASS"]),
        ),
        no_scripting: Fault::new(
            "the user may not run scripts (`-@scripting`)",
            Means::Permissions(&["-@scripting"]),
            // A manager that is connected finds out when it needs one.
            Row { connecting: Outage, holding: RunsOut, releasing: Unconfirmed, ..Row::WORKS },
            Said::always(&["NOPERM"]),
        ).before_7(Row::OUTAGE),
        no_pubsub: Fault::new(
            "the user may not publish nor subscribe (`-@pubsub`)",
            Means::Permissions(&["-@pubsub", "resetchannels"]),
            Row::WORKS,
            Said::NOTHING,
        ),
        no_info: Fault::new(
            "the user may not ask for `INFO`",
            Means::Permissions(&["-info"]),
            Row::WORKS,
            Said::NOTHING,
        ),
        other_prefix: Fault::new(
            "the user may not use keys with this prefix",
            Means::Permissions(&["resetkeys", "~other:*"]),
            Row::OUTAGE,
            Said::always(&["NOPERM"]),
        ),
        foreign_type: Fault::new(
            "an application's list is under the key",
            Means::ForeignType,
            Row::OUTAGE,
            Said::always(&["WRONGTYPE"]),
        ),
        overwritten: Fault::new(
            "somebody else's value is under the key",
            Means::Overwritten,
            Row { holding: Taken, releasing: NotOwner, ..Row::all(Busy) },
            Said::NOTHING,
        ),
        deleted: Fault::new(
            "the key is deleted by hand",
            Means::Deleted,
            GONE,
            Said::NOTHING,
        ),
        evicted: Fault::new(
            "the key is evicted (`allkeys-lru`)",
            Means::Evict,
            GONE,
            Said::NOTHING,
        ),
        flushed: Fault::new(
            "`FLUSHALL`",
            Means::FlushAll,
            GONE,
            Said::NOTHING,
        ),
        scripts_flushed: Fault::new(
            "`SCRIPT FLUSH`",
            Means::ScriptFlush,
            Row::WORKS,
            Said::NOTHING,
        ),
        full_of_clients: Fault::new(
            "`maxclients` is reached",
            Means::FullOfClients,
            Row::OUTAGE,
            Said::always(&["ERR max number of clients reached", "connection closed", "Connection reset by peer"]),
        ),
        tls_port: Fault::new(
            "the port is one for TLS",
            Means::TlsPort,
            Row::OUTAGE,
            Said::always(&["connection closed without an answer, as by a port for TLS"]),
        ),
        not_redis_text: Fault::new(
            "a web server is on the port",
            Means::Stub(Manner::Http),
            Row::OUTAGE,
            Said::always(&[NOT_REDIS]),
        ),
        not_redis_binary: Fault::new(
            "something answers that makes no sense",
            Means::Stub(Manner::Binary),
            Row::OUTAGE,
            Said::always(&[NOT_REDIS]),
        ),
        not_redis_echo: Fault::new(
            "something answers what it was sent",
            Means::Stub(Manner::Echo),
            Row::OUTAGE,
            Said::always(&[NOT_REDIS]),
        ),
    }
    heavy {
        endless_script: Fault::new(
            "a script does not end",
            Means::EndlessScript,
            Row::OUTAGE,
            Said::always(&["BUSY"]),
        ),
    }
}
