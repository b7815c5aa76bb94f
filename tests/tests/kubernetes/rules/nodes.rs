//! The lock nodes: that they are where they are looked for, and apart, keep what they know, and come back one after the other.

use super::values::{Mebibytes, has_labels, list, number, pods_labels, text};
use super::{MAX_TTL, Rendered, files, is_quorum, nodes, redis};
use lock_tests::acl;
use serde_json::{Value, json};

/// A node that restarted counts for nothing for so much longer.
const AFTER_MAX_TTL: u64 = 1;

/// What a full node takes to load its data, generously: with 96 MB it took 0.7 s (518,739 locks, two busy cores).
const LOADING: u64 = 30;

/// What there has to be besides twice the data: buffers of clients, fragments, the program.
const BESIDES_DATA: u64 = 64;

pub(super) fn names_resolve(rendered: &Rendered) -> Vec<String> {
    let Some(service) = rendered.find("Service", "lock-redis") else {
        return vec!["no Service lock-redis".to_owned()];
    };
    let spec = &service["spec"];
    let mut complaints = Vec::new();
    let mut expect = |what: &str, is: bool| {
        if !is {
            complaints.push(what.to_owned());
        }
    };
    expect("one name for each node", spec["clusterIP"] == "None");
    expect(
        "names of young nodes",
        spec["publishNotReadyAddresses"] == true,
    );
    expect(
        "serviceName",
        nodes(rendered)["spec"]["serviceName"] == "lock-redis",
    );
    expect(
        "selector",
        has_labels(pods_labels(nodes(rendered)), &spec["selector"]),
    );
    let ports = list(&redis(rendered)["ports"]);
    let listens = ports
        .iter()
        .any(|it| it["name"] == "redis" && it["containerPort"] == 6379);
    expect("port", listens);
    complaints
}

pub(super) fn waits_for_the_vote(rendered: &Rendered) -> Vec<String> {
    if !is_quorum(rendered) {
        return Vec::new();
    }
    let spec = &nodes(rendered)["spec"];
    let silence = MAX_TTL + AFTER_MAX_TTL;
    let mut complaints = Vec::new();
    if number(&spec["minReadySeconds"]) < silence {
        complaints.push(format!("minReadySeconds {}", spec["minReadySeconds"]));
    }
    // What a PodDisruptionBudget goes by.
    let ready_after = &redis(rendered)["readinessProbe"]["initialDelaySeconds"];
    if number(ready_after) < silence {
        complaints.push(format!("ready after {ready_after}"));
    }
    if spec["updateStrategy"] != json!({"type": "RollingUpdate"}) {
        complaints.push(format!("updateStrategy {}", spec["updateStrategy"]));
    }
    if spec["podManagementPolicy"] != "Parallel" {
        complaints.push("nodes come back one after the other".to_owned());
    }
    complaints
}

pub(super) fn nodes_are_apart(rendered: &Rendered) -> Vec<String> {
    if !is_quorum(rendered) {
        return Vec::new();
    }
    let set = nodes(rendered);
    let pod = &set["spec"]["template"]["spec"];
    let term = |term: &Value, key: &str| {
        term["topologyKey"] == key
            && has_labels(pods_labels(set), &term["labelSelector"]["matchLabels"])
    };
    let mut complaints = Vec::new();
    let required =
        &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if !list(required)
        .iter()
        .any(|it| term(it, "kubernetes.io/hostname"))
    {
        complaints.push("machines".to_owned());
    }
    let spread = list(&pod["topologySpreadConstraints"]);
    let zones = |it: &&Value| term(it, "topology.kubernetes.io/zone") && it["maxSkew"] == 1;
    let Some(zones) = spread.iter().find(zones) else {
        complaints.push("zones".to_owned());
        return complaints;
    };
    // Production is where there is a namespace that it did not make.
    let is_production = set["metadata"]["namespace"] == "shop";
    if is_production && (zones["whenUnsatisfiable"] != "DoNotSchedule" || zones["minDomains"] != 3)
    {
        complaints.push("production does not insist on three zones".to_owned());
    }
    complaints
}

pub(super) fn memory_fits(rendered: &Rendered) -> Vec<String> {
    let container = redis(rendered);
    let mut command = list(&container["command"]).iter().map(text);
    let data = command
        .by_ref()
        .skip_while(|word| *word != "--maxmemory")
        .nth(1);
    let data = Mebibytes::of(data.unwrap_or_default());
    let limit = Mebibytes::of(text(&container["resources"]["limits"]["memory"]));
    let mut complaints = Vec::new();
    if data == Mebibytes(0) || 2 * data.0 + BESIDES_DATA > limit.0 {
        complaints.push(format!("{data:?} of data, {limit:?} of memory"));
    }
    if container["resources"]["requests"]["memory"] != container["resources"]["limits"]["memory"] {
        complaints.push("it may be evicted for what it may use".to_owned());
    }
    if !text(&files(rendered)["redis.conf"]).contains("\nmaxmemory-policy noeviction\n") {
        complaints.push("it may evict locks".to_owned());
    }
    complaints
}

pub(super) fn data_is_kept(rendered: &Rendered) -> Vec<String> {
    let set = &nodes(rendered)["spec"];
    let conf = text(&files(rendered)["redis.conf"]);
    let mut complaints = Vec::new();
    for line in ["appendonly yes", "appendfsync everysec", "dir /data"] {
        if !conf.lines().any(|it| it == line) {
            complaints.push(line.to_owned());
        }
    }
    let mounts = list(&redis(rendered)["volumeMounts"]);
    let mounted = mounts.iter().find(|mount| mount["mountPath"] == "/data");
    let volume = mounted.map_or(&Value::Null, |mount| &mount["name"]);
    let claims = list(&set["volumeClaimTemplates"]);
    let claimed = claims
        .iter()
        .any(|claim| claim["metadata"]["name"] == *volume);
    if is_quorum(rendered) && !claimed {
        complaints.push("no volume of its own".to_owned());
    }
    let retain = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    if is_quorum(rendered) && set["persistentVolumeClaimRetentionPolicy"] != retain {
        complaints.push("volumes may be deleted".to_owned());
    }
    complaints
}

pub(super) fn loading_is_left_alone(rendered: &Rendered) -> Vec<String> {
    let container = redis(rendered);
    let mut complaints = Vec::new();
    for (probe, word) in [
        ("startupProbe", "alive"),
        ("livenessProbe", "alive"),
        ("readinessProbe", "ready"),
    ] {
        let command = &container[probe]["exec"]["command"];
        if *command != json!(["sh", "/etc/lock-redis/probe.sh", word]) {
            complaints.push(format!("{probe}: {command}"));
        }
    }
    let budget = |probe: &str| {
        number(&container[probe]["periodSeconds"]) * number(&container[probe]["failureThreshold"])
    };
    if budget("startupProbe") < LOADING {
        complaints.push(format!(
            "killed {} s after its start",
            budget("startupProbe")
        ));
    }
    if budget("livenessProbe") < LOADING {
        complaints.push(format!(
            "killed after {} s of silence",
            budget("livenessProbe")
        ));
    }
    complaints
}

pub(super) fn user_is_the_readmes(rendered: &Rendered) -> Vec<String> {
    let may = acl::line(acl::USER).into_iter().skip(3);
    let may: Vec<&str> = may
        .filter(|word| *word != "on" && !word.starts_with('>'))
        .collect();
    let expected = format!("user shop on $passwords {}", may.join(" "));
    let script = text(&files(rendered)["users.sh"]);
    let users: Vec<&str> = script
        .lines()
        .filter(|line| line.starts_with("user "))
        .collect();
    let probe = "user probe on $probe resetchannels -@all +ping +info";
    if users == ["user default off", &expected, probe] {
        Vec::new()
    } else {
        vec![format!("{users:?}, not {expected}")]
    }
}
