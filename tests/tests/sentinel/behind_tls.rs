//! Sentinels and servers behind TLS.

use super::{TTL, locks_at, manager};
use lock_runtime::{NodeSpec, Tls};
use lock_tests::sentinel::FAILOVER;
use lock_tests::{Authority, DEADLINE, Watched, cycle, eventually_async, ready};

#[tokio::test]
async fn a_failover_is_followed_over_tls() {
    let certificate = Authority::default().certificate();
    let setting = Watched::options().behind_tls(&certificate, &certificate);
    let setting = setting.password("hunter2").sentinel_login("locks", "pw");
    let watched = setting.start().await;
    let group = watched.group();
    let old = &group.servers()[0];
    let url = watched.url(group);
    assert!(url.starts_with("rediss+sentinel://"), "{url}");
    let locks = manager(&url);
    let request = locks.lock("k").ttl(TTL).wait(DEADLINE);
    let lease = request.acquire().await.expect("free");
    old.kill();
    let new = watched.moved_from(group, old).await;
    eventually_async(FAILOVER, "it is renewed there", || async {
        let renewed = lease.extend().await;
        renewed.map_err(|error| error.to_string())
    })
    .await;
    lease.release().await.expect("released there");
    cycle(&locks, "k", TTL).await;
    assert_eq!(locks_at(new), [""; 0]);
}

/// What a Sentinel says is believed only where it has shown who it is, and so is what a server says.
#[tokio::test]
async fn both_have_to_be_trusted() {
    let (of_servers, of_sentinels) = (Authority::new("servers"), Authority::new("sentinels"));
    // They trust one another, whoever signed for them.
    let both = |own: &Authority| {
        let mut shown = own.certificate();
        shown.issuer = format!("{}{}", of_servers.pem(), of_sentinels.pem());
        shown
    };
    let setting = Watched::options().behind_tls(&both(&of_servers), &both(&of_sentinels));
    let watched = setting.replicas(0).start().await;
    let group = watched.group();
    let url = watched.url(group);
    let (url, _) = url.split_once('?').expect("options");
    let trusting = |pem: String| NodeSpec::from(url).tls(Tls::new().ca_pem(pem));
    for (authority, who) in [
        (&of_servers, watched.sentinels()[0].name()),
        (&of_sentinels, group.servers()[0].name()),
    ] {
        let locks = manager(trusting(authority.pem()));
        let words = "is of an authority that is not trusted";
        eventually_async(DEADLINE, words, || async {
            let error = locks.lock("k").ttl(TTL).acquire().await;
            let said = error.expect_err("not trusted").to_string();
            if said.contains(words) && said.contains(&who) {
                Ok(())
            } else {
                Err(said)
            }
        })
        .await;
    }
    let locks = manager(trusting(both(&of_servers).issuer));
    ready(&locks).await;
    cycle(&locks, "k", TTL).await;
}
